// A vocabulary of 128,256 tokens, made from those of real models.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/token.h"

namespace twostroke {

struct Vocabulary {
  std::vector<std::string> pieces;  // by token
  std::unordered_map<std::string_view, TokenId> ids;
  size_t longest = 0;

  // The longest token at each place, from the left.
  std::vector<TokenId> encode(std::string_view text) const;
};

// All bytes, then every piece of the vocabularies in `directory` in their order, each once, then words put together
// from these by chance (from a fixed seed), until there are `size`.
Vocabulary make_vocabulary(const std::string& directory, size_t size);

}  // namespace twostroke
