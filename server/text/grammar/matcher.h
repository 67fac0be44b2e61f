// Matcher: a text that grows and always is the beginning of a text of the grammar; and which tokens may come next.
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
  explicit Matcher(std::shared_ptr<const Grammar> grammar);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // Appends bytes. False: they cannot follow; the text stays as it was.
  bool accept(std::string_view bytes);
  // Appends a control token. False: the grammar has none here.
  bool accept_control(TokenId token);
  // The text so far is a whole one of the grammar.
  bool may_end() const;
  // Nothing can follow: may_end(), and no byte is allowed.
  bool must_end() const;

  // Sets the bit of every token whose bytes may follow, all of them, and of control tokens that the grammar itself
  // names. `mask` has (vocabulary + 31) / 32 words, all zero.
  void fill_mask(const TokenTrie& tokens, std::span<uint32_t> mask);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke::grammar
