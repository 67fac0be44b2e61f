#include "server/text/reply/format_parser.h"

#include <algorithm>
#include <utility>

namespace twostroke::reply {
namespace {

// What stands behind `mark` in a header, to the next white space or marker.
std::string header_word(std::string_view header, std::string_view mark) {
  const size_t begin = header.find(mark);
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = header.substr(begin + mark.size());
  return std::string(rest.substr(0, rest.find_first_of(" \t\n\r<")));
}

template <typename Markers>
MarkerSearch search_for(const Markers& markers) {
  std::vector<std::string> texts;
  for (const auto& marker : markers) texts.push_back(marker.text);
  return MarkerSearch(std::move(texts));
}

}  // namespace

PromptEnd read_prompt_end(const ReplyFormat& format, std::string_view prompt_end) {
  PromptEnd prompt;
  const MessageHeaders& headers = format.headers;
  if (headers.style == HeaderStyle::kNone) {
    const Reasoning& reasoning = format.reasoning;
    if (reasoning.close.empty()) return prompt;
    // A template may write the line feed behind the marker, or leave it to the model.
    const std::string open = reasoning.open.substr(0, reasoning.open.find_last_not_of('\n') + 1);
    const size_t opened = prompt_end.rfind(open);
    const size_t closed = prompt_end.rfind(reasoning.close);
    prompt.closed_reasoning = closed != std::string_view::npos && (opened == std::string_view::npos || closed > opened);
    if (opened != std::string_view::npos && !prompt.closed_reasoning) prompt.start = TurnStart::kReasoning;
    return prompt;
  }
  // <|start|>assistant<|channel|>analysis<|message|> is one header.
  const size_t start = prompt_end.rfind(headers.open.front());
  const std::string_view header = start == std::string_view::npos ? "" : prompt_end.substr(start);
  if (header.find(headers.close) == std::string_view::npos) {
    prompt.start = TurnStart::kHeader;
    if (header.size() <= kHeaderBytesMax) prompt.header = header;
    return prompt;
  }
  const bool thinks = header_word(header, "<|channel|>") == "analysis" || header_word(header, " to=") == "self";
  if (thinks) prompt.start = TurnStart::kReasoning;
  return prompt;
}

FormatParser::FormatParser(std::shared_ptr<const ReplyFormat> format, FormatParserOptions options)
    : format_(std::move(format)), options_(std::move(options)) {
  content_markers_ = content_markers();
  reasoning_markers_ = reasoning_markers();
  content_search_ = search_for(content_markers_);
  reasoning_search_ = search_for(reasoning_markers_);
  const PromptEnd prompt = read_prompt_end(*format_, options_.prompt_end);
  state_ = prompt.start == TurnStart::kReasoning ? State::kReasoning
           : prompt.start == TurnStart::kHeader  ? State::kHeader
                                                 : State::kContent;
  behind_marker_ = options_.reasoning && (prompt.start == TurnStart::kReasoning || prompt.closed_reasoning);
  prompt_header_ = prompt.header;
}

void FormatParser::add_call_markers(std::vector<Marker>& markers) const {
  if (!options_.tool_calls) return;
  const size_t first = markers.size();
  for (size_t i = 0; i < format_->shapes.size(); ++i) {
    const std::vector<std::string> opening = format_->shapes[i].opening();
    if (opening.empty()) continue;
    const auto same = std::find_if(markers.begin() + static_cast<std::ptrdiff_t>(first), markers.end(),
                                   [&](const Marker& marker) { return marker.text == opening.front(); });
    if (same != markers.end()) {
      same->shapes.push_back(i);
    } else {
      markers.push_back({opening.front(), Action::kCalls, {i}});
    }
  }
  const size_t end = markers.size();
  for (size_t i = first; i < end; ++i) {
    for (size_t skipped = 0; skipped < format_->lead.size(); ++skipped) {
      Marker led = markers[i];
      led.text.insert(0, format_->lead.substr(skipped));
      markers.push_back(std::move(led));
    }
  }
}

std::vector<FormatParser::Marker> FormatParser::content_markers() const {
  std::vector<Marker> markers;
  add_call_markers(markers);
  const MessageHeaders& headers = format_->headers;
  if (headers.style != HeaderStyle::kNone) {
    for (const std::string& open : headers.open) markers.push_back({open, Action::kHeader, {}});
    for (const std::string& end : headers.end) markers.push_back({end, Action::kMessageEnd, {}});
  } else if (!format_->reasoning.open.empty()) {
    markers.push_back({format_->reasoning.open, Action::kReasoningOpen, {}});
    markers.push_back({format_->reasoning.close, Action::kReasoningClose, {}});
  }
  for (const std::string& dropped : format_->dropped) markers.push_back({dropped, Action::kDrop, {}});
  return markers;
}

std::vector<FormatParser::Marker> FormatParser::reasoning_markers() const {
  std::vector<Marker> markers;
  const MessageHeaders& headers = format_->headers;
  if (headers.style != HeaderStyle::kNone) {
    for (const std::string& open : headers.open) markers.push_back({open, Action::kHeader, {}});
    for (const std::string& end : headers.end) markers.push_back({end, Action::kReasoningClose, {}});
  } else if (!format_->reasoning.close.empty()) {
    markers.push_back({format_->reasoning.close, Action::kReasoningClose, {}});
    if (options_.reasoning) markers.push_back({"\n" + format_->reasoning.close, Action::kReasoningClose, {}});
  }
  if (format_->calls_end_reasoning) add_call_markers(markers);
  return markers;
}

ReplyDelta FormatParser::push(std::string_view text) {
  for (const char byte : text) {
    todo_.push_back(byte);
    while (!todo_.empty()) {
      const char next = todo_.front();
      todo_.erase(0, 1);
      feed(next);
    }
  }
  return std::exchange(delta_, {});
}

ReplyDelta FormatParser::finish() {
  switch (state_) {
    case State::kContent: {
      const std::string held = content_search_.take_held();
      if (!begins_another_call(held)) emit_content(held);
      break;
    }
    case State::kReasoning:
      emit_reasoning(reasoning_search_.take_held());
      break;
    case State::kHeader: {
      // Text without a header of its own; what began as one is only a marker.
      const std::vector<std::string>& open = format_->headers.open;
      const bool is_marker =
          header_.starts_with(" to=") || std::any_of(open.begin(), open.end(), [&](const std::string& marker) {
            return header_.starts_with(marker) || marker.starts_with(header_);
          });
      if (!is_marker) emit_content(header_);
      break;
    }
    case State::kCalls:
      if (!committed_ && !follows_call() && !std::all_of(held_.begin(), held_.end(), is_space)) emit_content(held_);
      break;
  }
  if (!content_started_ && !behind_marker_) delta_.content += space_;
  space_.clear();
  return std::exchange(delta_, {});
}

bool FormatParser::follows_call() const { return calls_ > 0 && !content_started_; }

bool FormatParser::begins_another_call(std::string_view held) const {
  return follows_call() && !held.empty() && std::ranges::any_of(content_markers_, [&](const Marker& marker) {
           return marker.action == Action::kCalls && std::string_view(marker.text).starts_with(held);
         });
}

void FormatParser::feed(char byte) {
  switch (state_) {
    case State::kContent:
    case State::kReasoning:
      return feed_text(byte);
    case State::kHeader:
      return feed_header(byte);
    case State::kCalls:
      return feed_calls(byte);
  }
}

void FormatParser::feed_text(char byte) {
  const bool reasoning = state_ == State::kReasoning;
  if (!reasoning && begin_bare_call(byte)) return;
  std::string certain;
  const size_t found = (reasoning ? reasoning_search_ : content_search_).feed(byte, certain);
  if (reasoning) {
    emit_reasoning(certain);
  } else {
    emit_content(certain);
  }
  if (found != MarkerSearch::kNone) act((reasoning ? reasoning_markers_ : content_markers_)[found]);
}

bool FormatParser::begin_bare_call(char byte) {
  if (!options_.tool_calls || turn_started_ || byte != '{') return false;
  const std::string& held = content_search_.held();
  if (!std::all_of(held.begin(), held.end(), is_space)) return false;
  std::vector<size_t> shapes;
  for (size_t i = 0; i < format_->shapes.size(); ++i) {
    if (format_->shapes[i].at_start) shapes.push_back(i);
  }
  if (shapes.empty()) return false;
  emit_content(content_search_.take_held());
  begin_calls(shapes, "");
  feed_calls(byte);
  return true;
}

void FormatParser::act(const Marker& marker) {
  const bool in_reasoning = state_ == State::kReasoning;
  switch (marker.action) {
    case Action::kCalls:
      if (in_reasoning) leave_reasoning("");
      begin_calls(marker.shapes, marker.text);
      break;
    case Action::kReasoningOpen:
      if (content_started_) {
        emit_content(marker.text);
      } else {
        enter_reasoning(marker.text);
      }
      break;
    case Action::kReasoningClose:
      if (in_reasoning) {
        leave_reasoning(marker.text);
      } else if (content_started_ || !options_.reasoning) {
        emit_content(marker.text);
      } else {
        enter_content();
      }
      break;
    case Action::kHeader:
      if (in_reasoning) leave_reasoning("");
      header_ = marker.text;
      state_ = State::kHeader;
      break;
    case Action::kMessageEnd:
    case Action::kDrop:
      enter_content();
      break;
  }
}

void FormatParser::begin_calls(const std::vector<size_t>& shapes, std::string held) {
  if (calls_ == kCallsMax) {
    emit_content(held);
    return;
  }
  candidates_.clear();
  for (const size_t i : shapes) {
    const CallShape& shape = format_->shapes[i];
    std::vector<std::string> opening = shape.opening();
    if (!opening.empty()) opening.erase(opening.begin());
    candidates_.push_back({make_call_reader(shape, options_.tools, std::move(opening)), &shape});
  }
  held_ = std::move(held);
  committed_ = false;
  state_ = State::kCalls;
}

void FormatParser::feed_calls(char byte) {
  if (!committed_) held_ += byte;
  std::string unread;
  for (size_t i = 0; i < candidates_.size();) {
    CallNews news;
    const Step step = candidates_[i].reader->feed(byte, news);
    if (news.begins) {
      commit(i, news);
      i = 0;
    } else if (committed_) {
      emit_arguments(news.arguments);
    }
    if (step == Step::kDone) return end_call(candidates_[i].shape);
    if (step == Step::kMore) {
      if (committed_) return;
      ++i;
      continue;
    }
    const std::string begun = candidates_[i].reader->unread();
    if (begun.size() > unread.size()) unread = begun;
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(i));
    if (committed_) break;
  }
  if (candidates_.empty() || held_.size() > 2 * kHeldBytesMax) refuse_calls(unread, byte);
}

