// The grammar of a turn that calls, in a format's own form.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/status.h"
#include "kernels/token.h"
#include "server/text/grammar/grammar.h"
#include "server/text/reply/reply_format.h"
#include "server/text/reply/reply_syntax.h"
#include "server/text/tokenizer.h"

namespace twostroke::reply {

// A text as a model writes it: control tokens, and the text between them.
struct MarkedPiece {
  TokenId token = -1;  // -1: text
  std::string text;
};
std::vector<MarkedPiece> split_control_tokens(std::string_view text, const Tokenizer& tokenizer);

// Errors: kInvalidArgument without tools; kUnsupported where this form cannot hold what a schema demands (named), and
// as grammar::json_schema_expression.
Result<std::shared_ptr<const grammar::Grammar>> make_call_grammar(const ReplyFormat& format, const ToolDemand& demand,
                                                                  const Tokenizer& tokenizer);

}  // namespace twostroke::reply
