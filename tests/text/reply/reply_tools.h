// What the tests of replies share: a tokenizer of bytes and named control tokens, and replies put together from deltas.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/reply/reply_parser.h"
#include "server/text/reply/reply_syntax.h"
#include "server/text/tokenizer.h"

namespace twostroke::reply {

// Token b is byte b, 256 is "ab"; behind those, the control tokens, in order, and last the end of a turn.
std::unique_ptr<Tokenizer> byte_tokenizer(const std::vector<std::string>& control_tokens = {});

struct Call {
  std::string name;
  std::string arguments;
  std::string id;
  friend bool operator==(const Call&, const Call&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Call& call) {
    return out << call.name << "(" << call.arguments << ")" << (call.id.empty() ? "" : " id ") << call.id;
  }
};

// A whole turn.
struct Reply {
  std::string content;
  std::vector<Call> calls;
  std::string reasoning;
  friend bool operator==(const Reply&, const Reply&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Reply& reply) {
    out << "content \"" << reply.content << "\" reasoning \"" << reply.reasoning << "\"";
    for (const Call& call : reply.calls) out << "\n  " << call;
    return out;
  }
};

// Adds a delta; fails the test where a delta breaks the rules: a call's name comes once, first, and in order.
void add_delta(Reply& reply, const ReplyDelta& delta);
using MakeParser = std::function<std::unique_ptr<ReplyParser>()>;
MakeParser parser_of(const ReplySyntax& syntax, const ParseOptions& options);  // both must outlive it
// Of one of the known formats, by its name.
MakeParser parser_of_format(const std::string& name, const ParseOptions& options);

// `cuts`: where pieces end; the whole text is one piece without any.
Reply parse(const MakeParser& make_parser, std::string_view text, const std::vector<size_t>& cuts = {});
// Also checks that every way to cut the text in two, single characters, and some random cuts give the same.
Reply parse_in_every_way(const MakeParser& make_parser, std::string_view text);

std::string shared_template(const std::string& file);  // "" where it is absent

}  // namespace twostroke::reply
