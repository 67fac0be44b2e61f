// POST /v1/chat/completions/render and POST /v1/completions/render: what the prompt would be, without an answer.
//
// A chat gives {"model", "prompt", "token_ids"}, a completion an array of these, one for each prompt: the fields of
// vLLM's render endpoints that do not belong to its own engine. `prompt` is what the tokens stand for, special tokens
// by their names. The requests are those of the completions themselves, and what those refuse is refused here.
#include "server/openai/endpoint.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;

namespace {

std::string rendered_json(const Service& service, const std::vector<TokenId>& tokens) {
  return "{\"model\":" + json_string(service.model_name) +
         ",\"prompt\":" + json_string(text_of_tokens(service.tokenizer, tokens)) +
         ",\"token_ids\":" + token_list_json(tokens) + "}";
}

BodyOrError rendered_chat(const Service& service, const ChatRequest& request) {
  const Prompts prompts = prepare_chat(service, request);
  if (const auto* error = std::get_if<ApiError>(&prompts)) return *error;
  return rendered_json(service, std::get<PreparedPrompts>(prompts).tokens.front());
}

BodyOrError rendered_completion(const Service& service, const CompletionRequest& request) {
  const Prompts prompts = prepare_completion(service, request);
  if (const auto* error = std::get_if<ApiError>(&prompts)) return *error;
  std::string body = "[";
  for (const std::vector<TokenId>& tokens : std::get<PreparedPrompts>(prompts).tokens) {
    if (body.size() > 1) body += ',';
    body += rendered_json(service, tokens);
  }
  return body + "]";
}

}  // namespace

asio::awaitable<void> render_chat_completion(Exchange& exchange, Service& service) {
  co_await answer_from_text<ChatRequest>(exchange, service, parse_chat_request, rendered_chat);
}

asio::awaitable<void> render_completion(Exchange& exchange, Service& service) {
  co_await answer_from_text<CompletionRequest>(exchange, service, parse_completion_request, rendered_completion);
}

}  // namespace twostroke::openai
