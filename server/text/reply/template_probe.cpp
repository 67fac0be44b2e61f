#include "server/text/reply/template_probe.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/text/jinja/template.h"
#include "server/text/reply/format_parser.h"
#include "server/text/reply/json_scanner.h"

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kUser = "zzuser";
constexpr std::string_view kContent = "zzcontent";
constexpr std::string_view kName = "zzname";
constexpr std::string_view kKey = "zzkey";
constexpr std::string_view kValue = "zzvalue";

Json probe_tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "zzname", "description": "zzdescription",
      "parameters": {"type": "object", "properties": {"zzkey": {"type": "string", "description": "zzabout"}},
                     "required": ["zzkey"]}}}])");
}

Json probe_call(bool object_arguments, const std::string& id) {
  const Json arguments = {{std::string(kKey), std::string(kValue)}};
  return {{"id", id},
          {"type", "function"},
          {"function",
           {{"name", std::string(kName)}, {"arguments", object_arguments ? arguments : Json(arguments.dump())}}}};
}

class Prober {
 public:
  explicit Prober(const jinja::Template& chat_template) : template_(chat_template) {
    options_.mutable_containers = true;
    options_.from_json = true;
    options_.now = {2026, 7, 1, 12, 0, 0};
  }

  std::optional<std::string> render(const Json& messages, const Json& extra) const {
    Json context = {{"messages", messages}, {"bos_token", ""}, {"eos_token", ""}, {"add_generation_prompt", false}};
    context.update(extra);
    const Result<std::string> text = template_.render(context, options_);
    return text.ok() ? std::optional<std::string>(*text) : std::nullopt;
  }

  // The turn that an assistant's message is rendered as; without tools where the template fails at them.
  std::string turn(const Json& message) const {
    const Json messages = Json::array({user(), message});
    const std::string with_tools = behind_user(render(messages, {{"tools", probe_tools()}}));
    return with_tools.empty() ? behind_user(render(messages, Json::object())) : with_tools;
  }

  std::string prompt(const Json& extra) const {
    Json with_prompt = extra;
    with_prompt["add_generation_prompt"] = true;
    return behind_user(render(Json::array({user()}), with_prompt));
  }

  static Json user() { return {{"role", "user"}, {"content", std::string(kUser)}}; }

 private:
  static std::string behind_user(const std::optional<std::string>& text) {
    if (!text) return "";
    const size_t at = text->rfind(kUser);
    return at == std::string::npos ? "" : text->substr(at + kUser.size());
  }

  const jinja::Template& template_;
  jinja::RenderOptions options_;
};

Json assistant(const Json& content, const std::vector<Json>& calls) {
  Json message = {{"role", "assistant"}, {"content", content}};
  if (!calls.empty()) message["tool_calls"] = calls;
  return message;
}

bool has_all(std::string_view text, const std::vector<std::string>& parts) {
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return text.find(part) != std::string_view::npos;
  });
}

// The last '{' before `position`.
size_t object_begin(std::string_view text, size_t position) { return text.rfind('{', position); }

// One past the end of the JSON object that begins at `begin`; npos where there is none.
size_t object_end(std::string_view text, size_t begin) {
  JsonScanner scanner;
  std::string json;
  for (size_t i = begin; i < text.size(); ++i) {
    const Step step = scanner.feed(text[i], json);
    if (step == Step::kDone) return i + 1;
    if (step != Step::kMore) break;
  }
  return std::string_view::npos;
}

struct Extent {
  size_t begin = 0;
  size_t end = 0;
};

// A call that the template wrote as JSON between markers: where its body is.
struct FoundCall {
  Extent body;  // the whole object, or name to arguments
  CallBody kind = CallBody::kObject;
  std::string name_key;
  std::string arguments_key;
  std::string between;  // kNamed: name and arguments
};

std::optional<FoundCall> find_call(std::string_view text, size_t from) {
  const size_t name = text.find(kName, from);
  if (name == std::string_view::npos) return std::nullopt;
  const size_t key = text.find("\"" + std::string(kKey) + "\"", name);
  if (key == std::string_view::npos) return std::nullopt;
  const size_t arguments = object_begin(text, key);
  const size_t arguments_end = arguments == std::string_view::npos ? arguments : object_end(text, arguments);
  if (arguments_end == std::string_view::npos || arguments < name) return std::nullopt;

  FoundCall found;
  const size_t outer = object_begin(text, name);
  const size_t outer_end =
      outer == std::string_view::npos || outer < from ? std::string_view::npos : object_end(text, outer);
  if (outer_end != std::string_view::npos && outer_end >= arguments_end) {
    const Json object = Json::parse(text.substr(outer, outer_end - outer), nullptr, false);
    if (!object.is_object()) return std::nullopt;
    found.body = {outer, outer_end};
    for (const auto& [member, value] : object.items()) {
      if (value == std::string(kName)) found.name_key = member;
      if (value.is_object()) found.arguments_key = member;
    }
    if (found.arguments_key == kName) found.kind = CallBody::kKeyed;
    if (found.kind == CallBody::kObject && (found.name_key.empty() || found.arguments_key.empty())) return std::nullopt;
    return found;
  }
  found.kind = CallBody::kNamed;
  found.body = {name, arguments_end};
  found.between = std::string(text.substr(name + kName.size(), arguments - name - kName.size()));
  return found;
}