void FormatParser::commit(size_t candidate, const CallNews& news) {
  Candidate winner = std::move(candidates_[candidate]);
  candidates_.clear();
  candidates_.push_back(std::move(winner));
  committed_ = true;
  held_.clear();
  space_.clear();
  turn_started_ = true;
  delta_.tool_calls.push_back({calls_++, true, news.name, news.id, news.arguments});
}

void FormatParser::refuse_calls(const std::string& unread, char byte) {
  state_ = State::kContent;
  candidates_.clear();
  if (committed_) {
    // The call stays as it was given out; what follows is read as text.
    enter_content();
    todo_.insert(0, unread + byte);
    return;
  }
  const std::string held = std::exchange(held_, {});
  size_t end = held.size() - std::min(held.size(), unread.size() + 1);
  // Line feeds in front of that may belong to a marker that it is the beginning of.
  for (size_t i = 0; i < format_->lead.size() && end > 0 && held[end - 1] == '\n'; ++i) --end;
  emit_content(held.substr(0, end));
  todo_.insert(0, held.substr(end));
}

void FormatParser::end_call(const CallShape* shape) {
  const bool was_call = committed_;
  candidates_.clear();
  committed_ = false;
  held_.clear();
  enter_content();
  if (!was_call || shape == nullptr || !shape->has_section()) return;
  if (!shape->single && calls_ < kCallsMax) {
    candidates_.push_back({make_call_reader(*shape, options_.tools, shape->continuing()), shape});
  }
  std::vector<std::string> ending = shape->ending();
  if (!ending.empty()) candidates_.push_back({make_end_reader(std::move(ending)), nullptr});
  if (!candidates_.empty()) state_ = State::kCalls;
}

