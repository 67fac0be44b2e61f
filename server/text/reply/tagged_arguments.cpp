// Arguments written as one element each: <parameter=key>value</parameter> and its kin.
//
// A value is text. Where the schema says string it is one, and streams; otherwise it is held to its end and is JSON if
// it can be read as such, else a string.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/text/reply/call_reader.h"
#include "server/text/reply/marker_search.h"

namespace twostroke::reply {
namespace {

std::string first_piece(std::string_view pattern) {
  const std::vector<std::string> pieces = pattern_pieces(pattern);
  return pieces.empty() ? "" : pieces.front();
}

bool is_shorter(const std::string& a, const std::string& b) { return a.size() < b.size(); }

// The JSON text of a value that is not known to be a string.
std::string value_as_json(std::string_view value, TypeSet types) {
  while (!value.empty() && is_space(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
  // Templates print Python's values where they do not print JSON.
  if ((types & kBooleanType) != 0 && value == "True") return "true";
  if ((types & kBooleanType) != 0 && value == "False") return "false";
  if ((types & kNullType) != 0 && value == "None") return "null";
  return is_json(value) ? std::string(value) : "";
}

std::string json_or_string(std::string_view value, TypeSet types) {
  const std::string typed = value_as_json(value, types);
  return typed.empty() ? json_quoted(value) : typed;
}

// The JSON text of a value that is made of elements, as MiniMax writes objects (an element for each member) and arrays
// (elements named "item"): `mark` stands in front of every tag. Nothing where it is not of that form.
std::optional<std::string> elements_as_json(std::string_view value, const std::string& mark) {
  struct Element {
    std::string name;
    char closer = 0;  // of its elements; 0: none so far
  };
  std::vector<Element> open(1);  // the value itself
  std::string json;
  while (true) {
    const size_t tag = value.find(mark);
    const std::string_view text = value.substr(0, tag);
    if (tag == std::string_view::npos) {
      const bool is_whole =
          open.size() == 1 && open.back().closer != 0 && std::all_of(text.begin(), text.end(), is_space);
      return is_whole ? std::optional<std::string>(json + open.back().closer) : std::nullopt;
    }
    value.remove_prefix(tag + mark.size());
    const size_t end = value.find('>');
    if (!value.starts_with('<') || end == std::string_view::npos) return std::nullopt;
    const bool closes = value.starts_with("</");
    const std::string name(value.substr(closes ? 2 : 1, end - (closes ? 2 : 1)));
    value.remove_prefix(end + 1);
    Element& around = open.back();
    if (closes) {
      if (open.size() == 1 || name != around.name) return std::nullopt;
      json += around.closer == 0 ? json_or_string(text, kAnyType) : std::string(1, around.closer);
      open.pop_back();
      continue;
    }
    const char closer = name == "item" ? ']' : '}';
    if (open.size() > kJsonDepthMax || (around.closer != 0 && around.closer != closer)) return std::nullopt;
    json += around.closer != 0 ? ", " : closer == ']' ? "[" : "{";
    around.closer = closer;
    if (closer == '}') json += json_quoted(name) + ": ";
    open.push_back({name, 0});
  }
}

size_t count_of(std::string_view text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

class TaggedArguments : public ArgumentsReader {
 public:
  TaggedArguments(const Tags& tags, const KnownTools& tools, std::string name, std::string end)
      : tags_(tags), tools_(tools), name_(std::move(name)), end_(std::move(end)) {
    await_argument();
  }

  Step feed(char byte, std::string& json) override;
  std::string unread() const override {
    if (state_ != State::kBetween) return "";
    return std::max(open_.unread(), close_.unread(), is_shorter);
  }
  std::string closing() const override { return state_ == State::kBetween && begun_ ? "}" : ""; }

 private:
  enum class State { kBetween, kKey, kKeyClose, kStringAttribute, kValue };

  std::string value_close() const { return first_piece(tags_.value_close) + (tags_.key_in_close ? key_ + ">" : ""); }
  std::string element_mark() const { return tags_.key_open.substr(0, tags_.key_open.size() - 1); }
  void await_argument();
  Step feed_between(char byte, std::string& json);
  Step feed_key(char byte, std::string& json);
  Step feed_string_attribute(char byte, std::string& json);
  Step begin_value(std::string& json);
  Step feed_value(char byte, std::string& json);
  void take_value(std::string_view certain, std::string& json);
  void end_value(std::string& json);

  const Tags& tags_;
  const KnownTools& tools_;
  const std::string name_;
  const std::string end_;

  State state_ = State::kBetween;
  bool begun_ = false;       // the JSON object is
  bool open_alive_ = true;   // the text may still be key_open
  bool close_alive_ = true;  // or the end
  PatternMatch open_;
  PatternMatch close_;
  PatternMatch key_close_;
  std::string key_;  // so far; of kStringAttribute: its value
  std::string attribute_;
  bool is_string_ = false;  // the value's type is known to be
  TypeSet types_ = kAnyType;
  bool value_begun_ = false;  // a first line feed of the format's is behind
  MarkerSearch value_end_;
  std::string value_;  // held
};

void TaggedArguments::await_argument() {
  state_ = State::kBetween;
  open_ = PatternMatch(tags_.key_open);
  close_ = PatternMatch(end_);
  open_alive_ = close_alive_ = true;
}

Step TaggedArguments::feed_between(char byte, std::string& json) {
  if (close_alive_) {
    const Step step = close_.feed(byte);
    if (step == Step::kDone) {
      json += begun_ ? "}" : "{}";
      return Step::kDone;
    }
    close_alive_ = step == Step::kMore;
  }
  if (open_alive_) {
    const Step step = open_.feed(byte);
    if (step == Step::kDone) {
      state_ = State::kKey;
      key_.clear();
      return Step::kMore;
    }
    open_alive_ = step == Step::kMore;
  }
  return open_alive_ || close_alive_ ? Step::kMore : Step::kRefused;
}

Step TaggedArguments::feed_key(char byte, std::string& json) {
  if (key_.empty() && byte == '/' && close_alive_) {  // key_open was the beginning of the end
    state_ = State::kBetween;
    open_alive_ = false;
    return feed_between(byte, json);
  }
  const std::string mark = first_piece(tags_.key_close);
  key_ += byte;
  if (!key_.ends_with(mark)) return key_.size() > kNameBytesMax ? Step::kRefused : Step::kMore;
  key_.resize(key_.size() - mark.size());
  while (!key_.empty() && is_space(key_.back())) key_.pop_back();
  std::vector<std::string> rest = pattern_pieces(tags_.key_close);
  rest.erase(rest.begin());
  key_close_ = PatternMatch(std::move(rest));
  state_ = State::kKeyClose;
  return key_close_.done() ? begin_value(json) : Step::kMore;
}

Step TaggedArguments::feed_string_attribute(char byte, std::string& json) {
  attribute_ += byte;
  for (const std::string_view text : {"true\">", "false\">"}) {
    if (attribute_ == text) {
      is_string_ = text.front() == 't';
      state_ = State::kValue;
      if (is_string_) json += '"';
      return Step::kMore;
    }
    if (text.starts_with(attribute_)) return Step::kMore;
  }
  return Step::kRefused;
}

Step TaggedArguments::begin_value(std::string& json) {
  const std::string close = value_close();
  types_ = tools_.types(name_, key_);
  is_string_ = types_ == kStringType && !tags_.cdata;
  json += (begun_ ? ", " : "{") + json_quoted(key_) + ": ";
  begun_ = true;
  value_.clear();
  value_begun_ = !tags_.newline_around;
  value_end_ = tags_.newline_around ? MarkerSearch({"\n" + close, close}) : MarkerSearch({close});
  if (tags_.string_attribute) {
    attribute_.clear();
    state_ = State::kStringAttribute;
    return Step::kMore;
  }
  state_ = State::kValue;
  if (is_string_) json += '"';
  return Step::kMore;
}

void TaggedArguments::take_value(std::string_view certain, std::string& json) {
  if (is_string_) {
    append_json_escaped(json, certain);
    return;
  }
  value_ += certain;
  if (value_.size() <= kHeldBytesMax) return;
  // Too long to wait for what it is.
  is_string_ = true;
  json += '"';
  append_json_escaped(json, value_);
  value_.clear();
}

void TaggedArguments::end_value(std::string& json) {
  if (is_string_) {
    json += '"';
  } else {
    std::string_view value = value_;
    constexpr std::string_view kCdata = "<![CDATA[";
    const bool is_cdata = tags_.cdata && value.starts_with(kCdata);
    if (is_cdata) {
      value.remove_prefix(kCdata.size());
      value.remove_suffix(3);
    }
    const bool is_text = is_cdata || types_ == kStringType;
    const std::optional<std::string> elements =
        is_text || !tags_.key_in_close ? std::nullopt : elements_as_json(value, element_mark());
    json += is_text ? json_quoted(value) : elements ? *elements : json_or_string(value, types_);
  }
  await_argument();
}

Step TaggedArguments::feed_value(char byte, std::string& json) {
  if (!value_begun_) {
    value_begun_ = true;
    if (byte == '\n') return Step::kMore;
  }
  std::string certain;
  const size_t found = value_end_.feed(byte, certain);
  take_value(certain, json);
  if (found == MarkerSearch::kNone) return Step::kMore;
  // The end of a character data section or of an element within the value is not the value's.
  const bool in_cdata = tags_.cdata && !is_string_ && value_.starts_with("<![CDATA[") && !value_.ends_with("]]>");
  const bool in_element = tags_.key_in_close && !is_string_ &&
                          count_of(value_, tags_.key_open + key_ + ">") > count_of(value_, value_close());
  if (in_cdata || in_element) {
    take_value(value_close(), json);
  } else {
    end_value(json);
  }
  return Step::kMore;
}

Step TaggedArguments::feed(char byte, std::string& json) {
  switch (state_) {
    case State::kBetween:
      return feed_between(byte, json);
    case State::kKey:
      return feed_key(byte, json);
    case State::kKeyClose: {
      const Step step = key_close_.feed(byte);
      return step == Step::kDone ? begin_value(json) : step;
    }
    case State::kStringAttribute:
      return feed_string_attribute(byte, json);
    case State::kValue:
      break;
  }
  return feed_value(byte, json);
}

}  // namespace

std::unique_ptr<ArgumentsReader> make_tagged_arguments(const Tags& tags, const KnownTools& tools, std::string name,
                                                       std::string end) {
  return std::make_unique<TaggedArguments>(tags, tools, std::move(name), std::move(end));
}

}  // namespace twostroke::reply
