// From a parsed request to token ids, on the text threads.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <variant>
#include <vector>

#include "server/openai/api_error.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/service.h"

namespace twostroke::openai {

// One list of token ids per prompt, none of them empty; or why there is none.
using Prompts = std::variant<std::vector<std::vector<TokenId>>, ApiError>;

// Renders the chat template and tokenizes. Special tokens in what the client wrote are text, never control.
Prompts prepare_chat(const Service& service, const ChatRequest& request);
// Tokenizes; BOS is added as the model asks. Token ids pass as they are.
Prompts prepare_completion(const Service& service, const CompletionRequest& request);

// Runs `work` on a text thread and resumes the caller on its own executor. 429 when ServiceLimits::preparing_max
// requests are there already.
boost::asio::awaitable<Prompts> prepare_on_text_thread(Service& service, std::function<Prompts()> work);

}  // namespace twostroke::openai
