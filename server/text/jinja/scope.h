// The variables of one block of a template, and the blocks around it.
#pragma once

#include <utility>
#include <vector>

#include "server/text/jinja/ast.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// A block sees the variables of those around it and sets its own. A macro keeps the scope that it is defined in, which
// is why scopes live in the heap.
class Scope : public HeapNode {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  // Null where neither this scope nor one around it has the variable.
  const Value* find(NameId name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      for (const auto& [id, value] : scope->variables_) {
        if (id == name) return &value;
      }
    }
    return nullptr;
  }

  void set(NameId name, Value value) {
    for (auto& [id, old] : variables_) {
      if (id != name) continue;
      old = std::move(value);
      return;
    }
    variables_.emplace_back(name, std::move(value));
  }

  // Something that may outlive the block holds this scope, and so those around it.
  void capture() {
    for (Scope* scope = this; scope != nullptr && !scope->captured_; scope = scope->parent_) scope->captured_ = true;
  }
  bool is_captured() const { return captured_; }
  // For the next round of a loop. Requires that the scope is not captured.
  void clear() { variables_.clear(); }

 private:
  Scope* const parent_;
  std::vector<std::pair<NameId, Value>> variables_;
  bool captured_ = false;
};

}  // namespace twostroke::jinja
