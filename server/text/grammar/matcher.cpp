#include "server/text/grammar/matcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/text/grammar/chart.h"
#include "server/text/grammar/position_mask.h"
#include "server/text/grammar/trie_walk.h"
#include "server/text/utf8.h"

namespace twostroke::grammar {
namespace {

constexpr TokenId kUnknownToken = -1;

void add_words(std::span<const uint32_t> words, std::span<uint32_t> mask) {
  for (size_t i = 0; i < words.size(); ++i) mask[i] |= words[i];
}

void allow(std::span<uint32_t> mask, TokenId token) {
  const auto bit = static_cast<uint32_t>(token);
  if (bit / 32 < mask.size()) mask[bit / 32] |= uint32_t{1} << (bit % 32);
}

bool is_empty(std::span<const uint32_t> mask) {
  return std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; });
}

}  // namespace

struct Matcher::Impl {
  explicit Impl(std::shared_ptr<const Grammar> its_grammar)
      : grammar(std::move(its_grammar)), chart(*grammar), set(chart.root_set()) {}

  std::shared_ptr<const Grammar> grammar;
  Chart chart;
  uint32_t set;  // never kDead
  std::vector<uint32_t> path;
  std::vector<std::pair<uint32_t, uint32_t>> done;  // positions and counts whose own tokens are in the mask

  uint32_t read(uint32_t from, std::string_view bytes) {
    for (const char byte : bytes) {
      if (from == Chart::kDead) break;
      from = chart.step(from, static_cast<uint8_t>(byte));
    }
    return from;
  }

  uint32_t read_token(uint32_t from, TokenId token, std::string_view bytes) {
    const uint32_t by_bytes = bytes.empty() ? Chart::kDead : read(from, bytes);
    return grammar->has_token_edges() ? chart.step_token(from, token, by_bytes) : by_bytes;
  }

  bool go_to(uint32_t next) {
    if (next == Chart::kDead) return false;
    set = chart.collect(next);
    return true;
  }

  void mask_tokens(const Forest& forest, std::span<uint32_t> mask) {
    done.clear();
    for (uint32_t i = 0; i < chart.items(set).size(); ++i) {
      const Item item = chart.items(set)[i];
      if (!grammar->bytes(item.position).empty()) mask_item(forest, item, mask);
    }
  }

  void mask_item(const Forest& forest, const Item& item, std::span<uint32_t> mask) {
    const Rule& rule = grammar->rules[grammar->positions[item.position].rule];
    if (!rule.counted) {
      add_part(forest, item, *position_mask(*grammar, forest, item.position, 0), Forest::kPlainMax, mask);
      return;
    }
    const auto far = position_mask(*grammar, forest, item.position, kFarFromMax);
    const uint32_t rounds_left = rule.max == UINT32_MAX ? UINT32_MAX : rule.max - item.count;
    const uint32_t plain = std::min(rounds_left, Forest::kPlainMax);
    if (item.count >= rule.min && rounds_left > far->rounds_max)
      add_part(forest, item, *far, plain, mask);
    else if (item.count < rule.min && rule.min - item.count > far->rounds_max + 1)
      add_part(forest, item, *position_mask(*grammar, forest, item.position, kFarFromMin), plain, mask);
    else
      add_part(forest, item, *position_mask(*grammar, forest, item.position, item.count), plain, mask);
  }

  // The tokens of one item: what its rule reads by itself, and what goes on behind the rule's end.
  void add_part(const Forest& forest, const Item& item, const PositionMask& part, uint32_t plain,
                std::span<uint32_t> mask) {
    const std::pair key(item.position, item.count);
    if (std::find(done.begin(), done.end(), key) == done.end()) {
      done.push_back(key);
      if (part.takes_plain) add_words(forest.plain_masks[forest.plain_index[plain]], mask);
      add_words(part.words, mask);
      for (const TokenId token : part.tokens) allow(mask, token);
    }
    if (item.set >= Chart::kHole || (part.exits.empty() && !part.takes_plain)) return;
    const uint32_t outside = chart.exit_set(item.set, item.rule);
    if (outside == Chart::kDead) return;
    if (part.takes_plain && plain < Forest::kPlainMax && reads_plain(outside)) {
      // A plain token may use up the rounds and go on behind the rule: rare, and not kept.
      walk(chart, forest, 0, forest.rest_begin, chart.item_set(item), path,
           [&](uint32_t node, uint32_t) { set_token_bits(forest, node, mask); });
    }
    for (size_t i = 0; i < part.exit_bytes.size(); ++i) {
      const uint32_t next = chart.step(outside, part.exit_bytes[i]);
      if (next == Chart::kDead) continue;
      for (uint32_t e = part.exit_begin[i]; e < part.exit_begin[i + 1]; ++e) {
        const uint32_t node = part.exits[e];
        set_token_bits(forest, node, mask);
        walk(chart, forest, node + 1, forest.nodes[node].subtree_end, next, path,
             [&](uint32_t below, uint32_t) { set_token_bits(forest, below, mask); });
      }
    }
  }

