// ByteTokenizer: a vocabulary of the 256 bytes and two control tokens, so that tests can read token ids as text.
#pragma once

#include <string>
#include <vector>

#include "server/text/tokenizer.h"

namespace twostroke {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEos = 257;

  ByteTokenizer() {
    vocab_size_ = 258;
    bos_ = kBos;
    eos_ = kEos;
    control_.assign(258, false);
    control_[256] = control_[257] = true;
    end_of_generation_ = {kEos};
    for (int byte = 0; byte < 256; ++byte) pieces_.push_back(std::string(1, static_cast<char>(byte)));
    pieces_.push_back("<bos>");
    pieces_.push_back("<eos>");
    longest_token_bytes_ = 5;
  }

  // The control tokens' texts, in trusted ranges, are the only ones that are not read byte by byte.
  std::vector<TokenId> encode_marked(std::string_view text, std::span<const TextRange> trusted,
                                     bool /*add_special: this vocabulary adds none*/) const override {
    std::vector<TokenId> tokens;
    for (size_t i = 0; i < text.size();) {
      TokenId control = -1;
      for (const TokenId token : {kBos, kEos}) {
        const std::string_view name = piece(token, true);
        if (text.substr(i, name.size()) != name) continue;
        for (const TextRange& range : trusted) {
          if (range.begin <= i && i + name.size() <= range.end) control = token;
        }
      }
      tokens.push_back(control >= 0 ? control : static_cast<unsigned char>(text[i]));
      i += control >= 0 ? piece(control, true).size() : 1;
    }
    return tokens;
  }
  std::string_view piece(TokenId token, bool special) const override {
    return token >= 256 && !special ? std::string_view() : std::string_view(pieces_[static_cast<size_t>(token)]);
  }
  bool strips_leading_space() const override { return false; }
  TokenId find(std::string_view text) const override {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i] == text) return static_cast<TokenId>(i);
    }
    return -1;
  }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace twostroke
