#include "tests/text/tokenizer/tokenizer_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace twostroke {

std::string vocabulary_directory() {
  const std::string directory = std::string(TWOSTROKE_SHARED_DIR) + "/tokenizers";
  return std::filesystem::exists(directory) ? directory : "";
}

const std::vector<std::string>& vocabulary_names() {
  static const std::vector<std::string> names = {"gpt-2", "llama-spm", "phi-3", "deepseek-llm", "falcon", "starcoder"};
  return names;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  auto file = GgufFile::open(path);
  if (!file.ok()) {
    ADD_FAILURE() << path << ": " << file.status().message();
    return nullptr;
  }
  auto tokenizer = Tokenizer::from_gguf(**file);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << path << ": " << tokenizer.status().message();
    return nullptr;
  }
  return std::move(*tokenizer);
}

std::unique_ptr<Tokenizer> load_vocabulary(const std::string& name) {
  return load_tokenizer(vocabulary_directory() + "/ggml-vocab-" + name + ".gguf");
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string smollm2_path() {
  const char* home = std::getenv("HOME");
  if (!home) return "";
  const std::string path = std::string(home) + "/.cache/twostroke/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : "";
}

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

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec) {
  auto tokenizer = Tokenizer::create(spec);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.status().message();
    return nullptr;
  }
  return std::move(*tokenizer);
}

std::string join_pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text.append(tokenizer.piece(id, true));
  return text;
}

}  // namespace twostroke
