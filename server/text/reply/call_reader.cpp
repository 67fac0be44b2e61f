#include "server/text/reply/call_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

// The string that a JSON text is, or nothing.
std::optional<std::string> decoded_string(std::string_view json) {
  const Json value = Json::parse(json, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

// Arguments that are a JSON object, or a string that holds one, or null for none.
class JsonArguments : public ArgumentsReader {
 public:
  Step feed(char byte, std::string& json) override {
    if (form_ == Form::kOpen) {
      if (is_space(byte)) return Step::kMore;
      form_ = byte == '{' ? Form::kObject : Form::kOther;
      if (byte != '{' && byte != '"' && byte != 'n') return Step::kRefused;
    }
    if (form_ == Form::kObject) return scanner_.feed(byte, json);
    if (held_.size() > kHeldBytesMax) return Step::kRefused;
    const Step step = scanner_.feed(byte, held_);
    if (step != Step::kDone) return step;
    if (held_ == "null") {
      json += "{}";
      return Step::kDone;
    }
    const std::optional<std::string> text = decoded_string(held_);
    if (!text || text->empty() || text->front() != '{' || !is_json(*text)) return Step::kRefused;
    json += *text;
    return Step::kDone;
  }

 private:
  enum class Form { kOpen, kObject, kOther };
  Form form_ = Form::kOpen;
  JsonScanner scanner_;
  std::string held_;
};

// {"name": NAME, "arguments": ARGUMENTS, ...} in any order, or {NAME: ARGUMENTS}.
class ObjectBody {
 public:
  ObjectBody(const CallShape& shape, const KnownTools& tools) : shape_(shape), tools_(tools) {}

  Step feed(char byte, CallNews& news);

 private:
  enum class State { kStart, kKeyOrEnd, kKey, kColon, kValueStart, kValue, kArguments, kCommaOrEnd };
  enum class Role { kName, kArguments, kId, kOther };

  Role role_of(const std::string& key) const;
  Step begin_value(char byte, CallNews& news);
  Step end_value(CallNews& news);
  Step end_object(CallNews& news);
  void begin_call(CallNews& news);
  static bool has(const std::vector<std::string>& keys, const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  const CallShape& shape_;
  const KnownTools& tools_;
  State state_ = State::kStart;
  Role role_ = Role::kOther;
  bool comma_ = false;  // a key must follow
  bool begun_ = false;
  bool has_arguments_ = false;
  std::string name_;
  std::string id_;
  std::string early_;  // arguments in front of the name
  std::string token_;  // the key or value being read
  JsonScanner scanner_;
  std::unique_ptr<ArgumentsReader> arguments_;
};

ObjectBody::Role ObjectBody::role_of(const std::string& key) const {
  if (has(shape_.name_keys, key)) return Role::kName;
  if (has(shape_.arguments_keys, key)) return Role::kArguments;
  return has(shape_.id_keys, key) ? Role::kId : Role::kOther;
}

void ObjectBody::begin_call(CallNews& news) {
  news.begins = begun_ = true;
  news.name = name_;
  news.id = id_;
  news.arguments += std::exchange(early_, {});
}

Step ObjectBody::begin_value(char byte, CallNews& news) {
  scanner_ = {};
  token_.clear();
  if (role_ == Role::kArguments && !has_arguments_) {
    has_arguments_ = true;
    arguments_ = make_json_arguments();
    state_ = State::kArguments;
  } else {
    state_ = State::kValue;
  }
  return feed(byte, news);
}

Step ObjectBody::end_value(CallNews& news) {
  state_ = State::kCommaOrEnd;
  if (role_ != Role::kName && role_ != Role::kId) return Step::kMore;
  const std::optional<std::string> text = decoded_string(token_);
  if (role_ == Role::kId) {
    id_ = text && text->size() <= kNameBytesMax ? *text : "";
    return Step::kMore;
  }
  if (!text || text->empty() || text->size() > kNameBytesMax || !name_.empty() || !tools_.allows(*text)) {
    return Step::kRefused;
  }
  name_ = *text;
  if (has_arguments_) begin_call(news);
  return Step::kMore;
}

Step ObjectBody::end_object(CallNews& news) {
  // A call without arguments is one where a marker says so; a bare object needs them.
  if (name_.empty() || (!begun_ && shape_.at_start)) return Step::kRefused;
  if (!begun_) begin_call(news);
  if (!has_arguments_) news.arguments += "{}";
  return Step::kDone;
}

Step ObjectBody::feed(char byte, CallNews& news) {
  switch (state_) {
    case State::kKey:
    case State::kValue: {
      if (token_.size() > kHeldBytesMax) return Step::kRefused;
      const bool is_key = state_ == State::kKey;
      const Step step = scanner_.feed(byte, token_);
      if (step == Step::kMore || step == Step::kRefused) return step;
      if (is_key) {
        const std::optional<std::string> key = decoded_string(token_);
        if (!key) return Step::kRefused;
        if (shape_.body == CallBody::kKeyed) {
          if (key->empty() || key->size() > kNameBytesMax || !name_.empty() || !tools_.allows(*key)) {
            return Step::kRefused;
          }
          name_ = *key;
          role_ = Role::kArguments;
        } else {
          role_ = role_of(*key);
        }
        state_ = State::kColon;
        return Step::kMore;
      }
      const Step ended = end_value(news);
      if (ended == Step::kRefused || step == Step::kDone) return ended;
      break;  // the byte behind a number
    }
    case State::kArguments: {
      std::string& json = begun_ ? news.arguments : early_;
      const Step step = arguments_->feed(byte, json);
      if (step == Step::kRefused || early_.size() > kHeldBytesMax) return Step::kRefused;
      if (!begun_ && !name_.empty() && !early_.empty()) begin_call(news);
      if (step == Step::kDone) state_ = State::kCommaOrEnd;
      return Step::kMore;
    }
    default:
      break;
  }
  if (is_space(byte)) return Step::kMore;
  switch (state_) {
    case State::kStart:
      if (byte != '{') return Step::kRefused;
      state_ = State::kKeyOrEnd;
      return Step::kMore;
    case State::kKeyOrEnd:
      if (byte == '}' && !comma_) return end_object(news);
      if (byte != '"') return Step::kRefused;
      scanner_ = {};
      token_.clear();
      state_ = State::kKey;
      return scanner_.feed(byte, token_);
    case State::kColon:
      if (byte != ':') return Step::kRefused;
      state_ = State::kValueStart;
      return Step::kMore;
    case State::kValueStart:
      return begin_value(byte, news);
    default:
      break;
  }
  // State::kCommaOrEnd
  if (byte == '}') return end_object(news);
  if (byte != ',') return Step::kRefused;
  comma_ = true;
  state_ = State::kKeyOrEnd;
  return Step::kMore;
}

// NAME, what closes it, ARGUMENTS.
class NamedBody {
 public:
  NamedBody(const CallShape& shape, const KnownTools& tools)
      : shape_(shape), tools_(tools), name_close_(shape.name_close), id_open_(shape.id_open) {}

  Step feed(char byte, CallNews& news);
  std::string unread() const {
    if (state_ == State::kNameClose) {
      return std::max(name_close_.unread(), id_open_.unread(),
                      [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
    }
    return arguments_ ? arguments_->unread() : "";
  }

 private:
  enum class State { kName, kNameClose, kId, kArguments };

  bool take_name();
  Step feed_name(char byte, CallNews& news);
  Step feed_name_close(char byte);
  Step begin_arguments();
  Step feed_arguments(char byte, CallNews& news);

  const CallShape& shape_;
  const KnownTools& tools_;
  State state_ = State::kName;
  std::string name_;
  std::string id_;
  PatternMatch name_close_;
  PatternMatch id_open_;
  bool name_close_alive_ = true;
  bool id_open_alive_ = true;
  bool begun_ = false;
  std::unique_ptr<ArgumentsReader> arguments_;
};

bool NamedBody::take_name() {
  if (shape_.numbered) {
    id_ = name_;
    const size_t colon = name_.rfind(':');
    const bool counts = colon != std::string::npos && colon + 1 < name_.size() &&
                        name_.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    if (counts) name_.resize(colon);
  }
  if (!shape_.name_prefix.empty() && name_.starts_with(shape_.name_prefix)) name_.erase(0, shape_.name_prefix.size());
  if (!name_.ends_with(shape_.name_suffix)) return false;
  name_.resize(name_.size() - shape_.name_suffix.size());
  return !name_.empty() && tools_.allows(name_);
}

Step NamedBody::feed_name(char byte, CallNews& news) {
  const bool ends = is_space(byte) || std::string_view("<>[]{}()\"'`,;=").find(byte) != std::string_view::npos;
  if (!ends) {
    if (name_.size() == kNameBytesMax) return Step::kRefused;
    name_ += byte;
    return Step::kMore;
  }
  if (name_.empty()) return is_space(byte) ? Step::kMore : Step::kRefused;
  if (!take_name()) return Step::kRefused;
  state_ = State::kNameClose;
  id_open_alive_ = !id_open_.done();
  if (name_close_.done()) begin_arguments();
  return feed(byte, news);
}

Step NamedBody::feed_name_close(char byte) {
  if (name_close_alive_) {
    const Step step = name_close_.feed(byte);
    if (step == Step::kDone) return begin_arguments();
    name_close_alive_ = step == Step::kMore;
  }
  if (id_open_alive_) {
    const Step step = id_open_.feed(byte);
    if (step == Step::kDone) state_ = State::kId;
    id_open_alive_ = step == Step::kMore;
    if (step == Step::kDone) return Step::kMore;
  }
  return name_close_alive_ || id_open_alive_ ? Step::kMore : Step::kRefused;
}

Step NamedBody::begin_arguments() {
  state_ = State::kArguments;
  switch (shape_.arguments) {
    case ArgumentsStyle::kJson:
      arguments_ = make_json_arguments();
      break;
    case ArgumentsStyle::kTagged:
      arguments_ = make_tagged_arguments(shape_.tags, tools_, name_, pattern_pieces(shape_.call_close).front());
      break;
    case ArgumentsStyle::kBare:
    case ArgumentsStyle::kPython:
      arguments_ = make_literal_arguments(shape_.arguments);
      break;
  }
  return Step::kMore;
}

Step NamedBody::feed_arguments(char byte, CallNews& news) {
  const Step step = arguments_->feed(byte, news.arguments);
  if (step == Step::kRefused && begun_) news.arguments += arguments_->closing();
  if (!begun_ && !news.arguments.empty()) {
    news.begins = begun_ = true;
    news.name = name_;
    news.id = id_;
  }
  return step;
}

Step NamedBody::feed(char byte, CallNews& news) {
  switch (state_) {
    case State::kName:
      return feed_name(byte, news);
    case State::kNameClose:
      return feed_name_close(byte);
    case State::kId:
      if (byte == '[') {
        state_ = State::kNameClose;
        name_close_ = PatternMatch(shape_.name_close);
        name_close_alive_ = true;
        id_open_alive_ = false;
        return feed_name_close(byte);
      }
      if (id_.size() == kNameBytesMax) return Step::kRefused;
      id_ += byte;
      return Step::kMore;
    case State::kArguments:
      break;
  }
  return feed_arguments(byte, news);
}

class ShapeReader : public CallReader {
 public:
  ShapeReader(const CallShape& shape, const KnownTools& tools, std::vector<std::string> opening)
      : opening_(std::move(opening)),
        named_(shape.body == CallBody::kNamed),
        object_body_(shape, tools),
        named_body_(shape, tools) {
    std::vector<std::string> closing = pattern_pieces(shape.call_close);
    if (shape.arguments == ArgumentsStyle::kTagged) closing.erase(closing.begin());
    closing_ = PatternMatch(std::move(closing));
  }

  Step feed(char byte, CallNews& news) override {
    if (!opening_.done()) {
      const Step step = opening_.feed(byte);
      return step == Step::kDone ? Step::kMore : step;
    }
    if (body_done_) return closing_.feed(byte);
    const Step step = named_ ? named_body_.feed(byte, news) : object_body_.feed(byte, news);
    body_done_ = step == Step::kDone;
    return body_done_ && !closing_.done() ? Step::kMore : step;
  }

  std::string unread() const override {
    if (!opening_.done()) return opening_.unread();
    if (body_done_) return closing_.unread();
    return named_ ? named_body_.unread() : "";
  }

 private:
  PatternMatch opening_;
  PatternMatch closing_;
  const bool named_;
  bool body_done_ = false;
  ObjectBody object_body_;
  NamedBody named_body_;
};

class ArgumentsCallReader : public CallReader {
 public:
  explicit ArgumentsCallReader(std::string name) : name_(std::move(name)) {}

  Step feed(char byte, CallNews& news) override {
    const Step step = arguments_->feed(byte, news.arguments);
    if (!begun_ && !news.arguments.empty()) {
      news.begins = begun_ = true;
      news.name = name_;
    }
    return step;
  }

 private:
  const std::string name_;
  bool begun_ = false;
  std::unique_ptr<ArgumentsReader> arguments_ = make_json_arguments();
};

class EndReader : public CallReader {
 public:
  explicit EndReader(std::vector<std::string> pieces) : pattern_(std::move(pieces)) {}
  Step feed(char byte, CallNews&) override { return pattern_.feed(byte); }
  std::string unread() const override { return pattern_.unread(); }

 private:
  PatternMatch pattern_;
};

}  // namespace

Step PatternMatch::feed(char byte) {
  if (offset_ == 0 && is_space(byte)) return Step::kMore;
  const std::string& piece = pieces_[piece_];
  if (byte != piece[offset_]) return Step::kRefused;
  if (++offset_ < piece.size()) return Step::kMore;
  offset_ = 0;
  return ++piece_ == pieces_.size() ? Step::kDone : Step::kMore;
}

std::unique_ptr<ArgumentsReader> make_json_arguments() { return std::make_unique<JsonArguments>(); }

std::unique_ptr<CallReader> make_call_reader(const CallShape& shape, const KnownTools& tools,
                                             std::vector<std::string> opening) {
  return std::make_unique<ShapeReader>(shape, tools, std::move(opening));
}

std::unique_ptr<CallReader> make_arguments_call_reader(std::string name) {
  return std::make_unique<ArgumentsCallReader>(std::move(name));
}

std::unique_ptr<CallReader> make_end_reader(std::vector<std::string> pieces) {
  return std::make_unique<EndReader>(std::move(pieces));
}

}  // namespace twostroke::reply
