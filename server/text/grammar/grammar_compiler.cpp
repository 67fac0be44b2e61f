#include "server/text/grammar/grammar_compiler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "server/text/grammar/chart.h"
#include "server/text/grammar/rule_automaton.h"
#include "server/text/grammar/utf8_ranges.h"

namespace twostroke::grammar {
namespace {

constexpr uint32_t kNoRule = UINT32_MAX;
constexpr uint64_t kUnrolledSizeMax = 32;  // a repetition that comes out no larger is written out
constexpr uint64_t kSharedSizeMin = 12;    // from here on a call is better than a copy
constexpr uint64_t kInlinedSizeMax = 48;   // a rule without loops that is no larger is written out where it is called
constexpr uint64_t kRoundSizeMax = 128;    // the same for what a repetition repeats, even where it has a rule
constexpr int kInlinedLevels = 8;          // of rules that call only such rules

class Compiler {
 public:
  Compiler(const Expressions& expressions, const GrammarLimits& limits)
      : expressions_(expressions),
        limits_(limits),
        work_(limits.compile_work_max),
        rule_of_expr_(expressions.all.size(), kNoRule),
        rule_of_definition_(expressions.rules.size(), kNoRule) {}

  Result<std::shared_ptr<const Grammar>> run(ExprId root) {
    if (const Status status = look_at(root); !status.ok()) return status;
    choose_all();
    auto grammar = std::make_shared<Grammar>();
    grammar->root = add_rule({root, BodyKind::kCall});
    uint64_t positions = 0;
    for (uint32_t rule = 0; rule < bodies_.size(); ++rule) {
      RuleDfa dfa = rule_dfa(bodies_[rule]);
      positions += dfa.states.size();
      if (work_ == 0) return invalid_argument("the grammar is too large: compiling it takes too many steps");
      if (positions > limits_.positions_max)
        return invalid_argument("the grammar is too large: its automata have more than " +
                                std::to_string(limits_.positions_max) + " states");
      append(dfa, rule, *grammar);
    }
    grammar->positions.push_back(end_of_edges(*grammar));
    if (!analyse(*grammar)) return invalid_argument("the grammar has no text: every way through it goes on for ever");
    if (Chart(*grammar).root_set() == Chart::kDead)
      return invalid_argument(
          "the grammar is too large: its texts can begin in too many ways, or only within more than " +
          std::to_string(Chart::kDepthMax) + " rules");
    return std::shared_ptr<const Grammar>(std::move(grammar));
  }

 private:
  // What a rule reads: an expression; one round of a counted repetition; or, the root, an expression that may have a
  // rule of its own, which it then calls, so that the root itself is never counted.
  enum class BodyKind { kWhole, kRound, kCall };
  struct Body {
    ExprId expr;
    BodyKind kind;
  };

  // Marks what the root needs and counts the uses of each expression.
  Status look_at(ExprId root) {
    uses_.assign(expressions_.all.size(), 0);
    std::vector<ExprId> stack{root};
    uses_[root] = 1;
    const auto use = [&](ExprId id) {
      if (uses_[id]++ == 0) stack.push_back(id);
    };
    while (!stack.empty()) {
      const Expression& expression = expressions_.all[stack.back()];
      stack.pop_back();
      if (expression.kind == ExprKind::kReference) {
        const RuleDefinition& rule = expressions_.rules[expression.begin];
        if (!rule.defined) return invalid_argument("rule '" + rule.name + "' is not defined");
        use(rule.body);
      } else if (has_parts(expression)) {
        for (const ExprId part : expressions_.parts(expression)) use(part);
      }
    }
    return {};
  }

  static bool has_parts(const Expression& expression) {
    return expression.kind == ExprKind::kSequence || expression.kind == ExprKind::kChoice ||
           expression.kind == ExprKind::kRepeat;
  }

  // How many rounds a repetition has when it is written out; the last is a loop when it has no upper bound.
  static uint64_t rounds(const Expression& repeat) {
    return std::max<uint64_t>(repeat.max == kUnbounded ? repeat.min : repeat.max, 1);
  }

