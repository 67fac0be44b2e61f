// Matcher: a text that grows and always is the beginning of a text of the grammar; and which tokens may come next.
//
// The text is a sequence of bytes. Tokens matter only where the grammar names them (GrammarBuilder::control_token,
// token_except): such a part reads one token as a whole.
//
// What a token may cost is bounded (Chart): nesting beyond Chart::kDepthMax, and what needs more than
// Chart::kItemsMax items at once, cannot follow. A mask takes at most kMaskWorkMax items' work; a grammar so ambiguous
// that this does not suffice gets a mask that allows less than could follow, but at least one token if any can.
//
// Thread-safety: one user at a time; matchers of one grammar are independent.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/token.h"
#include "server/text/grammar/grammar.h"
#include "server/text/grammar/token_trie.h"

namespace twostroke::grammar {

class Matcher {
 public:
  static constexpr uint64_t kMaskWorkMax = 4'000'000;

  explicit Matcher(std::shared_ptr<const Grammar> grammar);
  ~Matcher();
  Matcher(const Matcher&);  // the same text, to try out what may follow
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // Appends bytes, whatever tokens they come from. False: they cannot follow; the text stays as it was.
  bool accept(std::string_view bytes);
  // Appends a token that stands for `bytes`. False: it cannot follow; the text stays as it was.
  bool accept_token(TokenId token, std::string_view bytes);
  // Appends a control token. False: the grammar has none here.
  bool accept_control(TokenId token);
  // The text so far is a whole one of the grammar.
  bool may_end() const;
  // A limit was met, so that what could not follow may be part of a text of the grammar all the same.
  bool at_limit() const;
  // Nothing can follow: may_end(), and no byte or token is allowed.
  bool must_end() const;

  // Where the text stands in the model's output: at its start, a decoder may drop a leading space.
  enum class Place { kWithin, kAtStart };

  // Sets the bit of every token whose bytes may follow, all of them, and of tokens that the grammar itself names and
  // that may follow. Of control tokens, only those that the grammar names. `mask` has (vocabulary + 31) / 32 words, all
  // zero; tokens beyond it are left out. kAtStart: tokens count as they read at the start of a text (TokenTrie).
  void fill_mask(const TokenTrie& tokens, std::span<uint32_t> mask, Place place = Place::kWithin);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke::grammar
