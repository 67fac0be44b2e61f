// What several tests of grammars need: masks as sets, and the mask that trying every token out gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/text/grammar/grammar_builder.h"
#include "server/text/grammar/matcher.h"

namespace twostroke::grammar {

// Token 0 stands for nothing; tokens 1 to 256 are the bytes; then come `pieces`.
std::vector<std::string> byte_vocabulary(const std::vector<std::string>& pieces = {});

// The grammar of a GBNF text; a test failure and nullptr when it is refused.
std::shared_ptr<const Grammar> gbnf(std::string_view text);

// The whole text can be read and may end there.
bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text);

std::vector<uint32_t> mask_of(Matcher& matcher, const TokenTrie& trie, Matcher::Place place = Matcher::Place::kWithin);
// The same by accepting each token in a copy.
std::vector<uint32_t> tried_mask_of(const Matcher& matcher, const std::vector<std::string>& pieces);

// The tokens that are in only one of two masks, as text.
std::string difference(const std::vector<uint32_t>& mask, const std::vector<uint32_t>& tried,
                       const std::vector<std::string>& pieces);

}  // namespace twostroke::grammar
