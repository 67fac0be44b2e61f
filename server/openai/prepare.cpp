#include "server/openai/prepare.h"

#include <algorithm>
#include <ctime>

#include "kernels/check.h"
#include "server/openai/answer.h"
#include "server/text/chat_prompt.h"
#include "server/text/detokenizer.h"

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

// For templates that do not write tools: in the system message, or in one of its own.
void tell_of_tools(const Json& tools, Json& messages) {
  const std::string prompt = reply::tools_prompt(tools);
  Json& first = messages.front();
  if (first["role"] == "system" && first["content"].is_string()) {
    first["content"] = first["content"].get<std::string>() + "\n\n" + prompt;
    return;
  }
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", prompt}});
}

Json template_context(const Service& service, const ChatRequest& request) {
  Json context = request.template_kwargs;
  context["messages"] = messages_for(service, request.messages);
  // As transformers and vLLM do: templates ask whether it is none, and a model that must not call is not told of tools.
  const bool tells_of_tools = request.tools.choice != ToolOptions::Choice::kNone;
  context["tools"] = tells_of_tools ? request.tools.tools : Json();
  if (tells_of_tools && service.reply_syntax != nullptr && !service.reply_syntax->template_uses_tools()) {
    tell_of_tools(request.tools.tools, context["messages"]);
  }
  if (!context.contains("documents")) context["documents"] = nullptr;
  context["add_generation_prompt"] = request.add_generation_prompt;
  context["bos_token"] = special_text(service.tokenizer, service.tokenizer.bos());
  context["eos_token"] = special_text(service.tokenizer, service.tokenizer.eos());
  return context;
}

// The text that tokens of a prompt stand for, as a client wrote it: without control tokens.
std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  Detokenizer detokenizer(tokenizer, /*at_start=*/true, /*skip_special=*/true);
  std::string text;
  for (const TokenId token : tokens) text += detokenizer.push(token);
  return text + detokenizer.finish();
}

void truncate(const Service& service, const GenerationOptions& options, std::vector<TokenId>& prompt) {
  if (!options.truncate_prompt_tokens) return;
  // What fits leaves room for one token at least.
  const auto context = static_cast<size_t>(service.engine.backend_info().context_max);
  const size_t count = *options.truncate_prompt_tokens == 0
                           ? context - std::min<size_t>(context - 1, std::max(options.max_tokens.value_or(1), 1U))
                           : *options.truncate_prompt_tokens;
  if (prompt.size() > count) prompt.erase(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(count));
}

// A word is banned as it is, and behind a space where that makes other tokens, as vLLM does.
std::optional<ApiError> add_bad_word(const Tokenizer& tokenizer, const std::string& word,
                                     std::vector<std::vector<TokenId>>& words) {
  const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
  const std::vector<TokenId> plain = tokenizer.encode(bare.empty() ? word : bare, {});
  const std::vector<TokenId> spaced = tokenizer.encode(" " + bare, {});
  if (plain.size() > kMaxBadWordTokens || spaced.size() > kMaxBadWordTokens) {
    return bad_field("bad_words",
                     "Each of 'bad_words' must have at most " + std::to_string(kMaxBadWordTokens) + " tokens.");
  }
  words.push_back(plain);
  if (!bare.empty() && spaced.front() != plain.front() && spaced.size() == plain.size()) words.push_back(spaced);
  return std::nullopt;
}

// 400, whatever it is that cannot be enforced; other failures are the server's.
ApiError not_enforceable(const std::string& param, const Status& status) {
  ApiError error = to_api_error(status);
  if (error.status != 400) return error;
  error.message = "'" + param + "' cannot be enforced: " + error.message;
  error.param = param;
  return error;
}

// True when there were any.
bool fill_null_contents(Json& messages) {
  bool filled = false;
  for (Json& message : messages) {
    if (!message["content"].is_null()) continue;
    message["content"] = "";
    filled = true;
  }
  return filled;
}

