#include "server/text/grammar/dfa_operations.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace twostroke::grammar {

namespace {

// A partition of [0, size) that is refined by marking elements and splitting every set that holds both kinds.
class Partition {
 public:
  Partition(uint32_t size, const std::vector<uint32_t>& label, uint32_t label_count)
      : element_(size), location_(size), set_of_(size) {
    std::vector<uint32_t> count(label_count + 1, 0);
    for (const uint32_t l : label) ++count[l + 1];
    // Labels without any element get no set.
    std::vector<uint32_t> set_of_label(label_count, 0);
    for (uint32_t l = 0; l < label_count; ++l) {
      if (count[l + 1] != 0) {
        set_of_label[l] = static_cast<uint32_t>(first_.size());
        first_.push_back(count[l]);
        past_.push_back(count[l]);
        marked_.push_back(0);
      }
      count[l + 1] += count[l];
    }
    for (uint32_t e = 0; e < size; ++e) {
      const uint32_t set = set_of_label[label[e]];
      const uint32_t at = past_[set]++;
      element_[at] = e;
      location_[e] = at;
      set_of_[e] = set;
    }
  }

  uint32_t set_count() const { return static_cast<uint32_t>(first_.size()); }
  uint32_t set_of(uint32_t element) const { return set_of_[element]; }
  std::vector<uint32_t> elements(uint32_t set) const {
    return {element_.begin() + first_[set], element_.begin() + past_[set]};
  }

  void mark(uint32_t element) {
    const uint32_t set = set_of_[element];
    const uint32_t at = location_[element];
    const uint32_t to = first_[set] + marked_[set];
    if (at < to) return;  // marked already
    std::swap(element_[at], element_[to]);
    location_[element_[at]] = at;
    location_[element_[to]] = to;
    if (marked_[set]++ == 0) touched_.push_back(set);
  }

  // The smaller half of every set that was split becomes a new one.
  void split() {
    for (const uint32_t set : touched_) {
      const uint32_t middle = first_[set] + marked_[set];
      const uint32_t marked = std::exchange(marked_[set], 0);
      if (middle == past_[set]) continue;
      const auto fresh = static_cast<uint32_t>(first_.size());
      if (marked <= past_[set] - middle) {
        first_.push_back(first_[set]);
        past_.push_back(middle);
        first_[set] = middle;
      } else {
        first_.push_back(middle);
        past_.push_back(past_[set]);
        past_[set] = middle;
      }
      marked_.push_back(0);
      for (uint32_t i = first_[fresh]; i < past_[fresh]; ++i) set_of_[element_[i]] = fresh;
    }
    touched_.clear();
  }