std::string common_suffix(const std::string& a, const std::string& b) {
  size_t size = 0;
  while (size < a.size() && size < b.size() && a[a.size() - 1 - size] == b[b.size() - 1 - size]) ++size;
  return a.substr(a.size() - size);
}

std::string common_prefix(const std::string& a, const std::string& b) {
  size_t size = 0;
  while (size < a.size() && size < b.size() && a[size] == b[size]) ++size;
  return a.substr(0, size);
}

bool is_blank(const std::string& text) { return std::all_of(text.begin(), text.end(), is_space); }

// A form of calls that no known family has, read off what the template wrote.
std::optional<ReplyFormat> derive_format(const TemplateProbe& probe) {
  const std::optional<FoundCall> call = find_call(probe.one_call, 0);
  if (!call) return std::nullopt;
  const size_t content = probe.one_call.find(kContent);
  const size_t plain_content = probe.plain.find(kContent);
  if (content == std::string::npos || content > call->body.begin || plain_content == std::string::npos) {
    return std::nullopt;
  }
  const std::string turn_end = probe.plain.substr(plain_content + kContent.size());
  const std::string before =
      probe.one_call.substr(content + kContent.size(), call->body.begin - content - kContent.size());
  std::string after = probe.one_call.substr(call->body.end);
  if (!after.ends_with(turn_end)) return std::nullopt;
  after.resize(after.size() - turn_end.size());

  CallShape shape;
  shape.body = call->kind;
  if (call->kind == CallBody::kObject) {
    shape.name_keys = {call->name_key};
    shape.arguments_keys = {call->arguments_key};
  } else if (call->kind == CallBody::kNamed) {
    shape.name_close = call->between;
  }
  const std::optional<FoundCall> second =
      probe.two_calls.empty() ? std::nullopt : find_call(probe.two_calls, call->body.end);
  if (!second) {
    shape.call_open = before;
    shape.call_close = after;
    shape.single = true;
  } else {
    const std::string between = probe.two_calls.substr(call->body.end, second->body.begin - call->body.end);
    // A call's end is not cut within a marker: the next marker may begin as the section's end does.
    shape.call_close = common_prefix(after, between);
    const size_t bracket = shape.call_close.find_last_of(">])}");
    if (bracket != std::string::npos && shape.call_close != between) shape.call_close.resize(bracket + 1);
    const std::string rest = between.substr(shape.call_close.size());
    shape.call_open = common_suffix(before, rest);
    shape.separator = rest.substr(0, rest.size() - shape.call_open.size());
    shape.section_open = before.substr(0, before.size() - shape.call_open.size());
    shape.section_close = after.substr(shape.call_close.size());
    if (is_blank(shape.section_open) && is_blank(shape.section_close) && is_blank(shape.separator)) {
      shape.call_open = shape.section_open + shape.call_open;
      shape.section_open = shape.section_close = shape.separator = "";
    }
  }
  ReplyFormat format;
  format.name = "template";
  // Nothing marks it: only an object at the start of a turn can be told from content.
  if (shape.opening().empty()) {
    if (shape.body != CallBody::kObject) return std::nullopt;
    shape.at_start = true;
  }
  format.shapes.push_back(std::move(shape));
  return format;
}

std::optional<Reasoning> find_reasoning(std::string_view source, const TemplateProbe& probe) {
  for (const std::string_view text : {std::string_view(probe.everything), source}) {
    for (const Reasoning& pair : known_reasoning()) {
      if (text.find(pair.close) != std::string_view::npos) return pair;
    }
  }
  return std::nullopt;
}

