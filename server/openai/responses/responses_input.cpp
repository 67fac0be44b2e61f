#include "server/openai/responses/responses_input.h"

#include <algorithm>
#include <array>

#include "server/openai/random_id.h"

namespace twostroke::openai {
namespace {

constexpr std::array<std::string_view, 4> kItemRoles = {"user", "assistant", "system", "developer"};

class InputTranslator {
 public:
  InputTranslator(FieldReader& fields, ChatTranslation& translation, Json& items)
      : fields_(fields), translation_(translation), items_(items) {}

  void item(const Json& item, const std::string& place) {
    if (!item.is_object()) {
      fields_.fail(place, "'" + place + "' must be an object, not " + json_type_name(item) + ".");
      return;
    }
    const std::string type = item.contains("role") && !item.contains("type") ? "message" : string_member(item, "type");
    if (type == "message") {
      message(item, place);
    } else if (type == "function_call") {
      call(item, place);
    } else if (type == "function_call_output") {
      call_output(item, place);
    } else if (type == "reasoning") {
      reasoning(item, place);
    } else {
      fields_.fail(place + ".type", "'" + place + ".type' is '" + type.substr(0, 40) +
                                        "': this server takes message, function_call, function_call_output and "
                                        "reasoning items.");
    }
  }

 private:
  void list(Json item, const char* prefix) {
    if (string_member(item, "id").empty()) item["id"] = new_id(prefix);
    if (!item.contains("status")) item["status"] = "completed";
    items_.push_back(std::move(item));
  }

  // The text of a string or of text parts, as chat's content. False: failed.
  bool content_of(const Json& value, const std::string& place, Json& content) {
    if (value.is_string()) {
      content = value;
      return true;
    }
    if (!value.is_array()) {
      fields_.fail(place, "'" + place + "' must be a string or an array of parts, not " + json_type_name(value) + ".");
      return false;
    }
    content = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      const Json& part = value[i];
      const std::string where = place + "[" + std::to_string(i) + "]";
      const std::string type = part.is_object() ? string_member(part, "type") : "";
      if (type == "input_text" || type == "output_text" || type == "text") {
        if (!append_text_part(fields_, part, where, content)) return false;
      } else if (type == "refusal") {
        content.push_back({{"type", "text"}, {"text", string_member(part, "refusal")}});
      } else {
        fields_.fail(where,
                     "'" + where + "' has the type '" + type.substr(0, 40) + "': this model takes text parts only.");
        return false;
      }
    }
    return true;
  }

  // The assistant's message that gathers the items of its turn: the last one, if it can still take what is to come
  // (reasoning, then content, then calls), else a new one.
  Json& turn(std::string_view field, const std::string& place) {
    if (open_turn_) {
      Json& last = translation_.body["messages"].back();
      const bool calls = last.contains("tool_calls");
      if (field == "tool_calls" || (field == "content" && last["content"].is_null() && !calls)) return last;
    }
    open_turn_ = true;
    return translation_.add_message({{"role", "assistant"}, {"content", nullptr}}, place);
  }

  void message(const Json& item, const std::string& place) {
    const std::string role = string_member(item, "role");
    if (std::find(kItemRoles.begin(), kItemRoles.end(), role) == kItemRoles.end()) {
      fields_.fail(place + ".role", "'" + place + ".role' must be one of user, assistant, system, developer.");
      return;
    }
    const auto found = item.find("content");
    if (found == item.end()) {
      fields_.fail(place + ".content", "'" + place + ".content' is missing.");
      return;
    }
    Json content;
    if (!content_of(*found, place + ".content", content)) return;
    Json listed = item;
    listed["type"] = "message";
    if (found->is_string()) {
      listed["content"] =
          Json::array({{{"type", role == "assistant" ? "output_text" : "input_text"}, {"text", *found}}});
      if (role == "assistant") listed["content"][0]["annotations"] = Json::array();
    }
    list(std::move(listed), "msg_");
    if (role == "assistant") {
      turn("content", place)["content"] = std::move(content);
      return;
    }
    open_turn_ = false;
    translation_.add_message({{"role", role}, {"content", std::move(content)}}, place);
  }

  void call(const Json& item, const std::string& place) {
    for (const char* name : {"call_id", "name", "arguments"}) {
      const auto found = item.find(name);
      if (found != item.end() && found->is_string()) continue;
      fields_.fail(place + "." + name, "'" + place + "." + name + "' must be a string.");
      return;
    }
    Json& calls = turn("tool_calls", place)["tool_calls"];
    calls.push_back({{"id", item["call_id"]},
                     {"type", "function"},
                     {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
    list(item, "fc_");
  }

  void call_output(const Json& item, const std::string& place) {
    const std::string call_id = string_member(item, "call_id");
    if (call_id.empty()) {
      fields_.fail(place + ".call_id", "'" + place + ".call_id' must be a string.");
      return;
    }
    const auto output = item.find("output");
    if (output == item.end()) {
      fields_.fail(place + ".output", "'" + place + ".output' is missing.");
      return;
    }
    Json content;
    if (!content_of(*output, place + ".output", content)) return;
    open_turn_ = false;
    translation_.add_message({{"role", "tool"}, {"tool_call_id", call_id}, {"content", std::move(content)}}, place);
    list(item, "fco_");
  }

  // What the model thought; else, in what another server made, its summary.
  void reasoning(const Json& item, const std::string& place) {
    std::string text;
    for (const char* name : {"content", "summary"}) {
      const auto parts = item.find(name);
      if (parts == item.end() || !parts->is_array() || !text.empty()) continue;
      for (const Json& part : *parts) {
        if (!part.is_object()) continue;
        if (!text.empty()) text += '\n';
        text += string_member(part, "text");
      }
    }
    if (!text.empty()) turn("reasoning_content", place)["reasoning_content"] = text;
    list(item, "rs_");
  }

  FieldReader& fields_;
  ChatTranslation& translation_;
  Json& items_;
  bool open_turn_ = false;  // the last message is an assistant's, and its turn is not over
};

}  // namespace

void translate_responses_input(FieldReader& fields, const Json& input, ChatTranslation& translation, Json& items) {
  InputTranslator translator(fields, translation, items);
  if (input.is_string()) {
    translator.item({{"type", "message"}, {"role", "user"}, {"content", input}}, "input");
    return;
  }
  if (!input.is_array()) {
    fields.fail("input", "'input' must be a string or an array of items, not " + json_type_name(input) + ".");
    return;
  }
  if (input.size() > kMessagesMax) {
    fields.fail("input", "'input' may hold at most " + std::to_string(kMessagesMax) + " items, not " +
                             std::to_string(input.size()) + ".");
    return;
  }
  for (size_t i = 0; i < input.size() && !fields.error(); ++i) {
    translator.item(input[i], "input[" + std::to_string(i) + "]");
  }
}

}  // namespace twostroke::openai
