#include "server/text/grammar/token_trie.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/grammar/token_trie_nodes.h"
#include "server/text/utf8.h"

namespace twostroke::grammar {
namespace {

struct TokenPiece {
  std::string_view bytes;
  TokenId token;
};

uint64_t next_forest_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

void set_bit(std::vector<uint32_t>& mask, TokenId token) { mask[token / 32] |= uint32_t{1} << (token % 32); }

// The number of code points of a plain piece; 0 when it is not plain.
uint32_t plain_length(std::string_view bytes) {
  uint32_t length = 0;
  while (!bytes.empty()) {
    const auto first = static_cast<unsigned char>(bytes.front());
    const Utf8Unit unit = utf8_first_unit(bytes);
    if (unit.kind != Utf8Kind::kCharacter || first < 0x20 || first == '"' || first == '\\' || first == 0x7F) return 0;
    bytes.remove_prefix(unit.size);
    if (++length > Forest::kPlainMax) return 0;
  }
  return length;
}

// Appends the tree of `pieces`, which are sorted by bytes and not empty.
void append_tree(const std::vector<TokenPiece>& pieces, Forest& forest) {
  std::vector<uint32_t> path;  // the nodes of the piece before
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      forest.nodes[path.back()].subtree_end = static_cast<uint32_t>(forest.nodes.size());
  };
  for (const TokenPiece& piece : pieces) {
    size_t common = 0;
    while (common < last.size() && common < piece.bytes.size() && last[common] == piece.bytes[common]) ++common;
    close(common);
    for (size_t i = common; i < piece.bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(forest.nodes.size()));
      forest.nodes.push_back({0, static_cast<uint32_t>(forest.tokens.size()),
                              static_cast<uint32_t>((i + 1) << 8 | static_cast<unsigned char>(piece.bytes[i]))});
    }
    forest.tokens.push_back(piece.token);
    last = piece.bytes;
  }
  close(0);
}

Forest make_forest(std::vector<TokenPiece> pieces, int32_t vocab_size) {
  Forest forest;
  forest.id = next_forest_id();
  const size_t words = (static_cast<size_t>(vocab_size) + 31) / 32;
  forest.all.resize(words);
  std::erase_if(pieces, [](const TokenPiece& piece) { return piece.bytes.size() > TokenTrie::kTokenBytesMax; });
  std::sort(pieces.begin(), pieces.end(), [](const TokenPiece& a, const TokenPiece& b) {
    return std::pair(a.bytes, a.token) < std::pair(b.bytes, b.token);
  });
  std::vector<TokenPiece> plain, rest;
  std::vector<std::vector<TokenId>> by_length(Forest::kPlainMax + 1);  // plain tokens
  for (const TokenPiece& piece : pieces) {
    set_bit(forest.all, piece.token);
    forest.longest_bytes = std::max(forest.longest_bytes, static_cast<uint32_t>(piece.bytes.size()));
    if (piece.bytes.empty()) {
      forest.without_bytes.push_back(piece.token);
      continue;
    }
    const uint32_t length = plain_length(piece.bytes);
    (length > 0 ? plain : rest).push_back(piece);
    if (length > 0) by_length[length].push_back(piece.token);
  }
  forest.plain_masks.emplace_back(words);
  for (const std::vector<TokenId>& tokens : by_length) {
    if (!tokens.empty()) forest.plain_masks.push_back(forest.plain_masks.back());
    for (const TokenId token : tokens) set_bit(forest.plain_masks.back(), token);
    forest.plain_index.push_back(static_cast<uint32_t>(forest.plain_masks.size()) - 1);
  }
  append_tree(plain, forest);
  forest.rest_begin = static_cast<uint32_t>(forest.nodes.size());
  append_tree(rest, forest);
  forest.nodes.push_back({0, static_cast<uint32_t>(forest.tokens.size()), 0});
  return forest;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  auto nodes = std::make_unique<Nodes>();
  nodes->vocab_size = tokenizer.vocab_size();
  std::vector<TokenPiece> pieces, at_start;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    std::string_view bytes = tokenizer.piece(token, /*special=*/false);
    if (tokenizer.is_control(token) || bytes.empty()) continue;
    pieces.push_back({bytes, token});
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    at_start.push_back({bytes, token});
  }
  nodes->text = make_forest(std::move(pieces), nodes->vocab_size);
  nodes->has_start = tokenizer.strips_leading_space();
  if (nodes->has_start) nodes->start = make_forest(std::move(at_start), nodes->vocab_size);
  nodes_ = std::move(nodes);
}

TokenTrie::TokenTrie(std::span<const std::string> pieces) {
  auto nodes = std::make_unique<Nodes>();
  nodes->vocab_size = static_cast<int32_t>(pieces.size());
  std::vector<TokenPiece> kept;
  for (size_t token = 0; token < pieces.size(); ++token) {
    if (!pieces[token].empty()) kept.push_back({pieces[token], static_cast<TokenId>(token)});
  }
  nodes->text = make_forest(std::move(kept), nodes->vocab_size);
  nodes_ = std::move(nodes);
}

TokenTrie::~TokenTrie() = default;

int32_t TokenTrie::vocab_size() const { return nodes_->vocab_size; }

}  // namespace twostroke::grammar
