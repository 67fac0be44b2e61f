#include "tests/text/tokenizer/tokenizer_specs.h"

namespace twostroke {

TokenId add_token(TokenizerSpec& spec, const std::string& text, TokenType type) {
  spec.tokens.push_back(text);
  spec.types.push_back(type);
  if (spec.model == "llama") spec.scores.push_back(-static_cast<float>(spec.tokens.size()));
  return static_cast<TokenId>(spec.tokens.size()) - 1;
}

TokenizerSpec byte_level_spec(const std::string& pre, const std::vector<std::string>& merges) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = pre;
  spec.merges = merges;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const int character = printable ? byte : next++;
    const std::string text = character < 0x80 ? std::string(1, static_cast<char>(character))
                                              : std::string{static_cast<char>(0xC0 | character >> 6),
                                                            static_cast<char>(0x80 | (character & 0x3F))};
    add_token(spec, text, TokenType::kNormal);
  }
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ');
    add_token(spec, merge.substr(0, space) + merge.substr(space + 1), TokenType::kNormal);
  }
  return spec;
}

TokenizerSpec sentencepiece_spec(const std::vector<std::string>& pieces) {
  TokenizerSpec spec;
  spec.model = "llama";
  add_token(spec, "<unk>", TokenType::kUnknown);
  add_token(spec, "<s>", TokenType::kControl);
  add_token(spec, "</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    const char digits[] = "0123456789ABCDEF";
    add_token(spec, std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", TokenType::kByte);
  }
  for (const std::string& piece : pieces) add_token(spec, piece, TokenType::kNormal);
  spec.unknown = 0;
  spec.bos = 1;
  spec.eos = 2;
  return spec;
}

}  // namespace twostroke
