#include "server/text/spm_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "server/text/utf8.h"

namespace twostroke {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, which stands for a space in tokens

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

// Where the next word of `text` begins: at a space behind another character. npos: nowhere.
size_t find_word_begin(std::string_view text) {
  for (size_t at = text.find(kSpace); at != std::string_view::npos; at = text.find(kSpace, at + kSpace.size())) {
    if (at > 0 && !text.substr(0, at).ends_with(kSpace)) return at;
  }
  return std::string_view::npos;
}

std::string decode_spaces(std::string_view text) { return replace_all(text, kSpace, " "); }

}  // namespace

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::create(const TokenizerSpec& given) {
  TokenizerSpec spec = given;
  // SentencePiece's own defaults, for files that leave them out.
  const auto use_default = [&](std::optional<TokenId>& id, TokenId fallback, std::string_view text) {
    if (!id && static_cast<size_t>(fallback) < spec.tokens.size() && spec.tokens[static_cast<size_t>(fallback)] == text)
      id = fallback;
  };
  use_default(spec.unknown, 0, "<unk>");
  use_default(spec.bos, 1, "<s>");
  use_default(spec.eos, 2, "</s>");
  std::unique_ptr<SpmTokenizer> tokenizer(new SpmTokenizer());
  tokenizer->adds_space_ = spec.add_space_prefix.value_or(true);
  if (Status s = tokenizer->load(spec, /*adds_bos=*/true, decode_spaces); !s.ok()) return s;
  if (Status s = tokenizer->load_bytes(spec); !s.ok()) return s;
  if (Status s = tokenizer->load_joined(spec); !s.ok()) return s;
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status SpmTokenizer::load_bytes(const TokenizerSpec& spec) {
  byte_tokens_.fill(spec.unknown.value_or(-1));
  for (TokenId token = 0; token < vocab_size_; ++token) {
    if (type(token) == TokenType::kByte) byte_tokens_[static_cast<size_t>(byte_token_value(text(token)))] = token;
  }
  if (std::find(byte_tokens_.begin(), byte_tokens_.end(), -1) != byte_tokens_.end()) {
    return invalid_argument(
        "the vocabulary has neither a token for every byte nor an unknown token (tokenizer.ggml.unknown_token_id)");
  }
  return {};
}

Status SpmTokenizer::load_joined(const TokenizerSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    return invalid_argument("tokenizer.ggml.scores holds " + std::to_string(spec.scores.size()) + " entries for " +
                            std::to_string(spec.tokens.size()) + " tokens");
  }
  std::vector<float> scores = spec.scores;
  if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) {
    return invalid_argument("tokenizer.ggml.scores holds a NaN");
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  joined_.reserve(spec.tokens.size());
  for (TokenId token = 0; token < vocab_size_; ++token) {
    if (!is_text(token) || text(token).empty()) continue;
    const float score = spec.scores[static_cast<size_t>(token)];
    const auto rank = std::lower_bound(scores.begin(), scores.end(), score, std::greater<>()) - scores.begin();
    joined_.emplace(text(token), Merge{static_cast<uint32_t>(rank), token});
    joined_size_max_ = std::max(joined_size_max_, text(token).size());
    if (find_word_begin(text(token)) != std::string_view::npos) words_are_apart_ = false;
  }
  return {};
}

Merge SpmTokenizer::lookup(std::string_view joined) const {
  if (joined.size() > joined_size_max_) return {};
  const auto found = joined_.find(joined);
  return found == joined_.end() ? Merge{} : found->second;
}

void SpmTokenizer::encode_segment(std::string_view segment, std::vector<TokenId>& out) const {
  std::string text;
  if (adds_space_) text = kSpace;
  text += replace_all(segment, " ", kSpace);

  SymbolMerger merger;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t size = words_are_apart_ ? std::min(find_word_begin(rest), rest.size()) : rest.size();
    encode_word(rest.substr(0, size), merger, out);
    rest.remove_prefix(size);
  }
}

void SpmTokenizer::encode_word(std::string_view word, SymbolMerger& merger, std::vector<TokenId>& out) const {
  merger.clear();
  for (std::string_view rest = word; !rest.empty();) {
    const Utf8Unit unit = utf8_first_unit(rest);
    const size_t size = unit.kind == Utf8Kind::kCharacter ? unit.size : 1;
    const TokenId id = unit.kind == Utf8Kind::kCharacter ? lookup(rest.substr(0, size)).id : -1;
    merger.add(id, static_cast<uint32_t>(size));
    rest.remove_prefix(size);
  }
  merger.run(
      [&](const Symbol& left, const Symbol& right) { return lookup(word.substr(left.begin, left.size + right.size)); });
  merger.for_each([&](const Symbol& symbol) {
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else {
      for (const char byte : word.substr(symbol.begin, symbol.size)) {
        out.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
      }
    }
  });
}

}  // namespace twostroke