  // Whether an automaton has a loop; one of more than kRoundSizeMax states counts as having one.
  bool has_loop(uint32_t automaton) {
    loop_known_.resize(expressions_.automata.size());
    std::optional<bool>& known = loop_known_[automaton];
    if (known) return *known;
    const Dfa& dfa = expressions_.automata[automaton];
    if (dfa.state_count() > kRoundSizeMax) return *(known = true);
    // States are taken away when nothing leads to them any more; those in a loop stay.
    std::vector<uint32_t> sources(dfa.state_count(), 0), free;
    for (const uint32_t target : dfa.next) {
      if (target != Dfa::kDead) ++sources[target];
    }
    for (uint32_t state = 0; state < dfa.state_count(); ++state) {
      if (sources[state] == 0) free.push_back(state);
    }
    size_t taken = 0;
    for (; !free.empty(); ++taken) {
      const uint32_t state = free.back();
      free.pop_back();
      for (uint32_t symbol = 0; symbol < dfa.class_count; ++symbol) {
        const uint32_t target = dfa.next[size_t{state} * dfa.class_count + symbol];
        if (target != Dfa::kDead && --sources[target] == 0) free.push_back(target);
      }
    }
    return *(known = taken < dfa.state_count());
  }

  // A part of a repetition that is written out even if it has a rule of its own: the parser then runs in a loop, where
  // calls would make each round another state.
  bool is_written_out(ExprId part) const { return !loops_[part] && !calls_[part] && size_[part] <= kRoundSizeMax; }

  // Rules that are small, end soon and call only rules of this kind need not be rules: found level by level.
  void choose_all() {
    inlined_.assign(expressions_.rules.size(), false);
    inlined_size_.assign(expressions_.rules.size(), 0);
    for (int level = 0; level < kInlinedLevels; ++level) {
      choose_rules();
      bool news = false;
      for (size_t rule = 0; rule < expressions_.rules.size(); ++rule) {
        const RuleDefinition& definition = expressions_.rules[rule];
        if (inlined_[rule] || !definition.defined || uses_[definition.body] == 0 || calls_[definition.body] ||
            loops_[definition.body] || own_rule_[definition.body] || size_[definition.body] > kInlinedSizeMax)
          continue;
        inlined_[rule] = news = true;
        inlined_size_[rule] = size_[definition.body];
      }
      if (!news) return;
    }
    choose_rules();
  }

  void choose_rules() {
    size_.assign(expressions_.all.size(), 0);
    own_rule_.assign(expressions_.all.size(), false);
    loops_.assign(expressions_.all.size(), false);
    calls_.assign(expressions_.all.size(), false);
    for (ExprId id = 0; id < expressions_.all.size(); ++id) {
      if (uses_[id] == 0) continue;
      const Expression& expression = expressions_.all[id];
      uint64_t size = 1;
      bool own = false, loop = false, call = false;
      switch (expression.kind) {
        case ExprKind::kLiteral:
          size = expression.size;
          break;
        case ExprKind::kCodePoint:
          size = expressions_.ranges[expression.begin + expression.size - 1].second < 0x80 ? 1 : 8;
          break;
        case ExprKind::kReference:
          call = !inlined_[expression.begin];
          if (!call) size = inlined_size_[expression.begin];
          break;
        case ExprKind::kAutomaton:
          size = expressions_.automata[expression.begin].state_count();
          own = size > 4;
          loop = has_loop(expression.begin);
          break;
        case ExprKind::kSequence:
        case ExprKind::kChoice:
        case ExprKind::kRepeat:
          for (const ExprId part : expressions_.parts(expression)) {
            size += own_rule_[part] ? 1 : size_[part];
            loop = loop || (!own_rule_[part] && loops_[part]);
            call = call || own_rule_[part] || calls_[part];
          }
          break;
        default:
          break;
      }
      if (expression.kind == ExprKind::kRepeat) {
        own = rounds(expression) > 1 && rounds(expression) * size > kUnrolledSizeMax;
        size *= rounds(expression);
        loop = loop || expression.max == kUnbounded;
      }
      const bool shared = uses_[id] > 1 && expression.kind != ExprKind::kReference;
      own = own || (shared && (size >= kSharedSizeMin || loop));
      size_[id] = size;
      loops_[id] = loop;
      calls_[id] = call;
      own_rule_[id] = own;
    }
  }

  uint32_t add_rule(Body body) {
    bodies_.push_back(body);
    return static_cast<uint32_t>(bodies_.size()) - 1;
  }

  uint32_t rule_of_expr(ExprId id) {
    uint32_t& rule = rule_of_expr_[id];
    if (rule == kNoRule) {
      const Expression& expression = expressions_.all[id];
      const bool counted = expression.kind == ExprKind::kRepeat && rounds(expression) > 1 &&
                           rounds(expression) * round_size(expression) > kUnrolledSizeMax;
      rule = add_rule({id, counted ? BodyKind::kRound : BodyKind::kWhole});
    }
    return rule;
  }

