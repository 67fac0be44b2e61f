#include "tests/bench/load/stream_reader.h"

#include <nlohmann/json.hpp>

namespace twostroke::load {
namespace {

using nlohmann::json;

const json* member(const json& value, const char* name) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(name);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

uint32_t count_of(const json& value, const char* name) {
  const json* found = member(value, name);
  return found != nullptr && found->is_number_unsigned() ? found->get<uint32_t>() : 0;
}

bool is_text(const json* value) {
  return value != nullptr && value->is_string() && !value->get_ref<const std::string&>().empty();
}

bool has_text(const json& choice) {
  if (is_text(member(choice, "text"))) return true;
  const json* delta = member(choice, "delta");
  return delta != nullptr && (is_text(member(*delta, "content")) || is_text(member(*delta, "reasoning_content")) ||
                              member(*delta, "tool_calls") != nullptr);
}

}  // namespace

bool StreamReader::take(std::string_view bytes) {
  bool text = false;
  for (;;) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    line_ += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    if (line_.starts_with("data:")) {
      std::string_view data = std::string_view(line_).substr(5);
      if (data.starts_with(' ')) data.remove_prefix(1);
      text |= take_event(data);
    }
    line_.clear();
  }
  line_ += bytes;
  return text;
}

bool StreamReader::take_event(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return false;
  }
  const json event = json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (event.is_discarded()) {
    error_ = "an event is not JSON: " + std::string(data.substr(0, 200));
    return false;
  }
  if (const json* error = member(event, "error")) error_ = "error event: " + error->dump().substr(0, 300);
  if (const json* usage = member(event, "usage")) {
    prompt_tokens_ = count_of(*usage, "prompt_tokens");
    output_tokens_ = count_of(*usage, "completion_tokens");
    if (const json* details = member(*usage, "prompt_tokens_details"))
      cached_tokens_ = count_of(*details, "cached_tokens");
  }
  const json* choices = member(event, "choices");
  if (choices == nullptr || !choices->is_array()) return false;
  bool text = false;
  for (const json& choice : *choices) text |= has_text(choice);
  return text;
}

}  // namespace twostroke::load
