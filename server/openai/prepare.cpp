#include "server/openai/prepare.h"

#include <algorithm>
#include <ctime>

#include "server/openai/answer.h"
#include "server/text/chat_prompt.h"

namespace twostroke::openai {

namespace {

std::string special_text(const Tokenizer& tokenizer, TokenId token) {
  return token < 0 ? "" : std::string(tokenizer.piece(token, /*special=*/true));
}

// Templates written before the role "developer" know it as "system".
Json messages_for(const Service& service, const Json& messages) {
  if (service.template_knows_developer) return messages;
  Json renamed = messages;
  for (Json& message : renamed) {
    if (message["role"] == "developer") message["role"] = "system";
  }
  return renamed;
}

// strftime_now shows local time, as Python's datetime.now() does.
jinja::CivilTime local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  localtime_r(&now, &fields);
  return jinja::civil_from_seconds(now + fields.tm_gmtoff);
}

// The refusal of a text that has too many tokens even if each were the vocabulary's longest.
std::optional<ApiError> beyond_context(const Service& service, size_t bytes) {
  const size_t longest = std::max<size_t>(service.tokenizer.longest_token_bytes(), 1);
  return context_overflow(bytes / longest, service.engine.backend_info().context_max);
}

}  // namespace

Prompts prepare_chat(const Service& service, const ChatRequest& request) {
  if (service.chat_template == nullptr) {
    return ApiError{.message =
                        "The model '" + service.model_name +
                        "' has no chat template: use /v1/completions, or start the server with --chat-template."};
  }
  Json context = request.template_kwargs;
  context["messages"] = messages_for(service, request.messages);
  context["add_generation_prompt"] = true;
  context["bos_token"] = special_text(service.tokenizer, service.tokenizer.bos());
  context["eos_token"] = special_text(service.tokenizer, service.tokenizer.eos());

  jinja::RenderOptions options;
  options.now = local_time();
  options.trusted_variables = {"bos_token", "eos_token"};
  // Some published templates need both, and a render works on its own copy of the context.
  options.mutable_containers = true;
  options.from_json = true;
  Result<std::vector<jinja::Span>> spans = service.chat_template->render_spans(context, options);
  if (!spans.ok()) {
    return ApiError{.message = "The chat template cannot render these messages: " + spans.status().message(),
                    .param = "messages"};
  }
  size_t bytes = 0;
  for (const jinja::Span& span : *spans) bytes += span.text.size();
  if (auto error = beyond_context(service, bytes)) return *error;
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
    const std::string& text = std::get<std::string>(prompt);
    if (auto error = beyond_context(service, text.size())) return *error;
    prompts.push_back(service.tokenizer.encode(text, {.add_special = true, .parse_special = true}));
    // An EOS that the model's file asks for at the end would stop the answer before it begins.
    if (service.tokenizer.adds_eos() && !prompts.back().empty()) prompts.back().pop_back();
    if (prompts.back().empty()) {
      return bad_field("prompt", "'prompt' is empty: this model needs at least one token to start from.");
    }
    if (auto error = context_overflow(prompts.back().size(), service.engine.backend_info().context_max)) return *error;
  }
  return prompts;
}

}  // namespace twostroke::openai
