// A model's output, read by one of the known formats: the first byte chooses which, the second how the text is cut.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "server/text/reply/format_parser.h"
#include "server/text/reply/reply_format.h"

namespace twostroke::reply {
namespace {

// What a reader of the format may meet: its own markers, and what arguments are made of.
std::vector<std::string> words_of(const ReplyFormat& format) {
  std::vector<std::string> words = {"{\"", "\": ", "\"",   "}",          "[", "]",  ", ",     "f",    "g",
                                    "x",   "name", "\\\"", "\\u00e9",    "5", "é",  "\n",     "\n\n", "null",
                                    "(",   "=",    ")",    "functions.", "'", ":0", "<|\"|>", "id"};
  const auto add = [&words](const std::string& word) {
    if (!word.empty()) words.push_back(word);
  };
  for (const CallShape& shape : format.shapes) {
    for (const std::string* word :
         {&shape.section_open, &shape.section_close, &shape.separator, &shape.call_open, &shape.call_close,
          &shape.name_close, &shape.name_prefix, &shape.name_suffix, &shape.id_open, &shape.tags.key_open,
          &shape.tags.key_close, &shape.tags.value_close}) {
      add(*word);
    }
    for (const auto* keys : {&shape.name_keys, &shape.arguments_keys, &shape.id_keys}) {
      for (const std::string& key : *keys) add("\"" + key + "\": ");
    }
  }
  for (const auto* list : {&format.dropped, &format.headers.open, &format.headers.end}) {
    for (const std::string& word : *list) add(word);
  }
  for (const std::string* word : {&format.headers.close, &format.reasoning.open, &format.reasoning.close}) add(*word);
  return words;
}

struct Fold {
  std::string reasoning, content;
  std::map<uint32_t, ToolCallDelta> calls;

  void take(const ReplyDelta& delta) {
    reasoning += delta.reasoning;
    content += delta.content;
    for (const ToolCallDelta& news : delta.tool_calls) {
      CHECK(news.begins == !calls.contains(news.index), "a call begins once, and first");
      CHECK(news.index <= calls.size(), "calls count up from 0");
      ToolCallDelta& call = calls[news.index];
      const std::string arguments = call.arguments + news.arguments;
      if (news.begins) call = news;
      call.arguments = arguments;
    }
  }
};

// In pieces of about `piece` bytes, of whole characters.
Fold read(const std::shared_ptr<const ReplyFormat>& format, std::string_view text, size_t piece) {
  FormatParserOptions options;
  options.tool_calls = true;
  FormatParser parser(format, std::move(options));
  Fold fold;
  while (!text.empty()) {
    size_t end = std::min(piece, text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    fold.take(parser.push(text.substr(0, end)));
    text.remove_prefix(end);
  }
  fold.take(parser.finish());
  return fold;
}

void check(std::string_view input) {
  const auto formats = known_formats();
  const ReplyFormat& known = formats[static_cast<unsigned char>(input[0]) % formats.size()];
  const auto format = std::make_shared<const ReplyFormat>(known);
  const std::vector<std::string> words = words_of(known);
  std::string text;
  for (const char byte : input.substr(2)) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80) {
      text += byte;
    } else {
      text += words[(value - 0x80) % words.size()];
    }
  }
  const Fold whole = read(format, text, std::max<size_t>(text.size(), 1));
  const Fold pieces = read(format, text, static_cast<unsigned char>(input[1]) % 8 + 1);
  CHECK(whole.reasoning == pieces.reasoning && whole.content == pieces.content);
  CHECK(whole.calls.size() == pieces.calls.size());
  for (const auto& [index, call] : whole.calls) {
    const ToolCallDelta& other = pieces.calls.at(index);
    CHECK(call.name == other.name && call.id == other.id && call.arguments == other.arguments);
  }
}

}  // namespace
}  // namespace twostroke::reply

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2) twostroke::reply::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