 private:
  std::vector<uint32_t> element_, location_, set_of_;
  std::vector<uint32_t> first_, past_, marked_;  // of each set; marked elements come first
  std::vector<uint32_t> touched_;
};

struct Transition {
  uint32_t from;
  uint32_t to;
};

// For each state, the indexes of the transitions that lead to it: [begin[s], begin[s + 1]) of `index`.
struct IncomingTransitions {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> index;
  IncomingTransitions(const std::vector<Transition>& transitions, uint32_t states)
      : begin(states + 1, 0), index(transitions.size()) {
    for (const auto& t : transitions) ++begin[t.to + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<uint32_t> at(begin.begin(), begin.end() - 1);
    for (uint32_t i = 0; i < transitions.size(); ++i) index[at[transitions[i].to]++] = i;
  }
};

// Classes whose columns are equal become one.
void merge_classes(Dfa* dfa) {
  std::map<std::vector<uint32_t>, uint8_t> columns;
  std::vector<uint8_t> renamed(dfa->class_count);
  std::vector<uint32_t> kept;
  for (uint32_t c = 0; c < dfa->class_count; ++c) {
    std::vector<uint32_t> column(dfa->state_count());
    for (uint32_t s = 0; s < dfa->state_count(); ++s) column[s] = dfa->next[s * dfa->class_count + c];
    const auto [entry, is_new] = columns.try_emplace(std::move(column), static_cast<uint8_t>(kept.size()));
    if (is_new) kept.push_back(c);
    renamed[c] = entry->second;
  }
  std::vector<uint32_t> next;
  next.reserve(static_cast<size_t>(dfa->state_count()) * kept.size());
  for (uint32_t s = 0; s < dfa->state_count(); ++s)
    for (const uint32_t c : kept) next.push_back(dfa->next[s * dfa->class_count + c]);
  for (auto& c : dfa->byte_class) c = renamed[c];
  dfa->class_count = static_cast<uint32_t>(kept.size());
  dfa->next = std::move(next);
}

struct UsefulStates {
  std::vector<bool> useful;
  bool any = false;
};

// States that the start leads to and that lead to an accepting one.
UsefulStates useful_states(const Dfa& dfa) {
  const uint32_t states = dfa.state_count();
  std::vector<bool> reached(states, false);
  std::vector<uint32_t> queue{0};
  std::vector<Transition> transitions;
  reached[0] = true;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t c = 0; c < dfa.class_count; ++c) {
      const uint32_t to = dfa.next[queue[i] * dfa.class_count + c];
      if (to == Dfa::kDead) continue;
      transitions.push_back({queue[i], to});
      if (!reached[to]) queue.push_back(to);
      reached[to] = true;
    }
  }
  const IncomingTransitions incoming(transitions, states);
  UsefulStates result{std::vector<bool>(states, false), false};
  std::vector<uint32_t> back;
  for (const uint32_t s : queue) {
    if (!dfa.accepting[s]) continue;
    result.useful[s] = true;
    back.push_back(s);
  }
  for (size_t i = 0; i < back.size(); ++i) {
    for (uint32_t k = incoming.begin[back[i]]; k < incoming.begin[back[i] + 1]; ++k) {
      const uint32_t from = transitions[incoming.index[k]].from;
      if (result.useful[from]) continue;
      result.useful[from] = true;
      back.push_back(from);
    }
  }
  result.any = result.useful[0];
  return result;
}

// One state of each block of useful ones stands for it; the start becomes 0, the others follow in the order they are
// reached.
Dfa rebuild(const Dfa& dfa, const std::vector<bool>& useful, const std::vector<uint32_t>& block_of) {
  std::vector<uint32_t> number(dfa.state_count() + 1, Dfa::kDead);
  std::vector<uint32_t> chosen{0};
  number[block_of[0]] = 0;
  Dfa result;
  result.byte_class = dfa.byte_class;
  result.class_count = dfa.class_count;
  for (size_t i = 0; i < chosen.size(); ++i) {
    result.accepting.push_back(dfa.accepting[chosen[i]]);
    for (uint32_t c = 0; c < dfa.class_count; ++c) {
      const uint32_t to = dfa.next[chosen[i] * dfa.class_count + c];
      if (to == Dfa::kDead || !useful[to]) {
        result.next.push_back(Dfa::kDead);
        continue;
      }
      uint32_t& n = number[block_of[to]];
      if (n == Dfa::kDead) {
        n = static_cast<uint32_t>(chosen.size());
        chosen.push_back(to);
      }
      result.next.push_back(n);
    }
  }
  merge_classes(&result);
  return result;
}

constexpr uint32_t kContinuationFirst = 0x80;

// States of utf8_text(): at a boundary; one, two or three continuation bytes to come; and second bytes that the first
// one narrows (Unicode Standard, table 3-7).
enum : uint64_t { kBoundary, kOneMore, kTwoMore, kThreeMore, kAfterE0, kAfterED, kAfterF0, kAfterF4 };

