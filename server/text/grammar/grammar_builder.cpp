#include "server/text/grammar/grammar_builder.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "server/text/grammar/expressions.h"
#include "server/text/grammar/grammar_compiler.h"
#include "server/text/grammar/utf8_ranges.h"

namespace twostroke::grammar {
namespace {

template <typename T>
void append_raw(std::string& key, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
void append_raw(std::string& key, const std::vector<T>& values) {
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

struct GrammarBuilder::Impl {
  static constexpr ExprId kNeverId = 0;

  explicit Impl(const GrammarLimits& its_limits) : limits(its_limits) { expressions.all.push_back({ExprKind::kNever}); }

  GrammarLimits limits;
  Expressions expressions;
  std::unordered_map<std::string, ExprId> ids;  // by kind and content
  Status error;                                 // the first limit that was reached

  void refuse(std::string message) {
    if (error.ok()) error = invalid_argument(std::move(message));
  }

  // The id of the expression with this kind and content; add() puts the content in place when it is new.
  template <typename Add>
  ExprId intern(ExprKind kind, std::string_view content, Add add) {
    if (!error.ok()) return kNeverId;  // nothing counts any more
    std::string key(1, static_cast<char>(kind));
    key.append(content);
    const auto [entry, is_new] = ids.emplace(std::move(key), static_cast<ExprId>(expressions.all.size()));
    if (is_new) {
      if (expressions.all.size() >= limits.expressions_max)
        refuse("the grammar has more than " + std::to_string(limits.expressions_max) + " expressions");
      Expression expression{kind};
      add(expression);
      expressions.all.push_back(expression);
    }
    return entry->second;
  }

  ExprId with_parts(ExprKind kind, std::span<const ExprId> parts) {
    std::string content;
    for (const ExprId part : parts) append_raw(content, part);
    return intern(kind, content, [&](Expression& expression) {
      expression.begin = static_cast<uint32_t>(expressions.children.size());
      expression.size = static_cast<uint32_t>(parts.size());
      expressions.children.insert(expressions.children.end(), parts.begin(), parts.end());
    });
  }

  ExprId with_number(ExprKind kind, uint32_t number) {
    std::string content;
    append_raw(content, number);
    return intern(kind, content, [&](Expression& expression) { expression.begin = number; });
  }

  ExprKind kind(ExprId id) const { return expressions.all[id].kind; }
};

GrammarBuilder::GrammarBuilder(const GrammarLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
GrammarBuilder::~GrammarBuilder() = default;

ExprId GrammarBuilder::empty() { return impl_->with_number(ExprKind::kEmpty, 0); }
ExprId GrammarBuilder::never() { return Impl::kNeverId; }

ExprId GrammarBuilder::literal(std::string_view bytes) {
  if (bytes.empty()) return empty();
  std::string& all = impl_->expressions.bytes;
  if (bytes.size() > impl_->limits.bytes_max - std::min<size_t>(all.size(), impl_->limits.bytes_max)) {
    impl_->refuse("the grammar's literal texts have more than " + std::to_string(impl_->limits.bytes_max) + " bytes");
    return never();
  }
  return impl_->intern(ExprKind::kLiteral, bytes, [&](Expression& expression) {
    expression.begin = static_cast<uint32_t>(all.size());
    expression.size = static_cast<uint32_t>(bytes.size());
    all.append(bytes);
  });
}

ExprId GrammarBuilder::code_point(std::span<const CodePointRange> ranges, bool negated) {
  const std::vector<CodePointRange> normal = normal_ranges(ranges, negated);
  if (normal.empty()) return never();
  std::string content;
  append_raw(content, normal);
  return impl_->intern(ExprKind::kCodePoint, content, [&](Expression& expression) {
    std::vector<CodePointRange>& all = impl_->expressions.ranges;
    expression.begin = static_cast<uint32_t>(all.size());
    expression.size = static_cast<uint32_t>(normal.size());
    all.insert(all.end(), normal.begin(), normal.end());
  });
}

ExprId GrammarBuilder::sequence(std::span<const ExprId> parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (impl_->kind(part) == ExprKind::kNever) return part;
    if (impl_->kind(part) != ExprKind::kEmpty) kept.push_back(part);
  }
  if (kept.empty()) return empty();
  return kept.size() == 1 ? kept.front() : impl_->with_parts(ExprKind::kSequence, kept);
}

ExprId GrammarBuilder::choice(std::span<const ExprId> alternatives) {
  std::vector<ExprId> kept;
  for (const ExprId alternative : alternatives) {
    if (impl_->kind(alternative) != ExprKind::kNever) kept.push_back(alternative);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  if (kept.empty()) return never();
  return kept.size() == 1 ? kept.front() : impl_->with_parts(ExprKind::kChoice, kept);
}

ExprId GrammarBuilder::repeat(ExprId part, uint32_t min, uint32_t max) {
  const uint32_t highest = impl_->limits.repeat_max;
  if (min > highest || (max > highest && max != kUnbounded)) {
    impl_->refuse("a repetition's bound is " + std::to_string(min > highest ? min : max) + ", more than " +
                  std::to_string(highest));
    return never();
  }
  if (min > max) return never();
  const ExprKind kind = impl_->kind(part);
  if (max == 0 || kind == ExprKind::kEmpty || (kind == ExprKind::kNever && min == 0)) return empty();
  if (kind == ExprKind::kNever || (min == 1 && max == 1)) return part;
  if (kind == ExprKind::kRepeat) {
    const Expression inner = impl_->expressions.all[part];
    if (inner.min == 0 && inner.max == kUnbounded) return part;  // (x*){m,n}: x*
    if (inner.min == 0 && inner.max == 1) return repeat(impl_->expressions.children[inner.begin], 0, max);  // (x?){m,n}
  }
  std::string content;
  append_raw(content, part);
  append_raw(content, min);
  append_raw(content, max);
  return impl_->intern(ExprKind::kRepeat, content, [&](Expression& expression) {
    expression.begin = static_cast<uint32_t>(impl_->expressions.children.size());
    expression.size = 1;
    expression.min = min;
    expression.max = max;
    impl_->expressions.children.push_back(part);
  });
}

ExprId GrammarBuilder::automaton(Dfa dfa) {
  if (dfa.empty()) return never();
  std::string content(dfa.byte_class.begin(), dfa.byte_class.end());
  append_raw(content, dfa.class_count);
  append_raw(content, dfa.next);
  for (const bool accepts : dfa.accepting) content.push_back(accepts ? 1 : 0);
  return impl_->intern(ExprKind::kAutomaton, content, [&](Expression& expression) {
    expression.begin = static_cast<uint32_t>(impl_->expressions.automata.size());
    impl_->expressions.automata.push_back(std::move(dfa));
  });
}

ExprId GrammarBuilder::control_token(TokenId token) {
  return impl_->with_number(ExprKind::kToken, static_cast<uint32_t>(token));
}
ExprId GrammarBuilder::token_except(TokenId token) {
  return impl_->with_number(ExprKind::kTokenExcept, static_cast<uint32_t>(token));
}

RuleId GrammarBuilder::add_rule(std::string name) {
  std::vector<RuleDefinition>& rules = impl_->expressions.rules;
  if (rules.size() >= impl_->limits.rules_max)
    impl_->refuse("the grammar has more than " + std::to_string(impl_->limits.rules_max) + " rules");
  else
    rules.push_back({std::move(name)});
  return static_cast<RuleId>(rules.size()) - 1;
}

void GrammarBuilder::define(RuleId rule, ExprId body) {
  RuleDefinition& definition = impl_->expressions.rules[rule];
  definition.body = body;
  definition.defined = true;
}

ExprId GrammarBuilder::reference(RuleId rule) { return impl_->with_number(ExprKind::kReference, rule); }

Result<std::shared_ptr<const Grammar>> GrammarBuilder::build(ExprId root) {
  if (!impl_->error.ok()) return impl_->error;
  return compile_grammar(impl_->expressions, root, impl_->limits);
}

}  // namespace twostroke::grammar
