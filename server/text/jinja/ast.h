// The syntax tree of a template. Made by the parser, immutable afterwards, walked by the interpreter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/text/jinja/arithmetic.h"
#include "server/text/jinja/registry.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// A variable's name, as an index into Program::names.
using NameId = std::uint32_t;

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;
struct Stmt;

// Statements in a row. Where they have variables of their own, `masked` names those that they set before anything
// reads them: until then these have no value, even where the context has one (see scope_analysis.h).
struct Body {
  std::vector<Stmt> statements;
  std::vector<NameId> masked;
};

// What stands between the parentheses of a call.
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *items, or null
  ExprPtr star_star;  // **mapping, or null
};

struct Literal {
  Value value;
};
struct Name {
  NameId id;
};
struct ListExpr {
  std::vector<ExprPtr> items;
};
struct TupleExpr {
  std::vector<ExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOperator { kNot, kNegative, kPositive };
struct Unary {
  UnaryOperator operation;
  ExprPtr operand;
};
struct Binary {
  BinaryOperator operation;
  ExprPtr left;
  ExprPtr right;
};
struct Logical {
  bool is_and;  // else `or`
  ExprPtr left;
  ExprPtr right;
};
enum class CompareOperator { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual, kIn, kNotIn };
struct Compare {  // a < b <= c
  ExprPtr first;
  std::vector<std::pair<CompareOperator, ExprPtr>> rest;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExprPtr> parts;
};
struct Conditional {  // value if test else otherwise
  ExprPtr test;
  ExprPtr value;
  ExprPtr otherwise;  // or null
};
struct GetAttribute {
  ExprPtr object;
  Value name;
};
struct GetItem {
  ExprPtr object;
  ExprPtr key;
};
struct GetSlice {
  ExprPtr object;
  ExprPtr start;  // each of the three may be null
  ExprPtr stop;
  ExprPtr step;
};
struct Call {
  ExprPtr callee;
  CallArguments arguments;
};
struct ApplyFilter {
  ExprPtr input;  // null in a filter block: the block's text
  std::string name;
  FilterFunction function;  // null where there is no such filter, which fails when it is reached
  CallArguments arguments;
};
struct ApplyTest {
  ExprPtr input;
  std::string name;
  TestFunction function;  // null as above
  CallArguments arguments;
};

struct Expr {
  using Node = std::variant<Literal, Name, ListExpr, TupleExpr, DictExpr, Unary, Binary, Logical, Compare, Concat,
                            Conditional, GetAttribute, GetItem, GetSlice, Call, ApplyFilter, ApplyTest>;
  int line;
  Node node;
};

// What `set` and `for` assign to: a name, an attribute of a namespace, or several of them.
struct Target {
  struct Attribute {
    NameId object;
    std::string name;
  };
  std::variant<NameId, Attribute, std::vector<Target>> place;
};

// The parameters and the body of a macro or of a call block.
struct Signature {
  struct Parameter {
    NameId id;
    std::string name;
    ExprPtr fallback;  // or null
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Whether the body names these special variables.
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

struct DataStmt {
  Value text;
};
struct OutputStmt {
  ExprPtr value;
};
struct IfStmt {
  struct Branch {
    ExprPtr condition;
    Body body;
  };
  std::vector<Branch> branches;
  Body otherwise;
};
struct ForStmt {
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // for ... in ... if condition; or null
  bool recursive = false;
  Body body;
  Body otherwise;
};
struct SetStmt {
  Target target;
  ExprPtr value;
};
struct SetBlockStmt {
  Target target;
  ExprPtr filter;  // a chain of ApplyFilter whose innermost input is null; or null
  Body body;
};
struct FilterBlockStmt {
  ExprPtr filter;
  Body body;
};
struct MacroStmt {
  NameId id;
  Signature signature;
};
struct CallBlockStmt {
  Signature caller;
  ExprPtr call;  // a Call
};
struct WithStmt {
  std::vector<std::pair<Target, ExprPtr>> variables;
  Body body;
};
// A body with variables of its own: `block`, `generation`, `autoescape false`.
struct ScopeStmt {
  Body body;
};
struct BreakStmt {};
struct ContinueStmt {};

struct Stmt {
  using Node = std::variant<DataStmt, OutputStmt, IfStmt, ForStmt, SetStmt, SetBlockStmt, FilterBlockStmt, MacroStmt,
                            CallBlockStmt, WithStmt, ScopeStmt, BreakStmt, ContinueStmt>;
  int line;
  Node node;
};

struct Program {
  std::vector<std::string> names;  // by NameId
  Body body;
};

}  // namespace twostroke::jinja
