#include "server/openai/anthropic/anthropic_messages.h"

namespace twostroke::openai {
namespace {

class BlockTranslator {
 public:
  BlockTranslator(FieldReader& fields, ChatTranslation& translation) : fields_(fields), translation_(translation) {}

  void system() {
    const Json* value = fields_.find("system");
    Json content;
    if (value == nullptr || !text_of(*value, "system", content)) return;
    if (content.empty()) return;  // no blocks
    translation_.add_message({{"role", "system"}, {"content", std::move(content)}}, "system");
  }

  void message(const Json& message, const std::string& place) {
    if (!message.is_object()) {
      fields_.fail(place, "'" + place + "' must be an object, not " + json_type_name(message) + ".");
      return;
    }
    const std::string role = string_member(message, "role");
    if (role != "user" && role != "assistant" && role != "system") {
      fields_.fail(place + ".role", "'" + place + ".role' must be one of user, assistant, system.");
      return;
    }
    const auto content = message.find("content");
    if (content == message.end() || (!content->is_string() && !content->is_array())) {
      fields_.fail(place + ".content", "'" + place + ".content' must be a string or an array of blocks.");
      return;
    }
    if (content->is_string()) {
      translation_.add_message({{"role", role}, {"content", *content}}, place);
    } else if (role == "assistant") {
      assistant(*content, place);
    } else {
      user(*content, role, place);
    }
  }

 private:
  // The text of a string or of text blocks, as chat's content. False: failed.
  bool text_of(const Json& value, const std::string& place, Json& content) {
    if (value.is_string()) {
      content = value;
      return true;
    }
    if (!value.is_array()) {
      fields_.fail(place, "'" + place + "' must be a string or an array of blocks, not " + json_type_name(value) + ".");
      return false;
    }
    content = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string where = place + "[" + std::to_string(i) + "]";
      const std::string type = type_of(value[i]);
      if (type != "text") return refuse_block(where, type);
      if (!append_text_part(fields_, value[i], where, content)) return false;
    }
    return true;
  }

  static std::string type_of(const Json& block) { return block.is_object() ? string_member(block, "type") : ""; }

  bool refuse_block(const std::string& place, const std::string& type) {
    fields_.fail(place, "'" + place + "' has the type '" + type.substr(0, 40) + "', which is not supported here.");
    return false;
  }

  // A member that must be a string; "" and a failure otherwise.
  std::string required(const Json& block, const char* name, const std::string& place) {
    std::string text = string_member(block, name);
    if (text.empty())
      fields_.fail(place + "." + name, "'" + place + "." + name + "' must be a string that is not empty.");
    return text;
  }

  void user(const Json& blocks, const std::string& role, const std::string& place) {
    Json parts = Json::array();
    const auto flush = [&] {
      if (!parts.empty()) translation_.add_message({{"role", role}, {"content", std::move(parts)}}, place);
      parts = Json::array();
    };
    for (size_t i = 0; i < blocks.size() && !fields_.error(); ++i) {
      const Json& block = blocks[i];
      const std::string where = place + ".content[" + std::to_string(i) + "]";
      const std::string type = type_of(block);
      if (type == "text") {
        append_text_part(fields_, block, where, parts);
      } else if (type == "tool_result" && role == "user") {
        flush();
        tool_result(block, where);
      } else {
        refuse_block(where, type);
      }
    }
    if (blocks.empty()) fields_.fail(place + ".content", "'" + place + ".content' has no blocks.");
    flush();
  }

  // `is_error` only describes the text that says so.
  void tool_result(const Json& block, const std::string& place) {
    Json content = "";
    const auto value = block.find("content");
    if (value != block.end() && !value->is_null() && !text_of(*value, place + ".content", content)) return;
    if (content.empty()) content = "";
    const std::string id = required(block, "tool_use_id", place);
    translation_.add_message({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(content)}}, place);
  }

  void assistant(const Json& blocks, const std::string& place) {
    Json parts = Json::array(), calls = Json::array();
    std::string reasoning;
    for (size_t i = 0; i < blocks.size() && !fields_.error(); ++i) {
      const Json& block = blocks[i];
      const std::string where = place + ".content[" + std::to_string(i) + "]";
      const std::string type = type_of(block);
      if (type == "text") {
        append_text_part(fields_, block, where, parts);
      } else if (type == "thinking") {
        if (!reasoning.empty()) reasoning += '\n';
        reasoning += string_member(block, "thinking");
      } else if (type == "tool_use") {
        const auto input = block.find("input");
        if (input == block.end() || !input->is_object()) {
          fields_.fail(where + ".input", "'" + where + ".input' must be an object.");
          return;
        }
        calls.push_back({{"id", required(block, "id", where)},
                         {"type", "function"},
                         {"function", {{"name", required(block, "name", where)}, {"arguments", *input}}}});
      } else {
        refuse_block(where, type);
      }
    }
    Json message = {{"role", "assistant"}, {"content", nullptr}};
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    if (parts.empty() && calls.empty()) message["content"] = "";
    if (!parts.empty()) message["content"] = std::move(parts);
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    translation_.add_message(std::move(message), place);
  }

  FieldReader& fields_;
  ChatTranslation& translation_;
};

}  // namespace

void translate_anthropic_messages(FieldReader& fields, ChatTranslation& translation) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "'messages' must be a non-empty array of messages.");
    return;
  }
  if (messages->size() > kMessagesMax) {
    fields.fail("messages", "'messages' may hold at most " + std::to_string(kMessagesMax) + " messages, not " +
                                std::to_string(messages->size()) + ".");
    return;
  }
  BlockTranslator translator(fields, translation);
  translator.system();
  for (size_t i = 0; i < messages->size() && !fields.error(); ++i) {
    translator.message((*messages)[i], "messages[" + std::to_string(i) + "]");
  }
}

}  // namespace twostroke::openai
