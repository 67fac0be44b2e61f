// SpmTokenizer: SentencePiece's BPE ("llama"): characters are joined as long as the result is a token, the pair with
// the best score first; what is left without a token becomes byte tokens. Spaces are written U+2581.
//
// Source: https://github.com/google/sentencepiece (src/bpe_model.cc), with the segments of llama.cpp: a space is put in
// front of the text and of each segment behind a special token, unless the file says otherwise.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/text/segment_tokenizer.h"
#include "server/text/symbol_merge.h"

namespace twostroke {

class SpmTokenizer : public SegmentTokenizer {
 public:
  // Errors: kInvalidArgument (damaged vocabulary).
  static Result<std::unique_ptr<Tokenizer>> create(const TokenizerSpec& spec);

  bool strips_leading_space() const override { return adds_space_; }

 protected:
  void encode_segment(std::string_view segment, std::vector<TokenId>& out) const override;

 private:
  SpmTokenizer() = default;
  Status load_bytes(const TokenizerSpec& spec);
  Status load_joined(const TokenizerSpec& spec);
  Merge lookup(std::string_view joined) const;
  void encode_word(std::string_view word, SymbolMerger& merger, std::vector<TokenId>& out) const;

  bool adds_space_ = true;
  std::array<TokenId, 256> byte_tokens_;                // of every byte; the unknown token where there is no byte token
  std::unordered_map<std::string_view, Merge> joined_;  // tokens that text may become, by text; rank 0: best score
  size_t joined_size_max_ = 0;                          // of the longest of them, in bytes
  // No token has a space behind another character. Then nothing is ever joined across the beginning of a word, and
  // words can be encoded one by one, which is a lot faster than a whole text at once, and equal.
  bool words_are_apart_ = true;
};

}  // namespace twostroke
