// SegmentTokenizer: what the two families of tokenizers share: the vocabulary, special tokens, BOS and EOS.
//
// A text is cut at its special tokens; each segment between them is encoded by the family's own encode_segment().
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/text/tokenizer.h"

namespace twostroke {

class SegmentTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode_marked(std::string_view text, std::span<const TextRange> trusted,
                                     bool add_special) const override;
  std::string_view piece(TokenId token, bool special) const override;
  TokenId find(std::string_view text) const override;

 protected:
  // Appends the ids of `segment`: text without special tokens, not empty.
  virtual void encode_segment(std::string_view segment, std::vector<TokenId>& out) const = 0;

  // Takes over the vocabulary. `decode(text)` gives the bytes of a normal token. `adds_bos` is the family's default.
  // Errors: kInvalidArgument (damaged vocabulary, or BOS/EOS wanted that is not there).
  Status load(const TokenizerSpec& spec, bool adds_bos, std::string (*decode)(std::string_view text));

  TokenType type(TokenId token) const { return types_[static_cast<size_t>(token)]; }
  const std::string& text(TokenId token) const { return texts_[static_cast<size_t>(token)]; }
  // True when the token may come out of plain text: control, unknown and byte tokens never do.
  bool is_text(TokenId token) const;

 private:
  void load_end_of_generation(const TokenizerSpec& spec);
  void load_special_tokens(const TokenizerSpec& spec);

  std::vector<std::string> texts_;   // as the file writes them
  std::vector<std::string> pieces_;  // the bytes they stand for; "" for control, unknown and unused ones
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, TokenId> ids_;  // by texts_; the first of equal ones
  SpecialTokens special_tokens_;
};

// The value of a byte token's text, "<0x0A>", or -1.
int byte_token_value(std::string_view text);

}  // namespace twostroke
