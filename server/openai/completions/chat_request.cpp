#include "server/openai/completions/chat_request.h"

#include <algorithm>
#include <array>

namespace twostroke::openai {
namespace {

constexpr std::array<const char*, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
// Names that the server itself gives to a template; chat_template_kwargs must not replace them.
constexpr std::array<const char*, 5> kReservedKwargs = {"messages", "add_generation_prompt", "bos_token", "eos_token",
                                                        "tools"};

// Text parts become one string. Other parts would need a model with other senses than text.
bool flatten_content(FieldReader& fields, const std::string& where, Json& message) {
  Json& content = message["content"];
  if (content.is_string() || content.is_null()) return true;
  if (!content.is_array()) {
    fields.fail(where + ".content", "'" + where + ".content' must be a string, an array of parts or null, not " +
                                        json_type_name(content) + ".");
    return false;
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string place = where + ".content[" + std::to_string(i) + "]";
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      fields.fail(place, "'" + place + "' must be an object with a string 'type'.");
      return false;
    }
    const std::string type = part["type"].get<std::string>();
    if (type != "text") {
      fields.fail(place,
                  "'" + place + "' has the type '" + type.substr(0, 40) + "': this model takes text parts only.");
      return false;
    }
    if (!part.contains("text") || !part["text"].is_string()) {
      fields.fail(place + ".text", "'" + place + ".text' must be a string.");
      return false;
    }
    if (i > 0) text += '\n';
    text += part["text"].get<std::string>();
  }
  content = text;
  return true;
}

// Templates print arguments as objects; clients send them as the JSON text that the model wrote.
bool parse_tool_arguments(FieldReader& fields, const std::string& where, JsonGuard& guard, Json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return true;
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    Status cost;
    std::optional<Json> parsed = parse_inner_object(function["arguments"].get_ref<const std::string&>(), guard, cost);
    if (!cost.ok()) {
      fields.fail(where + ".tool_calls",
                  "The JSON in the arguments of a call in '" + where + ".tool_calls' " + cost.message() + ".");
      return false;
    }
    if (parsed) function["arguments"] = std::move(*parsed);
  }
  return true;
}

void read_messages(FieldReader& fields, Json& messages) {
  const Json* value = fields.find("messages");
  if (value == nullptr || !value->is_array() || value->empty()) {
    fields.fail("messages", "'messages' must be a non-empty array of messages.");
    return;
  }
  if (value->size() > kMessagesMax) {
    fields.fail("messages", "'messages' may hold at most " + std::to_string(kMessagesMax) + " messages, not " +
                                std::to_string(value->size()) + ".");
    return;
  }
  messages = *value;
  JsonGuard guard(kJsonDepthMax);
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (!message.is_object()) {
      fields.fail(where, "'" + where + "' must be an object, not " + json_type_name(message) + ".");
      return;
    }
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string() ||
        std::find(kRoles.begin(), kRoles.end(), role->get<std::string>()) == kRoles.end()) {
      fields.fail(where + ".role", "'" + where + ".role' must be one of system, developer, user, assistant, tool.");
      return;
    }
    const bool assistant = *role == "assistant";
    if (!message.contains("content")) message["content"] = nullptr;
    if (message["content"].is_null() && !assistant) {
      fields.fail(where + ".content", "'" + where + ".content' is missing: only an assistant's message may have none.");
      return;
    }
    if (!flatten_content(fields, where, message)) return;
    // Templates concatenate content, where they do not ask for tool calls first.
    const auto calls = message.find("tool_calls");
    const bool has_calls = calls != message.end() && calls->is_array() && !calls->empty();
    if (message["content"].is_null() && !has_calls) message["content"] = "";
    if (!parse_tool_arguments(fields, where, guard, message)) return;
  }
}

