#include "server/text/jinja/scope_analysis.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace twostroke::jinja {
namespace {

// The names of one block in the order in which the source mentions them.
class Names {
 public:
  explicit Names(const Names* outer) : outer_(outer) {}

  void load(NameId name) {
    if (!is_known(name)) own_.emplace(name, false);
  }
  void store(NameId name) {
    stored_.insert(name);
    if (!is_known(name)) own_.emplace(name, true);
  }
  // A parameter or the target of a loop: it has its value from the beginning.
  void declare(NameId name) { own_[name] = false; }

  // Takes in what the branches of an `if` mention. Each began as a copy of this.
  void merge(const std::vector<Names>& branches) {
    std::map<NameId, std::size_t> storing;  // in how many branches a name is newly set
    for (const Names& branch : branches) {
      for (const NameId name : branch.stored_) {
        if (stored_.count(name) == 0) ++storing[name];
      }
    }
    for (const Names& branch : branches) {
      for (const auto& [name, masked] : branch.own_) own_[name] = masked;
      stored_.insert(branch.stored_.begin(), branch.stored_.end());
    }
    for (const auto& [name, count] : storing) {
      const auto found = own_.find(name);
      if (count < branches.size() && found != own_.end()) found->second = false;
    }
  }

  std::vector<NameId> masked() const {
    std::vector<NameId> names;
    for (const auto& [name, masked] : own_) {
      if (masked) names.push_back(name);
    }
    return names;
  }

 private:
  bool is_known(NameId name) const {
    for (const Names* names = this; names != nullptr; names = names->outer_) {
      if (names->own_.count(name) != 0) return true;
    }
    return false;
  }

  const Names* outer_;          // of the block around this one
  std::map<NameId, bool> own_;  // whether the name is without a value until it is set
  std::set<NameId> stored_;
};

void read(const Expr& expr, Names& names);

void read(const ExprPtr& expr, Names& names) {
  if (expr != nullptr) read(*expr, names);
}

void read(const std::vector<ExprPtr>& exprs, Names& names) {
  for (const ExprPtr& expr : exprs) read(expr, names);
}

void read(const CallArguments& arguments, Names& names) {
  read(arguments.positional, names);
  for (const auto& argument : arguments.named) read(argument.second, names);
  read(arguments.star, names);
  read(arguments.star_star, names);
}

// Loads every name in an expression.
struct ExpressionReader {
  Names& names;

  void operator()(const Literal&) const {}
  void operator()(const Name& node) const { names.load(node.id); }
  void operator()(const ListExpr& node) const { read(node.items, names); }
  void operator()(const TupleExpr& node) const { read(node.items, names); }
  void operator()(const DictExpr& node) const {
    for (const auto& [key, value] : node.entries) {
      read(key, names);
      read(value, names);
    }
  }
  void operator()(const Unary& node) const { read(node.operand, names); }
  void operator()(const Binary& node) const {
    read(node.left, names);
    read(node.right, names);
  }
  void operator()(const Logical& node) const {
    read(node.left, names);
    read(node.right, names);
  }
  void operator()(const Compare& node) const {
    read(node.first, names);
    for (const auto& operand : node.rest) read(operand.second, names);
  }
  void operator()(const Concat& node) const { read(node.parts, names); }
  void operator()(const Conditional& node) const {
    read(node.test, names);
    read(node.value, names);
    read(node.otherwise, names);
  }
  void operator()(const GetAttribute& node) const { read(node.object, names); }
  void operator()(const GetItem& node) const {
    read(node.object, names);
    read(node.key, names);
  }
  void operator()(const GetSlice& node) const {
    read(node.object, names);
    read(node.start, names);
    read(node.stop, names);
    read(node.step, names);
  }
  void operator()(const Call& node) const {
    read(node.callee, names);
    read(node.arguments, names);
  }
  void operator()(const ApplyFilter& node) const {
    read(node.input, names);
    read(node.arguments, names);
  }
  void operator()(const ApplyTest& node) const {
    read(node.input, names);
    read(node.arguments, names);
  }
};

void read(const Expr& expr, Names& names) { std::visit(ExpressionReader{names}, expr.node); }

void store(const Target& target, Names& names) {
  if (const auto* name = std::get_if<NameId>(&target.place)) return names.store(*name);
  if (const auto* attribute = std::get_if<Target::Attribute>(&target.place)) return names.load(attribute->object);
  for (const Target& inner : std::get<std::vector<Target>>(target.place)) store(inner, names);
}

void declare(const Target& target, Names& names) {
  if (const auto* name = std::get_if<NameId>(&target.place)) names.declare(*name);
  if (const auto* targets = std::get_if<std::vector<Target>>(&target.place)) {
    for (const Target& inner : *targets) declare(inner, names);
  }
}

class Analysis {
 public:
  explicit Analysis(const Program& program) {
    const auto found = std::find(program.names.begin(), program.names.end(), "loop");
    if (found != program.names.end()) loop_ = static_cast<NameId>(found - program.names.begin());
  }

