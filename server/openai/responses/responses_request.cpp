#include "server/openai/responses/responses_request.h"

#include "server/openai/responses/responses_input.h"

namespace twostroke::openai {
namespace {

// Each would change the answer. What only describes the request (user, prompt_cache_key, ...) passes.
void refuse_unsupported_responses_fields(FieldReader& fields) {
  static constexpr const char* kNames[] = {"context_management", "conversation", "max_tool_calls",
                                           "moderation",         "prompt",       "image"};
  for (const char* name : kNames) {
    if (fields.find(name) == nullptr) continue;
    fields.fail(name, std::string("'") + name + "' is not supported by this server: leave it out.");
  }
  static constexpr std::pair<const char*, const char*> kRenamed[] = {{"max_completion_tokens", "max_output_tokens"},
                                                                     {"max_tokens", "max_output_tokens"},
                                                                     {"messages", "input"},
                                                                     {"reasoning_effort", "reasoning.effort"},
                                                                     {"response_format", "text.format"}};
  for (const auto& [name, own] : kRenamed) {
    if (fields.find(name) == nullptr) continue;
    fields.fail(name, std::string("'") + name + "' is not the name of it here: use '" + own + "'.");
  }
  if (const Json* n = fields.find("n"); n != nullptr && *n != 1) {
    fields.fail("n", "'n' is not supported here, except 1: a response is one answer.");
  }
  if (const Json* truncation = fields.find("truncation"); truncation != nullptr && *truncation != "disabled") {
    fields.fail("truncation", "'truncation' is not supported by this server, except \"disabled\": shorten the input.");
  }
  const Json* tier = fields.find("service_tier");
  if (tier != nullptr && *tier != "auto" && *tier != "default") {
    fields.fail("service_tier", "'service_tier' is not supported by this server, except \"auto\" and \"default\".");
  }
}

// [{"type": "function", "name", ...}]: chat has the same within "function".
void translate_tools(FieldReader& fields, ChatTranslation& translation) {
  const Json* tools = fields.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) {
    fields.fail("tools", "'tools' must be an array, not " + json_type_name(*tools) + ".");
    return;
  }
  Json& translated = translation.body["tools"] = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string place = "tools[" + std::to_string(i) + "]";
    const std::string type = tool.is_object() ? string_member(tool, "type") : "";
    if (type != "function") {
      fields.fail(place, "'" + place + "' has the type '" + type.substr(0, 40) +
                             "': this server takes tools of the type 'function' only.");
      return;
    }
    Json function = tool;
    function.erase("type");
    translated.push_back({{"type", "function"}, {"function", std::move(function)}});
    translation.names.emplace_back(place + ".function", place);
  }
}

void translate_tool_choice(FieldReader& fields, ChatTranslation& translation) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  // What a response says when it has no tools; clients send it back.
  const Json* tools = fields.find("tools");
  if (*choice == "auto" && (tools == nullptr || tools->empty())) return;
  Json& translated = translation.body["tool_choice"] = *choice;
  if (!choice->is_object()) return;
  const std::string type = string_member(*choice, "type");
  if (type == "function") {
    translated = {{"type", "function"}, {"function", {{"name", string_member(*choice, "name")}}}};
    translation.names.emplace_back("tool_choice.function", "tool_choice");
  } else if (type == "allowed_tools") {
    Json allowed = {{"mode", choice->value("mode", Json("auto"))}, {"tools", Json::array()}};
    if (const auto listed = choice->find("tools"); listed != choice->end() && listed->is_array()) {
      for (const Json& tool : *listed) {
        const std::string name = tool.is_object() ? string_member(tool, "name") : "";
        const std::string place = "tools[" + std::to_string(allowed["tools"].size()) + "]";
        translation.names.emplace_back("tool_choice.allowed_tools." + place + ".function", "tool_choice." + place);
        allowed["tools"].push_back({{"type", "function"}, {"function", {{"name", name}}}});
      }
    }
    translation.names.emplace_back("tool_choice.allowed_tools", "tool_choice");
    translated = {{"type", "allowed_tools"}, {"allowed_tools", std::move(allowed)}};
  } else {
    fields.fail("tool_choice", "'tool_choice' has the type '" + type.substr(0, 40) +
                                   "': this server takes 'function' and 'allowed_tools'.");
  }
}

