// Log-probabilities as chat completions and responses print them.
#pragma once

#include <string>
#include <vector>

#include "server/text/sequence_output.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}, one after another with commas.
std::string logprob_entries(const Tokenizer& tokenizer, const std::vector<TokenEntry>& entries);

}  // namespace twostroke::openai
