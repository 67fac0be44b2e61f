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
  const uint32_t total = std::max(1U, count_words(request.prompt_tokens - scale.fixed_tokens, scale.tokens_per_word));
  std::string text;
  uint32_t made = 0;
  if (request.shared_tokens > 0) {
    made = std::min(total, count_words(request.shared_tokens, scale.tokens_per_word));
    text = words(made, request.shared_seed);
  }
  const uint32_t block = std::max(1U, count_words(kBlockTokens, scale.tokens_per_word));
  for (const uint64_t id : request.blocks) {
    const uint32_t count = std::min(block, total - made);
    text += words(count, id + 1);
    made += count;
  }
  return text + words(total - made, request.text_seed);
}

}  // namespace twostroke::load
