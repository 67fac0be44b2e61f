// Small vocabularies made up on the spot.
#pragma once

#include <string>
#include <vector>

#include "server/text/tokenizer_spec.h"

namespace twostroke {

// A byte-level vocabulary: the 256 bytes (ids 0 to 255) and what follows from `merges` ("left right", written in the
// alphabet of such vocabularies), from id 256 on.
TokenizerSpec byte_level_spec(const std::string& pre, const std::vector<std::string>& merges);

// Appends a token; returns its id.
TokenId add_token(TokenizerSpec& spec, const std::string& text, TokenType type);

// A SentencePiece vocabulary: <unk>, <s>, </s>, 256 byte tokens (from id 3 on), then `pieces` (from id 259 on), each
// with a score below the one before.
TokenizerSpec sentencepiece_spec(const std::vector<std::string>& pieces);

}  // namespace twostroke
