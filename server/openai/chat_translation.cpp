#include "server/openai/chat_translation.h"

namespace twostroke::openai {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// `name` is the field, or something within it.
bool stands_for(const std::string& field, const std::string& name) {
  return name.starts_with(field) &&
         (name.size() == field.size() || name[field.size()] == '.' || name[field.size()] == '[');
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
      "web_search_options",
  };
  for (const char* name : kNames) {
    if (const auto found = from.find(name); found != from.end()) body[name] = *found;
  }
}

ApiError in_client_words(const FieldNames& names, ApiError error) {
  if (!error.param) return error;
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& name : names) {
    if (stands_for(name.first, *error.param) && (best == nullptr || name.first.size() > best->first.size())) {
      best = &name;
    }
  }
  if (best == nullptr) return error;
  const std::string there = best->second + error.param->substr(best->first.size());
  replace_all(error.message, "'" + *error.param + "'", "'" + there + "'");
  replace_all(error.message, "'" + best->first + "'", "'" + best->second + "'");
  error.param = there;
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