void FormatParser::feed_header(char byte) {
  header_ += byte;
  const MessageHeaders& headers = format_->headers;
  if (header_.ends_with(headers.close)) {
    read_header(std::exchange(header_, {}));
  } else if (header_.size() > kHeaderBytesMax) {
    state_ = State::kContent;
    emit_content(std::exchange(header_, {}));
  }
}

void FormatParser::read_header(const std::string& raw) {
  const std::string header = std::exchange(prompt_header_, {}) + raw;
  const std::string recipient = header_word(header, " to=");
  enter_content();
  if (format_->headers.style == HeaderStyle::kRecipient) {
    if (recipient == "self") enter_reasoning(raw);
    return;
  }
  if (!recipient.empty()) {
    constexpr std::string_view kFunctions = "functions.";
    const std::string name = recipient.starts_with(kFunctions) ? recipient.substr(kFunctions.size()) : "";
    if (options_.tool_calls && !name.empty() && options_.tools.allows(name) && calls_ < kCallsMax) {
      candidates_.clear();
      candidates_.push_back({make_arguments_call_reader(name), nullptr});
      held_ = raw;
      committed_ = false;
      state_ = State::kCalls;
    } else {
      emit_content(raw);
    }
    return;
  }
  if (header_word(header, "<|channel|>") == "analysis") enter_reasoning(raw);
}