  // Some plain token could begin behind `from`.
  bool reads_plain(uint32_t from) const {
    for (const Item& item : chart.items(from)) {
      for (const ByteEdge& edge : grammar->bytes(item.position)) {
        for (uint32_t byte = edge.first; byte <= edge.last; ++byte) {
          if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7F) return true;
        }
      }
    }
    return false;
  }

  // Limits bite soon: no part of what is known about positions can be trusted then.
  bool is_near_limits(const Forest& forest) const {
    return chart.items(set).size() > Chart::kItemsMax / 8 ||
           chart.depth(set) + grammar->depth_needed_highest + forest.longest_bytes + 1 > Chart::kDepthMax;
  }

  void mask_named_tokens(const Forest& forest, std::span<uint32_t> mask) {
    for (const Item& item : chart.items(set)) {
      for (const TokenEdge& edge : grammar->tokens(item.position)) {
        if (!edge.except) {
          allow(mask, edge.token);
          continue;
        }
        const auto token = static_cast<size_t>(edge.token);
        const uint32_t before = token / 32 < mask.size() ? mask[token / 32] >> (token % 32) & 1 : 0;
        add_words(forest.all, mask);
        if (before == 0 && token / 32 < mask.size()) mask[token / 32] &= ~(uint32_t{1} << (token % 32));
      }
    }
  }
};

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : impl_(std::make_unique<Impl>(std::move(grammar))) {}
Matcher::~Matcher() = default;
Matcher::Matcher(const Matcher& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

bool Matcher::accept(std::string_view bytes) {
  Impl& impl = *impl_;
  if (!impl.grammar->has_except) return impl.go_to(impl.read(impl.set, bytes));
  uint32_t next = impl.set;
  while (!bytes.empty() && next != Chart::kDead) {
    const size_t size = utf8_first_unit(bytes).size;
    next = impl.read_token(next, kUnknownToken, bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return impl.go_to(next);
}

bool Matcher::accept_token(TokenId token, std::string_view bytes) {
  return impl_->go_to(impl_->read_token(impl_->set, token, bytes));
}

bool Matcher::accept_control(TokenId token) { return accept_token(token, {}); }

bool Matcher::may_end() const { return impl_->chart.may_end(impl_->set); }

bool Matcher::at_limit() const { return impl_->chart.at_limit(); }

bool Matcher::must_end() const {
  Impl& impl = *impl_;
  if (!may_end()) return false;
  for (size_t i = 0; i < impl.chart.items(impl.set).size(); ++i) {
    const uint32_t position = impl.chart.items(impl.set)[i].position;
    if (!impl.grammar->tokens(position).empty()) return false;
    for (const ByteEdge& edge : impl.grammar->bytes(position)) {
      for (uint32_t byte = edge.first; byte <= edge.last; ++byte) {
        if (impl.chart.step(impl.set, static_cast<uint8_t>(byte)) != Chart::kDead) return false;
      }
    }
  }
  return true;
}

void Matcher::fill_mask(const TokenTrie& tokens, std::span<uint32_t> mask, Place place) {
  Impl& impl = *impl_;
  const TokenTrie::Nodes& nodes = tokens.nodes();
  const Forest& forest = place == Place::kAtStart && nodes.has_start ? nodes.start : nodes.text;
  if (mask.size() < forest.all.size()) {  // a model that cannot produce all of its tokenizer's tokens
    std::vector<uint32_t> whole(forest.all.size());
    fill_mask(tokens, whole, place);
    std::copy_n(whole.begin(), mask.size(), mask.begin());
    return;
  }
  impl.chart.allow_work(kMaskWorkMax);
  const auto walk_from_here = [&](uint32_t begin, uint32_t end) {
    walk(impl.chart, forest, begin, end, impl.set, impl.path,
         [&](uint32_t node, uint32_t) { set_token_bits(forest, node, mask); });
  };
  if (impl.is_near_limits(forest))
    walk_from_here(0, forest.node_count());
  else
    impl.mask_tokens(forest, mask);
  if (impl.chart.out_of_work() && is_empty(mask)) {
    for (uint32_t node = 0; node < forest.node_count(); node = forest.nodes[node].subtree_end) {
      impl.chart.allow_work(kMaskWorkMax);
      walk_from_here(node, node + 1);
    }
  }
  impl.chart.allow_work(UINT64_MAX);
  for (const TokenId token : forest.without_bytes) allow(mask, token);
  if (impl.grammar->has_token_edges()) impl.mask_named_tokens(forest, mask);
}

}  // namespace twostroke::grammar
