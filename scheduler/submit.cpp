// Requests come in: what is refused, and why.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {
namespace {

// SplitMix64's increment and finaliser: neighbouring seeds and indices give unrelated streams.
uint64_t mix_seed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// A request that pools has no output; what asks for some is a mistake.
Status validate_pooling(const Request& request) {
  const char* meaningless = request.n != 1                    ? "n"
                            : !request.constraints.empty()    ? "a constraint"
                            : !request.allowed_tokens.empty() ? "allowed_tokens"
                            : !request.bad_words.empty()      ? "bad_words"
                            : request.min_tokens != 0         ? "min_tokens"
                            : request.prompt_logprobs != -1   ? "prompt_logprobs"
                            : !request.stop_tokens.empty()    ? "stop_tokens"
                                                              : nullptr;
  if (meaningless == nullptr) return {};
  return invalid_argument(std::string("a request for an embedding makes no output: ") + meaningless +
                          " means nothing there");
}

}  // namespace

uint64_t sequence_seed(uint64_t seed, uint32_t index) {
  return index == 0 ? seed : mix_seed(seed + index * 0x9e3779b97f4a7c15u);
}

Status Scheduler::Impl::validate_remote(const Request& request) const {
  if (request.remote_tokens == 0) return {};
  if (request.remote_tokens > request.prompt.size()) {
    return invalid_argument("remote_tokens is " + std::to_string(request.remote_tokens) + ", more than the prompt's " +
                            std::to_string(request.prompt.size()) + " tokens");
  }
  if (request.prompt_logprobs >= 0 || request.pooling == Pooling::kMean) {
    return invalid_argument("prompt_logprobs and mean pooling need the whole prompt computed here: no remote tokens");
  }
  return imports_kv_ ? Status() : unsupported("this server's backend cannot import keys and values");
}

Status Scheduler::Impl::validate(const Request& request) const {
  const size_t prompt = request.prompt.size();
  if (prompt == 0) return invalid_argument("the prompt has no tokens");
  for (const TokenId token : request.prompt) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocab_size_) {
      return invalid_argument("the prompt holds token " + std::to_string(token) + ", but the vocabulary has only " +
                              std::to_string(vocab_size_) + " tokens");
    }
  }
  if (request.n == 0 || request.n > kMaxSequences) {
    return invalid_argument("n is " + std::to_string(request.n) + "; it must be from 1 to " +
                            std::to_string(kMaxSequences));
  }
  if (!(request.tenant_weight >= kTenantWeightMin && request.tenant_weight <= kTenantWeightMax)) {
    return invalid_argument("the tenant's weight is " + std::to_string(request.tenant_weight) +
                            "; it must be from 0.01 to 100");
  }
  const bool pools = request.pooling != Pooling::kNone;
  if (request.max_tokens == 0 && !pools) return invalid_argument("max_tokens is 0; it must be at least 1");
  for (const auto& constraint : request.constraints) CHECK(constraint != nullptr, "no constraint is an empty list");
  if (!request.constraints.empty() && request.constraints.size() != request.n) {
    return invalid_argument(std::to_string(request.constraints.size()) + " constraints were given for " +
                            std::to_string(request.n) + " sequences");
  }
  if (Status status = pools ? validate_pooling(request) : validate_rules(request, vocab_size_); !status.ok()) {
    return status;
  }
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > kMaxPromptLogprobs) {
    return invalid_argument("prompt_logprobs is " + std::to_string(request.prompt_logprobs) +
                            "; it must be from 0 to " + std::to_string(kMaxPromptLogprobs) + ", or -1 for none");
  }
  if (request.prompt_logprobs >= 0 && !scores_targets_) {
    return unsupported("this server's backend cannot compute the log-probabilities of a prompt");
  }
  if (pools && embedding_size_ == 0) return unsupported("this server's backend cannot compute embeddings");
  if (Status status = validate_remote(request); !status.ok()) return status;

  const size_t needed = pools ? prompt : prompt + 1;
  const std::string length = "the prompt has " + std::to_string(prompt) +
                             (pools ? " tokens; it exceeds " : " tokens; with one token of output it exceeds ");
  if (needed > context_max_) {
    return invalid_argument(length + "the context of " + std::to_string(context_max_) + " tokens; shorten the prompt");
  }
  if (needed > length_max_) {
    return invalid_argument(length + "the KV cache of " + std::to_string(length_max_) +
                            " tokens; shorten the prompt, or give the server more KV memory");
  }
  return {};
}

Status Scheduler::Impl::submit(Request&& request, TimeNs now) {
  CHECK(!step_.in_flight, "submit() between schedule() and commit()");
  if (Status status = validate(request); !status.ok()) return status;
  CHECK(!requests_.contains(request.id), "a request id is used once");
  CHECK(std::ranges::is_sorted(request.stop_tokens), "stop tokens come sorted");
  if (gauges_.requests_waiting >= limits_.max_waiting_requests) {
    return resource_exhausted("the queue is full: " + std::to_string(gauges_.requests_waiting) +
                              " requests are waiting; try again later");
  }
  // A lone long prompt always gets in; otherwise the bound holds with the newcomer counted.
  if (gauges_.waiting_prompt_tokens > 0 &&
      gauges_.waiting_prompt_tokens + request.prompt.size() > limits_.max_waiting_tokens) {
    return resource_exhausted("the queue is full: " + std::to_string(gauges_.waiting_prompt_tokens) +
                              " prompt tokens are waiting; try again later");
  }

  auto owned = std::make_unique<LiveRequest>();
  LiveRequest& live = *owned;
  live.request = std::move(request);
  live.arrival = ++arrivals_;
  live.level = live.request.priority;
  live.output_max = live.pools() ? 1 : std::min(live.request.max_tokens, length_max_ - live.prompt_count());
  live.rules = TokenRules(live.request, vocab_size_);
  live.unfinished = live.request.n;
  live.summary.submitted = now;
  live.summary.objectives = live.request.objectives;
  TimeNs& tpot_ns = live.summary.objectives.tpot_ns;
  if (tpot_ns == 0 && live.request.pooling == Pooling::kNone) tpot_ns = limits_.itl_target_ns;
  live.summary.sequences = live.request.n;
  live.summary.prompt_tokens = live.prompt_count();
  live.sequences = std::vector<Sequence>(live.request.n);
  for (uint32_t i = 0; i < live.request.n; ++i) {
    live.sequences[i].request = &live;
    live.sequences[i].id = ++sequences_made_;
    live.sequences[i].index = i;
  }
  live.need = need_of(live.request);
  newest_[newest_next_++ % newest_.size()] = live.request.id;
  ++gauges_.requests_waiting;
  gauges_.sequences_waiting += live.request.n;
  count_waiting(live, true);
  if (limits_.order == Order::kFair) {
    live.tenant = &fairness_.join(live.request.tenant, live.request.tenant_weight);
    if (live.tenant->waiting == 0) live.tenant->lift(waiting_.least_service(live.level));
  }
  enqueue(live.sequences[0], now);
  requests_.emplace(live.request.id, std::move(owned));
  return {};
}

}  // namespace twostroke
