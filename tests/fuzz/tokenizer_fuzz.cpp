// Any text to tokens and back, over small vocabularies of both families; the first byte chooses which.
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/check.h"
#include "server/text/detokenizer.h"
#include "server/text/tokenizer.h"
#include "tests/text/tokenizer/tokenizer_specs.h"

namespace twostroke {
namespace {

const std::vector<std::string> kMerges = {"a b", "ab c", "Ġ t", "h e", "Ġt he", "| >", "< |", "e n", "Ċ Ċ", "1 2"};
const std::vector<std::string> kPieces = {"▁", "a", "b", "ab", "▁a", "▁ab", "he", "▁t", "▁the", "|>", "<|", "é", "▁▁"};

void add_special_tokens(TokenizerSpec& spec) {
  if (!spec.bos) spec.bos = add_token(spec, "<|begin|>", TokenType::kControl);
  spec.eot = add_token(spec, "<|im_end|>", TokenType::kControl);
  add_token(spec, "<think>", TokenType::kUserDefined);
}

std::vector<std::unique_ptr<Tokenizer>> make_tokenizers() {
  std::vector<std::unique_ptr<Tokenizer>> made;
  const auto add = [&made](TokenizerSpec spec) {
    add_special_tokens(spec);
    auto tokenizer = Tokenizer::create(spec);
    CHECK(tokenizer.ok());
    made.push_back(std::move(*tokenizer));
  };
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "falcon", "smollm", "tekken", "gpt-4o"}) {
    add(byte_level_spec(pre, kMerges));
  }
  for (const bool space : {true, false}) {
    TokenizerSpec spec = sentencepiece_spec(kPieces);
    spec.add_space_prefix = space;
    add(std::move(spec));
  }
  return made;
}

std::string pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) {
    CHECK(id >= 0 && id < tokenizer.vocab_size());
    text.append(tokenizer.piece(id, true));
  }
  return text;
}

// What SentencePiece keeps: it writes a space as U+2581, and so reads that as one; with a prefix, it puts a space in
// front of what follows a special token too.
std::string kept(std::string_view text, bool has_prefix) {
  constexpr std::string_view kWritten = "▁";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool written = text.substr(i).starts_with(kWritten);
    const bool space = written || text[i] == ' ';
    if (!space) out += text[i];
    if (space && !has_prefix) out += ' ';
    i += written ? kWritten.size() : 1;
  }
  return out;
}

void check(const Tokenizer& tokenizer, std::string_view text, bool sentencepiece) {
  const auto ids = tokenizer.encode(text, {});
  for (const TokenId id : ids) CHECK(!tokenizer.is_control(id), "text became a control token");
  CHECK(ids.size() * tokenizer.longest_token_bytes() >= text.size());

  const std::string joined = pieces_of(tokenizer, ids);
  if (sentencepiece) {
    const bool has_prefix = tokenizer.strips_leading_space();
    CHECK(kept(joined, has_prefix) == kept(text, has_prefix), "text was lost");
  } else {
    CHECK(joined == text, "text was lost");
  }

  Detokenizer detokenizer(tokenizer, /*at_start=*/true, /*skip_special=*/true);
  std::string streamed;
  for (const TokenId id : ids) streamed += detokenizer.push(id);
  streamed += detokenizer.finish();
  CHECK(!nlohmann::json(streamed).dump().empty());  // throws where it is not UTF-8

  const TextRange everything{0, text.size()};
  CHECK(tokenizer.encode_marked(text, {&everything, 1}, true) ==
        tokenizer.encode(text, {.add_special = true, .parse_special = true}));
  CHECK(tokenizer.encode_marked(text, {}, false) == ids);
}

}  // namespace
}  // namespace twostroke

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const auto tokenizers = twostroke::make_tokenizers();
  const size_t chosen = data[0] % tokenizers.size();
  twostroke::check(*tokenizers[chosen], {reinterpret_cast<const char*>(data) + 1, size - 1},
                   chosen + 2 >= tokenizers.size());
  return 0;
}
