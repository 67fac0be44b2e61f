// The tokens of a template as a parser reads them: one to look at, more behind it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/jinja/failure.h"
#include "server/text/jinja/token.h"

namespace twostroke::jinja {

class TokenStream {
 public:
  // The last token is kEnd; the stream never moves behind it.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[index_]; }
  const Token& look() const { return tokens_[std::min(index_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  const Token& next() {
    const Token& token = current();
    if (index_ + 1 < tokens_.size()) ++index_;
    return token;
  }

  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_name(std::string_view name) const { return at(TokenKind::kName) && current().text == name; }
  bool at_operator(std::string_view symbol) const { return at(TokenKind::kOperator) && current().text == symbol; }

  bool skip_name(std::string_view name) { return at_name(name) && (next(), true); }
  bool skip_operator(std::string_view symbol) { return at_operator(symbol) && (next(), true); }

  std::string expect_name() {
    if (!at(TokenKind::kName)) fail_expected("a name");
    return next().text;
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected("'" + std::string(name) + "'");
  }
  void expect_operator(std::string_view symbol) {
    if (!skip_operator(symbol)) fail_expected("'" + std::string(symbol) + "'");
  }
  void expect(TokenKind kind, const char* what) {
    if (!at(kind)) fail_expected(what);
    next();
  }

  [[noreturn]] void fail_expected(const std::string& what) const {
    fail_at(line(), "expected " + what + ", got " + described(current()));
  }

  static std::string described(const Token& token) {
    switch (token.kind) {
      case TokenKind::kData:
        return "text";
      case TokenKind::kVariableBegin:
        return "'{{'";
      case TokenKind::kVariableEnd:
        return "'}}'";
      case TokenKind::kBlockBegin:
        return "'{%'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kName:
      case TokenKind::kOperator:
        return "'" + token.text + "'";
      case TokenKind::kString:
        return "a string";
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return "a number";
      case TokenKind::kEnd:
        break;
    }
    return "the end of the template";
  }

 private:
  const std::vector<Token> tokens_;
  std::size_t index_ = 0;
};

}  // namespace twostroke::jinja
