// ReplySyntax: how a model marks reasoning and tool calls, found from its chat template; and the grammar that makes it
// call.
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
  std::vector<std::string> tool_names;  // of the request
};

// Which calls a request demands.
struct ToolDemand {
  // The request's `tools` that may be called: [{"name", "parameters" (a schema, or null: any object)}].
  struct Tool {
    std::string name;
    const nlohmann::ordered_json* parameters = nullptr;
  };
  std::vector<Tool> tools;
  bool parallel = true;    // more than one call is allowed
  std::string prompt_end;  // as in ParseOptions
};

class ReplySyntax {
 public:
  virtual ~ReplySyntax() = default;

  // By the markers in the template's source; a model without template or markers gets the generic one, which finds no
  // reasoning, and calls only in the form that its own demand_grammar() makes.
  static std::unique_ptr<ReplySyntax> detect(std::string_view template_source, const Tokenizer& tokenizer);

  virtual std::string_view name() const = 0;  // "hermes", "llama3", ...: for logs and --help
  // Control tokens whose text the parser must see, which a client never does. Sorted.
  virtual std::span<const TokenId> marker_tokens() const = 0;
  // Of those, tokens that end the turn for this syntax (<|call|> of harmony) and are no end of generation by
  // themselves.
  virtual std::span<const TokenId> extra_stop_tokens() const = 0;
  virtual std::unique_ptr<ReplyParser> parser(const ParseOptions& options) const = 0;

  // A grammar of turns that hold at least one call, arguments valid against their schema, in this model's own form; the
  // parser reads them back. Errors as grammar::compile_json_schema.
  virtual Result<std::shared_ptr<const grammar::Grammar>> demand_grammar(const ToolDemand& demand) const = 0;
};

}  // namespace twostroke::reply
