// PreTokenizer: cuts text into the pieces within which byte-level BPE merges.
//
// Linear in the text with a fixed stack, on any input and every pattern: the patterns (pre_tokenizer_patterns.h) never
// scan the same text more than a few times, PCRE2 runs them with JIT and without a limit on matching steps, and none of
// them keeps a state per repetition.
//
// Thread-safety: immutable; every method may be called from any thread at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/status.h"

namespace twostroke {

class PreTokenizer {
 public:
  // `name` as in `tokenizer.ggml.pre`. Errors: kUnsupported, listing the names that are known.
  static Result<std::unique_ptr<PreTokenizer>> create(std::string_view name);
  ~PreTokenizer();

  // Replaces `pieces` with the pieces of `text`; joined, they are the text. Bytes that are not UTF-8 are pieces of
  // their own: no pattern sees them.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

  bool ignores_merges() const;  // a piece that is a token as a whole is not built from merges
  bool adds_bos() const;        // the default for models whose file does not say

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke
