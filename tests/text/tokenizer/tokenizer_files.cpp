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
