// ReplySyntax: how a model marks reasoning and tool calls, found from its chat template; and the grammar that makes it
// call.
//
// Detection renders the template with a conversation of its own invention and reads what is written around a call; the
// families that are known (reply_format.h) are recognised in that, and a form that none of them has is taken from it as
// it stands, where it is JSON between markers.
//
// Thread-safety: immutable.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/status.h"
#include "kernels/token.h"
#include "server/text/grammar/grammar.h"
#include "server/text/reply/reply_parser.h"
#include "server/text/tokenizer.h"

namespace twostroke::reply {

struct ParseOptions {
  bool tool_calls = false;  // the request has tools; otherwise nothing is taken for a call
  bool reasoning = true;    // false: reasoning stays in the content, markers and all
  // What the template wrote behind the last message: a turn that the template opened inside "<think>" starts there.
  std::string prompt_end;
  // Of the request; a call of another function is content. Empty: any name.
  std::vector<std::string> tool_names;
  // tool_parameters[i] is the schema of tool_names[i] or null; it may be shorter. Forms that write arguments as text
  // (<parameter=x>5</parameter>) read in it what is a string and what is not. Used during parser() only.
  std::vector<const nlohmann::ordered_json*> tool_parameters;
};

// Which calls a request demands, or holds to their form.
struct ToolDemand {
  // The request's `tools` that may be called: [{"name", "parameters" (a schema of objects, or null: none)}].
  struct Tool {
    std::string name;
    const nlohmann::ordered_json* parameters = nullptr;
    bool strict = true;  // its arguments are held to `parameters`; false: they are any
  };
  std::vector<Tool> tools;
  bool parallel = true;    // more than one call is allowed
  std::string prompt_end;  // as in ParseOptions
  // The turn need not call: there may be content, before calls, behind them or alone. What would begin a call is one.
  bool optional = false;
  // With `optional`: content satisfies this schema, and stands in the place of calls. Null: any text.
  const nlohmann::ordered_json* content = nullptr;
};

class ReplySyntax {
 public:
  virtual ~ReplySyntax() = default;

  // By what the template writes; a model without a template, or whose template knows no calls, gets the generic syntax:
  // calls in the form that tools_prompt() asks for. `tokenizer` must outlive it. Renders the template a few times.
  static std::unique_ptr<ReplySyntax> detect(std::string_view template_source, const Tokenizer& tokenizer);

  virtual std::string_view name() const = 0;  // "hermes", "llama3", ...: for logs and --help
  // Control tokens whose text the parser must see, which a client never does. Sorted.
  virtual std::span<const TokenId> marker_tokens() const = 0;
  // Of those, tokens that end the turn for this syntax (<|call|> of harmony) and are no end of generation by
  // themselves.
  virtual std::span<const TokenId> extra_stop_tokens() const = 0;
  virtual std::unique_ptr<ReplyParser> parser(const ParseOptions& options) const = 0;

  // False: the template ignores `tools`, or fails at them; a system message that says tools_prompt() makes up for it.
  virtual bool template_uses_tools() const = 0;
  // The bytes that an id of a call must have for the template to take it (Mistral's: 9, letters and digits only); 0:
  // any.
  virtual size_t call_id_bytes() const = 0;

  // A grammar of turns that hold at least one call (or, with `optional`, any number), arguments valid against their
  // schema, in this model's own form; the parser reads them back. Errors as grammar::compile_json_schema.
  virtual Result<std::shared_ptr<const grammar::Grammar>> demand_grammar(const ToolDemand& demand) const = 0;
};

// What tells a model of the tools that it may call, and how, in the generic syntax. `tools`: an array as in a request
// ([{"type": "function", "function": {...}}]).
std::string tools_prompt(const nlohmann::ordered_json& tools);

}  // namespace twostroke::reply
