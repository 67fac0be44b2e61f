// From a parsed request to token ids. Runs on the text threads.
//
// A text that cannot fit the context, whatever its tokens are, is refused before it is tokenized: its cost is bounded
// by the context and not by the size of the body.
#pragma once

#include <optional>

#include "server/openai/completions/chat_request.h"
#include "server/openai/completions/completion_request.h"
#include "server/openai/prompts.h"
#include "server/openai/service.h"

namespace twostroke::openai {

// Every choice repeats its prompt's log-probabilities, and they are written on an I/O thread: some ten megabytes.
constexpr size_t kPromptLogprobsInAnswerMax = size_t{1} << 18;

// The refusal of a text that has too many tokens even if each were the vocabulary's longest.
std::optional<ApiError> beyond_context(const Service& service, size_t bytes);

// Renders the chat template and tokenizes. Special tokens in what the client wrote are text, never control.
Prompts prepare_chat(const Service& service, const ChatRequest& request);
// Tokenizes; BOS is added as the model asks. Token ids pass as they are.
Prompts prepare_completion(const Service& service, const CompletionRequest& request);

}  // namespace twostroke::openai