  uint64_t round_size(const Expression& repeat) const {
    const ExprId part = expressions_.children[repeat.begin];
    return 1 + (own_rule_[part] ? 1 : size_[part]);
  }

  uint32_t rule_of_definition(uint32_t definition) {
    uint32_t& rule = rule_of_definition_[definition];
    if (rule == kNoRule) {
      const ExprId body = expressions_.rules[definition].body;
      rule = own_rule_[body] ? rule_of_expr(body) : add_rule({body, BodyKind::kWhole});
    }
    return rule;
  }

  RuleDfa rule_dfa(const Body& body) {
    nfa_ = RuleNfa();
    const uint32_t start = nfa_.add_node(), final = nfa_.add_node();
    if (body.kind == BodyKind::kRound) {
      const ExprId part = expressions_.children[expressions_.all[body.expr].begin];
      tasks_.push_back({part, start, final, is_written_out(part)});
    } else {
      tasks_.push_back({body.expr, start, final, body.kind == BodyKind::kWhole});
    }
    while (!tasks_.empty() && work_ > 0) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      --work_;
      if (own_rule_[task.expr] && !task.is_body)
        nfa_.add_symbol(task.from, RuleNfa::Kind::kCall, rule_of_expr(task.expr), task.to);
      else
        add(expressions_.all[task.expr], task.from, task.to);
    }
    tasks_.clear();
    return determinise(nfa_, start, final, work_);
  }

  // Puts `expression` between two nodes; its parts become tasks.
  void add(const Expression& expression, uint32_t from, uint32_t to) {
    switch (expression.kind) {
      case ExprKind::kNever:
        break;
      case ExprKind::kEmpty:
        nfa_.add_empty(from, to);
        break;
      case ExprKind::kLiteral:
        add_literal(expressions_.literal(expression), from, to);
        break;
      case ExprKind::kCodePoint:
        add_code_point(expression, from, to);
        break;
      case ExprKind::kAutomaton:
        add_automaton(expressions_.automata[expression.begin], from, to);
        break;
      case ExprKind::kRepeat:
        add_repeat(expression, from, to);
        break;
      case ExprKind::kToken:
        nfa_.add_symbol(from, RuleNfa::Kind::kToken, expression.begin, to);
        break;
      case ExprKind::kTokenExcept:
        nfa_.add_symbol(from, RuleNfa::Kind::kTokenExcept, expression.begin, to);
        break;
      case ExprKind::kReference:
        if (inlined_[expression.begin])
          tasks_.push_back({expressions_.rules[expression.begin].body, from, to, false});
        else
          nfa_.add_symbol(from, RuleNfa::Kind::kCall, rule_of_definition(expression.begin), to);
        break;
      case ExprKind::kChoice:
        for (const ExprId part : expressions_.parts(expression)) tasks_.push_back({part, from, to, false});
        break;
      case ExprKind::kSequence: {
        const auto parts = expressions_.parts(expression);
        for (size_t i = 0; i < parts.size(); ++i) {
          const uint32_t next = i + 1 == parts.size() ? to : nfa_.add_node();
          tasks_.push_back({parts[i], from, next, false});
          from = next;
        }
        break;
      }
    }
  }

  void add_literal(std::string_view bytes, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint32_t next = i + 1 == bytes.size() ? to : nfa_.add_node();
      const auto byte = static_cast<uint8_t>(bytes[i]);
      nfa_.add_bytes(from, byte, byte, next);
      from = next;
    }
  }

  void add_code_point(const Expression& expression, uint32_t from, uint32_t to) {
    // tails[n]: any n continuation bytes, then `to`; what most sequences end in.
    std::array<std::optional<uint32_t>, 4> tails;
    tails[0] = to;
    const auto tail = [&](uint32_t count) {
      for (uint32_t i = 1; i <= count; ++i) {
        if (tails[i]) continue;
        tails[i] = nfa_.add_node();
        nfa_.add_bytes(*tails[i], 0x80, 0xBF, *tails[i - 1]);
      }
      return *tails[count];
    };
    for (const Utf8Sequence& sequence :
         utf8_sequences(std::span(expressions_.ranges).subspan(expression.begin, expression.size))) {
      uint32_t node = from;
      for (uint32_t i = 0; i < sequence.size; ++i) {
        bool rest_is_tail = true;
        for (uint32_t j = i + 1; j < sequence.size; ++j)
          rest_is_tail = rest_is_tail && sequence.first[j] == 0x80 && sequence.last[j] == 0xBF;
        const uint32_t next = rest_is_tail ? tail(sequence.size - 1 - i) : nfa_.add_node();
        nfa_.add_bytes(node, sequence.first[i], sequence.last[i], next);
        if (rest_is_tail) break;
        node = next;
      }
    }
  }