void FormatParser::enter_content() {
  state_ = State::kContent;
  content_started_ = false;
  behind_marker_ = true;
  space_.clear();
}

void FormatParser::enter_reasoning(const std::string& marker) {
  if (options_.reasoning) {
    space_.clear();
    reasoning_started_ = false;
  } else {
    emit_content(marker);
  }
  state_ = State::kReasoning;
}

void FormatParser::leave_reasoning(const std::string& marker) {
  if (options_.reasoning) {
    enter_content();
  } else {
    state_ = State::kContent;
    emit_content(marker);
  }
}

void FormatParser::emit_content(std::string_view text) {
  for (const char byte : text) {
    if (!content_started_) {
      if (is_space(byte) && space_.size() < kHeldSpaceMax) {
        space_ += byte;
        continue;
      }
      content_started_ = turn_started_ = true;
      std::string_view space = space_;
      if (behind_marker_) space.remove_prefix(std::min(space.size(), space.find_first_not_of('\n')));
      delta_.content += space;
      space_.clear();
    }
    delta_.content += byte;
  }
}

void FormatParser::emit_reasoning(std::string_view text) {
  if (!options_.reasoning) return emit_content(text);
  if (!reasoning_started_) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of('\n')));
    if (text.empty()) return;
    if (reasoning_given_) delta_.reasoning += '\n';  // an earlier block
    reasoning_started_ = reasoning_given_ = true;
  }
  delta_.reasoning += text;
}

void FormatParser::emit_arguments(std::string_view json) {
  if (json.empty()) return;
  const uint32_t index = calls_ - 1;
  if (delta_.tool_calls.empty() || delta_.tool_calls.back().index != index) {
    delta_.tool_calls.push_back({index, false, "", "", ""});
  }
  delta_.tool_calls.back().arguments += json;
}

}  // namespace twostroke::reply
