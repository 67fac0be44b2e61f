#include "server/text/jinja/json_guard.h"

namespace twostroke {

Status JsonGuard::check(std::string_view text) {
  members_.clear();
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        node_bytes_ += kStringBytes;
        break;
      case '[':
      case '{':
        if (members_.size() >= static_cast<size_t>(depth_max_)) {
          return invalid_argument("is nested more than " + std::to_string(depth_max_) + " levels deep");
        }
        members_.push_back(0);
        node_bytes_ += kContainerBytes + kValueBytes;  // its first value, if it has one, has no comma before it
        break;
      case ']':
      case '}':
        if (!members_.empty()) members_.pop_back();
        break;
      case ',':
        node_bytes_ += kValueBytes;
        break;
      case ':':  // a new name is compared with those before it
        node_bytes_ += kValueBytes;
        if (members_.empty()) break;
        name_comparisons_ += members_.back()++;
        if (name_comparisons_ > kNameComparisonsMax) return invalid_argument("has objects with too many members");
        break;
      default:
        break;
    }
    if (node_bytes_ > kNodeBytesMax) {
      return invalid_argument("has too many values: parsed, they would take more than " +
                              std::to_string(kNodeBytesMax >> 20) + " MiB");
    }
  }
  return {};
}

}  // namespace twostroke