  void add_automaton(const Dfa& dfa, uint32_t from, uint32_t to) {
    const uint32_t first = nfa_.node_count();
    for (uint32_t state = 0; state < dfa.state_count(); ++state) nfa_.add_node();
    nfa_.add_empty(from, first);
    for (uint32_t state = 0; state < dfa.state_count(); ++state) {
      if (dfa.accepting[state]) nfa_.add_empty(first + state, to);
      for (uint32_t begin = 0, end; begin < 256; begin = end) {
        const uint32_t next = dfa.step(state, static_cast<uint8_t>(begin));
        for (end = begin + 1; end < 256 && dfa.step(state, static_cast<uint8_t>(end)) == next;) ++end;
        if (next != Dfa::kDead)
          nfa_.add_bytes(first + state, static_cast<uint8_t>(begin), static_cast<uint8_t>(end - 1), first + next);
      }
    }
    work_ -= std::min<uint64_t>(work_, dfa.state_count());
  }

  void add_repeat(const Expression& expression, uint32_t from, uint32_t to) {
    const ExprId part = expressions_.children[expression.begin];
    const bool written_out = expression.max == kUnbounded && is_written_out(part);
    uint32_t node = from;
    const auto add_round = [&](bool last) {
      const uint32_t next = last ? to : nfa_.add_node();
      tasks_.push_back({part, node, next, written_out});
      node = next;
    };
    for (uint32_t i = 0; i < expression.min; ++i) add_round(i + 1 == expression.max);
    if (expression.max == kUnbounded) {
      const uint32_t loop = nfa_.add_node();
      nfa_.add_empty(node, loop);
      tasks_.push_back({part, loop, loop, written_out});
      nfa_.add_empty(loop, to);
      return;
    }
    for (uint32_t i = expression.min; i < expression.max; ++i) {
      nfa_.add_empty(node, to);
      add_round(i + 1 == expression.max);
    }
  }

  static Position end_of_edges(const Grammar& grammar) {
    Position position;
    position.bytes_begin = static_cast<uint32_t>(grammar.byte_edges.size());
    position.calls_begin = static_cast<uint32_t>(grammar.call_edges.size());
    position.tokens_begin = static_cast<uint32_t>(grammar.token_edges.size());
    return position;
  }

  void append(const RuleDfa& dfa, uint32_t number, Grammar& grammar) const {
    const auto base = static_cast<uint32_t>(grammar.positions.size());
    Rule rule;
    rule.start = base;
    if (bodies_[number].kind == BodyKind::kRound) {
      const Expression& expression = expressions_.all[bodies_[number].expr];
      rule.counted = true;
      rule.min = expression.min;
      rule.max = expression.max;
    }
    grammar.rules.push_back(rule);
    for (const RuleDfa::State& state : dfa.states) {
      Position position = end_of_edges(grammar);
      position.rule = number;
      position.final = state.final;
      grammar.positions.push_back(position);
      for (const ByteEdge& edge : state.bytes)
        grammar.byte_edges.push_back({edge.first, edge.last, base + edge.target});
      for (const CallEdge& edge : state.calls) grammar.call_edges.push_back({edge.rule, base + edge.target});
      for (const TokenEdge& edge : state.tokens)
        grammar.token_edges.push_back({edge.token, edge.except, base + edge.target});
    }
  }

  struct Task {
    ExprId expr;
    uint32_t from, to;
    bool is_body;  // the whole of its rule, rather than a part that may be a rule of its own
  };

  const Expressions& expressions_;
  const GrammarLimits& limits_;
  uint64_t work_;
  std::vector<uint32_t> uses_;                   // by expression, from what the root needs
  std::vector<uint64_t> size_;                   // by expression: nodes when written out where it is used
  std::vector<bool> own_rule_;                   // by expression
  std::vector<bool> loops_, calls_;              // by expression: it has a loop, it calls a rule, both when written out
  std::vector<std::optional<bool>> loop_known_;  // by automaton
  std::vector<bool> inlined_;                    // by rule that has a name
  std::vector<uint64_t> inlined_size_;
  std::vector<uint32_t> rule_of_expr_, rule_of_definition_;
  std::vector<Body> bodies_;  // by rule
  RuleNfa nfa_;               // of the rule at hand
  std::vector<Task> tasks_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_grammar(const Expressions& expressions, ExprId root,
                                                       const GrammarLimits& limits) {
  return Compiler(expressions, limits).run(root);
}

}  // namespace twostroke::grammar