std::optional<uint64_t> utf8_step(uint64_t state, unsigned char byte) {
  const auto within = [byte](unsigned first, unsigned last) { return byte >= first && byte <= last; };
  const auto then = [](bool allowed, uint64_t next) { return allowed ? std::optional(next) : std::nullopt; };
  switch (state) {
    case kBoundary:
      if (byte < kContinuationFirst) return kBoundary;
      if (within(0xC2, 0xDF)) return kOneMore;
      if (byte == 0xE0) return kAfterE0;
      if (byte == 0xED) return kAfterED;
      if (within(0xE1, 0xEF)) return kTwoMore;
      if (byte == 0xF0) return kAfterF0;
      if (byte == 0xF4) return kAfterF4;
      return then(within(0xF1, 0xF3), kThreeMore);
    case kOneMore:
      return then(within(0x80, 0xBF), kBoundary);
    case kTwoMore:
      return then(within(0x80, 0xBF), kOneMore);
    case kThreeMore:
      return then(within(0x80, 0xBF), kTwoMore);
    case kAfterE0:
      return then(within(0xA0, 0xBF), kOneMore);
    case kAfterED:
      return then(within(0x80, 0x9F), kOneMore);
    case kAfterF0:
      return then(within(0x90, 0xBF), kTwoMore);
    default:
      return then(within(0x80, 0x8F), kTwoMore);  // kAfterF4
  }
}

ByteClasses utf8_classes() {
  // Where utf8_step tells a byte apart from the one before.
  ByteClasses classes;
  constexpr unsigned kStarts[] = {0x00, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5};
  for (const unsigned start : kStarts) {
    for (unsigned b = start; b < 256; ++b) classes.of[b] = static_cast<uint8_t>(classes.representative.size());
    classes.representative.push_back(static_cast<unsigned char>(start));
  }
  return classes;
}

// A tree of texts: node 0 is the empty one.
struct TextTree {
  std::vector<std::map<unsigned char, uint32_t>> children{1};
  std::vector<bool> is_text{false};
  ByteClasses classes;

  explicit TextTree(const std::vector<std::string>& texts) {
    std::string bytes;
    for (const auto& text : texts) {
      uint32_t node = 0;
      for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const auto [child, is_new] = children[node].try_emplace(byte, static_cast<uint32_t>(children.size()));
        node = child->second;
        if (!is_new) continue;
        children.emplace_back();
        is_text.push_back(false);
      }
      is_text[node] = true;
      bytes += text;
    }
    std::sort(bytes.begin(), bytes.end());
    bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
    classes = separate_classes(bytes);
  }
  std::optional<uint64_t> step(uint64_t node, unsigned char byte) const {
    const auto child = children[node].find(byte);
    return child == children[node].end() ? std::nullopt : std::optional<uint64_t>(child->second);
  }
};

}  // namespace

Status automaton_too_large(const DfaLimits& limits) {
  return invalid_argument("the automaton of this expression grows beyond the limit of " +
                          std::to_string(limits.states_max) + " states; make it simpler");
}

ByteClasses separate_classes(std::string_view bytes) {
  ByteClasses classes;
  std::array<bool, 256> own{};
  for (const char c : bytes) own[static_cast<unsigned char>(c)] = true;
  std::optional<uint8_t> others;
  for (unsigned b = 0; b < 256; ++b) {
    if (!own[b] && others) {
      classes.of[b] = *others;
      continue;
    }
    classes.of[b] = static_cast<uint8_t>(classes.representative.size());
    if (!own[b]) others = classes.of[b];
    classes.representative.push_back(static_cast<unsigned char>(b));
  }
  return classes;
}

ByteClasses joint_classes(const ByteClasses& a, const ByteClasses& b) {
  ByteClasses classes;
  std::map<std::pair<uint8_t, uint8_t>, uint8_t> numbers;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto [entry, is_new] =
        numbers.try_emplace({a.of[byte], b.of[byte]}, static_cast<uint8_t>(classes.representative.size()));
    if (is_new) classes.representative.push_back(static_cast<unsigned char>(byte));
    classes.of[byte] = entry->second;
  }
  return classes;
}

ByteClasses classes_of(const Dfa& dfa) {
  ByteClasses classes{dfa.byte_class, std::vector<unsigned char>(dfa.class_count, 0)};
  for (unsigned byte = 0; byte < 256; ++byte)
    classes.representative[dfa.byte_class[byte]] = static_cast<unsigned char>(byte);
  return classes;
}

