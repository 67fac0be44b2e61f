#include "server/text/grammar/grammar_constraint.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/text/grammar/matcher.h"

namespace twostroke::grammar {
namespace {

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const Grammar> grammar, const Tokenizer& tokenizer, const TokenTrie& tokens,
                    std::vector<TokenId> stop_tokens, bool at_start)
      : matcher_(std::move(grammar)),
        tokenizer_(tokenizer),
        tokens_(tokens),
        stop_tokens_(std::move(stop_tokens)),
        at_start_(at_start && tokenizer.strips_leading_space()) {}

  void fill_mask(std::span<uint32_t> mask) override {
    if (!stuck_ && !matcher_.must_end()) {
      matcher_.fill_mask(tokens_, mask, at_start_ ? Matcher::Place::kAtStart : Matcher::Place::kWithin);
      for (const TokenId token : stop_tokens_) {
        if (word(token) < mask.size()) mask[word(token)] &= ~bit(token);
      }
      const bool empty = std::all_of(mask.begin(), mask.end(), [](uint32_t bits) { return bits == 0; });
      if (!empty && !matcher_.may_end()) return;
    }
    for (const TokenId token : stop_tokens_) {
      if (word(token) < mask.size()) mask[word(token)] |= bit(token);
    }
  }

  void accept(TokenId token) override {
    if (std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token)) {
      ended_whole_ = !stuck_ && matcher_.may_end();
      return;
    }
    if (stuck_) return;
    if (tokenizer_.is_control(token)) {
      stuck_ = !matcher_.accept_control(token);
      return;
    }
    std::string_view bytes = tokenizer_.piece(token, /*special=*/false);
    if (!bytes.empty() && std::exchange(at_start_, false) && bytes.front() == ' ') {
      bytes.remove_prefix(1);
      if (bytes.empty()) return;
    }
    stuck_ = !matcher_.accept_token(token, bytes);
  }

  bool ended_whole() const override { return ended_whole_; }

 private:
  static size_t word(TokenId token) { return static_cast<size_t>(token) / 32; }
  static uint32_t bit(TokenId token) { return uint32_t{1} << (static_cast<uint32_t>(token) % 32); }

  Matcher matcher_;
  const Tokenizer& tokenizer_;
  const TokenTrie& tokens_;
  const std::vector<TokenId> stop_tokens_;
  bool at_start_;  // no byte of the text is there, and the first token's leading space will be dropped
  bool ended_whole_ = true;
  bool stuck_ = false;  // a token was refused, which only a limit of the parser can do: nothing can follow
};

}  // namespace

std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const Grammar> grammar, const Tokenizer& tokenizer,
                                                 const TokenTrie& tokens, std::vector<TokenId> stop_tokens,
                                                 bool at_start) {
  return std::make_unique<GrammarConstraint>(std::move(grammar), tokenizer, tokens, std::move(stop_tokens), at_start);
}

}  // namespace twostroke::grammar
