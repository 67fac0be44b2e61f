#include "server/openai/prepare.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/openai/answer.h"
#include "server/text/chat_prompt.h"

namespace twostroke::openai {

namespace asio = boost::asio;

namespace {

std::string special_text(const Tokenizer& tokenizer, TokenId token) {
  return token < 0 ? "" : std::string(tokenizer.piece(token, /*special=*/true));
}

// A message of the role "developer" is a "system" message for templates that do not know the newer name.
Json messages_for(const jinja::Template& chat_template, const Json& messages) {
  if (chat_template.source().find("developer") != std::string_view::npos) return messages;
  Json renamed = messages;
  for (Json& message : renamed) {
    if (message["role"] == "developer") message["role"] = "system";
  }
  return renamed;
}

}  // namespace

Prompts prepare_chat(const Service& service, const ChatRequest& request) {
  if (service.chat_template == nullptr) {
    return ApiError{.message =
                        "The model '" + service.model_name +
                        "' has no chat template: use /v1/completions, or start the server with --chat-template."};
  }
  Json context = request.template_kwargs;
  context["messages"] = messages_for(*service.chat_template, request.messages);
  context["add_generation_prompt"] = true;
  context["bos_token"] = special_text(service.tokenizer, service.tokenizer.bos());
  context["eos_token"] = special_text(service.tokenizer, service.tokenizer.eos());

  jinja::RenderOptions options;
  options.now_unix_seconds = service.fixed_now.value_or(unix_seconds());
  options.trusted_names = {"bos_token", "eos_token"};
  Result<std::vector<jinja::Span>> spans = service.chat_template->render_spans(context, options);
  if (!spans.ok()) {
    return ApiError{.message = "The chat template cannot render these messages: " + spans.status().message(),
                    .param = "messages"};
  }
  std::vector<TokenId> tokens = encode_chat_prompt(service.tokenizer, *spans);
  if (tokens.empty()) return ApiError{.message = "The messages render to an empty prompt.", .param = "messages"};
  return std::vector<std::vector<TokenId>>{std::move(tokens)};
}

Prompts prepare_completion(const Service& service, const CompletionRequest& request) {
  std::vector<std::vector<TokenId>> prompts;
  for (const auto& prompt : request.prompts) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
      prompts.push_back(*ids);
      continue;
    }
    prompts.push_back(
        service.tokenizer.encode(std::get<std::string>(prompt), {.add_special = true, .parse_special = true}));
    // An EOS that the model's file asks for at the end would stop the answer before it begins.
    if (service.tokenizer.adds_eos() && !prompts.back().empty()) prompts.back().pop_back();
    if (prompts.back().empty()) {
      return bad_field("prompt", "'prompt' is empty: this model needs at least one token to start from.");
    }
  }
  return prompts;
}

asio::awaitable<Prompts> prepare_on_text_thread(Service& service, std::function<Prompts()> work) {
  if (service.preparing.fetch_add(1) >= service.limits.preparing_max) {
    service.preparing.fetch_sub(1);
    co_return to_api_error(resource_exhausted("Too many requests are being prepared at once: try again in a moment."));
  }
  Prompts prompts = co_await asio::co_spawn(
      service.text_pool,
      [&service, work = std::move(work)]() -> asio::awaitable<Prompts> {
        Prompts result = work();
        service.preparing.fetch_sub(1);
        co_return result;
      },
      asio::use_awaitable);
  co_return prompts;
}

}  // namespace twostroke::openai
