#include "server/text/grammar/schema_writer.h"

#include <algorithm>
#include <unordered_set>

#include "server/text/grammar/dfa_operations.h"

namespace twostroke::grammar {

namespace {

constexpr uint64_t kCountMax = GrammarLimits().repeat_max;  // a minimum of items or characters
constexpr size_t kBlockMembers = 32;                        // properties in one rule
constexpr size_t kCountedMembersMax =
    20'000;                             // listed properties times those that minProperties or maxProperties count
constexpr size_t kSetBytesMax = 2'000;  // of texts that become one automaton

bool is_flat(const Shape& shape) {
  if (shape.values || shape.is_bare()) return true;
  const uint8_t types = shape.meant_types();
  return ((types & kArrayType) == 0 || shape.bare_arrays()) && ((types & kObjectType) == 0 || shape.bare_objects());
}

bool lists_members(const Shape& shape) {
  return std::any_of(shape.objects.begin(), shape.objects.end(),
                     [](const ObjectPart& part) { return part.properties != nullptr || !part.patterns.empty(); });
}
bool has_patterns(const Shape& shape) {
  return std::any_of(shape.objects.begin(), shape.objects.end(),
                     [](const auto& part) { return !part.patterns.empty(); });
}
bool tells_of_others(const Shape& shape) {
  return shape.unevaluated_properties ||
         std::any_of(shape.objects.begin(), shape.objects.end(), [](const auto& part) { return part.additional; });
}

}  // namespace

Result<ExprId> SchemaWriter::write() {
  const Goal root{{&schema_}};
  owner_ = &schema_;
  const auto shapes = reader_.shapes(root);
  const bool says_nothing = schema_.is_object() && shapes->size() == 1 && shapes->front().is_bare();
  const std::optional<ExprId> result = says_nothing ? std::optional(json_.any_object()) : goal(root);
  bool is_satisfiable = result.has_value();
  while (!queue_.empty() && !reader_.failed()) {
    const auto [rule, next] = std::move(queue_.front());
    queue_.pop_front();
    owner_ = next.front().schema;
    std::vector<ExprId> alternatives;
    for (const Shape& alternative : *reader_.shapes(next)) shape(alternative, &alternatives);
    if (next == root && alternatives.empty()) is_satisfiable = false;
    builder_.define(rule, choice(alternatives));
  }
  if (reader_.failed()) return reader_.status();
  if (!is_satisfiable && reader_.has_left_out())
    return unsupported(
        "the schema: 'oneOf' whose alternatives may hold together in ways that cannot be told is not supported");
  if (!is_satisfiable) return invalid_argument("no value satisfies the schema");
  return *result;
}

ExprId SchemaWriter::choice(const std::vector<ExprId>& alternatives) {
  if (alternatives.empty()) return builder_.never();
  return alternatives.size() == 1 ? alternatives.front() : builder_.choice(alternatives);
}
ExprId SchemaWriter::optional(ExprId part) { return builder_.repeat(part, 0, 1); }

std::optional<ExprId> SchemaWriter::goal(const Goal& wanted) {
  if (wanted.empty()) return json_.any_value();
  if (const auto known = written_.find(wanted); known != written_.end()) return known->second;
  const auto shapes = reader_.shapes(wanted);
  std::optional<ExprId> result;
  if (std::all_of(shapes->begin(), shapes->end(), is_flat)) {
    const SchemaJson* const outer = std::exchange(owner_, wanted.front().schema);
    std::vector<ExprId> alternatives;
    for (const Shape& alternative : *shapes) shape(alternative, &alternatives);
    if (!alternatives.empty()) result = choice(alternatives);
    owner_ = outer;
  } else {
    const RuleId rule = builder_.add_rule("a value of the schema");
    queue_.emplace_back(rule, wanted);
    result = builder_.reference(rule);
  }
  written_.emplace(wanted, result);
  return result;
}

void SchemaWriter::shape(const Shape& shape, std::vector<ExprId>* alternatives) {
  if (shape.is_bare()) {
    alternatives->push_back(json_.any_value());
    return;
  }
  if (shape.values) return values(shape, alternatives);
  const uint8_t types = shape.meant_types();
  if ((types & kNullType) != 0) alternatives->push_back(builder_.literal("null"));
  if ((types & kTrueType) != 0) alternatives->push_back(builder_.literal("true"));
  if ((types & kFalseType) != 0) alternatives->push_back(builder_.literal("false"));
  const auto add = [&](uint8_t bits, std::optional<ExprId> (SchemaWriter::*write_type)(const Shape&)) {
    if ((types & bits) == 0 || reader_.failed()) return;
    if (const auto expression = (this->*write_type)(shape)) alternatives->push_back(*expression);
  };
  add(kNumberTypes, &SchemaWriter::number);
  add(kStringType, &SchemaWriter::string);
  add(kArrayType, &SchemaWriter::array);
  add(kObjectType, &SchemaWriter::object);
}

void SchemaWriter::values(const Shape& shape, std::vector<ExprId>* alternatives) {
  std::vector<std::string> scalars;
  size_t bytes = 0;
  Shape others = shape;  // what else is said
  others.values.reset();
  for (const SchemaJson* value : *shape.values) {
    if (!reader_.fits(others, *value)) continue;
    if (value->is_structured()) {
      alternatives->push_back(json_.value(*value));
      continue;
    }
    scalars.push_back(value->dump(-1, ' ', false, SchemaJson::error_handler_t::replace));
    bytes += scalars.back().size();
  }
  if (scalars.size() > 1 && bytes <= kSetBytesMax) {
    if (const Result<Dfa> set = text_set(scalars); set.ok()) {
      alternatives->push_back(builder_.automaton(minimize(*set)));
      return;
    }
  }
  for (const auto& text : scalars) alternatives->push_back(builder_.literal(text));
}

std::optional<ExprId> SchemaWriter::number(const Shape& shape) {
  const NumberSet set = SchemaReader::numbers(shape);
  if (shape.bare_numbers() && set.integers && set.fractions) return json_.any_number();
  Result<Dfa> texts = number_texts(set);
  if (texts.ok()) return texts->empty() ? std::nullopt : std::optional(builder_.automaton(*std::move(texts)));
  if (set.multiples_of.empty() && set.not_multiples_of.empty())
    reader_.fail(owner_, "the bounds of a number: " + texts.status().message());
  else
    reader_.refuse(owner_, "'multipleOf' with so many digits");
  return std::nullopt;
}

std::optional<ExprId> SchemaWriter::string(const Shape& shape) {
  if (shape.bare_strings()) return json_.any_string();
  if (shape.length.min > shape.length.max) return std::nullopt;
  if (shape.length.min > kCountMax) {
    reader_.fail(owner_, "'minLength' is at most " + std::to_string(kCountMax));
    return std::nullopt;
  }
  if (shape.strings.empty() && shape.excluded_strings.empty())
    return json_.string_of_length(shape.length.min, shape.length.max);
  const Dfa decoded = reader_.strings(shape);
  if (decoded.empty()) return std::nullopt;
  Result<Dfa> texts = string_texts(decoded);
  if (texts.ok()) return builder_.automaton(*std::move(texts));
  reader_.fail(owner_, "what is said about a string: " + texts.status().message());
  return std::nullopt;
}

ExprId SchemaWriter::all_items(const std::vector<ExprId>& items, size_t begin, size_t end) {
  std::vector<ExprId> parts;
  for (size_t i = begin; i < end; ++i) parts.push_back(json_.comma_and(items[i]));
  return parts.empty() ? builder_.empty() : builder_.sequence(parts);
}

// Halves: fewer than all of the first, or all of it and fewer than all of the second.
std::optional<ExprId> SchemaWriter::fewer_items(const std::vector<ExprId>& items, size_t begin, size_t end) {
  if (begin == end) return std::nullopt;
  if (end - begin == 1) return builder_.empty();
  const size_t middle = begin + (end - begin) / 2;
  const ExprId second[] = {all_items(items, begin, middle), *fewer_items(items, middle, end)};
  const ExprId alternatives[] = {*fewer_items(items, begin, middle), builder_.sequence(second)};
  return builder_.choice(alternatives);
}

std::optional<ExprId> SchemaWriter::array(const Shape& shape) {
  if (shape.bare_arrays()) return json_.any_array();
  if (shape.is_unique && shape.items.max > 1 && !options_.ignore_unique_items) {
    reader_.refuse(owner_, "'uniqueItems'");
    return std::nullopt;
  }
  const uint64_t min = shape.items.min;
  uint64_t max = shape.items.max;
  size_t prefix_count = 0;
  for (const auto& part : shape.arrays) prefix_count = std::max(prefix_count, part.prefix.size());
  std::vector<ExprId> items;
  while (items.size() < std::min<uint64_t>(prefix_count, max)) {
    const auto item = goal(reader_.item_goal(shape, items.size()));
    if (!item) break;
    items.push_back(*item);
  }
  std::optional<ExprId> rest;
  if (items.size() == prefix_count && max > prefix_count) rest = goal(reader_.item_goal(shape, prefix_count));
  if (!rest) max = std::min<uint64_t>(max, items.size());
  if (min > max || reader_.failed()) return std::nullopt;
  if (min > kCountMax) {
    reader_.fail(owner_, "'minItems' is at most " + std::to_string(kCountMax));
    return std::nullopt;
  }

  const uint64_t listed = items.size();
  const auto more = [&](uint64_t from, uint64_t to) {
    return builder_.repeat(json_.comma_and(*rest), static_cast<uint32_t>(from), json_.repeat_bound(to));
  };
  const auto less = [](uint64_t count, uint64_t by) {
    return count == kNoBound ? kNoBound : count > by ? count - by : 0;
  };
  std::optional<ExprId> content;
  if (listed == 0 && rest) {
    const ExprId parts[] = {*rest, more(less(min, 1), less(max, 1))};
    content = builder_.sequence(parts);
  } else if (listed > 0) {
    const size_t needed = std::clamp<uint64_t>(min, 1, listed);
    std::vector<ExprId> tails;
    if (min <= listed)
      if (const auto fewer = fewer_items(items, needed, listed)) tails.push_back(*fewer);
    std::vector<ExprId> all{all_items(items, needed, listed)};
    if (rest) all.push_back(more(less(min, listed), less(max, listed)));
    tails.push_back(builder_.sequence(all));
    const ExprId parts[] = {items[0], all_items(items, 1, needed), choice(tails)};
    content = builder_.sequence(parts);
  }
  return json_.array(content, min == 0);
}

std::vector<std::string> SchemaWriter::names(const Shape& shape) const {
  std::vector<std::string> result;
  std::unordered_set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) result.push_back(name);
  };
  for (const auto& part : shape.objects)
    if (part.properties != nullptr)
      for (const auto& [name, value] : part.properties->items()) add(name);
  for (const auto& name : shape.required) add(name);
  return result;
}

