#include "tests/bench/grammar/vocabulary.h"

#include <algorithm>
#include <random>

#include "backend/gguf.h"
#include "kernels/check.h"
#include "server/text/tokenizer.h"

namespace twostroke {

std::vector<TokenId> Vocabulary::encode(std::string_view text) const {
  std::vector<TokenId> tokens;
  while (!text.empty()) {
    size_t size = std::min(longest, text.size());
    while (!ids.contains(text.substr(0, size))) --size;
    tokens.push_back(ids.at(text.substr(0, size)));
    text.remove_prefix(size);
  }
  return tokens;
}

Vocabulary make_vocabulary(const std::string& directory, size_t size) {
  Vocabulary vocabulary;
  vocabulary.pieces.reserve(size);  // ids refer to the pieces
  const auto add = [&](std::string piece) {
    if (piece.empty() || vocabulary.pieces.size() >= size || vocabulary.ids.contains(piece)) return;
    vocabulary.pieces.push_back(std::move(piece));
    vocabulary.longest = std::max(vocabulary.longest, vocabulary.pieces.back().size());
    vocabulary.ids.emplace(vocabulary.pieces.back(), static_cast<TokenId>(vocabulary.pieces.size() - 1));
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* name : {"starcoder", "gpt-2", "falcon", "deepseek-llm", "llama-spm"}) {
    const auto file = GgufFile::open(directory + "/ggml-vocab-" + name + ".gguf");
    CHECK(file.ok(), file.status().message());
    const auto tokenizer = Tokenizer::from_gguf(**file);
    CHECK(tokenizer.ok(), tokenizer.status().message());
    for (TokenId token = 0; token < (*tokenizer)->vocab_size(); ++token)
      add(std::string((*tokenizer)->piece(token, false)));
  }
  std::mt19937_64 random(1);
  const size_t real = vocabulary.pieces.size();
  while (vocabulary.pieces.size() < size) add(vocabulary.pieces[random() % real] + vocabulary.pieces[random() % real]);
  return vocabulary;
}

}  // namespace twostroke
