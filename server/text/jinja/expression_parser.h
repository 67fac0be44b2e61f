// The expressions of the grammar, from the weakest binding to the strongest: conditional, or, and, not, comparison,
// + -, ~, * / // %, **, sign, postfix, filters and tests.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/text/jinja/ast.h"
#include "server/text/jinja/limits.h"
#include "server/text/jinja/token_stream.h"

namespace twostroke::jinja {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& stream, const Limits& limits) : stream_(stream), nesting_max_(limits.nesting_max) {}

  ExprPtr parse_expression();
  // An expression or, where commas follow, a tuple. Without `conditional` an `if` ends it; `recursive` also ends it
  // where `ends_at_recursive`.
  ExprPtr parse_tuple(bool conditional = true, bool ends_at_recursive = false);
  // What `set` and `for` assign to; namespace attributes only in `set`.
  Target parse_target(bool attributes);
  // `|name(...)|...` applied to a block's text; null where there is none.
  ExprPtr parse_block_filters();
  // The same without the first bar, as in `{% filter name %}`.
  ExprPtr parse_filter_chain();

  NameId intern(std::string_view name);
  std::vector<std::string> take_names() { return std::move(names_); }

  // Signatures whose bodies are being parsed; told where a body names caller, kwargs or varargs.
  std::vector<Signature*> open_signatures;
  // Whether an unknown filter or test waits until it is reached: Jinja does so inside `if`.
  bool tolerates_unknown = false;

  // One level of nesting; fails at the limit.
  class Nesting {
   public:
    Nesting(ExpressionParser& parser, int line);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  struct Parsed {
    ExprPtr expr;
    int height = 1;  // of its tree, which a long chain of operators makes tall without any bracket
  };

  template <typename Node>
  Parsed make(int line, int height, Node node);
  Parsed parse_conditional();
  Parsed parse_or();
  Parsed parse_and();
  Parsed parse_not();
  Parsed parse_compare();
  Parsed parse_sum();
  Parsed parse_concat();
  Parsed parse_product();
  Parsed parse_power();
  Parsed parse_unary(bool with_filters);
  Parsed parse_primary();
  Parsed parse_name();
  Parsed parse_list();
  Parsed parse_dict();
  Parsed parse_tuple_of(bool conditional, bool ends_at_recursive, bool parenthesised);
  Parsed parse_postfix(Parsed parsed);
  Parsed parse_subscript(Parsed object);
  Parsed parse_slice(Parsed object, int line, Parsed start, bool has_start);
  Parsed parse_filters_and_tests(Parsed parsed);
  Parsed parse_filter(Parsed input);
  Parsed parse_test(Parsed input);
  Parsed parse_call(Parsed callee);
  CallArguments parse_arguments(int& height);
  std::string parse_dotted_name();
  Target parse_single_target(bool attributes);
  std::optional<CompareOperator> take_compare_operator();
  bool at_tuple_end(bool ends_at_recursive) const;
  void note_special_name(std::string_view name);

  TokenStream& stream_;
  const int nesting_max_;
  int nesting_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
};

}  // namespace twostroke::jinja