std::optional<ExprId> SchemaWriter::other_members(const Shape& shape, const std::vector<std::string>& listed) {
  const bool is_closed = lists_members(shape) && !tells_of_others(shape);
  if (!has_patterns(shape)) {
    if (is_closed) return std::nullopt;
    const Goal others = reader_.other_member_goal(shape);
    if (!others.empty() && !goal(others)) return std::nullopt;
    if (listed.empty() && shape.names.empty()) return json_.member(json_.any_string(), *goal(others));
  }
  std::vector<ExprId> kinds;
  for (auto& [texts, value_goal] : reader_.key_classes(shape, listed)) {
    if (is_closed && value_goal.empty()) continue;
    const auto value = goal(value_goal);
    if (!value) continue;
    Result<Dfa> spelled = string_texts(texts);
    if (!spelled.ok()) {
      reader_.fail(owner_, "the names of additional properties: " + spelled.status().message());
      return std::nullopt;
    }
    kinds.push_back(json_.member(builder_.automaton(*std::move(spelled)), *value));
  }
  return kinds.empty() ? std::nullopt : std::optional(choice(kinds));
}

// Many members are cut into blocks with rules of their own: in one rule, each place would know all names that may
// follow, which are a square of their number in all.
ExprId SchemaWriter::block_of(ExprId body, const std::vector<Member>& members) {
  if (members.size() <= kBlockMembers) return body;
  const RuleId rule = builder_.add_rule("properties");
  builder_.define(rule, body);
  return builder_.reference(rule);
}

