// TokenTrie: the bytes of a vocabulary's tokens as a tree, so that a grammar looks at each common beginning once.
//
// Built once per model, in time O(bytes log tokens). Where the tokenizer drops a leading space at the start of a text
// (Tokenizer::strips_leading_space), a second tree holds the tokens as they read there.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "server/text/tokenizer.h"

namespace twostroke::grammar {

class TokenTrie {
 public:
  // Control tokens, and tokens without bytes, are left out: they are never part of a grammar's text. So are tokens of
  // more than kTokenBytesMax bytes.
  explicit TokenTrie(const Tokenizer& tokenizer);
  // The same from plain bytes: pieces[t] are those of token t, "" to leave it out.
  explicit TokenTrie(std::span<const std::string> pieces);
  ~TokenTrie();

  static constexpr uint32_t kTokenBytesMax = 1024;

  int32_t vocab_size() const;

  struct Nodes;  // the tree, for matchers
  const Nodes& nodes() const { return *nodes_; }

 private:
  std::unique_ptr<const Nodes> nodes_;
};

}  // namespace twostroke::grammar
