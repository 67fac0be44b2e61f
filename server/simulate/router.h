// Router: which replica gets a request. It is one process in front of all of them and sees what passes through it:
// requests on their way in, first tokens and ends on their way out. It asks no replica anything.
//
//   round_robin   knows nothing: each in turn.
//   least_loaded  knows how many requests each replica has in flight, and how many prompt tokens of theirs still have
//                 no first token: the fewest requests, and of equals the fewest such tokens.
//   prefix_aware  knows also which runs of tokens it has sent where (workload.h: a trace's blocks, a shared prefix),
//   for
//                 as many tokens as a replica's KV memory holds, the least recently used forgotten first. It chooses
//                 the replica where the fewest tokens of work stand before this request's first token: prompt tokens
//                 without a first token there, this prompt's own beyond its longest prefix known there, and
//                 kTokensPerRunning for each request in flight, since those share every step.
//
// Equals go to the replica that has waited longest for its turn. Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/simulate/workload.h"

namespace twostroke::simulate {

enum class RouterPolicy : uint8_t { kRoundRobin, kLeastLoaded, kPrefixAware };

// "round_robin", "least_loaded", "prefix_aware".
std::optional<RouterPolicy> parse_router(std::string_view name);
const char* router_name(RouterPolicy policy);

class Router {
 public:
  static constexpr uint32_t kTokensPerRunning = 32;

  // `kv_tokens` holds what each replica's KV memory holds; at least one replica.
  Router(RouterPolicy policy, std::vector<uint64_t> kv_tokens);

  struct Choice {
    size_t replica = 0;
    uint32_t waiting_tokens = 0;  // of the prompt, as the router counts them: to be given back to it
  };
  // The replica for a request with this prompt, which is in flight there from now on.
  Choice choose(const std::vector<TokenRun>& prompt);
  // The request made its first token, or ended before: its prompt is no longer waited for. Once for each.
  void prompt_done(const Choice& choice);
  void ended(const Choice& choice);

 private:
  // Beginnings of prompts, by a hash of all runs up to their end; the last used first.
  struct Prefix {
    uint64_t hash = 0;
    uint32_t tokens = 0;  // of the last run
  };
  struct Target {
    uint64_t kv_tokens = 0;
    uint64_t requests = 0;
    uint64_t waiting_tokens = 0;
    uint64_t last_turn = 0;
    std::list<Prefix> prefixes;
    std::unordered_map<uint64_t, std::list<Prefix>::iterator> by_hash;
    uint64_t prefix_tokens = 0;
  };
  uint32_t known_tokens(const Target& target, const std::vector<TokenRun>& prompt) const;
  void remember(Target& target, const std::vector<TokenRun>& prompt);
  bool better(const Target& a, uint64_t work_a, const Target& b, uint64_t work_b) const;

  const RouterPolicy policy_;
  std::vector<Target> targets_;
  uint64_t turns_ = 0;
};

}  // namespace twostroke::simulate
