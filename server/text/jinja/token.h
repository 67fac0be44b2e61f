// What the lexer makes of a template's source.
#pragma once

#include <cstdint>
#include <string>

namespace twostroke::jinja {

enum class TokenKind {
  kData,  // text outside of tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data; the name; the string's value; the operator's characters
  std::int64_t integer = 0;
  double number = 0;
};

}  // namespace twostroke::jinja
