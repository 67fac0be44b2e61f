// POST /tokenize and POST /detokenize
#include <memory>

#include "server/openai/endpoint.h"
#include "server/openai/token_list.h"
#include "server/openai/tokenize_request.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;

namespace {

BodyOrError tokenize_body(const Service& service, const TokenizeRequest& request) {
  std::vector<TokenId> tokens;
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    tokens = service.tokenizer.encode(*text, {.add_special = request.add_special_tokens, .parse_special = true});
  } else {
    Prompts prompts = prepare_chat(service, std::get<ChatRequest>(request.input));
    if (const auto* error = std::get_if<ApiError>(&prompts)) return *error;
    tokens = std::move(std::get<PreparedPrompts>(prompts).tokens.front());
  }
  std::string body = "{\"count\":" + std::to_string(tokens.size()) +
                     ",\"max_model_len\":" + std::to_string(service.engine.backend_info().context_max) +
                     ",\"tokens\":" + token_list_json(tokens) + ",\"token_strs\":";
  if (!request.return_token_strs) return body + "null}";
  body += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) body += ',';
    body += json_string(service.tokenizer.piece(tokens[i], /*special=*/true));
  }
  return body + "]}";
}

BodyOrError detokenize_body(const Service& service, const DetokenizeRequest& request) {
  size_t bytes = 0;
  for (const TokenId token : request.tokens) bytes += service.tokenizer.piece(token, /*special=*/true).size();
  if (bytes > kDetokenizedBytesMax) {
    return bad_field("tokens", "'tokens' stand for a text of more than " + std::to_string(kDetokenizedBytesMax) +
                                   " bytes: send fewer of them at once.");
  }
  return "{\"prompt\":" + json_string(text_of_tokens(service.tokenizer, request.tokens)) + "}";
}

}  // namespace

asio::awaitable<void> tokenize(Exchange& exchange, Service& service) {
  co_await answer_from_text<TokenizeRequest>(exchange, service, parse_tokenize_request, tokenize_body);
}

asio::awaitable<void> detokenize(Exchange& exchange, Service& service) {
  co_await answer_from_text<DetokenizeRequest>(exchange, service, parse_detokenize_request, detokenize_body);
}

}  // namespace twostroke::openai
