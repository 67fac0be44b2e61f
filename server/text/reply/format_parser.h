// FormatParser: the ReplyParser of any ReplyFormat.
//
// It works byte by byte, so that how a text was cut cannot matter. Text is content until a marker is whole; behind the
// marker of a call several readers (call_reader.h) may try what follows, and what none of them can read is content
// again, from the marker on. Bytes that a reader gives back are read anew, each at most once for a marker.
//
// A text may end anywhere. What it ends with may be half a marker, and is content then; behind a call, half of another
// call's beginning is dropped, because content would be what the model never meant to say.
//
// White space: line feeds behind the markers of reasoning and of calls are the markers' own, as is one in front of the
// end of reasoning. In front of a call, the line feeds that the template writes there are dropped, and so is white
// space that is all there was since the turn, the reasoning or the last call. Everything else stays as it is.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/reply/call_reader.h"
#include "server/text/reply/marker_search.h"
#include "server/text/reply/reply_format.h"
#include "server/text/reply/reply_parser.h"

namespace twostroke::reply {

// Where a prompt leaves off, so that the turn begins there.
enum class TurnStart : uint8_t { kContent, kReasoning, kHeader };
struct PromptEnd {
  TurnStart start = TurnStart::kContent;
  bool closed_reasoning = false;  // its end stands in the prompt
  std::string header;             // kHeader: what the prompt wrote of it
};
PromptEnd read_prompt_end(const ReplyFormat& format, std::string_view prompt_end);

struct FormatParserOptions {
  bool tool_calls = false;
  bool reasoning = true;
  std::string prompt_end;
  KnownTools tools;
};

class FormatParser : public ReplyParser {
 public:
  FormatParser(std::shared_ptr<const ReplyFormat> format, FormatParserOptions options);

  ReplyDelta push(std::string_view text) override;
  ReplyDelta finish() override;

 private:
  enum class State { kContent, kReasoning, kHeader, kCalls };
  enum class Action { kCalls, kReasoningOpen, kReasoningClose, kDrop, kHeader, kMessageEnd };
  struct Marker {
    std::string text;
    Action action;
    std::vector<size_t> shapes;  // kCalls: those that begin with it
  };
  struct Candidate {
    std::unique_ptr<CallReader> reader;
    const CallShape* shape;  // null: the end of a section, or a call that only its message's header announces
  };

  void add_call_markers(std::vector<Marker>& markers) const;
  std::vector<Marker> content_markers() const;
  std::vector<Marker> reasoning_markers() const;

  bool follows_call() const;  // with nothing but white space between
  bool begins_another_call(std::string_view held) const;
  void feed(char byte);
  void feed_text(char byte);  // kContent, kReasoning
  void act(const Marker& marker);
  bool begin_bare_call(char byte);
  void begin_calls(const std::vector<size_t>& shapes, std::string held);
  void feed_calls(char byte);
  void commit(size_t candidate, const CallNews& news);
  void refuse_calls(const std::string& unread, char byte);
  void end_call(const CallShape* shape);
  void feed_header(char byte);
  void read_header(const std::string& raw);

  void enter_content();  // whatever stood before, its white space ends here
  void enter_reasoning(const std::string& marker);
  void leave_reasoning(const std::string& marker);
  void emit_content(std::string_view text);
  void emit_reasoning(std::string_view text);
  void emit_arguments(std::string_view json);

  const std::shared_ptr<const ReplyFormat> format_;
  const FormatParserOptions options_;
  std::vector<Marker> content_markers_;
  std::vector<Marker> reasoning_markers_;
  MarkerSearch content_search_;
  MarkerSearch reasoning_search_;

  State state_ = State::kContent;
  std::string todo_;  // bytes to read: given back by a reader, then the new one
  ReplyDelta delta_;

  bool content_started_ = false;  // since the turn, the reasoning, the last call or message
  bool behind_marker_ = false;    // something of that stood there
  bool turn_started_ = false;     // there was content or a call
  std::string space_;             // white space before the content starts
  bool reasoning_started_ = false;
  bool reasoning_given_ = false;  // an earlier block

  std::vector<Candidate> candidates_;
  bool committed_ = false;  // one candidate is left, and its call has begun
  std::string held_;        // what the candidates have read
  uint32_t calls_ = 0;

  std::string header_;         // of a message, its opening marker included
  std::string prompt_header_;  // what the prompt wrote of the first one
};

}  // namespace twostroke::reply
