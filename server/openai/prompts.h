// PreparedPrompts: a request's prompts in tokens, and whatever else of it takes a tokenizer or a compiler to make. What
// prepare.h makes and Generation starts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/token.h"
#include "server/openai/api_error.h"
#include "server/text/grammar/grammar.h"
#include "server/text/reply/reply_syntax.h"

namespace twostroke::openai {

struct PreparedPrompts {
  std::vector<std::vector<TokenId>> tokens;         // one list per prompt, none of them empty
  std::vector<std::string> texts;                   // what each says, for `echo`; empty without it
  std::vector<std::vector<TokenId>> bad_words;      // of the request, as the engine takes them
  std::shared_ptr<const grammar::Grammar> grammar;  // that the text of every answer keeps to; nullptr: any text
  // How to read the answers: chats only. Without, or when the service has no ReplySyntax, all text is content.
  std::optional<reply::ParseOptions> reply;
};

// Or why there are none.
using Prompts = std::variant<PreparedPrompts, ApiError>;

}  // namespace twostroke::openai