// The format reads the call that the template wrote; true where it wrote none.
bool reads_back(const ReplyFormat& format, const TemplateProbe& probe) {
  const size_t name = probe.one_call.find(kName);
  if (name == std::string::npos) return true;
  const size_t content = probe.one_call.rfind(kContent, name);
  const size_t begin = content == std::string::npos ? 0 : content + kContent.size();
  FormatParserOptions options;
  options.tool_calls = true;
  FormatParser parser(std::make_shared<const ReplyFormat>(format), std::move(options));
  const ReplyDelta delta = parser.push(std::string_view(probe.one_call).substr(begin));
  if (delta.tool_calls.size() != 1 || delta.tool_calls.front().name != kName) return false;
  const Json arguments = Json::parse(delta.tool_calls.front().arguments, nullptr, false);
  return arguments == Json{{std::string(kKey), std::string(kValue)}};
}

// Line feeds that the template writes between content and calls.
std::optional<std::string> find_lead(const ReplyFormat& format, const std::string& turn) {
  const size_t content = turn.find(kContent);
  if (content == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(turn).substr(content + kContent.size());
  const size_t end = std::min(rest.find_first_not_of('\n'), rest.size());
  for (const CallShape& shape : format.shapes) {
    const std::vector<std::string> opening = shape.opening();
    if (!opening.empty() && rest.substr(end).starts_with(opening.front())) return std::string(rest.substr(0, end));
  }
  return std::nullopt;
}

size_t find_id_bytes(const Prober& prober) {
  const auto accepts = [&](const std::string& id) {
    for (const bool object_arguments : {true, false}) {
      if (!prober.turn(assistant("", {probe_call(object_arguments, id)})).empty()) return true;
    }
    return false;
  };
  constexpr size_t kMistralBytes = 9;
  const std::string other = "zzid" + std::string(20, '0');
  return !accepts(other) && accepts(other.substr(0, kMistralBytes)) ? kMistralBytes : 0;
}

}  // namespace

TemplateProbe probe_template(std::string_view source) {
  TemplateProbe probe;
  const Result<jinja::Template> parsed = jinja::Template::parse(source);
  if (!parsed.ok()) return probe;
  const Prober prober(*parsed);
  probe.plain = prober.turn(assistant(std::string(kContent), {}));
  probe.everything = probe.plain;
  for (const bool object_arguments : {true, false}) {
    const Json first = probe_call(object_arguments, "zzid00001");
    const Json second = probe_call(object_arguments, "zzid00002");
    for (const Json& content : {Json(std::string(kContent)), Json(""), Json()}) {
      Json message = assistant(content, {first});
      message["reasoning_content"] = "zzreasoning";
      const std::string thinking = prober.turn(message);
      message.erase("reasoning_content");
      const std::string one = prober.turn(message);
      message = assistant(content, {first, second});
      const std::string two = prober.turn(message);
      if (probe.one_call.find(kName) == std::string::npos) probe.one_call = one;
      if (probe.two_calls.find(kName) == std::string::npos) probe.two_calls = two;
      probe.everything += thinking + one + two;
    }
  }
  for (const bool thinking : {true, false}) {
    probe.everything += prober.prompt({{"enable_thinking", thinking}, {"thinking", thinking}, {"reasoning", thinking}});
  }
  const Json question = Json::array({Prober::user()});
  const std::optional<std::string> with_tools = prober.render(question, {{"tools", probe_tools()}});
  probe.uses_tools = with_tools.has_value() && with_tools != prober.render(question, Json::object());
  probe.call_id_bytes = find_id_bytes(prober);
  return probe;
}

ReplyFormat detect_format(std::string_view source, const TemplateProbe& probe) {
  const auto recognised = [&]() -> ReplyFormat {
    const auto starts_bare = [](const ReplyFormat& known) {
      return !known.shapes.empty() && known.shapes.front().at_start;
    };
    for (const ReplyFormat& known : known_formats()) {
      if (!starts_bare(known) && has_all(probe.everything, known.signature) && reads_back(known, probe)) return known;
    }
    std::optional<ReplyFormat> derived = derive_format(probe);
    if (derived && (starts_bare(*derived) || reads_back(*derived, probe))) return *std::move(derived);
    // What nothing marks cannot be told within the text of a turn.
    for (const std::string_view text : {std::string_view(probe.everything), source}) {
      for (const ReplyFormat& known : known_formats()) {
        if (has_all(text, known.signature) && (starts_bare(known) || reads_back(known, probe))) return known;
      }
    }
    return generic_format();
  };
  ReplyFormat format = recognised();
  if (format.headers.style == HeaderStyle::kNone) {
    if (const std::optional<Reasoning> reasoning = find_reasoning(source, probe)) format.reasoning = *reasoning;
  }
  if (const std::optional<std::string> lead = find_lead(format, probe.one_call)) format.lead = *lead;
  return format;
}

}  // namespace twostroke::reply
