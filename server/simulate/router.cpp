#include "server/simulate/router.h"

#include "kernels/check.h"
#include "server/simulate/random.h"

namespace twostroke::simulate {
namespace {

constexpr std::pair<std::string_view, RouterPolicy> kPolicies[] = {
    {"round_robin", RouterPolicy::kRoundRobin},
    {"least_loaded", RouterPolicy::kLeastLoaded},
    {"prefix_aware", RouterPolicy::kPrefixAware},
};

uint64_t chain_hash(uint64_t parent, const TokenRun& run) { return derive_seed(parent ^ run.seed, run.length); }

uint32_t prompt_tokens(const std::vector<TokenRun>& prompt) {
  uint32_t sum = 0;
  for (const TokenRun& run : prompt) sum += run.length;
  return sum;
}

}  // namespace

std::optional<RouterPolicy> parse_router(std::string_view name) {
  for (const auto& [known, policy] : kPolicies) {
    if (known == name) return policy;
  }
  return std::nullopt;
}

const char* router_name(RouterPolicy policy) { return kPolicies[static_cast<size_t>(policy)].first.data(); }

Router::Router(RouterPolicy policy, std::vector<uint64_t> kv_tokens) : policy_(policy), targets_(kv_tokens.size()) {
  CHECK(!targets_.empty(), "a router needs a replica");
  for (size_t i = 0; i < targets_.size(); ++i) targets_[i].kv_tokens = kv_tokens[i];
}

uint32_t Router::known_tokens(const Target& target, const std::vector<TokenRun>& prompt) const {
  uint64_t hash = 0;
  uint32_t known = 0;
  for (const TokenRun& run : prompt) {
    hash = chain_hash(hash, run);
    if (!target.by_hash.contains(hash)) break;
    known += run.length;
  }
  return known;
}

// From the last run to the first, so that a chain's tail is forgotten before its head.
void Router::remember(Target& target, const std::vector<TokenRun>& prompt) {
  std::vector<Prefix> chain;
  uint64_t hash = 0;
  for (const TokenRun& run : prompt) chain.push_back({hash = chain_hash(hash, run), run.length});
  for (size_t i = chain.size(); i-- > 0;) {
    const auto found = target.by_hash.find(chain[i].hash);
    if (found != target.by_hash.end()) {
      target.prefixes.splice(target.prefixes.begin(), target.prefixes, found->second);
      continue;
    }
    target.prefixes.push_front(chain[i]);
    target.by_hash.emplace(chain[i].hash, target.prefixes.begin());
    target.prefix_tokens += chain[i].tokens;
  }
  while (target.prefix_tokens > target.kv_tokens && !target.prefixes.empty()) {
    target.prefix_tokens -= target.prefixes.back().tokens;
    target.by_hash.erase(target.prefixes.back().hash);
    target.prefixes.pop_back();
  }
}

bool Router::better(const Target& a, uint64_t work_a, const Target& b, uint64_t work_b) const {
  if (policy_ == RouterPolicy::kLeastLoaded) {
    if (a.requests != b.requests) return a.requests < b.requests;
    if (a.waiting_tokens != b.waiting_tokens) return a.waiting_tokens < b.waiting_tokens;
  }
  if (policy_ == RouterPolicy::kPrefixAware && work_a != work_b) return work_a < work_b;
  return a.last_turn < b.last_turn;
}

Router::Choice Router::choose(const std::vector<TokenRun>& prompt) {
  const uint32_t tokens = prompt_tokens(prompt);
  Choice choice;
  uint64_t best_work = 0;
  for (size_t i = 0; i < targets_.size(); ++i) {
    const Target& target = targets_[i];
    const uint32_t known = policy_ == RouterPolicy::kPrefixAware ? known_tokens(target, prompt) : 0;
    const uint64_t work = target.waiting_tokens + (tokens - known) + target.requests * kTokensPerRunning;
    if (i > 0 && !better(target, work, targets_[choice.replica], best_work)) continue;
    choice = {.replica = i, .waiting_tokens = tokens - known};
    best_work = work;
  }
  Target& chosen = targets_[choice.replica];
  chosen.last_turn = ++turns_;
  ++chosen.requests;
  chosen.waiting_tokens += choice.waiting_tokens;
  if (policy_ == RouterPolicy::kPrefixAware) remember(chosen, prompt);
  return choice;
}

void Router::prompt_done(const Choice& choice) { targets_[choice.replica].waiting_tokens -= choice.waiting_tokens; }

void Router::ended(const Choice& choice) { --targets_[choice.replica].requests; }

}  // namespace twostroke::simulate
