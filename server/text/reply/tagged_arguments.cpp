// Arguments written as one element each: <parameter=key>value</parameter> and its kin.
//
// A value is text. Where the schema says string it is one, and streams; otherwise it is held to its end and is JSON if
// it can be read as such, else a string.
#include <algorithm>
#include <memory>
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
  std::string close = first_piece(tags_.value_close);
  if (tags_.key_in_close) close += key_ + ">";
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
    const std::string typed = is_text ? "" : value_as_json(value, types_);
    json += typed.empty() ? json_quoted(value) : typed;
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
  const bool in_cdata = tags_.cdata && !is_string_ && value_.starts_with("<![CDATA[") && !value_.ends_with("]]>");
  if (in_cdata) {
    take_value(first_piece(tags_.value_close), json);
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
