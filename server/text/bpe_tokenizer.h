// BpeTokenizer: byte-level BPE ("gpt2"): a pre-tokenizer cuts the text into pieces, and within a piece bytes are joined
// by the vocabulary's merges, the best one first.
//
// Files write a token's bytes as characters, one for each byte, so that every token is printable text (GPT-2's
// bytes_to_unicode: https://github.com/openai/gpt-2, src/encoder.py).
//
// A piece's tokens depend on its bytes alone, so those of recent pieces are kept (piece_cache.h).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/text/merge_table.h"
#include "server/text/piece_cache.h"
#include "server/text/pre_tokenizer.h"
#include "server/text/segment_tokenizer.h"
#include "server/text/symbol_merge.h"

namespace twostroke {

class BpeTokenizer : public SegmentTokenizer {
 public:
  // Errors: kUnsupported (pre-tokenizer), kInvalidArgument (damaged vocabulary).
  static Result<std::unique_ptr<Tokenizer>> create(const TokenizerSpec& spec);

  bool strips_leading_space() const override { return false; }

 protected:
  void encode_segment(std::string_view segment, std::vector<TokenId>& out) const override;

 private:
  BpeTokenizer() = default;
  Status load_bytes();
  Status load_merges(const std::vector<std::string>& merges);
  void load_whole_pieces();
  // Appends the ids of a piece: from the cache, as a whole, or by merges.
  void encode_piece(std::string_view piece, const PieceCache::Key& key, SymbolMerger& merger,
                    std::vector<TokenId>& out) const;
  void merge_piece(std::string_view piece, SymbolMerger& merger, std::vector<TokenId>& out) const;

  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::array<TokenId, 256> byte_tokens_;  // -1: the vocabulary has none
  MergeTable merges_;
  std::unordered_map<std::string_view, TokenId> whole_pieces_;  // by bytes; only if the pre-tokenizer ignores merges
  mutable PieceCache cache_;                                    // thread-safe; what it holds never shows
};

}  // namespace twostroke
