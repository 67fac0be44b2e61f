#include "server/openai/anthropic/anthropic_request.h"

#include "server/openai/anthropic/anthropic_messages.h"

namespace twostroke::openai {
namespace {

// Each would change the answer. What only describes the request (metadata, cache_control, ...) passes.
void refuse_unsupported_anthropic_fields(FieldReader& fields) {
  for (const char* name : {"container", "context_management", "mcp_servers"}) {
    const Json* value = fields.find(name);
    if (value == nullptr || (value->is_array() && value->empty())) continue;
    fields.fail(name, std::string("'") + name + "' is not supported by this server: leave it out.");
  }
  if (const Json* n = fields.find("n"); n != nullptr && *n != 1) {
    fields.fail("n", "'n' is not supported here, except 1: a message is one answer.");
  }
  if (const Json* speed = fields.find("speed"); speed != nullptr && *speed != "standard") {
    fields.fail("speed", "'speed' is not supported by this server, except \"standard\".");
  }
}

void translate_sampling(FieldReader& fields, bool needs_max_tokens, ChatTranslation& translation) {
  copy_shared_parameters(fields.object(), translation.body);
  // Anthropic's range is narrower than chat's.
  fields.number("temperature", 1, 0, 1);
  const auto max_tokens = fields.integer("max_tokens", 1, INT32_MAX);
  if (max_tokens) translation.body["max_tokens"] = *max_tokens;
  if (!max_tokens && needs_max_tokens) {
    fields.fail("max_tokens", "'max_tokens' is missing: say how many tokens the answer may have at most.");
  }
  if (const Json* stop = fields.find("stop_sequences")) {
    if (!stop->is_array()) {
      fields.fail("stop_sequences", "'stop_sequences' must be an array of strings, not " + json_type_name(*stop) + ".");
    } else if (!stop->empty()) {
      translation.body["stop"] = *stop;
    }
    translation.names.emplace_back("stop", "stop_sequences");
  }
}

void translate_anthropic_tools(FieldReader& fields, ChatTranslation& translation) {
  const Json* tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) {
    fields.fail("tools", "'tools' must be an array, not " + json_type_name(*tools) + ".");
    return;
  }
  if (tools->empty()) return;
  Json& translated = translation.body["tools"] = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string place = "tools[" + std::to_string(i) + "]";
    if (!tool.is_object()) {
      fields.fail(place, "'" + place + "' must be an object, not " + json_type_name(tool) + ".");
      return;
    }
    const std::string type = string_member(tool, "type");
    if (!type.empty() && type != "custom") {
      fields.fail(place + ".type", "'" + place + ".type' is '" + type.substr(0, 40) +
                                       "': this server takes tools of the client only, with an 'input_schema'.");
      return;
    }
    const auto schema = tool.find("input_schema");
    if (schema == tool.end() || !schema->is_object()) {
      fields.fail(place + ".input_schema", "'" + place + ".input_schema' must be an object.");
      return;
    }
    Json function = {{"name", tool.value("name", Json())}};
    if (const auto description = tool.find("description"); description != tool.end()) {
      function["description"] = *description;
    }
    function["parameters"] = *schema;
    translated.push_back({{"type", "function"}, {"function", std::move(function)}});
    translation.names.emplace_back(place + ".function", place);
    translation.names.emplace_back(place + ".function.parameters", place + ".input_schema");
  }
}

void translate_anthropic_tool_choice(FieldReader& fields, ChatTranslation& translation) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const std::string type = choice->is_object() ? string_member(*choice, "type") : "";
  Json& body = translation.body;
  if (type == "auto" || type == "none") {
    body["tool_choice"] = type;
  } else if (type == "any") {
    body["tool_choice"] = "required";
  } else if (type == "tool") {
    body["tool_choice"] = {{"type", "function"}, {"function", {{"name", string_member(*choice, "name")}}}};
    translation.names.emplace_back("tool_choice.function", "tool_choice");
  } else {
    fields.fail("tool_choice", "'tool_choice' must be an object with the type 'auto', 'any', 'tool' or 'none'.");
    return;
  }
  FieldReader inner(*choice, "tool_choice.");
  if (inner.boolean("disable_parallel_tool_use", false)) body["parallel_tool_calls"] = false;
  fields.fail(inner);
}