// Two halves: the first member is in the front one, or all of the front one is left out.
SchemaWriter::Members SchemaWriter::members_of(const std::vector<Member>& members, size_t begin, size_t end) {
  if (end - begin == 1) return {members[begin].pair, members[begin].another, !members[begin].is_required};
  const size_t half = (end - begin) / 2;
  const size_t middle = begin + (half > kBlockMembers ? half / kBlockMembers * kBlockMembers : half);
  const Members front = members_of(members, begin, middle);
  const Members back = members_of(members, middle, end);
  const ExprId with_front[] = {front.first, back.more};
  const ExprId more[] = {front.more, back.more};
  std::vector<ExprId> first{builder_.sequence(with_front)};
  if (front.is_optional) first.push_back(back.first);
  Members result{choice(first), builder_.sequence(more), front.is_optional && back.is_optional};
  if (end - begin > kBlockMembers / 2 && end - begin <= kBlockMembers) {
    result.first = block_of(result.first, members);
    result.more = block_of(result.more, members);
  }
  return result;
}

std::optional<ExprId> SchemaWriter::object(const Shape& shape) {
  if (shape.bare_objects()) return json_.any_object();
  const std::unordered_set<std::string> required(shape.required.begin(), shape.required.end());
  const std::unordered_set<std::string> forbidden(shape.forbidden.begin(), shape.forbidden.end());
  std::vector<std::string> listed = names(shape);
  std::vector<Member> members;
  for (const auto& name : listed) {
    const bool is_required = required.contains(name);
    std::optional<ExprId> value;
    if (!forbidden.contains(name) && (shape.names.empty() || reader_.accepts(shape.names, SchemaJson(name))))
      value = goal(reader_.member_goal(shape, name));
    if (value) {
      const ExprId pair = json_.member(json_.name(name), *value);
      const ExprId another = json_.comma_and(pair);
      members.push_back({pair, is_required ? another : optional(another), is_required});
    } else if (is_required) {
      return std::nullopt;
    }
  }
  listed.insert(listed.end(), shape.forbidden.begin(), shape.forbidden.end());
  const auto other = other_members(shape, listed);
  if (reader_.failed()) return std::nullopt;

  const auto required_count = static_cast<size_t>(
      std::count_if(members.begin(), members.end(), [](const Member& member) { return member.is_required; }));
  const bool all_may_be = shape.properties.max >= members.size() && (!other || shape.properties.max == kNoBound);
  if (shape.properties.min > required_count || !all_may_be) return counted_members(shape, members, other);

  std::optional<ExprId> content;
  const auto others = [&] { return builder_.repeat(json_.comma_and(*other), 0, kUnbounded); };
  if (!members.empty()) {
    content = members_of(members, 0, members.size()).first;
    if (other) {
      const ExprId parts[] = {*content, others()};
      content = builder_.sequence(parts);
    }
  }
  if (other && required_count == 0) {
    const ExprId parts[] = {*other, others()};
    const ExprId alone = builder_.sequence(parts);
    const ExprId alternatives[] = {content.value_or(alone), alone};
    content = content ? builder_.choice(alternatives) : alone;
  }
  return json_.object(content, required_count == 0);
}

