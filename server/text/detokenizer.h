// Detokenizer: token ids in, valid UTF-8 out, as it streams.
//
// push() returns the text that has become certain: a trailing part of a multi-byte character is held until it is
// complete, and bytes that can never become UTF-8 come out as U+FFFD. What push() and finish() return, joined, is the
// full decode. Output is append-only: nothing that was returned is ever taken back.
//
// Thread-safety: one user at a time. The tokenizer must outlive it.
#pragma once

#include <span>
#include <string>

#include "kernels/token.h"

namespace twostroke {

class Tokenizer;

class Detokenizer {
 public:
  // `at_start`: the text begins here, so that a SentencePiece dummy space is dropped from the first piece. A
  // continuation of a prompt is not at its start. `skip_special`: control tokens produce no text, except those of
  // `shown` (sorted, must outlive it).
  Detokenizer(const Tokenizer& tokenizer, bool at_start, bool skip_special, std::span<const TokenId> shown = {});

  std::string push(TokenId token);
  std::string finish();  // the rest: an incomplete character as U+FFFD; afterwards only destruction is allowed

 private:
  const Tokenizer& tokenizer_;
  bool strip_space_;
  bool skip_special_;
  std::span<const TokenId> shown_;
  std::string pending_;  // an incomplete character, at most 3 bytes
};

}  // namespace twostroke
