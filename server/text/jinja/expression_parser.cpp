#include "server/text/jinja/expression_parser.h"

#include <algorithm>
#include <utility>

namespace twostroke::jinja {
namespace {

bool is_constant(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" || name == "None";
}

Value constant(std::string_view name) {
  if (name == "none" || name == "None") return {};
  return name == "true" || name == "True";
}

std::optional<BinaryOperator> sum_operator(const Token& token) {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  if (token.text == "+") return BinaryOperator::kAdd;
  if (token.text == "-") return BinaryOperator::kSubtract;
  return std::nullopt;
}

std::optional<BinaryOperator> product_operator(const Token& token) {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  if (token.text == "*") return BinaryOperator::kMultiply;
  if (token.text == "/") return BinaryOperator::kDivide;
  if (token.text == "//") return BinaryOperator::kFloorDivide;
  if (token.text == "%") return BinaryOperator::kModulo;
  return std::nullopt;
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser, int line) : parser_(parser) {
  if (parser.nesting_ >= parser.nesting_max_) {
    fail_at(line, "the template nests deeper than " + std::to_string(parser.nesting_max_) + " levels");
  }
  ++parser.nesting_;
}

template <typename Node>
ExpressionParser::Parsed ExpressionParser::make(int line, int height, Node node) {
  if (height > nesting_max_) {
    fail_at(line,
            "an expression chains more than " + std::to_string(nesting_max_) + " operations; use ~ to join texts");
  }
  return {std::make_unique<const Expr>(Expr{line, Expr::Node(std::move(node))}), height + 1};
}

NameId ExpressionParser::intern(std::string_view name) {
  const auto [found, added] = ids_.try_emplace(std::string(name), static_cast<NameId>(names_.size()));
  if (added) names_.emplace_back(name);
  return found->second;
}

void ExpressionParser::note_special_name(std::string_view name) {
  for (Signature* signature : open_signatures) {
    signature->uses_caller = signature->uses_caller || name == "caller";
    signature->uses_kwargs = signature->uses_kwargs || name == "kwargs";
    signature->uses_varargs = signature->uses_varargs || name == "varargs";
  }
}

ExprPtr ExpressionParser::parse_expression() { return parse_conditional().expr; }

ExprPtr ExpressionParser::parse_tuple(bool conditional, bool ends_at_recursive) {
  return parse_tuple_of(conditional, ends_at_recursive, false).expr;
}

ExpressionParser::Parsed ExpressionParser::parse_conditional() {
  const Nesting nesting(*this, stream_.line());
  int line = stream_.line();
  Parsed value = parse_or();
  while (stream_.skip_name("if")) {
    const bool tolerated = std::exchange(tolerates_unknown, true);
    Parsed test = parse_or();
    Parsed otherwise;
    otherwise.height = 0;
    if (stream_.skip_name("else")) otherwise = parse_conditional();
    tolerates_unknown = tolerated;
    const int height = std::max({value.height, test.height, otherwise.height});
    value = make(line, height, Conditional{std::move(test.expr), std::move(value.expr), std::move(otherwise.expr)});
    line = stream_.line();
  }
  return value;
}

ExpressionParser::Parsed ExpressionParser::parse_or() {
  int line = stream_.line();
  Parsed left = parse_and();
  while (stream_.skip_name("or")) {
    Parsed right = parse_and();
    const int height = std::max(left.height, right.height);
    left = make(line, height, Logical{false, std::move(left.expr), std::move(right.expr)});
    line = stream_.line();
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_and() {
  int line = stream_.line();
  Parsed left = parse_not();
  while (stream_.skip_name("and")) {
    Parsed right = parse_not();
    const int height = std::max(left.height, right.height);
    left = make(line, height, Logical{true, std::move(left.expr), std::move(right.expr)});
    line = stream_.line();
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_not() {
  if (!stream_.at_name("not")) return parse_compare();
  const Nesting nesting(*this, stream_.line());
  const int line = stream_.next().line;
  Parsed operand = parse_not();
  return make(line, operand.height, Unary{UnaryOperator::kNot, std::move(operand.expr)});
}

std::optional<CompareOperator> ExpressionParser::take_compare_operator() {
  static constexpr std::pair<std::string_view, CompareOperator> kSymbols[] = {
      {"==", CompareOperator::kEqual},  {"!=", CompareOperator::kNotEqual},
      {"<", CompareOperator::kLess},    {"<=", CompareOperator::kLessOrEqual},
      {">", CompareOperator::kGreater}, {">=", CompareOperator::kGreaterOrEqual},
  };
  for (const auto& [symbol, operation] : kSymbols) {
    if (stream_.skip_operator(symbol)) return operation;
  }
  if (stream_.skip_name("in")) return CompareOperator::kIn;
  const bool not_in = stream_.at_name("not") && stream_.look().kind == TokenKind::kName && stream_.look().text == "in";
  if (!not_in) return std::nullopt;
  stream_.next();
  stream_.next();
  return CompareOperator::kNotIn;
}

ExpressionParser::Parsed ExpressionParser::parse_compare() {
  const int line = stream_.line();
  Parsed first = parse_sum();
  int height = first.height;
  Compare compare;
  while (const std::optional<CompareOperator> operation = take_compare_operator()) {
    Parsed operand = parse_sum();
    height = std::max(height, operand.height);
    compare.rest.emplace_back(*operation, std::move(operand.expr));
  }
  if (compare.rest.empty()) return first;
  compare.first = std::move(first.expr);
  return make(line, height, std::move(compare));
}

ExpressionParser::Parsed ExpressionParser::parse_sum() {
  int line = stream_.line();
  Parsed left = parse_concat();
  while (const std::optional<BinaryOperator> operation = sum_operator(stream_.current())) {
    stream_.next();
    Parsed right = parse_concat();
    const int height = std::max(left.height, right.height);
    left = make(line, height, Binary{*operation, std::move(left.expr), std::move(right.expr)});
    line = stream_.line();
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_concat() {
  const int line = stream_.line();
  Parsed first = parse_product();
  if (!stream_.at_operator("~")) return first;
  int height = first.height;
  Concat concat;
  concat.parts.push_back(std::move(first.expr));
  while (stream_.skip_operator("~")) {
    Parsed part = parse_product();
    height = std::max(height, part.height);
    concat.parts.push_back(std::move(part.expr));
  }
  return make(line, height, std::move(concat));
}

ExpressionParser::Parsed ExpressionParser::parse_product() {
  int line = stream_.line();
  Parsed left = parse_power();
  while (const std::optional<BinaryOperator> operation = product_operator(stream_.current())) {
    stream_.next();
    Parsed right = parse_power();
    const int height = std::max(left.height, right.height);
    left = make(line, height, Binary{*operation, std::move(left.expr), std::move(right.expr)});
    line = stream_.line();
  }
  return left;
}

// Unlike Python's, Jinja's ** groups from the left.
ExpressionParser::Parsed ExpressionParser::parse_power() {
  int line = stream_.line();
  Parsed left = parse_unary(true);
  while (stream_.skip_operator("**")) {
    Parsed right = parse_unary(true);
    const int height = std::max(left.height, right.height);
    left = make(line, height, Binary{BinaryOperator::kPower, std::move(left.expr), std::move(right.expr)});
    line = stream_.line();
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_unary(bool with_filters) {
  const int line = stream_.line();
  Parsed parsed;
  if (stream_.at_operator("-") || stream_.at_operator("+")) {
    const Nesting nesting(*this, line);
    const UnaryOperator operation = stream_.next().text == "-" ? UnaryOperator::kNegative : UnaryOperator::kPositive;
    Parsed operand = parse_unary(false);
    parsed = make(line, operand.height, Unary{operation, std::move(operand.expr)});
  } else {
    parsed = parse_primary();
  }
  parsed = parse_postfix(std::move(parsed));
  return with_filters ? parse_filters_and_tests(std::move(parsed)) : std::move(parsed);
}

ExpressionParser::Parsed ExpressionParser::parse_primary() {
  const int line = stream_.line();
  switch (stream_.current().kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString: {
      std::string text;
      while (stream_.at(TokenKind::kString)) text += stream_.next().text;  // neighbours are one string
      return make(line, 0, Literal{Value::literal(std::move(text))});
    }
    case TokenKind::kInteger:
      return make(line, 0, Literal{Value(stream_.next().integer)});
    case TokenKind::kFloat:
      return make(line, 0, Literal{Value(stream_.next().number)});
    default:
      break;
  }
  if (stream_.skip_operator("(")) {
    Parsed inner = parse_tuple_of(true, false, true);
    stream_.expect_operator(")");
    return inner;
  }
  if (stream_.at_operator("[")) return parse_list();
  if (stream_.at_operator("{")) return parse_dict();
  fail_at(line, "unexpected " + TokenStream::described(stream_.current()));
}

ExpressionParser::Parsed ExpressionParser::parse_name() {
  const Token& token = stream_.next();
  if (is_constant(token.text)) return make(token.line, 0, Literal{constant(token.text)});
  note_special_name(token.text);
  return make(token.line, 0, Name{intern(token.text)});
}

ExpressionParser::Parsed ExpressionParser::parse_list() {
  const int line = stream_.next().line;
  int height = 0;
  ListExpr list;
  while (!stream_.at_operator("]")) {
    if (!list.items.empty()) stream_.expect_operator(",");
    if (stream_.at_operator("]")) break;
    Parsed item = parse_conditional();
    height = std::max(height, item.height);
    list.items.push_back(std::move(item.expr));
  }
  stream_.expect_operator("]");
  return make(line, height, std::move(list));
}

ExpressionParser::Parsed ExpressionParser::parse_dict() {
  const int line = stream_.next().line;
  int height = 0;
  DictExpr dict;
  while (!stream_.at_operator("}")) {
    if (!dict.entries.empty()) stream_.expect_operator(",");
    if (stream_.at_operator("}")) break;
    Parsed key = parse_conditional();
    stream_.expect_operator(":");
    Parsed value = parse_conditional();
    height = std::max({height, key.height, value.height});
    dict.entries.emplace_back(std::move(key.expr), std::move(value.expr));
  }
  stream_.expect_operator("}");
  return make(line, height, std::move(dict));
}

bool ExpressionParser::at_tuple_end(bool ends_at_recursive) const {
  return stream_.at(TokenKind::kVariableEnd) || stream_.at(TokenKind::kBlockEnd) || stream_.at_operator(")") ||
         (ends_at_recursive && stream_.at_name("recursive"));
}

ExpressionParser::Parsed ExpressionParser::parse_tuple_of(bool conditional, bool ends_at_recursive,
                                                          bool parenthesised) {
  const Nesting nesting(*this, stream_.line());
  const int line = stream_.line();
  int height = 0;
  bool is_tuple = false;
  TupleExpr tuple;
  for (;;) {
    if (!tuple.items.empty()) stream_.expect_operator(",");
    if (at_tuple_end(ends_at_recursive)) break;
    Parsed item = conditional ? parse_conditional() : parse_or();
    if (!stream_.at_operator(",")) {
      if (!is_tuple) return item;
      height = std::max(height, item.height);
      tuple.items.push_back(std::move(item.expr));
      break;
    }
    is_tuple = true;
    height = std::max(height, item.height);
    tuple.items.push_back(std::move(item.expr));
  }
  if (!is_tuple && !parenthesised) stream_.fail_expected("an expression");
  return make(line, height, std::move(tuple));
}

ExpressionParser::Parsed ExpressionParser::parse_postfix(Parsed parsed) {
  for (;;) {
    if (stream_.at_operator(".") || stream_.at_operator("[")) {
      parsed = parse_subscript(std::move(parsed));
    } else if (stream_.at_operator("(")) {
      parsed = parse_call(std::move(parsed));
    } else {
      return parsed;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::parse_subscript(Parsed object) {
  const Token& symbol = stream_.next();
  const int line = symbol.line;
  if (symbol.text == ".") {
    const Token& member = stream_.next();
    if (member.kind == TokenKind::kName) {
      return make(line, object.height, GetAttribute{std::move(object.expr), Value::literal(member.text)});
    }
    if (member.kind != TokenKind::kInteger) fail_at(member.line, "expected a name or a number behind '.'");
    Parsed key = make(line, 0, Literal{Value(member.integer)});
    return make(line, object.height, GetItem{std::move(object.expr), std::move(key.expr)});
  }
  if (stream_.at_operator(":")) return parse_slice(std::move(object), line, {}, false);
  int height = object.height;
  TupleExpr keys;
  while (!stream_.at_operator("]")) {
    if (!keys.items.empty()) stream_.expect_operator(",");
    Parsed key = parse_conditional();
    if (stream_.at_operator(":") && keys.items.empty()) {
      return parse_slice(std::move(object), line, std::move(key), true);
    }
    height = std::max(height, key.height);
    keys.items.push_back(std::move(key.expr));
  }
  stream_.expect_operator("]");
  if (keys.items.size() == 1) return make(line, height, GetItem{std::move(object.expr), std::move(keys.items[0])});
  Parsed key = make(line, height, std::move(keys));
  return make(line, height, GetItem{std::move(object.expr), std::move(key.expr)});
}

ExpressionParser::Parsed ExpressionParser::parse_slice(Parsed object, int line, Parsed start, bool has_start) {
  int height = has_start ? std::max(object.height, start.height) : object.height;
  const auto bound = [&]() -> ExprPtr {
    if (!stream_.skip_operator(":") || stream_.at_operator(":") || stream_.at_operator("]")) return nullptr;
    Parsed parsed = parse_conditional();
    height = std::max(height, parsed.height);
    return std::move(parsed.expr);
  };
  ExprPtr stop = bound();
  ExprPtr step = bound();
  stream_.expect_operator("]");
  return make(line, height, GetSlice{std::move(object.expr), std::move(start.expr), std::move(stop), std::move(step)});
}

ExpressionParser::Parsed ExpressionParser::parse_filters_and_tests(Parsed parsed) {
  for (;;) {
    if (stream_.at_operator("|")) {
      stream_.next();
      parsed = parse_filter(std::move(parsed));
    } else if (stream_.at_name("is")) {
      parsed = parse_test(std::move(parsed));
    } else if (stream_.at_operator("(")) {
      parsed = parse_call(std::move(parsed));
    } else {
      return parsed;
    }
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = stream_.expect_name();
  while (stream_.skip_operator(".")) name += "." + stream_.expect_name();
  return name;
}

// Behind the bar.
ExpressionParser::Parsed ExpressionParser::parse_filter(Parsed input) {
  const int line = stream_.line();
  ApplyFilter filter;
  filter.name = parse_dotted_name();
  filter.function = find_filter(filter.name);
  if (filter.function == nullptr && !tolerates_unknown) fail_at(line, "No filter named '" + filter.name + "'.");
  int height = input.height;
  if (stream_.at_operator("(")) filter.arguments = parse_arguments(height);
  filter.input = std::move(input.expr);
  return make(line, height, std::move(filter));
}

ExpressionParser::Parsed ExpressionParser::parse_test(Parsed input) {
  const int line = stream_.next().line;
  const bool negated = stream_.skip_name("not");
  ApplyTest test;
  test.name = parse_dotted_name();
  test.function = find_test(test.name);
  if (test.function == nullptr && !tolerates_unknown) fail_at(line, "No test named '" + test.name + "'.");
  int height = input.height;
  const Token& token = stream_.current();
  const bool bare_argument =
      token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
      stream_.at_operator("[") || stream_.at_operator("{") ||
      (token.kind == TokenKind::kName && token.text != "else" && token.text != "or" && token.text != "and");
  if (stream_.at_operator("(")) {
    test.arguments = parse_arguments(height);
  } else if (bare_argument) {
    if (stream_.at_name("is")) fail_at(line, "You cannot chain multiple tests with is");
    Parsed argument = parse_postfix(parse_primary());
    height = std::max(height, argument.height);
    test.arguments.positional.push_back(std::move(argument.expr));
  }
  test.input = std::move(input.expr);
  Parsed parsed = make(line, height, std::move(test));
  if (!negated) return parsed;
  return make(line, parsed.height, Unary{UnaryOperator::kNot, std::move(parsed.expr)});
}

ExpressionParser::Parsed ExpressionParser::parse_call(Parsed callee) {
  const int line = stream_.line();
  int height = callee.height;
  CallArguments arguments = parse_arguments(height);
  return make(line, height, Call{std::move(callee.expr), std::move(arguments)});
}

CallArguments ExpressionParser::parse_arguments(int& height) {
  const int line = stream_.line();
  const auto require = [&](bool holds) {
    if (!holds) fail_at(line, "invalid syntax for function call expression");
  };
  const auto parse_value = [&]() -> ExprPtr {
    Parsed parsed = parse_conditional();
    height = std::max(height, parsed.height);
    return std::move(parsed.expr);
  };
  CallArguments arguments;
  stream_.expect_operator("(");
  bool needs_comma = false;
  while (!stream_.at_operator(")")) {
    if (needs_comma) {
      stream_.expect_operator(",");
      if (stream_.at_operator(")")) break;
    }
    needs_comma = true;
    if (stream_.skip_operator("*")) {
      require(arguments.star == nullptr && arguments.star_star == nullptr);
      arguments.star = parse_value();
    } else if (stream_.skip_operator("**")) {
      require(arguments.star_star == nullptr);
      arguments.star_star = parse_value();
    } else if (stream_.at(TokenKind::kName) && stream_.look().kind == TokenKind::kOperator &&
               stream_.look().text == "=") {
      require(arguments.star_star == nullptr);
      std::string name = stream_.next().text;
      stream_.next();
      arguments.named.emplace_back(std::move(name), parse_value());
    } else {
      require(arguments.star == nullptr && arguments.star_star == nullptr && arguments.named.empty());
      arguments.positional.push_back(parse_value());
    }
  }
  stream_.expect_operator(")");
  return arguments;
}

ExprPtr ExpressionParser::parse_block_filters() { return stream_.skip_operator("|") ? parse_filter_chain() : nullptr; }

ExprPtr ExpressionParser::parse_filter_chain() {
  Parsed chain = parse_filter({});
  while (stream_.skip_operator("|")) chain = parse_filter(std::move(chain));
  return std::move(chain.expr);
}

Target ExpressionParser::parse_single_target(bool attributes) {
  const Nesting nesting(*this, stream_.line());
  if (stream_.skip_operator("(")) {
    Target inner = parse_target(attributes);
    stream_.expect_operator(")");
    return inner;
  }
  const int line = stream_.line();
  const std::string name = stream_.expect_name();
  if (is_constant(name)) fail_at(line, "can't assign to '" + name + "'");
  if (attributes && stream_.skip_operator(".")) return {Target::Attribute{intern(name), stream_.expect_name()}};
  return {intern(name)};
}

Target ExpressionParser::parse_target(bool attributes) {
  Target first = parse_single_target(attributes);
  if (!stream_.at_operator(",")) return first;
  std::vector<Target> targets;
  targets.push_back(std::move(first));
  while (stream_.skip_operator(",")) {
    if (!stream_.at(TokenKind::kName) && !stream_.at_operator("(")) break;  // a comma at the end
    if (stream_.at_name("in")) break;
    targets.push_back(parse_single_target(attributes));
  }
  return {std::move(targets)};
}

}  // namespace twostroke::jinja