void read_template_kwargs(FieldReader& fields, Json& kwargs) {
  kwargs = Json::object();
  if (const Json* own = fields.find("chat_template_kwargs")) {
    if (!own->is_object()) {
      fields.fail("chat_template_kwargs",
                  "'chat_template_kwargs' must be an object, not " + json_type_name(*own) + ".");
      return;
    }
    for (const char* name : kReservedKwargs) {
      if (own->contains(name)) {
        fields.fail("chat_template_kwargs", std::string("'chat_template_kwargs' must not set '") + name + "'.");
      }
    }
    kwargs = *own;
  }
  if (const Json* documents = fields.find("documents")) {
    const bool objects = documents->is_array() && std::all_of(documents->begin(), documents->end(),
                                                              [](const Json& item) { return item.is_object(); });
    if (!objects) fields.fail("documents", "'documents' must be an array of objects.");
    kwargs["documents"] = *documents;
  }
  if (const auto effort = fields.string("reasoning_effort")) kwargs["reasoning_effort"] = *effort;
}

void read_prompt_end(FieldReader& fields, ChatRequest& request) {
  request.continue_final_message = fields.boolean("continue_final_message", false);
  request.add_generation_prompt = fields.boolean("add_generation_prompt", !request.continue_final_message);
  if (request.continue_final_message && request.add_generation_prompt) {
    fields.fail("continue_final_message",
                "'continue_final_message' and 'add_generation_prompt' cannot both be true: the prompt either ends "
                "within the last message or begins a new one.");
  }
  if (request.continue_final_message && !fields.error()) {
    const Json& content = request.messages.back()["content"];
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      fields.fail("continue_final_message", "'continue_final_message' needs a last message that has content.");
    }
  }
  request.echo = fields.boolean("echo", false);
}

void refuse_unsupported_chat(FieldReader& fields) {
  if (const Json* modalities = fields.find("modalities");
      modalities != nullptr && *modalities != Json::array({"text"})) {
    fields.fail("modalities", "'modalities' is not supported by this server, except [\"text\"].");
  }
  if (fields.find("chat_template") != nullptr) {
    fields.fail("chat_template",
                "'chat_template' is not accepted from clients: start the server with --chat-template.");
  }
  for (const char* name : {"functions", "function_call"}) {
    if (fields.find(name) != nullptr) {
      fields.fail(name, std::string("'") + name + "' is not supported by this server: use 'tools' and 'tool_choice'.");
    }
  }
}

}  // namespace

std::variant<ChatRequest, ApiError> parse_chat_request(const Json& body, int32_t vocab_size) {
  FieldReader fields(body);
  ChatRequest request;
  request.model = fields.string("model").value_or("");
  read_messages(fields, request.messages);
  request.options = read_generation_options(fields, vocab_size);
  if (const auto tokens = fields.integer("max_completion_tokens", 1, INT32_MAX)) {
    request.options.max_tokens = static_cast<uint32_t>(*tokens);  // the newer name wins
  }
  GenerationOptions& options = request.options;
  if (options.max_tokens == 0U) fields.fail("max_tokens", "'max_tokens' must be at least 1.");
  if (options.max_tokens && options.min_tokens > *options.max_tokens) {
    fields.fail("min_tokens",
                "'min_tokens' must not be greater than 'max_tokens' (" + std::to_string(*options.max_tokens) + ").");
  }
  const bool logprobs = fields.boolean("logprobs", false);
  const auto top_logprobs = fields.integer("top_logprobs", 0, kTopLogprobsMax);
  if (top_logprobs && *top_logprobs > 0 && !logprobs) {
    fields.fail("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.");
  }
  if (logprobs) request.options.sampling.logprobs = static_cast<int32_t>(top_logprobs.value_or(0));
  read_template_kwargs(fields, request.template_kwargs);
  request.tools = read_tool_options(fields);
  request.options.parallel_tool_calls = request.tools.parallel;
  if (request.tools.choice == ToolOptions::Choice::kRequired && options.ignore_eos) {
    fields.fail("ignore_eos", "'ignore_eos' is not possible with a 'tool_choice' that demands a call.");
  }
  read_prompt_end(fields, request);
  refuse_unsupported_chat(fields);
  refuse_unsupported(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace twostroke::openai
