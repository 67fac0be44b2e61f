// Tokenizer: text to token ids and back, as the model's own file describes it.
//
// Two families, chosen by `tokenizer.ggml.model`: "gpt2" (byte-level BPE with a pre-tokenizer pattern chosen by
// `tokenizer.ggml.pre`) and "llama" (SentencePiece-style merges by score, with byte fallback). Anything else is refused
// by name. Encoding is linear in the text up to a logarithm, with a fixed stack, on any input (a megabyte of one letter
// too).
//
// Thread-safety: nothing that shows changes after construction; every method may be called from any thread at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gguf.h"
#include "kernels/status.h"
#include "kernels/token.h"
#include "server/text/special_tokens.h"
#include "server/text/tokenizer_spec.h"

namespace twostroke {

struct EncodeOptions {
  bool add_special = false;  // add BOS/EOS as the model's metadata asks; a BOS that the text begins with is not doubled
  bool parse_special = false;  // recognise special tokens written in the text; otherwise they are plain text
};

class Tokenizer {
 public:
  // Errors: kUnsupported (unknown tokenizer model or pre-tokenizer, named), kInvalidArgument (damaged vocabulary).
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufFile& file);
  // The same from plain data. The result keeps nothing of either file or spec.
  static Result<std::unique_ptr<Tokenizer>> create(const TokenizerSpec& spec);
  virtual ~Tokenizer() = default;

  // Token ids of `text`, which may hold any bytes; invalid UTF-8 is encoded byte by byte and never lost (a byte that
  // occurs in no UTF-8 and for which the vocabulary has no token becomes U+FFFD). User-defined tokens, which are text
  // that is always one token, are recognised in any case, unless they end a turn or look as if they did ("<|...|>").
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const;

  // Token ids of `text` of which only the `trusted` ranges may write special tokens: a special token counts where all
  // its bytes lie in one range, and the text between special tokens is encoded as a whole, across the ranges' borders.
  // `trusted` is sorted and disjoint, within the text; ranges that touch count as one.
  virtual std::vector<TokenId> encode_marked(std::string_view text, std::span<const TextRange> trusted,
                                             bool add_special) const = 0;

  // The bytes that a token stands for. They may be part of a UTF-8 character: join pieces with a Detokenizer.
  // Control tokens give "" unless `special`; then their own text ("<|im_end|>").
  // Requires 0 <= token < vocab_size().
  virtual std::string_view piece(TokenId token, bool special) const = 0;

  // True when a decoder drops one leading space from the first piece of a text (SentencePiece's dummy prefix).
  virtual bool strips_leading_space() const = 0;

  int32_t vocab_size() const { return vocab_size_; }
  TokenId bos() const { return bos_; }  // -1 when the model has none
  TokenId eos() const { return eos_; }  // -1 when the model has none
  bool adds_bos() const { return adds_bos_; }
  bool adds_eos() const { return adds_eos_; }
  // No token of a text stands for more bytes, so that a text of b bytes has at least b / longest_token_bytes() tokens
  // (but for whitespace that a special token takes).
  size_t longest_token_bytes() const { return longest_token_bytes_; }
  bool is_control(TokenId token) const { return control_[static_cast<size_t>(token)]; }
  // Tokens that end a generation: EOS, EOT, EOM and the well-known end-of-turn texts of the vocabulary. Sorted.
  std::span<const TokenId> end_of_generation() const { return end_of_generation_; }
  // The id of a token by its exact text, or -1.
  virtual TokenId find(std::string_view text) const = 0;

 protected:
  int32_t vocab_size_ = 0;
  TokenId bos_ = -1;
  TokenId eos_ = -1;
  size_t longest_token_bytes_ = 0;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
  std::vector<bool> control_;
  std::vector<TokenId> end_of_generation_;
};

}  // namespace twostroke