Dfa minimize(const Dfa& dfa) {
  if (dfa.empty()) return {};
  const UsefulStates useful = useful_states(dfa);
  if (!useful.any) return {};
  const uint32_t states = dfa.state_count();
  std::vector<Transition> transitions;
  std::vector<uint32_t> labels;
  for (uint32_t s = 0; s < states; ++s) {
    if (!useful.useful[s]) continue;
    for (uint32_t c = 0; c < dfa.class_count; ++c) {
      const uint32_t to = dfa.next[s * dfa.class_count + c];
      if (to == Dfa::kDead || !useful.useful[to]) continue;
      transitions.push_back({s, to});
      labels.push_back(c);
    }
  }
  const IncomingTransitions incoming(transitions, states);

  // States are useless, rejecting or accepting to begin with; transitions have their class. A set of transitions splits
  // the sets of states that they come from; a set of states splits the sets of transitions that lead to it.
  std::vector<uint32_t> kind(states);
  for (uint32_t s = 0; s < states; ++s) kind[s] = !useful.useful[s] ? 0 : dfa.accepting[s] ? 2 : 1;
  Partition blocks(states, kind, 3);
  Partition cords(static_cast<uint32_t>(transitions.size()), labels, dfa.class_count);
  const auto split_cords = [&](uint32_t block) {
    for (const uint32_t s : blocks.elements(block))
      for (uint32_t k = incoming.begin[s]; k < incoming.begin[s + 1]; ++k) cords.mark(incoming.index[k]);
    cords.split();
  };
  // One block needs not be used as a splitter; all of them are, which is as right and simpler.
  uint32_t block = 0;
  while (block < blocks.set_count()) split_cords(block++);
  for (uint32_t cord = 0; cord < cords.set_count(); ++cord) {
    for (const uint32_t t : cords.elements(cord)) blocks.mark(transitions[t].from);
    blocks.split();
    while (block < blocks.set_count()) split_cords(block++);
  }

  std::vector<uint32_t> block_of(states);
  for (uint32_t s = 0; s < states; ++s) block_of[s] = blocks.set_of(s);
  return rebuild(dfa, useful.useful, block_of);
}

Dfa trim(const Dfa& dfa) {
  if (dfa.empty()) return {};
  const UsefulStates useful = useful_states(dfa);
  if (!useful.any) return {};
  std::vector<uint32_t> itself(dfa.state_count());
  std::iota(itself.begin(), itself.end(), 0);
  return rebuild(dfa, useful.useful, itself);
}

Result<Dfa> combine(const Dfa& a, const Dfa& b, DfaOperation operation, const DfaLimits& limits) {
  if (a.empty()) return operation == DfaOperation::kUnion ? b : Dfa{};
  if (b.empty()) return operation == DfaOperation::kIntersection ? Dfa{} : a;
  const auto pack = [](uint32_t left, uint32_t right) { return static_cast<uint64_t>(left) << 32 | right; };
  const auto left = [](uint64_t state) { return static_cast<uint32_t>(state >> 32); };
  const auto right = [](uint64_t state) { return static_cast<uint32_t>(state); };
  const auto step = [&](uint64_t state, unsigned char byte) -> std::optional<uint64_t> {
    const uint32_t l = left(state) == Dfa::kDead ? Dfa::kDead : a.step(left(state), byte);
    const uint32_t r = right(state) == Dfa::kDead ? Dfa::kDead : b.step(right(state), byte);
    const bool alive = operation == DfaOperation::kIntersection ? l != Dfa::kDead && r != Dfa::kDead
                       : operation == DfaOperation::kDifference ? l != Dfa::kDead
                                                                : l != Dfa::kDead || r != Dfa::kDead;
    return alive ? std::optional(pack(l, r)) : std::nullopt;
  };
  const auto accepts = [&](uint64_t state) {
    const bool l = left(state) != Dfa::kDead && a.accepting[left(state)];
    const bool r = right(state) != Dfa::kDead && b.accepting[right(state)];
    return operation == DfaOperation::kIntersection ? l && r : operation == DfaOperation::kUnion ? l || r : l && !r;
  };
  Result<Dfa> product = explore(pack(0, 0), joint_classes(classes_of(a), classes_of(b)), step, accepts, limits);
  if (!product.ok()) return product;
  return minimize(*product);
}

