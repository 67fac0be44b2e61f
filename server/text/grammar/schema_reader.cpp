#include "server/text/grammar/schema_reader.h"

#include <algorithm>
#include <utility>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/regex.h"

namespace twostroke::grammar {

namespace {

constexpr uint64_t kSchemaWorkMax = 3'000'000;  // schemas applied, and parts of shapes copied
constexpr size_t kShapesMax = 20'000;           // alternatives for one value
constexpr uint32_t kChainMax = 500;             // schemas in one another that apply to one value
constexpr uint32_t kGroupsMax = 200;            // anyOf and the like that apply to one value, one within the other
constexpr size_t kPatternsMax = 8;              // patternProperties of one object

// The path from the root to a schema, found by looking for it; messages are rare. "" for the root itself.
std::string place_of(const SchemaJson& root, const SchemaJson* wanted) {
  std::vector<std::pair<const SchemaJson*, std::string>> stack{{&root, ""}};
  while (!stack.empty()) {
    const auto [at, path] = std::move(stack.back());
    stack.pop_back();
    if (at == wanted) return path;
    if (!at->is_structured()) continue;
    for (const auto& [key, value] : at->items()) stack.emplace_back(&value, path.empty() ? key : path + "." + key);
  }
  return "";
}

// Texts within the bounds on their length. Where an automaton that counts up to the greatest length would be large, it
// counts less far: the texts are fewer then, and none is wrong.
Result<Dfa> of_length(const Dfa& texts, const CountBounds& length) {
  constexpr uint64_t kCountedStatesMax = 6'000;
  const TextLengths lengths = text_lengths(texts);
  const bool has_longer = length.max != kNoBound && lengths.longest > length.max;
  if (lengths.shortest >= length.min && !has_longer) return texts;
  const auto up_to = [&](uint64_t max) -> Result<Dfa> {
    std::string bounds = "{" + std::to_string(length.min) + ",";
    if (max != kNoBound) bounds += std::to_string(max);
    const Result<Dfa> counted = compile_regex("[^]" + bounds + "}", true);
    return counted.ok() ? combine(texts, *counted, DfaOperation::kIntersection) : counted;
  };
  if (has_longer) {
    const uint64_t countable =
        std::max<uint64_t>({kCountedStatesMax / texts.state_count(), length.min, lengths.shortest});
    if (countable < length.max) {
      Result<Dfa> fewer = up_to(countable);
      if (!fewer.ok() || !fewer->empty()) return fewer;
    }
  }
  return up_to(length.max);
}

bool covers(const ArrayPart& part, size_t index) { return index < part.prefix.size() || part.rest; }

void add_atom(Goal* goal, const Atom& atom) {
  if (std::find(goal->begin(), goal->end(), atom) == goal->end()) goal->push_back(atom);
}

}  // namespace

void SchemaReader::fail(const SchemaJson* schema, const std::string& message) {
  if (failed()) return;
  const std::string place = place_of(root_, schema);
  status_ = invalid_argument((place.empty() ? "the schema" : place) + ": " + message);
}
void SchemaReader::refuse(const SchemaJson* schema, const std::string& what) {
  if (failed()) return;
  const std::string place = place_of(root_, schema);
  status_ = unsupported((place.empty() ? "the schema" : place) + ": " + what + " is not supported");
}

bool SchemaReader::spend(uint64_t work) {
  work_ += work;
  if (work_ > kSchemaWorkMax)
    fail(&root_,
         "it has too many combinations of alternatives; the limit is " + std::to_string(kSchemaWorkMax) + " steps");
  return !failed();
}

uint32_t SchemaReader::add_chain(const SchemaJson* schema, uint32_t parent) {
  chains_.push_back({schema, parent, chains_[parent].depth + 1});
  if (chains_.back().depth > kChainMax)
    fail(schema, "more than " + std::to_string(kChainMax) + " schemas in one another apply to one value");
  return static_cast<uint32_t>(chains_.size() - 1);
}
bool SchemaReader::in_chain(const SchemaJson* schema, uint32_t chain) const {
  for (; chain != 0; chain = chains_[chain].parent)
    if (chains_[chain].schema == schema) return true;
  return false;
}

// What a schema leaves unevaluated is known when all that is said about the value is said within that schema.
void SchemaReader::check_unevaluated(const Shape& shape) {
  const auto is_within = [this](uint32_t chain, uint32_t outer) {
    while (chain > outer) {
      if (chains_[chain].negated) return false;  // what is within a `not` evaluates nothing
      chain = chains_[chain].parent;
    }
    return chain == outer;
  };
  if (const auto& items = shape.unevaluated_items) {
    for (const auto& part : shape.arrays)
      if (!is_within(part.chain, items->chain))
        return refuse(items->atom.schema, "'items' outside of the schema of this");
  }
  if (const auto& members = shape.unevaluated_properties) {
    for (const auto& part : shape.objects)
      if (!is_within(part.chain, members->chain))
        return refuse(members->atom.schema, "'properties' outside of the schema of this");
  }
}

SchemaReader::Shapes SchemaReader::shapes(const Goal& goal) {
  if (const auto known = shapes_.find(goal); known != shapes_.end()) return known->second;
  auto result = std::make_shared<std::vector<Shape>>();
  Draft draft;
  push(&draft, goal, 0);
  expand(std::move(draft), result.get());
  std::erase_if(*result, [](const Shape& shape) { return shape.types == 0; });
  if (!failed()) shapes_.emplace(goal, result);
  return result;
}

void SchemaReader::push(Draft* draft, const std::vector<Atom>& atoms, uint32_t chain) {
  for (auto atom = atoms.rbegin(); atom != atoms.rend(); ++atom) draft->pending.push_back({*atom, chain});
}

void SchemaReader::add_group(Draft* draft, Group group) {
  draft->groups.push_back(std::make_shared<const Group>(std::move(group)));
}

void SchemaReader::expand(Draft draft, std::vector<Shape>* result) {
  while (!draft.pending.empty()) {
    const Pending next = draft.pending.back();
    draft.pending.pop_back();
    if (!draft.applied.insert(next.atom).second) continue;
    if (!spend(1)) return;
    const uint32_t chain = add_chain(next.atom.schema, next.chain);
    if (next.atom.demand == Demand::kHolds)
      apply(next.atom, chain, &draft);
    else
      add_group(&draft, {next.atom.schema, chain, {}, next.atom});
    if (failed() || draft.shape.types == 0) return;
  }
  if (draft.groups.empty()) {
    check_unevaluated(draft.shape);
    result->push_back(std::move(draft.shape));
    if (result->size() > kShapesMax)
      fail(&root_, "more than " + std::to_string(kShapesMax) + " alternatives for one value");
    return;
  }
  const std::shared_ptr<const Group> group = draft.groups.front();
  draft.groups.erase(draft.groups.begin());
  if (++draft.depth > kGroupsMax) {
    fail(group->owner, "more than " + std::to_string(kGroupsMax) + " sets of alternatives apply to one value");
    return;
  }
  expand_group(draft, *group, result);
}

void SchemaReader::expand_group(const Draft& draft, const Group& group, std::vector<Shape>* result) {
  std::vector<Alternative> made;
  uint32_t chain = group.chain;
  if (group.negated) {
    if (!can_hold(draft, {group.negated->schema, Demand::kHolds})) {  // it fails as it is
      expand(draft, result);
      return;
    }
    made = negation(*group.negated);
    chain = static_cast<uint32_t>(chains_.size());
    chains_.push_back({nullptr, group.chain, chains_[group.chain].depth, true});
  }
  const auto& alternatives = group.negated ? made : group.alternatives;
  for (const auto& alternative : alternatives) {
    const auto& shape = draft.shape;
    if (!spend(1 + shape.objects.size() + shape.arrays.size() + shape.strings.size() + draft.groups.size())) return;
    Draft next = draft;
    if (alternative.narrow) alternative.narrow(next.shape);
    if (next.shape.types == 0) continue;
    push(&next, alternative.atoms, chain);
    expand(std::move(next), result);
    if (failed()) return;
  }
}

Goal SchemaReader::item_goal(const Shape& shape, size_t index) const {
  Goal goal;
  bool is_evaluated = false;
  for (const auto& part : shape.arrays) {
    if (index < part.prefix.size())
      add_atom(&goal, part.prefix[index]);
    else if (part.rest)
      add_atom(&goal, *part.rest);
    is_evaluated = is_evaluated || covers(part, index);
  }
  if (shape.unevaluated_items && !is_evaluated) add_atom(&goal, shape.unevaluated_items->atom);
  return goal;
}

Goal SchemaReader::member_goal(const Shape& shape, const std::string& name) const {
  Goal goal;
  bool is_evaluated = false;
  for (const auto& part : shape.objects) {
    bool is_listed = false;
    if (part.properties != nullptr) {
      if (const auto found = part.properties->find(name); found != part.properties->end()) {
        add_atom(&goal, {&*found});
        is_listed = true;
      }
    }
    for (const auto& [texts, atom] : part.patterns) {
      if (!texts->matches(name)) continue;
      add_atom(&goal, atom);
      is_listed = true;
    }
    if (!is_listed && part.additional) add_atom(&goal, *part.additional);
    is_evaluated = is_evaluated || is_listed || part.additional;
  }
  for (const auto& [extra_name, atom] : shape.extra)
    if (extra_name == name) add_atom(&goal, atom);
  if (shape.unevaluated_properties && !is_evaluated) add_atom(&goal, shape.unevaluated_properties->atom);
  return goal;
}

Goal SchemaReader::other_member_goal(const Shape& shape) const {
  Goal goal;
  for (const auto& part : shape.objects)
    if (part.additional) add_atom(&goal, *part.additional);
  if (shape.unevaluated_properties && goal.empty()) goal.push_back(shape.unevaluated_properties->atom);
  return goal;
}

std::vector<KeyClass> SchemaReader::key_classes(const Shape& shape, const std::vector<std::string>& listed) {
  const auto value_or_fail = [this](Result<Dfa> dfa) {
    if (dfa.ok()) return *std::move(dfa);
    fail(&root_, "the names of additional properties: " + dfa.status().message());
    return Dfa{};
  };
  Dfa base = value_or_fail(all_text_but(listed));
  if (!shape.names.empty()) {
    Dfa allowed;
    const Shapes alternatives = shapes(shape.names);  // named: nobody else may hold it
    for (const auto& alternative : *alternatives) {
      if ((alternative.types & kStringType) == 0) continue;
      allowed = value_or_fail(combine(allowed, strings(alternative), DfaOperation::kUnion));
    }
    base = value_or_fail(combine(base, allowed, DfaOperation::kIntersection));
  }

  std::vector<std::shared_ptr<const Dfa>> patterns;
  for (const auto& part : shape.objects)
    for (const auto& [texts, atom] : part.patterns)
      if (std::find(patterns.begin(), patterns.end(), texts) == patterns.end()) patterns.push_back(texts);
  if (patterns.size() > kPatternsMax) {
    fail(&root_, "more than " + std::to_string(kPatternsMax) + " patternProperties of one object");
    return {};
  }
  struct Split {
    Dfa names;
    std::vector<bool> matched;
  };
  std::vector<Split> splits;
  if (!base.empty()) splits.push_back({std::move(base), {}});
  for (const auto& texts : patterns) {
    std::vector<Split> next;
    for (auto& split : splits) {
      for (const bool matched : {true, false}) {
        const auto operation = matched ? DfaOperation::kIntersection : DfaOperation::kDifference;
        Split part{value_or_fail(combine(split.names, *texts, operation)), split.matched};
        part.matched.push_back(matched);
        if (!part.names.empty()) next.push_back(std::move(part));
      }
      if (!spend(split.names.state_count())) return {};
    }
    splits = std::move(next);
  }

  std::vector<KeyClass> classes;
  for (auto& split : splits) {
    const auto is_matched = [&](const std::shared_ptr<const Dfa>& texts) {
      const auto at = std::find(patterns.begin(), patterns.end(), texts) - patterns.begin();
      return static_cast<bool>(split.matched[static_cast<size_t>(at)]);
    };
    Goal goal;
    bool is_evaluated = false;
    for (const auto& part : shape.objects) {
      bool is_listed = false;
      for (const auto& [texts, atom] : part.patterns) {
        if (!is_matched(texts)) continue;
        add_atom(&goal, atom);
        is_listed = true;
      }
      if (!is_listed && part.additional) add_atom(&goal, *part.additional);
      is_evaluated = is_evaluated || is_listed || part.additional;
    }
    if (shape.unevaluated_properties && !is_evaluated) add_atom(&goal, shape.unevaluated_properties->atom);
    classes.push_back({std::move(split.names), std::move(goal)});
  }
  return classes;
}

Dfa SchemaReader::strings(const Shape& shape) {
  Result<Dfa> texts = strings_of_any_length(shape, /*countable=*/false);
  if (texts.ok() && !texts->empty()) {
    const bool is_cut = shape.length.max != kNoBound && text_lengths(*texts).longest > shape.length.max;
    CountBounds length = shape.length;
    bool has_countable = false;
    for (const auto& rule : shape.strings) {
      if (!rule.countable) continue;
      has_countable = true;
      length.max = std::min(length.max, rule.countable_length_max);
    }
    if (is_cut && has_countable && length.min <= length.max) {
      Result<Dfa> fewer = strings_of_any_length(shape, /*countable=*/true);
      if (fewer.ok() && !fewer->empty()) fewer = of_length(*fewer, length);
      if (fewer.ok() && !fewer->empty()) return *std::move(fewer);
    }
    texts = of_length(*texts, shape.length);
  }
  if (texts.ok()) return *std::move(texts);
  fail(&root_, "a string with 'pattern' or 'format', and what else is said about it: " + texts.status().message());
  return {};
}

Result<Dfa> SchemaReader::strings_of_any_length(const Shape& shape, bool countable) {
  Result<Dfa> texts = utf8_text();
  const auto narrow = [&](const Result<Dfa>& by, DfaOperation operation) {
    if (texts.ok()) texts = by.ok() ? combine(*texts, *by, operation) : by;
  };
  for (const auto& rule : shape.strings) {
    const bool is_used = countable && rule.countable && !rule.negated;
    narrow(is_used ? *rule.countable : *rule.texts,
           rule.negated ? DfaOperation::kDifference : DfaOperation::kIntersection);
  }
  if (!shape.excluded_strings.empty()) narrow(text_set(shape.excluded_strings), DfaOperation::kDifference);
  if (shape.values) {
    std::vector<std::string> listed;
    for (const SchemaJson* value : *shape.values)
      if (value->is_string()) listed.push_back(value->get<std::string>());
    narrow(text_set(listed), DfaOperation::kIntersection);
  }
  return texts;
}

NumberSet SchemaReader::numbers(const Shape& shape) {
  NumberSet set = shape.numbers;
  set.integers = (shape.types & kIntegerType) != 0;
  set.fractions = (shape.types & kFractionType) != 0;
  return set;
}

}  // namespace twostroke::grammar