// text.format is chat's response_format, with a schema's members one level higher.
void translate_text(FieldReader& fields, ChatTranslation& translation) {
  const Json* text = fields.find("text");
  if (text == nullptr) return;
  if (!text->is_object()) {
    fields.fail("text", "'text' must be an object, not " + json_type_name(*text) + ".");
    return;
  }
  FieldReader inner(*text);
  if (const Json* verbosity = inner.find("verbosity"); verbosity != nullptr && *verbosity != "medium") {
    fields.fail("text.verbosity", "'text.verbosity' is not supported by this server, except \"medium\".");
  }
  const Json* format = inner.find("format");
  if (format == nullptr) return;
  translation.names.emplace_back("response_format", "text.format");
  translation.names.emplace_back("response_format.json_schema", "text.format");
  Json& translated = translation.body["response_format"] = *format;
  if (!format->is_object() || string_member(*format, "type") != "json_schema") return;
  Json schema = *format;
  schema.erase("type");
  translated = {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

void translate_reasoning(FieldReader& fields, ChatTranslation& translation) {
  const Json* reasoning = fields.find("reasoning");
  if (reasoning == nullptr) return;
  if (!reasoning->is_object()) {
    fields.fail("reasoning", "'reasoning' must be an object, not " + json_type_name(*reasoning) + ".");
    return;
  }
  FieldReader inner(*reasoning);
  for (const char* name : {"summary", "generate_summary"}) {
    const Json* summary = inner.find(name);
    if (summary == nullptr || *summary == "auto") continue;
    const std::string place = std::string("reasoning.") + name;
    fields.fail(place, "'" + place + "' is not supported by this server, except \"auto\": reasoning goes out in full.");
  }
  if (const Json* effort = inner.find("effort")) {
    translation.body["reasoning_effort"] = *effort;
    translation.names.emplace_back("reasoning_effort", "reasoning.effort");
  }
}

void translate_include(FieldReader& fields, ChatTranslation& translation) {
  bool logprobs = false;
  if (const Json* include = fields.find("include")) {
    if (!include->is_array()) {
      fields.fail("include", "'include' must be an array, not " + json_type_name(*include) + ".");
      return;
    }
    for (const Json& name : *include) {
      if (name == "message.output_text.logprobs") {
        logprobs = true;
        continue;
      }
      const std::string text = name.is_string() ? name.get<std::string>().substr(0, 60) : json_type_name(name);
      fields.fail("include", "'include' has '" + text + "': this server can add message.output_text.logprobs only.");
    }
  }
  const Json* top = fields.find("top_logprobs");
  if (logprobs) translation.body["logprobs"] = true;
  if (top != nullptr) translation.body["top_logprobs"] = *top;
  if (top != nullptr && !logprobs && *top != 0) {
    fields.fail("top_logprobs", "'top_logprobs' needs \"message.output_text.logprobs\" in 'include'.");
  }
}

void check_metadata(FieldReader& fields) {
  const Json* metadata = fields.find("metadata");
  if (metadata == nullptr) return;
  bool fits = metadata->is_object() && metadata->size() <= kMetadataPairsMax;
  if (fits) {
    for (const auto& [key, value] : metadata->items()) {
      fits = fits && key.size() <= kMetadataKeyBytesMax && value.is_string() &&
             value.get_ref<const std::string&>().size() <= kMetadataValueBytesMax;
    }
  }
  if (fits) return;
  fields.fail("metadata", "'metadata' must be an object of at most " + std::to_string(kMetadataPairsMax) +
                              " strings, with keys of up to " + std::to_string(kMetadataKeyBytesMax) +
                              " bytes and values of up to " + std::to_string(kMetadataValueBytesMax) + ".");
}

Json echo_of(const Json& body, const ResponsesRequest& request) {
  static const Json kDefaults = Json::parse(R"({
    "background": false, "instructions": null, "max_output_tokens": null, "max_tool_calls": null, "metadata": {},
    "parallel_tool_calls": true, "previous_response_id": null, "prompt_cache_key": null,
    "reasoning": {"effort": null, "summary": null}, "safety_identifier": null, "service_tier": "default",
    "store": true, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": null})");
  Json echo = kDefaults;
  for (auto& [name, value] : echo.items()) {
    const auto found = body.find(name);
    if (found == body.end() || found->is_null()) continue;
    if (value.is_object() && name != "metadata") {
      for (const auto& [key, member] : found->items()) value[key] = member;
    } else {
      value = *found;
    }
  }
  echo["service_tier"] = "default";
  echo["store"] = request.store;
  return echo;
}

}  // namespace

std::variant<ResponsesRequest, ApiError> parse_responses_request(const Json& body, int32_t vocab_size) {
  FieldReader fields(body);
  ResponsesRequest request;
  ChatTranslation translation;
  translation.names = {
      {"messages", "input"}, {"max_completion_tokens", "max_output_tokens"}, {"max_tokens", "max_output_tokens"}};
  copy_shared_parameters(body, translation.body);
  if (const auto instructions = fields.string("instructions")) {
    translation.add_message({{"role", "system"}, {"content", *instructions}}, "instructions");
    request.has_instructions = true;
  }
  request.input_items = Json::array();
  if (const Json* input = fields.find("input")) {
    translate_responses_input(fields, *input, translation, request.input_items);
  }
  if (request.input_items.empty()) fields.fail("input", "'input' must be a string or a non-empty array of items.");
  if (const Json* parallel = fields.find("parallel_tool_calls")) translation.body["parallel_tool_calls"] = *parallel;
  if (const Json* max_tokens = fields.find("max_output_tokens")) {
    translation.body["max_completion_tokens"] = *max_tokens;
  }
  translate_tools(fields, translation);
  translate_tool_choice(fields, translation);
  translate_text(fields, translation);
  translate_reasoning(fields, translation);
  translate_include(fields, translation);
  check_metadata(fields);
  // They do not change the answer, but it repeats them.
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) fields.string(name);
  refuse_unsupported_responses_fields(fields);
  request.store = fields.boolean("store", true);
  request.background = fields.boolean("background", false);
  request.previous_response_id = fields.string("previous_response_id");
  if (request.background && fields.boolean("stream", false)) {
    fields.fail("background", "'background' cannot be combined with 'stream': ask for the response by its id.");
  }
  if (request.background && !request.store) {
    fields.fail("background", "'background' needs 'store': the answer could not be asked for otherwise.");
  }
  if (fields.error()) return *fields.error();
  std::variant<ChatRequest, ApiError> chat = parse_translated(translation, vocab_size);
  if (auto* error = std::get_if<ApiError>(&chat)) return std::move(*error);
  request.chat = std::get<ChatRequest>(std::move(chat));
  request.names = std::move(translation.names);
  request.echo = echo_of(body, request);
  return request;
}

std::optional<ApiError> insert_history(ResponsesRequest& request, Json&& history) {
  Json& messages = request.chat.messages;
  if (messages.size() + history.size() > kMessagesMax) {
    return bad_field("previous_response_id",
                     "The conversation has more than " + std::to_string(kMessagesMax) + " messages: begin a new one.");
  }
  Json all = Json::array();
  const size_t first = request.has_instructions ? 1 : 0;
  for (size_t i = 0; i < first; ++i) all.push_back(std::move(messages[i]));
  for (Json& message : history) all.push_back(std::move(message));
  for (size_t i = first; i < messages.size(); ++i) all.push_back(std::move(messages[i]));
  messages = std::move(all);
  return std::nullopt;
}

}  // namespace twostroke::openai
