#include "server/openai/chat_request.h"

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
    if (!parse_tool_arguments(fields, where, guard, message)) return;
  }
}

void refuse_tools(FieldReader& fields) {
  if (const Json* tools = fields.find("tools"); tools != nullptr && !(tools->is_array() && tools->empty())) {
    fields.fail("tools", "'tools' is not supported by this server: leave it out.");
  }
  if (const Json* choice = fields.find("tool_choice"); choice != nullptr && *choice != "none") {
    fields.fail("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.");
  }
  if (const Json* modalities = fields.find("modalities");
      modalities != nullptr && *modalities != Json::array({"text"})) {
    fields.fail("modalities", "'modalities' is not supported by this server, except [\"text\"].");
  }
  if (const Json* prompt = fields.find("add_generation_prompt"); prompt != nullptr && *prompt != true) {
    fields.fail("add_generation_prompt", "'add_generation_prompt' is not supported by this server, except true.");
  }
  if (fields.find("chat_template") != nullptr) {
    fields.fail("chat_template",
                "'chat_template' is not accepted from clients: start the server with --chat-template.");
  }
  if (fields.boolean("echo", false)) fields.fail("echo", "'echo' is not supported by this server: leave it out.");
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
  const bool logprobs = fields.boolean("logprobs", false);
  const auto top_logprobs = fields.integer("top_logprobs", 0, kTopLogprobsMax);
  if (top_logprobs && *top_logprobs > 0 && !logprobs) {
    fields.fail("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.");
  }
  if (logprobs) request.options.sampling.logprobs = static_cast<int32_t>(top_logprobs.value_or(0));
  request.template_kwargs = Json::object();
  if (const Json* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) {
      fields.fail("chat_template_kwargs",
                  "'chat_template_kwargs' must be an object, not " + json_type_name(*kwargs) + ".");
    } else {
      request.template_kwargs = *kwargs;
      for (const char* name : kReservedKwargs) {
        if (kwargs->contains(name)) {
          fields.fail("chat_template_kwargs", std::string("'chat_template_kwargs' must not set '") + name + "'.");
        }
      }
    }
  }
  refuse_tools(fields);
  refuse_unsupported(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace twostroke::openai
