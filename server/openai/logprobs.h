// Log-probabilities as chat completions and responses print them.
#pragma once

#include <string>
#include <vector>

#include "backend/step.h"
#include "server/text/sequence_output.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}, one after another with commas.
std::string logprob_entries(const Tokenizer& tokenizer, const std::vector<TokenEntry>& entries);

// vLLM's prompt_logprobs: null for the first token; for each other {id: {"logprob", "rank", "decoded_token"}} of itself
// and the most probable ones. `scores` as in Piece::prompt_scores.
std::string prompt_logprobs_json(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt,
                                 const std::vector<TokenScore>& scores);

}  // namespace twostroke::openai