// rest[c]: what may follow where c members have been written (as many as the bounds tell apart), for the members from
// the last one back to the first.
std::optional<ExprId> SchemaWriter::counted_members(const Shape& shape, const std::vector<Member>& members,
                                                    std::optional<ExprId> other) {
  const uint64_t min = shape.properties.min;
  const uint64_t max = shape.properties.max;
  // Names of additional properties may repeat, so that all of them together are sure to be one property and no more.
  const uint64_t sure = members.size() + (other ? 1 : 0);
  if (min > sure && other) {
    reader_.refuse(owner_,
                   "'minProperties' above the number of listed properties, with additional ones that may repeat,");
    return std::nullopt;
  }
  if (min > sure || min > max) return std::nullopt;
  const size_t told_apart = std::min<uint64_t>(members.size() + 1, std::max(min, max == kNoBound ? 1 : max)) + 1;
  if (told_apart * (members.size() + 1) > kCountedMembersMax) {
    reader_.refuse(owner_, "'minProperties' or 'maxProperties' of so many properties");
    return std::nullopt;
  }
  const auto then = [&](ExprId pair, size_t written, ExprId rest) {
    const ExprId parts[] = {written == 0 ? pair : json_.comma_and(pair), rest};
    return builder_.sequence(parts);
  };
  using Rest = std::vector<std::optional<ExprId>>;
  Rest rest(told_apart);
  for (size_t written = 0; written < told_apart; ++written) {
    if (written > max) continue;
    if (written >= min) rest[written] = builder_.empty();
    const bool may_add = other && written < max && written + 1 >= min;
    if (!may_add) continue;
    const uint64_t left = max == kNoBound ? kNoBound : max - written - 1;
    const ExprId added = then(*other, written, builder_.repeat(json_.comma_and(*other), 0, json_.repeat_bound(left)));
    rest[written] = rest[written] ? optional(added) : added;
  }
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    Rest before(told_apart);
    for (size_t written = 0; written < told_apart; ++written) {
      std::vector<ExprId> alternatives;
      const size_t with = std::min(written + 1, told_apart - 1);
      const bool fits = written < max;
      if (fits && rest[with]) alternatives.push_back(then(member->pair, written, *rest[with]));
      if (!member->is_required && rest[written]) alternatives.push_back(*rest[written]);
      if (!alternatives.empty()) before[written] = choice(alternatives);
    }
    rest = std::move(before);
  }
  if (!rest[0]) return std::nullopt;
  const ExprId alternatives[] = {json_.object(*rest[0], false)};
  return builder_.choice(alternatives);
}

}  // namespace twostroke::grammar
