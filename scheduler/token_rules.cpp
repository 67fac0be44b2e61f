#include "scheduler/token_rules.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"

namespace twostroke {
namespace {

void ban(std::span<uint32_t> mask, TokenId token) {
  const auto bit = static_cast<uint32_t>(token);
  mask[bit / 32] &= ~(1U << (bit % 32));
}

bool allows(std::span<const uint32_t> mask, TokenId token) {
  const auto bit = static_cast<uint32_t>(token);
  return ((mask[bit / 32] >> (bit % 32)) & 1) != 0;
}

bool allows_any(std::span<const uint32_t> mask) {
  return std::ranges::any_of(mask, [](uint32_t word) { return word != 0; });
}

// Bits beyond the vocabulary stand for no token.
void trim(std::span<uint32_t> mask, uint32_t vocab_size) {
  if (vocab_size % 32 != 0) mask.back() &= (1U << (vocab_size % 32)) - 1;
}

bool is_begun(std::span<const TokenId> word, std::span<const TokenId> tokens) {
  const std::span<const TokenId> begin = word.first(word.size() - 1);
  // The last token first: that is where nearly all differ.
  return begin.size() <= tokens.size() && begin.back() == tokens.back() &&
         std::ranges::equal(begin, tokens.last(begin.size()));
}

Status check_token(const char* field, TokenId token, uint32_t vocab_size) {
  if (token >= 0 && static_cast<uint32_t>(token) < vocab_size) return {};
  return invalid_argument(std::string(field) + " holds token " + std::to_string(token) +
                          ", but the vocabulary has only " + std::to_string(vocab_size) + " tokens");
}

Status check_count(const char* what, size_t count, size_t most) {
  if (count <= most) return {};
  return invalid_argument(std::string(what) + " " + std::to_string(count) + "; at most " + std::to_string(most) +
                          " are taken");
}

}  // namespace

Status validate_rules(const Request& request, uint32_t vocab_size) {
  const std::vector<TokenId>& allowed = request.allowed_tokens;
  if (Status s = check_count("the number of allowed_tokens is", allowed.size(), kMaxAllowedTokens); !s.ok()) return s;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (Status s = check_token("allowed_tokens", allowed[i], vocab_size); !s.ok()) return s;
    if (i > 0 && allowed[i] <= allowed[i - 1]) return invalid_argument("allowed_tokens must ascend, each token once");
  }
  if (Status s = check_count("the number of bad_words is", request.bad_words.size(), kMaxBadWords); !s.ok()) return s;
  for (const std::vector<TokenId>& word : request.bad_words) {
    if (word.empty()) return invalid_argument("one of bad_words has no tokens");
    if (Status s = check_count("the number of tokens of one of bad_words is", word.size(), kMaxBadWordTokens);
        !s.ok()) {
      return s;
    }
    for (const TokenId token : word) {
      if (Status s = check_token("bad_words", token, vocab_size); !s.ok()) return s;
    }
  }
  if (request.min_tokens > request.max_tokens) {
    return invalid_argument("min_tokens is " + std::to_string(request.min_tokens) + ", but max_tokens is " +
                            std::to_string(request.max_tokens) + "; it must not be greater");
  }
  return {};
}

TokenRules::TokenRules(const Request& request, uint32_t vocab_size) : request_(&request), vocab_size_(vocab_size) {
  const size_t words = (size_t{vocab_size} + 31) / 32;
  if (!request.allowed_tokens.empty()) {
    base_.resize(words);
    for (const TokenId token : request.allowed_tokens) {
      base_[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
    }
  }
  for (const std::vector<TokenId>& word : request.bad_words) {
    if (word.size() > 1) {
      words_.push_back(word);
      continue;
    }
    if (base_.empty()) base_.assign(words, ~0U);
    ban(base_, word.front());
  }
}

bool TokenRules::apply_to(std::span<const TokenId> tokens, uint32_t output_count) const {
  if (!base_.empty()) return true;
  if (output_count < request_->min_tokens && !request_->stop_tokens.empty()) return true;
  return std::ranges::any_of(words_, [&](std::span<const TokenId> word) { return is_begun(word, tokens); });
}

bool TokenRules::may_apply_from(uint32_t output_count) const {
  return !base_.empty() || !words_.empty() || (output_count < request_->min_tokens && !request_->stop_tokens.empty());
}

bool TokenRules::fill_mask(std::span<const TokenId> tokens, uint32_t output_count, TokenConstraint* constraint,
                           std::span<uint32_t> mask) const {
  CHECK(mask.size() == (size_t{vocab_size_} + 31) / 32);
  if (constraint != nullptr) {
    std::ranges::fill(mask, 0);
    constraint->fill_mask(mask);
  } else {
    std::ranges::fill(mask, ~0U);
  }
  trim(mask, vocab_size_);
  for (size_t i = 0; i < base_.size(); ++i) mask[i] &= base_[i];
  for (const std::span<const TokenId> word : words_) {
    if (is_begun(word, tokens)) ban(mask, word.back());
  }
  if (output_count < request_->min_tokens) ban_stop_tokens(/*may_give_way=*/constraint != nullptr, mask);
  return allows_any(mask);
}

void TokenRules::ban_stop_tokens(bool may_give_way, std::span<uint32_t> mask) const {
  std::vector<TokenId> banned;
  for (const TokenId token : request_->stop_tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocab_size_ || !allows(mask, token)) continue;
    ban(mask, token);
    banned.push_back(token);
  }
  if (!may_give_way || allows_any(mask)) return;
  for (const TokenId token : banned)
    mask[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
}

}  // namespace twostroke
