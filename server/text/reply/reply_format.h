// ReplyFormat: how a family of models writes reasoning and calls, as data. One table covers the published families;
// all of them are read by the same few readers (call_reader.h) and written by the same grammar (call_grammar.h).
//
// Patterns ("<tool_call>\n<function=") are texts as templates write them. A reader takes any white space, or none,
// where a pattern has some and at its ends: models differ there from their own templates. '\r' in a pattern is a place
// where a template writes nothing and a reader takes white space all the same.
//
// Thread-safety: plain values; the table is immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twostroke::reply {

// Bounds on what one turn may cost.
constexpr size_t kCallsMax = 128;           // calls in a turn; what follows is content
constexpr size_t kNameBytesMax = 256;       // of a function, a parameter, a call's id
constexpr size_t kHeldBytesMax = 64 << 10;  // held until it is clear what it is (a value whose type is open, arguments
                                            // in front of the name)
constexpr size_t kHeldSpaceMax = 1024;      // white space that may stand in front of a call
constexpr size_t kHeaderBytesMax = 512;     // of a message (MessageHeaders)

// How a call's arguments are written.
enum class ArgumentsStyle : uint8_t {
  kJson,    // a JSON object
  kTagged,  // one element for each argument: see Tags
  kBare,    // {key:<|"|>text<|"|>,other:5}: Gemma
  kPython,  // (key="text", other=5)
};

// One argument is key_open KEY key_close VALUE value_close.
struct Tags {
  std::string key_open;
  std::string key_close;
  std::string value_close;
  bool newline_around = false;    // the first and the last line feed of a value are the format's
  bool string_attribute = false;  // "true" or "false" and then `">` behind key_close: whether the value is a string
  bool key_in_close = false;      // value_close is followed by KEY and '>'
  bool cdata = false;             // a value may be <![CDATA[...]]>
};

// How a call's name is found.
enum class CallBody : uint8_t {
  kObject,  // {"name": NAME, "arguments": ARGUMENTS}
  kKeyed,   // {NAME: ARGUMENTS}
  kNamed,   // NAME name_close ARGUMENTS
};

// A turn's calls: section_open, then `[` with `array`, calls (each call_open, body, call_close) with `separator`
// between, `]`, section_close.
struct CallShape {
  std::string section_open;
  std::string section_close;
  bool array = false;
  std::string separator;
  std::string call_open;
  std::string call_close;
  CallBody body = CallBody::kObject;
  ArgumentsStyle arguments = ArgumentsStyle::kJson;

  // kObject: keys that may stand for each, the format's own first.
  std::vector<std::string> name_keys = {"name"};
  std::vector<std::string> arguments_keys = {"arguments", "parameters"};
  std::vector<std::string> id_keys = {"id"};

  // kNamed
  std::string name_close;
  std::string name_prefix;  // in front of NAME, not part of the function's name
  std::string name_suffix;  // must stand behind NAME
  bool numbered = false;    // ":0" behind NAME counts calls; all of it is the call's id
  std::string id_open;      // an id between NAME and name_close

  Tags tags;

  bool at_start = false;  // only where a turn begins: nothing marks it
  bool single = false;    // never more than one call in a turn

  bool has_section() const { return array || !section_open.empty() || !separator.empty(); }
  // The pieces from the calls' beginning to the first one's body, from one call's end to the next one's body, and to
  // the end of the section.
  std::vector<std::string> opening() const;
  std::vector<std::string> continuing() const;
  std::vector<std::string> ending() const;
};

// A turn of several messages, each behind a header that says whom it is for: gpt-oss' harmony and its kin.
enum class HeaderStyle : uint8_t {
  kNone,
  kHarmony,    // by channel: analysis, commentary, final; a call's recipient is functions.NAME
  kRecipient,  // by recipient: self (reasoning), user (content), the name of a tool
};

struct MessageHeaders {
  HeaderStyle style = HeaderStyle::kNone;
  std::vector<std::string> open;  // begin a header
  std::string close;              // ends it; the message follows
  std::vector<std::string> end;   // end a message
};

struct Reasoning {
  std::string open;
  std::string close;
};

struct ReplyFormat {
  std::string name;
  // All of these stand in a template of the family: in what it writes for a call, or in its source.
  std::vector<std::string> signature;
  std::vector<CallShape> shapes;         // the first is the one that a demanded call takes
  std::vector<std::string> dropped;      // markers around content
  std::vector<std::string> extra_stops;  // control tokens that end a turn and are no end of generation elsewhere
  std::string lead = "\n";               // line feeds between content and calls that are the template's
  bool calls_end_reasoning = false;      // a call may begin without the end of reasoning
  MessageHeaders headers;
  Reasoning reasoning;  // as found in the template; empty: none
};

// The families, the more particular ones first.
std::span<const ReplyFormat> known_formats();
// Where a template marks reasoning: the pairs that are in use.
std::span<const Reasoning> known_reasoning();
// Calls as {"name", "arguments"} within <tool_call>, for a model that has no form of its own.
const ReplyFormat& generic_format();

// A pattern's pieces: what stands between its white space.
std::vector<std::string> pattern_pieces(std::string_view pattern);
// A pattern as a template writes it.
std::string pattern_text(std::string_view pattern);

}  // namespace twostroke::reply
