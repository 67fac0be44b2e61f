// TokenizerSpec: everything that a model file says about its tokenizer, as plain data.
//
// The keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (`tokenizer.ggml.*`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/gguf.h"
#include "kernels/status.h"
#include "kernels/token.h"

namespace twostroke {

enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never text: recognised and produced only where that is asked for
  kUserDefined = 4,  // text that is always one token
  kUnused = 5,
  kByte = 6,  // "<0x0A>": one byte that no other token covers
};

struct TokenizerSpec {
  std::string model;       // "gpt2", "llama", ...
  std::string pre;         // pre-tokenizer, "" when the file names none
  std::string model_name;  // general.name; a few models have tokens with attributes that no key holds
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // one for each token, or empty: all normal
  std::vector<float> scores;        // one for each token; "llama" only
  std::vector<std::string> merges;  // "left right", best first; "gpt2" only
  std::optional<TokenId> bos, eos, eot, eom, unknown;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Errors: kInvalidArgument naming the key.
Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file);

}  // namespace twostroke