// Ends the prompt where its last message's content ends. Templates may trim the content.
std::optional<ApiError> cut_behind_content(std::string_view content, std::vector<jinja::Span>& spans) {
  std::string text;
  for (const jinja::Span& span : spans) text += span.text;
  size_t at = text.rfind(content);
  if (at == std::string::npos) {
    constexpr std::string_view kSpace = " \t\r\n";
    const size_t begin = std::min(content.find_first_not_of(kSpace), content.size());
    content = content.substr(begin, content.find_last_not_of(kSpace) + 1 - begin);
    at = text.rfind(content);
  }
  if (content.empty() || at == std::string::npos) {
    return bad_field("continue_final_message",
                     "'continue_final_message' is not possible here: the chat template does not write the last "
                     "message's content as it is.");
  }
  size_t rest = at + content.size();
  for (size_t i = 0; i < spans.size(); ++i) {
    if (rest > spans[i].text.size()) {
      rest -= spans[i].text.size();
      continue;
    }
    spans[i].text.resize(rest);
    spans.resize(i + 1);
    break;
  }
  return std::nullopt;
}

// How the answer is to be read, and the grammar of the calls that it must make. What the template wrote behind the last
// message begins the answer's own turn.
std::optional<ApiError> prepare_reply(const Service& service, const ChatRequest& request,
                                      const std::vector<jinja::Span>& spans, PreparedPrompts& prepared) {
  const ToolOptions& tools = request.tools;
  reply::ParseOptions& options = prepared.reply.emplace();
  options.tool_calls = tools.choice != ToolOptions::Choice::kNone;
  for (const ToolOptions::Function& function : tools.callable) {
    options.tool_names.push_back(function.name);
    options.tool_parameters.push_back(function.parameters.is_null() ? nullptr : &function.parameters);
  }
  const bool own_text = !spans.empty() && (spans.back().from_template || request.continue_final_message);
  if (own_text) options.prompt_end = spans.back().text;
  const OutputConstraint* const constraint = request.options.constraint.get();
  if (constraint != nullptr && tools.choice != ToolOptions::Choice::kRequired) {
    const auto compiled = compile_constraint(*constraint, service.grammars);
    if (!compiled.ok()) return not_enforceable(constraint->param, compiled.status());
  }
  if (tools.choice == ToolOptions::Choice::kRequired || constrains_calls(tools, constraint)) {
    CHECK(service.reply_syntax != nullptr, "a service with chats has a reply syntax");
    const auto compiled =
        compile_tool_demand(tools, constraint, options.prompt_end, *service.reply_syntax, service.grammars);
    if (!compiled.ok()) return not_enforceable("tools", compiled.status());
    prepared.grammar = *compiled;
  } else if (request.options.constraint != nullptr) {
    // The whole text has the format: nothing in it is reasoning or a call.
    options.reasoning = false;
    options.tool_calls = false;
  }
  return std::nullopt;
}

// How much the prompts' log-probabilities would come to in an answer that writes them `copies` times.
std::optional<ApiError> check_prompt_logprobs(const GenerationOptions& options, const PreparedPrompts& prepared,
                                              size_t copies, const std::string& param) {
  if (options.prompt_logprobs < 0) return std::nullopt;
  size_t tokens = 0;
  for (const std::vector<TokenId>& prompt : prepared.tokens) tokens += prompt.size();
  const size_t count = tokens * copies * (static_cast<size_t>(options.prompt_logprobs) + 1);
  if (count <= kPromptLogprobsInAnswerMax) return std::nullopt;
  return bad_field(param, "'" + param + "' asks for " + std::to_string(count) +
                              " log-probabilities of prompt tokens (tokens times choices times candidates): at most " +
                              std::to_string(kPromptLogprobsInAnswerMax) + " are given in one answer.");
}