  // A block whose names in its head are already in `names`.
  void analyse(Body& body, Names names) {
    mention(body, names);
    body.masked = names.masked();
    descend(body, names);
  }

 private:
  // The names that a block's statements mention directly.
  void mention(const Body& body, Names& names) {
    for (const Stmt& statement : body.statements) {
      std::visit([&](const auto& node) { mention(node, names); }, statement.node);
    }
  }
  void mention(const DataStmt&, Names&) {}
  void mention(const OutputStmt& node, Names& names) { read(node.value, names); }
  void mention(const IfStmt& node, Names& names) { mention_if(node, 0, names); }
  void mention(const ForStmt& node, Names& names) { read(node.iterable, names); }
  void mention(const SetStmt& node, Names& names) {
    read(node.value, names);
    store(node.target, names);
  }
  void mention(const SetBlockStmt& node, Names& names) { store(node.target, names); }
  void mention(const FilterBlockStmt& node, Names& names) { read(node.filter, names); }
  void mention(const MacroStmt& node, Names& names) { names.store(node.id); }
  void mention(const CallBlockStmt& node, Names& names) { read(node.call, names); }
  void mention(const WithStmt& node, Names& names) {
    for (const auto& variable : node.variables) read(variable.second, names);
  }
  void mention(const ScopeStmt&, Names&) {}
  void mention(const BreakStmt&, Names&) {}
  void mention(const ContinueStmt&, Names&) {}

  // Jinja sees an `if` as three branches: its body, all of its `elif` (each an `if` again, with two empty branches),
  // and its `else`.
  void mention_if(const IfStmt& node, std::size_t index, Names& names) {
    read(node.branches[index].condition, names);
    Names body = names;
    mention(node.branches[index].body, body);
    Names elifs = names;
    Names otherwise = names;
    if (index == 0) {
      for (std::size_t i = 1; i < node.branches.size(); ++i) mention_if(node, i, elifs);
      mention(node.otherwise, otherwise);
    }
    names.merge({std::move(body), std::move(elifs), std::move(otherwise)});
  }

  // Into the blocks inside of a block that have variables of their own.
  void descend(Body& body, const Names& names) {
    for (Stmt& statement : body.statements) {
      std::visit([&](auto& node) { descend(node, names); }, statement.node);
    }
  }
  template <typename Node>
  void descend(Node&, const Names&) {}
  void descend(IfStmt& node, const Names& names) {
    for (auto& branch : node.branches) descend(branch.body, names);
    descend(node.otherwise, names);
  }
  void descend(ForStmt& node, const Names& names) {
    Names inside(&names);
    if (loop_) inside.declare(*loop_);
    declare(node.target, inside);
    analyse(node.body, std::move(inside));
    analyse(node.otherwise, Names(&names));
  }
  void descend(SetBlockStmt& node, const Names& names) { analyse(node.body, Names(&names)); }
  void descend(FilterBlockStmt& node, const Names& names) { analyse(node.body, Names(&names)); }
  void descend(MacroStmt& node, const Names& names) { descend(node.signature, names); }
  void descend(CallBlockStmt& node, const Names& names) { descend(node.caller, names); }
  void descend(Signature& signature, const Names& names) {
    Names inside(&names);
    for (const auto& parameter : signature.parameters) inside.declare(parameter.id);
    for (const auto& parameter : signature.parameters) read(parameter.fallback, inside);
    analyse(signature.body, std::move(inside));
  }
  void descend(WithStmt& node, const Names& names) {
    Names inside(&names);
    for (const auto& variable : node.variables) declare(variable.first, inside);
    analyse(node.body, std::move(inside));
  }
  void descend(ScopeStmt& node, const Names& names) { analyse(node.body, Names(&names)); }

  std::optional<NameId> loop_;
};

}  // namespace

void find_masked_names(Program& program) { Analysis(program).analyse(program.body, Names(nullptr)); }

}  // namespace twostroke::jinja
