#include "server/text/jinja/parser.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/text/jinja/expression_parser.h"
#include "server/text/jinja/lexer.h"
#include "server/text/jinja/override.h"
#include "server/text/jinja/scope_analysis.h"
#include "server/text/jinja/token_stream.h"

namespace twostroke::jinja {
namespace {

class Parser {
 public:
  Parser(std::string_view source, const Limits& limits) : stream_(tokenize(source)), expressions_(stream_, limits) {}

  Program run() {
    Program program;
    program.body = parse_body({});
    if (!stream_.at(TokenKind::kEnd)) fail_unknown_tag();
    program.names = expressions_.take_names();
    return program;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to one of the tags in `ends`, whose name is then the current token; without any, up to the end.
  Body parse_body(Ends ends) {
    const ExpressionParser::Nesting nesting(expressions_, stream_.line());
    Body body;
    while (!stream_.at(TokenKind::kEnd)) {
      const int line = stream_.line();
      if (stream_.at(TokenKind::kData)) {
        body.statements.push_back({line, DataStmt{Value::literal(stream_.next().text)}});
      } else if (stream_.at(TokenKind::kVariableBegin)) {
        stream_.next();
        body.statements.push_back({line, OutputStmt{expressions_.parse_tuple()}});
        stream_.expect(TokenKind::kVariableEnd, "'}}'");
      } else {
        stream_.expect(TokenKind::kBlockBegin, "'{%'");
        const bool ended = std::any_of(ends.begin(), ends.end(), [&](auto end) { return stream_.at_name(end); });
        if (ended) return body;
        parse_statement(body);
        stream_.expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() != 0) {
      fail_at(stream_.line(), "the template ends inside of a block: '" + std::string(*ends.begin()) + "' is missing");
    }
    return body;
  }

  // The rest of a tag, and the statements up to one of `ends`.
  Body parse_block(Ends ends) {
    stream_.skip_operator(":");
    stream_.expect(TokenKind::kBlockEnd, "'%}'");
    return parse_body(ends);
  }

  // The same where there is one end, which is then behind.
  Body parse_whole_block(std::string_view end) {
    Body body = parse_block({end});
    stream_.expect_name(end);
    return body;
  }

  void parse_statement(Body& body) {
    const int line = stream_.line();
    if (!stream_.at(TokenKind::kName)) stream_.fail_expected("the name of a tag");
    const std::string tag = stream_.current().text;
    if (tag == "print") return parse_print(body);
    body.statements.push_back({line, parse_tag(tag, line)});
  }

  Stmt::Node parse_tag(const std::string& tag, int line) {
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "generation") return parse_generation();
    if (tag == "block") return parse_named_block();
    if (tag == "autoescape") return parse_autoescape();
    if (tag == "break" || tag == "continue") return parse_loop_control(tag, line);
    const bool needs_loader = tag == "include" || tag == "import" || tag == "from" || tag == "extends";
    if (needs_loader) {
      throw Failure{StatusCode::kUnsupported, "the tag '" + tag + "' is refused: a chat template cannot load others",
                    line};
    }
    fail_unknown_tag();
  }

  [[noreturn]] void fail_unknown_tag() const {
    fail_at(stream_.line(), "Encountered unknown tag " + TokenStream::described(stream_.current()));
  }

  void parse_print(Body& body) {
    stream_.next();
    bool first = true;
    while (!stream_.at(TokenKind::kBlockEnd)) {
      if (!first) stream_.expect_operator(",");
      first = false;
      const int line = stream_.line();
      body.statements.push_back({line, OutputStmt{expressions_.parse_expression()}});
    }
  }

  IfStmt parse_if() {
    stream_.next();
    const Override<bool> tolerates(expressions_.tolerates_unknown, true);
    IfStmt statement;
    for (;;) {
      ExprPtr test = expressions_.parse_tuple(false);
      Body body = parse_block({"endif", "elif", "else"});
      statement.branches.push_back({std::move(test), std::move(body)});
      if (stream_.skip_name("elif")) continue;
      if (stream_.skip_name("else")) statement.otherwise = parse_block({"endif"});
      stream_.expect_name("endif");
      return statement;
    }
  }

  ForStmt parse_for() {
    const int line = stream_.next().line;
    ForStmt statement;
    statement.target = expressions_.parse_target(false);
    if (assigns_to(statement.target, expressions_.intern("loop"))) {
      fail_at(line, "Can't assign to special loop variable in for-loop target");
    }
    stream_.expect_name("in");
    statement.iterable = expressions_.parse_tuple(false, true);
    if (stream_.skip_name("if")) statement.condition = expressions_.parse_expression();
    statement.recursive = stream_.skip_name("recursive");
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    {
      const Override<int> inside(loop_depth_, loop_depth_ + 1);
      statement.body = parse_block({"endfor", "else"});
    }
    if (stream_.skip_name("else")) statement.otherwise = parse_block({"endfor"});
    stream_.expect_name("endfor");
    return statement;
  }

  static bool assigns_to(const Target& target, NameId name) {
    if (const auto* id = std::get_if<NameId>(&target.place)) return *id == name;
    const auto* several = std::get_if<std::vector<Target>>(&target.place);
    return several != nullptr &&
           std::any_of(several->begin(), several->end(), [&](const Target& inner) { return assigns_to(inner, name); });
  }

  Stmt::Node parse_set() {
    stream_.next();
    Target target = expressions_.parse_target(true);
    if (stream_.skip_operator("=")) return SetStmt{std::move(target), expressions_.parse_tuple()};
    ExprPtr filter = expressions_.parse_block_filters();
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    return SetBlockStmt{std::move(target), std::move(filter), parse_whole_block("endset")};
  }

  FilterBlockStmt parse_filter_block() {
    stream_.next();
    ExprPtr filter = expressions_.parse_filter_chain();
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    return {std::move(filter), parse_whole_block("endfilter")};
  }

  void parse_parameters(Signature& signature) {
    stream_.expect_operator("(");
    std::set<std::string> seen;
    while (!stream_.at_operator(")")) {
      if (!signature.parameters.empty()) stream_.expect_operator(",");
      const int line = stream_.line();
      std::string name = stream_.expect_name();
      if (!seen.insert(name).second) fail_at(line, "the parameter '" + name + "' is there twice");
      ExprPtr fallback;
      if (stream_.skip_operator("=")) {
        fallback = expressions_.parse_expression();
      } else if (!signature.parameters.empty() && signature.parameters.back().fallback != nullptr) {
        fail_at(line, "non-default argument follows default argument");
      }
      const NameId id = expressions_.intern(name);
      signature.parameters.push_back({id, std::move(name), std::move(fallback)});
    }
    stream_.expect_operator(")");
  }

  // The body of what is called like a function: `break` in it does not reach the loops around it.
  void parse_function_body(Signature& signature, std::string_view end) {
    expressions_.open_signatures.push_back(&signature);
    {
      const Override<int> no_loop(loop_depth_, 0);
      const Override<bool> tolerates(expressions_.tolerates_unknown, false);
      signature.body = parse_whole_block(end);
    }
    expressions_.open_signatures.pop_back();
  }

  MacroStmt parse_macro() {
    stream_.next();
    MacroStmt statement;
    statement.signature.name = stream_.expect_name();
    statement.id = expressions_.intern(statement.signature.name);
    parse_parameters(statement.signature);
    parse_function_body(statement.signature, "endmacro");
    return statement;
  }

  CallBlockStmt parse_call_block() {
    const int line = stream_.next().line;
    CallBlockStmt statement;
    statement.caller.name = "caller";
    if (stream_.at_operator("(")) parse_parameters(statement.caller);
    statement.call = expressions_.parse_expression();
    if (!std::holds_alternative<Call>(statement.call->node)) fail_at(line, "expected call");
    parse_function_body(statement.caller, "endcall");
    return statement;
  }

  WithStmt parse_with() {
    stream_.next();
    WithStmt statement;
    while (!stream_.at(TokenKind::kBlockEnd)) {
      if (!statement.variables.empty()) stream_.expect_operator(",");
      Target target = expressions_.parse_target(false);
      stream_.expect_operator("=");
      statement.variables.emplace_back(std::move(target), expressions_.parse_expression());
    }
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    statement.body = parse_whole_block("endwith");
    return statement;
  }

  ScopeStmt parse_generation() {
    stream_.next();
    const Override<int> no_loop(loop_depth_, 0);
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    return {parse_whole_block("endgeneration")};
  }

  ScopeStmt parse_named_block() {
    stream_.next();
    const int line = stream_.line();
    const std::string name = stream_.expect_name();
    if (!blocks_.insert(name).second) fail_at(line, "block '" + name + "' defined twice");
    stream_.skip_name("scoped");
    const Override<int> no_loop(loop_depth_, 0);
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    ScopeStmt statement{parse_whole_block("endblock")};
    stream_.skip_name(name);
    return statement;
  }

  ScopeStmt parse_autoescape() {
    const int line = stream_.next().line;
    if (!stream_.skip_name("false") && !stream_.skip_name("False")) {
      throw Failure{StatusCode::kUnsupported, "only 'autoescape false' is supported: a prompt is not HTML", line};
    }
    const Override<bool> tolerates(expressions_.tolerates_unknown, false);
    return {parse_whole_block("endautoescape")};
  }

  Stmt::Node parse_loop_control(const std::string& tag, int line) {
    stream_.next();
    if (loop_depth_ == 0) fail_at(line, "'" + tag + "' outside of a loop");
    if (tag == "break") return BreakStmt{};
    return ContinueStmt{};
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;  // loops around this place that `break` can end
  std::set<std::string> blocks_;
};

}  // namespace

Program parse_program(std::string_view source, const Limits& limits) {
  Program program = Parser(source, limits).run();
  find_masked_names(program);
  return program;
}

}  // namespace twostroke::jinja
