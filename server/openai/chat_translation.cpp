#include "server/openai/chat_translation.h"

namespace twostroke::openai {
namespace {

// `name` is the field, or something within it.
bool stands_for(const std::string& field, const std::string& name) {
  return name.starts_with(field) &&
         (name.size() == field.size() || name[field.size()] == '.' || name[field.size()] == '[');
}

// The client's name for the chat's field; the same where it has no other.
std::string in_client_words(const FieldNames& names, const std::string& field) {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& name : names) {
    if (stands_for(name.first, field) && (best == nullptr || name.first.size() > best->first.size())) best = &name;
  }
  return best == nullptr ? field : best->second + field.substr(best->first.size());
}

}  // namespace

Json& ChatTranslation::add_message(Json message, const std::string& place) {
  Json& messages = body["messages"];
  names.emplace_back("messages[" + std::to_string(messages.size()) + "]", place);
  messages.push_back(std::move(message));
  return messages.back();
}

void copy_shared_parameters(const Json& from, Json& body) {
  // Those that chat refuses are refused here too.
  static constexpr const char* kNames[] = {
      "allowed_token_ids",
      "audio",
      "bad_words",
      "cache_salt",
      "chat_template",
      "chat_template_kwargs",
      "documents",
      "frequency_penalty",
      "function_call",
      "functions",
      "grammar",
      "guided_choice",
      "guided_grammar",
      "guided_json",
      "guided_regex",
      "ignore_eos",
      "include_reasoning",
      "include_stop_str_in_output",
      "length_penalty",
      "logit_bias",
      "min_p",
      "min_tokens",
      "modalities",
      "model",
      "prediction",
      "presence_penalty",
      "priority",
      "repetition_penalty",
      "seed",
      "skip_special_tokens",
      "slo",
      "stop",
      "stop_token_ids",
      "stream",
      "structured_outputs",
      "temperature",
      "top_k",
      "top_p",
      "truncate_prompt_tokens",
      "use_beam_search",
      "user",
      "web_search_options",
  };
  for (const char* name : kNames) {
    if (const auto found = from.find(name); found != from.end()) body[name] = *found;
  }
}

ApiError in_client_words(const FieldNames& names, ApiError error) {
  if (error.param) error.param = in_client_words(names, *error.param);
  // Names stand in quotes. An apostrophe may stand before one: what does not end in a name may be the next one's begin.
  std::string& message = error.message;
  for (size_t begin = message.find('\''); begin != std::string::npos; begin = message.find('\'', begin + 1)) {
    const size_t end = message.find('\'', begin + 1);
    if (end == std::string::npos) break;
    const std::string name = message.substr(begin + 1, end - begin - 1);
    const std::string there = in_client_words(names, name);
    if (there == name) continue;
    message.replace(begin + 1, name.size(), there);
    begin += there.size() + 1;
  }
  return error;
}

std::variant<ChatRequest, ApiError> parse_translated(const ChatTranslation& translation, int32_t vocab_size) {
  std::variant<ChatRequest, ApiError> parsed = parse_chat_request(translation.body, vocab_size);
  if (auto* error = std::get_if<ApiError>(&parsed)) return in_client_words(translation.names, std::move(*error));
  return parsed;
}

std::string string_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool append_text_part(FieldReader& fields, const Json& part, const std::string& place, Json& parts) {
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string()) {
    fields.fail(place + ".text", "'" + place + ".text' must be a string.");
    return false;
  }
  parts.push_back({{"type", "text"}, {"text", *text}});
  return true;
}

}  // namespace twostroke::openai