// Templates that can leave thinking out ask `enable_thinking` (Qwen3 and its followers) or `thinking` (DeepSeek V3.1).
// A budget cannot be held: max_tokens bounds thinking and text together.
void translate_thinking(FieldReader& fields, ChatTranslation& translation, bool& shows_thinking) {
  const Json* thinking = fields.find("thinking");
  if (thinking == nullptr) return;
  const std::string type = thinking->is_object() ? string_member(*thinking, "type") : "";
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    fields.fail("thinking", "'thinking' must be an object with the type 'enabled', 'adaptive' or 'disabled'.");
    return;
  }
  const bool enabled = type != "disabled";
  shows_thinking = enabled && string_member(*thinking, "display") != "omitted";
  Json& kwargs = translation.body["chat_template_kwargs"];
  if (kwargs.is_null()) kwargs = Json::object();
  if (!kwargs.is_object()) return;  // refused with the rest of the chat request
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!kwargs.contains(name)) kwargs[name] = enabled;
  }
}

void translate_output_config(FieldReader& fields, ChatTranslation& translation) {
  const Json* config = fields.find("output_config");
  if (config == nullptr) return;
  if (!config->is_object()) {
    fields.fail("output_config", "'output_config' must be an object, not " + json_type_name(*config) + ".");
    return;
  }
  FieldReader inner(*config);
  if (const Json* effort = inner.find("effort")) {
    translation.body["reasoning_effort"] = *effort;
    translation.names.emplace_back("reasoning_effort", "output_config.effort");
  }
  const Json* format = inner.find("format");
  if (format == nullptr) return;
  const auto schema = format->is_object() ? format->find("schema") : format->end();
  if (!format->is_object() || string_member(*format, "type") != "json_schema" || schema == format->end()) {
    fields.fail("output_config.format", "'output_config.format' must be {\"type\": \"json_schema\", \"schema\": ...}.");
    return;
  }
  translation.body["response_format"] = {{"type", "json_schema"},
                                         {"json_schema", {{"name", "output"}, {"schema", *schema}}}};
  translation.names.emplace_back("response_format", "output_config.format");
  translation.names.emplace_back("response_format.json_schema", "output_config.format");
}

std::variant<AnthropicRequest, ApiError> parse_conversation(const Json& body, int32_t vocab_size,
                                                            bool needs_max_tokens) {
  FieldReader fields(body);
  AnthropicRequest request;
  ChatTranslation translation;
  translate_anthropic_messages(fields, translation);
  translate_sampling(fields, needs_max_tokens, translation);
  translate_anthropic_tools(fields, translation);
  translate_anthropic_tool_choice(fields, translation);
  translate_thinking(fields, translation, request.shows_thinking);
  translate_output_config(fields, translation);
  refuse_unsupported_anthropic_fields(fields);
  if (fields.error()) return *fields.error();
  if (translation.body["messages"].back()["role"] == "assistant") {
    translation.body["continue_final_message"] = true;
    translation.body["add_generation_prompt"] = false;
    translation.names.emplace_back("continue_final_message", "messages");
  }
  std::variant<ChatRequest, ApiError> chat = parse_translated(translation, vocab_size);
  if (auto* error = std::get_if<ApiError>(&chat)) return std::move(*error);
  request.chat = std::get<ChatRequest>(std::move(chat));
  request.names = std::move(translation.names);
  request.model = request.chat.model;
  return request;
}

}  // namespace

std::variant<AnthropicRequest, ApiError> parse_anthropic_request(const Json& body, int32_t vocab_size) {
  return parse_conversation(body, vocab_size, /*needs_max_tokens=*/true);
}

std::variant<AnthropicRequest, ApiError> parse_count_tokens_request(const Json& body, int32_t vocab_size) {
  return parse_conversation(body, vocab_size, /*needs_max_tokens=*/false);
}

}  // namespace twostroke::openai