Dfa utf8_text() {
  static const Dfa kText =
      minimize(*explore(kBoundary, utf8_classes(), utf8_step, [](uint64_t s) { return s == kBoundary; }));
  return kText;
}

Result<Dfa> text_set(const std::vector<std::string>& texts, const DfaLimits& limits) {
  if (texts.empty()) return Dfa{};
  const TextTree tree(texts);
  return explore(
      0, tree.classes, [&](uint64_t node, unsigned char byte) { return tree.step(node, byte); },
      [&](uint64_t node) { return tree.is_text[node]; }, limits);
}

Result<Dfa> all_text_but(const std::vector<std::string>& texts, const DfaLimits& limits) {
  const TextTree tree(texts);
  // A state is one of UTF-8, and the node of the tree plus one where the text still is in it.
  const auto step = [&](uint64_t state, unsigned char byte) -> std::optional<uint64_t> {
    const auto utf8 = utf8_step(state & 7, byte);
    if (!utf8) return std::nullopt;
    const uint64_t node = state >> 3;
    const auto child = node == 0 ? std::nullopt : tree.step(node - 1, byte);
    return *utf8 | (child ? *child + 1 : 0) << 3;
  };
  const auto accepts = [&](uint64_t state) {
    return (state & 7) == kBoundary && (state >> 3 == 0 || !tree.is_text[(state >> 3) - 1]);
  };
  return explore(kBoundary | 1 << 3, joint_classes(utf8_classes(), tree.classes), step, accepts, limits);
}

TextLengths text_lengths(const Dfa& dfa) {
  TextLengths lengths{UINT32_MAX, 0};
  if (dfa.empty()) return lengths;
  const uint32_t states = dfa.state_count();
  const ByteClasses classes = classes_of(dfa);
  const auto weight = [&](uint32_t c) { return (classes.representative[c] & 0xC0) == kContinuationFirst ? 0U : 1U; };
  // Continuation bytes share no class with others in a language of UTF-8 texts: they follow different states. Where a
  // class mixes both (bytes that lead nowhere), its transitions are dead, so the weight does not matter.
  std::vector<uint32_t> shortest(states, UINT32_MAX);
  std::deque<uint32_t> queue{0};
  shortest[0] = 0;
  while (!queue.empty()) {
    const uint32_t s = queue.front();
    queue.pop_front();
    for (uint32_t c = 0; c < dfa.class_count; ++c) {
      const uint32_t to = dfa.next[s * dfa.class_count + c];
      if (to == Dfa::kDead || shortest[to] <= shortest[s] + weight(c)) continue;
      shortest[to] = shortest[s] + weight(c);
      if (weight(c) == 0)
        queue.push_front(to);
      else
        queue.push_back(to);
    }
  }
  for (uint32_t s = 0; s < states; ++s)
    if (dfa.accepting[s]) lengths.shortest = std::min(lengths.shortest, shortest[s]);

  // Longest: in topological order; a state that never gets its turn lies behind a cycle.
  std::vector<uint32_t> incoming(states, 0);
  for (const uint32_t to : dfa.next)
    if (to != Dfa::kDead) ++incoming[to];
  std::vector<uint32_t> longest(states, 0);
  std::vector<uint32_t> order;
  if (incoming[0] == 0) order.push_back(0);
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t s = order[i];
    if (dfa.accepting[s]) lengths.longest = std::max(lengths.longest, longest[s]);
    for (uint32_t c = 0; c < dfa.class_count; ++c) {
      const uint32_t to = dfa.next[s * dfa.class_count + c];
      if (to == Dfa::kDead) continue;
      longest[to] = std::max(longest[to], longest[s] + weight(c));
      if (--incoming[to] == 0) order.push_back(to);
    }
  }
  if (order.size() != states) lengths.longest = UINT32_MAX;
  return lengths;
}

}  // namespace twostroke::grammar
