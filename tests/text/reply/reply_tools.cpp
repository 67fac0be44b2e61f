#include "reply_tools.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "server/text/reply/format_parser.h"
#include "server/text/reply/reply_format.h"
#include "server/text/tokenizer_spec.h"

namespace twostroke::reply {
namespace {

// GPT-2's letter for a byte: https://github.com/openai/gpt-2/blob/master/src/encoder.py (bytes_to_unicode).
std::string letter_of(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer(const std::vector<std::string>& control_tokens) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(letter_of(byte));
  spec.tokens.emplace_back("ab");  // a vocabulary without any merge is refused
  spec.merges = {"a b"};
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  for (const std::string& token : control_tokens) spec.tokens.push_back(token);
  spec.tokens.emplace_back("<|test_end|>");
  spec.types.resize(spec.tokens.size(), TokenType::kControl);
  spec.eos = static_cast<TokenId>(spec.tokens.size() - 1);
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

void add_delta(Reply& reply, const ReplyDelta& delta) {
  reply.content += delta.content;
  reply.reasoning += delta.reasoning;
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (call.begins) {
      EXPECT_EQ(call.index, reply.calls.size());
      EXPECT_NE(call.name, "");
      reply.calls.push_back({call.name, call.arguments, call.id});
      continue;
    }
    ASSERT_EQ(call.index + 1, reply.calls.size());
    EXPECT_EQ(call.name + call.id, "");
    reply.calls.back().arguments += call.arguments;
  }
}

MakeParser parser_of(const ReplySyntax& syntax, const ParseOptions& options) {
  return [&] { return syntax.parser(options); };
}

MakeParser parser_of_format(const std::string& name, const ParseOptions& options) {
  std::shared_ptr<const ReplyFormat> format;
  if (name == generic_format().name) format = std::make_shared<const ReplyFormat>(generic_format());
  for (const ReplyFormat& known : known_formats()) {
    if (known.name == name) format = std::make_shared<const ReplyFormat>(known);
  }
  EXPECT_TRUE(format) << name;
  if (format->reasoning.close.empty()) {
    auto thinking = std::make_shared<ReplyFormat>(*format);
    thinking->reasoning = {"<think>", "</think>"};
    format = thinking;
  }
  FormatParserOptions made;
  made.tool_calls = options.tool_calls;
  made.reasoning = options.reasoning;
  made.prompt_end = options.prompt_end;
  for (size_t i = 0; i < options.tool_names.size(); ++i) {
    made.tools.add(options.tool_names[i], i < options.tool_parameters.size() ? options.tool_parameters[i] : nullptr);
  }
  return [format, made] { return std::make_unique<FormatParser>(format, made); };
}

Reply parse(const MakeParser& make_parser, std::string_view text, const std::vector<size_t>& cuts) {
  const std::unique_ptr<ReplyParser> parser = make_parser();
  Reply reply;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    add_delta(reply, parser->push(text.substr(begin, cut - begin)));
    begin = cut;
  }
  add_delta(reply, parser->push(text.substr(begin)));
  add_delta(reply, parser->finish());
  return reply;
}

Reply parse_in_every_way(const MakeParser& make_parser, std::string_view text) {
  const Reply whole = parse(make_parser, text);
  std::vector<size_t> characters;
  for (size_t i = 1; i < text.size(); ++i) {
    if (!continues_character(text[i])) characters.push_back(i);
  }
  for (const size_t cut : characters) EXPECT_EQ(parse(make_parser, text, {cut}), whole) << "cut at " << cut;
  EXPECT_EQ(parse(make_parser, text, characters), whole) << "one by one";
  const unsigned seed = 11;
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::vector<size_t> cuts;
    for (const size_t cut : characters) {
      if (random() % 7 == 0) cuts.push_back(cut);
    }
    EXPECT_EQ(parse(make_parser, text, cuts), whole) << "seed " << seed << ", round " << round;
  }
  return whole;
}

std::string shared_template(const std::string& file) {
  std::ifstream stream(std::string(TWOSTROKE_SHARED_DIR) + "/chat_templates/" + file, std::ios::binary);
  std::stringstream contents;
  contents << stream.rdbuf();
  return contents.str();
}

}  // namespace twostroke::reply