// What is the same for every protocol, once the prompts are there.
std::optional<ApiError> prepare_common(const Service& service, const GenerationOptions& options,
                                       PreparedPrompts& prepared) {
  for (const std::string& word : options.bad_words) {
    if (auto error = add_bad_word(service.tokenizer, word, prepared.bad_words)) return error;
  }
  // Calls that are demanded go before a format of the text.
  if (prepared.grammar != nullptr || options.constraint == nullptr) return std::nullopt;
  const auto compiled = compile_constraint(*options.constraint, service.grammars);
  if (!compiled.ok()) return not_enforceable(options.constraint->param, compiled.status());
  prepared.grammar = *compiled;
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> beyond_context(const Service& service, size_t bytes) {
  const size_t longest = std::max<size_t>(service.tokenizer.longest_token_bytes(), 1);
  return context_overflow(bytes / longest, service.engine.backend_info().context_max);
}

Prompts prepare_chat(const Service& service, const ChatRequest& request) {
  if (service.chat_template == nullptr) {
    return ApiError{.message =
                        "The model '" + service.model_name +
                        "' has no chat template: use /v1/completions, or start the server with --chat-template."};
  }
  jinja::RenderOptions options;
  options.now = local_time();
  options.trusted_variables = {"bos_token", "eos_token"};
  // Some published templates need both, and a render works on its own copy of the context.
  options.mutable_containers = true;
  options.from_json = true;
  Json context = template_context(service, request);
  Result<std::vector<jinja::Span>> spans = service.chat_template->render_spans(context, options);
  // Templates that know no tool calls may concatenate a content that is null.
  if (!spans.ok() && fill_null_contents(context["messages"])) {
    spans = service.chat_template->render_spans(context, options);
  }
  if (!spans.ok()) {
    return ApiError{.message = "The chat template cannot render these messages: " + spans.status().message(),
                    .param = "messages"};
  }
  if (request.continue_final_message) {
    if (auto error = cut_behind_content(request.messages.back()["content"].get_ref<const std::string&>(), *spans)) {
      return *error;
    }
  }
  size_t bytes = 0;
  for (const jinja::Span& span : *spans) bytes += span.text.size();
  if (auto error = beyond_context(service, bytes)) return *error;
  PreparedPrompts prepared;
  prepared.tokens.push_back(encode_chat_prompt(service.tokenizer, *spans));
  truncate(service, request.options, prepared.tokens[0]);
  if (prepared.tokens[0].empty()) {
    return ApiError{.message = "The messages render to an empty prompt.", .param = "messages"};
  }
  if (auto error = check_prompt_logprobs(request.options, prepared, /*copies=*/1, "prompt_logprobs")) return *error;
  if (auto error = prepare_reply(service, request, *spans, prepared)) return *error;
  if (auto error = prepare_common(service, request.options, prepared)) return *error;
  return prepared;
}

Prompts prepare_completion(const Service& service, const CompletionRequest& request) {
  PreparedPrompts prepared;
  std::vector<std::vector<TokenId>>& prompts = prepared.tokens;
  for (const auto& prompt : request.prompts) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
      prompts.push_back(*ids);
      truncate(service, request.options, prompts.back());
      if (request.echo) prepared.texts.push_back(decode(service.tokenizer, prompts.back()));
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
    const size_t whole = prompts.back().size();
    truncate(service, request.options, prompts.back());
    if (request.echo) {
      prepared.texts.push_back(prompts.back().size() < whole ? decode(service.tokenizer, prompts.back()) : text);
    }
    if (auto error = context_overflow(prompts.back().size(), service.engine.backend_info().context_max)) return *error;
  }
  const char* param = request.echo && request.options.sampling.logprobs >= 0 ? "logprobs" : "prompt_logprobs";
  if (auto error = check_prompt_logprobs(request.options, prepared, request.options.n, param)) return *error;
  if (auto error = prepare_common(service, request.options, prepared)) return *error;
  return prepared;
}

}  // namespace twostroke::openai
