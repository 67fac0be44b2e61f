#include "server/text/bpe_tokenizer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "server/text/utf8.h"

namespace twostroke {
namespace {

// Whose cache lines are asked for together: as many as a core waits for at once, about.
constexpr size_t kPiecesAhead = 16;

// The character that stands for a byte in the texts of tokens: printable bytes stand for themselves (as Latin-1), the
// others take the characters from U+0100 on, in order.
struct ByteAlphabet {
  std::array<std::string, 256> text;  // of a byte
  std::array<int, 0x144> byte;        // of a character; -1: it stands for none

  ByteAlphabet() {
    byte.fill(-1);
    size_t next = 0x100;
    for (size_t value = 0; value < 256; ++value) {
      const bool printable = (value >= 0x21 && value <= 0x7E) || (value >= 0xA1 && value != 0xAD);
      const size_t character = printable ? value : next++;
      byte[character] = static_cast<int>(value);
      std::string& out = text[value];
      if (character < 0x80) {
        out.push_back(static_cast<char>(character));
      } else {
        out.push_back(static_cast<char>(0xC0 | character >> 6));
        out.push_back(static_cast<char>(0x80 | (character & 0x3F)));
      }
    }
  }

  // The byte of one character in UTF-8, or -1.
  int byte_of(std::string_view character) const {
    size_t code = static_cast<uint8_t>(character[0]);
    if (character.size() == 2) code = (code & 0x1F) << 6 | (static_cast<uint8_t>(character[1]) & 0x3F);
    return character.size() > 2 || code >= byte.size() ? -1 : byte[code];
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet instance;
  return instance;
}

std::string decode_bytes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_first_unit(text);
    const std::string_view character = text.substr(0, unit.size);
    const int byte = unit.kind == Utf8Kind::kCharacter ? alphabet().byte_of(character) : -1;
    // A character outside the alphabet stands for itself; some vocabularies hold a few.
    if (byte < 0) {
      out.append(character);
    } else {
      out.push_back(static_cast<char>(byte));
    }
    text.remove_prefix(unit.size);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::create(const TokenizerSpec& spec) {
  auto pre_tokenizer = PreTokenizer::create(spec.pre.empty() ? "default" : spec.pre);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer());
  tokenizer->pre_tokenizer_ = std::move(*pre_tokenizer);
  const bool adds_bos = tokenizer->pre_tokenizer_->adds_bos();
  if (Status s = tokenizer->load(spec, adds_bos, decode_bytes); !s.ok()) return s;
  if (Status s = tokenizer->load_bytes(); !s.ok()) return s;
  if (Status s = tokenizer->load_merges(spec.merges); !s.ok()) return s;
  if (tokenizer->pre_tokenizer_->ignores_merges()) tokenizer->load_whole_pieces();
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status BpeTokenizer::load_bytes() {
  for (size_t byte = 0; byte < 256; ++byte) {
    const TokenId id = find(alphabet().text[byte]);
    byte_tokens_[byte] = id >= 0 && type(id) == TokenType::kNormal ? id : -1;
  }
  for (const char byte : kReplacementCharacter) {
    if (byte_tokens_[static_cast<uint8_t>(byte)] < 0) {
      return invalid_argument("the vocabulary is not byte-level: it lacks tokens for the bytes of U+FFFD");
    }
  }
  return {};
}

Status BpeTokenizer::load_merges(const std::vector<std::string>& merges) {
  if (merges.empty()) return invalid_argument("tokenizer.ggml.merges is missing");
  merges_ = MergeTable(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return invalid_argument("tokenizer.ggml.merges[" + std::to_string(rank) + "] is not a pair: \"" +
                              std::string(merge) + "\"");
    }
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const TokenId left = find(merge.substr(0, space));
    const TokenId right = find(merge.substr(space + 1));
    const TokenId whole = find(joined);
    if (left < 0 || right < 0 || whole < 0) {
      return invalid_argument("tokenizer.ggml.merges[" + std::to_string(rank) + "] \"" + std::string(merge) +
                              "\" names a token that the vocabulary lacks");
    }
    if (!is_text(whole)) continue;  // no text may grow into a control token
    merges_.insert(left, right, Merge{static_cast<uint32_t>(rank), whole});
  }
  return {};
}

void BpeTokenizer::load_whole_pieces() {
  for (TokenId token = 0; token < vocab_size_; ++token) {
    if (type(token) == TokenType::kNormal && is_text(token)) whole_pieces_.emplace(piece(token, false), token);
  }
}

void BpeTokenizer::encode_segment(std::string_view segment, std::vector<TokenId>& out) const {
  std::vector<std::string_view> pieces;
  pre_tokenizer_->split(segment, pieces);
  SymbolMerger merger;
  std::array<PieceCache::Key, kPiecesAhead> keys;
  for (std::span<const std::string_view> left(pieces); !left.empty();) {
    const auto batch = left.first(std::min(left.size(), keys.size()));
    for (size_t i = 0; i < batch.size(); ++i) {
      keys[i] = PieceCache::Key(batch[i]);
      cache_.prefetch(keys[i]);
    }
    for (size_t i = 0; i < batch.size(); ++i) encode_piece(batch[i], keys[i], merger, out);
    left = left.subspan(batch.size());
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, const PieceCache::Key& key, SymbolMerger& merger,
                                std::vector<TokenId>& out) const {
  if (cache_.find(key, out)) return;
  const size_t begin = out.size();
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    out.push_back(whole->second);
  } else {
    merge_piece(piece, merger, out);
  }
  cache_.insert(key, std::span(out).subspan(begin));
}

void BpeTokenizer::merge_piece(std::string_view piece, SymbolMerger& merger, std::vector<TokenId>& out) const {
  merger.clear();
  for (const char byte : piece) {
    const TokenId id = byte_tokens_[static_cast<uint8_t>(byte)];
    if (id >= 0) {
      merger.add(id, 1);
    } else {
      for (const char substitute : kReplacementCharacter) merger.add(byte_tokens_[static_cast<uint8_t>(substitute)], 1);
    }
  }
  merger.run([this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  merger.for_each([&](const Symbol& symbol) { out.push_back(symbol.id); });
}

}  // namespace twostroke
