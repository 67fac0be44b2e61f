// Lists of token ids in requests, and what they stand for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/token.h"
#include "server/openai/field_reader.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

// The ids in `array`, a list in the field `name`: integers from 0 to vocab_size - 1, at least one. Fails `fields`
// otherwise.
std::optional<std::vector<TokenId>> read_token_list(FieldReader& fields, const char* name, const Json& array,
                                                    int32_t vocab_size);

// "[1,2,3]"
std::string token_list_json(std::span<const TokenId> tokens);

// The text of a token sequence from its beginning, special tokens by their own names; valid UTF-8.
std::string text_of_tokens(const Tokenizer& tokenizer, std::span<const TokenId> tokens);

}  // namespace twostroke::openai
