#include "tests/bench/load/prompt_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string_view>

namespace twostroke::load {
namespace {

constexpr std::array<std::string_view, 96> kWords = {
    " the",   " of",    " and",   " to",    " in",    " is",     " that", " it",    " was",   " for",    " on",
    " are",   " as",    " with",  " his",   " they",  " at",     " be",   " this",  " have",  " from",   " or",
    " one",   " had",   " by",    " word",  " but",   " not",    " what", " all",   " were",  " we",     " when",
    " your",  " can",   " said",  " there", " use",   " an",     " each", " which", " she",   " do",     " how",
    " their", " if",    " will",  " up",    " other", " about",  " out",  " many",  " then",  " them",   " these",
    " so",    " some",  " her",   " would", " make",  " like",   " him",  " into",  " time",  " has",    " look",
    " two",   " more",  " write", " go",    " see",   " number", " no",   " way",   " could", " people", " my",
    " than",  " first", " water", " been",  " call",  " who",    " oil",  " its",   " now",   " find",   " long",
    " down",  " day",   " did",   " get",   " come",  " made",   " may",  " part"};

uint32_t count_words(double tokens, double tokens_per_word) {
  return static_cast<uint32_t>(std::max(0.0, std::round(tokens / tokens_per_word)));
}

}  // namespace

std::string words(uint32_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (uint32_t i = 0; i < count; ++i) text += kWords[random() % kWords.size()];
  return text;
}

std::string prompt_text(const PlannedRequest& request, const TextScale& scale) {
  double tokens = -scale.fixed_tokens;
  for (const simulate::TokenRun& run : request.prompt) tokens += run.length;
  uint32_t left = std::max(1U, count_words(tokens, scale.tokens_per_word));
  std::string text;
  for (const simulate::TokenRun& run : request.prompt) {
    const bool last = &run == &request.prompt.back();
    const uint32_t count = last ? left : std::min(left, count_words(run.length, scale.tokens_per_word));
    text += words(count, run.seed);
    left -= count;
  }
  return text;
}

}  // namespace twostroke::load
