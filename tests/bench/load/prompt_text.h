// Prompts of a wanted length for a server whose tokenizer is unknown: common English words, which nearly every
// vocabulary holds as one token each with the space before them. How many tokens a word really takes, and how many the
// chat template adds, is measured on the server (see calibrate in load_client.h).
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/load/load_plan.h"

namespace twostroke::load {

struct TextScale {
  double tokens_per_word = 1;
  double fixed_tokens = 0;  // of a prompt without words
};

std::string words(uint32_t count, uint64_t seed);

// The prompt of a request: the text of each run. The last gives room for what the server adds.
std::string prompt_text(const PlannedRequest& request, const TextScale& scale);

}  // namespace twostroke::load
