#include "backend/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/random.h"
#include "backend/sampler_math.h"
#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kSelectionMin = 32;  // a selection among fewer candidates sorts them
constexpr size_t kHeapMax = 1024;     // a heap finds so many best tokens at most; a selection, more

}  // namespace

Sampler::Sampler(int32_t vocab_size) : vocab_size_(static_cast<size_t>(vocab_size)) {
  CHECK(vocab_size > 0);
  adjusted_.resize(vocab_size_);
  output_counts_.resize(vocab_size_);
  penalised_.resize(vocab_size_);
  weights_.resize(vocab_size_);
  span_weights_.resize(weight_spans(vocab_size_));
}

bool Sampler::better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

void Sampler::sample(const Row& row, std::span<const TokenId> drafts, std::span<const float> logits,
                     RowResult& result) {
  CHECK(row.samples && row.sampling != nullptr && drafts.size() == row.draft_count);
  CHECK(logits.size() == (drafts.size() + 1) * vocab_size_);
  const SamplingParams& sampling = *row.sampling;
  CHECK(sampling.temperature >= 0 && sampling.top_p > 0 && sampling.repetition_penalty > 0);
  result.following.clear();
  result.status = draw(row, {}, logits.first(vocab_size_), result);
  TokenId drawn = result.token;
  for (size_t i = 0; i < drafts.size() && drawn == drafts[i]; ++i) {
    SampledToken& next = result.following.emplace_back();
    if (draw(row, drafts.first(i + 1), logits.subspan((i + 1) * vocab_size_, vocab_size_), next) != RowStatus::kOk) {
      return result.following.pop_back();
    }
    drawn = next.token;
  }
}

template <typename Drawn>
RowStatus Sampler::draw(const Row& row, std::span<const TokenId> accepted, std::span<const float> logits,
                        Drawn& drawn) {
  const SamplingParams& sampling = *row.sampling;
  drawn.token = -1;
  drawn.logprob = 0;
  drawn.rank = 0;
  drawn.top.clear();

  const Greatest raw = find_greatest(logits);
  if (raw.bad || raw.token < 0) return RowStatus::kNotFinite;
  const std::span<const float> adjusted = adjust(row, accepted, logits);
  const Greatest greatest = adjusted.data() == logits.data() ? raw : find_greatest(adjusted);
  if (greatest.bad || greatest.token < 0) return RowStatus::kNotFinite;

  drawn.token = sampling.temperature == 0
                    ? greatest.token
                    : choose(sampling, row.history.size() + accepted.size(), adjusted, greatest.logit);
  if (sampling.logprobs >= 0) {
    report(logits, raw.logit, drawn.token, static_cast<size_t>(sampling.logprobs), drawn.logprob, drawn.rank,
           drawn.top);
  }
  return RowStatus::kOk;
}

// Steps 5 to 9, for a temperature above 0.
TokenId Sampler::choose(const SamplingParams& sampling, uint64_t position, std::span<const float> logits,
                        float greatest) {
  const double uniform = uniform_draw(sampling.seed, position);
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < vocab_size_) {
    collect_top_k(logits, greatest, sampling);
    return draw_from_candidates(uniform);
  }
  if (sampling.top_p < 1) {
    collect_heavy(logits, greatest, sampling);
    return draw_from_candidates(uniform);
  }
  return draw_from_all(logits, greatest, sampling, uniform);
}

bool Sampler::score(std::span<const float> logits, TokenId token, uint32_t top_count, TokenScore& score) {
  CHECK(logits.size() == vocab_size_ && token >= 0 && static_cast<size_t>(token) < vocab_size_);
  const Greatest greatest = find_greatest(logits);
  if (greatest.bad || greatest.token < 0) return false;
  report(logits, greatest.logit, token, top_count, score.logprob, score.rank, score.top);
  return true;
}

// Steps 2 to 4. Returns `logits` itself where there is nothing to change.
std::span<const float> Sampler::adjust(const Row& row, std::span<const TokenId> accepted,
                                       std::span<const float> logits) {
  const SamplingParams& sampling = *row.sampling;
  if (row.mask.empty() && sampling.logit_bias.empty() && !sampling.has_penalties()) return logits;
  if (row.mask.empty()) {
    std::copy(logits.begin(), logits.end(), adjusted_.begin());
  } else {
    mask_logits(logits, row.mask, adjusted_);
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    CHECK(token >= 0 && static_cast<size_t>(token) < vocab_size_, "logit_bias names a token outside the vocabulary");
    adjusted_[static_cast<size_t>(token)] += bias;
  }
  if (sampling.has_penalties()) apply_penalties(row, accepted);
  return adjusted_;
}

void Sampler::apply_penalties(const Row& row, std::span<const TokenId> accepted) {
  const SamplingParams& sampling = *row.sampling;
  CHECK(row.prompt_count <= row.history.size());
  const std::span<const TokenId> parts[] = {row.history, accepted};
  for (const std::span<const TokenId> tokens : parts) {
    for (TokenId token : tokens) {
      CHECK(token >= 0 && static_cast<size_t>(token) < vocab_size_, "a token of the history is outside the vocabulary");
    }
  }
  for (TokenId token : row.history.subspan(row.prompt_count)) ++output_counts_[static_cast<size_t>(token)];
  for (TokenId token : accepted) ++output_counts_[static_cast<size_t>(token)];
  for (const std::span<const TokenId> tokens : parts) {
    for (TokenId token : tokens) {
      const size_t i = static_cast<size_t>(token);
      if (penalised_[i] != 0) continue;
      penalised_[i] = 1;
      float& logit = adjusted_[i];
      logit = logit > 0 ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
      if (output_counts_[i] > 0) {
        logit -= sampling.frequency_penalty * static_cast<float>(output_counts_[i]);
        logit -= sampling.presence_penalty;
      }
    }
  }
  for (const std::span<const TokenId> tokens : parts) {
    for (TokenId token : tokens) {
      output_counts_[static_cast<size_t>(token)] = 0;
      penalised_[static_cast<size_t>(token)] = 0;
    }
  }
}

void Sampler::report(std::span<const float> logits, float greatest, TokenId token, size_t top_count, float& logprob,
                     uint32_t& rank, std::vector<TokenLogprob>& top) {
  const double log_sum =
      static_cast<double>(greatest) + std::log(fill_weights(logits, greatest, 1, 0, weights_, span_weights_));
  const auto logprob_of = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - log_sum); };
  const float own = logits[static_cast<size_t>(token)];
  logprob = std::max(logprob_of(own), std::numeric_limits<float>::lowest());
  rank = 1 + static_cast<uint32_t>(count_above(logits, own));
  top.clear();
  if (top_count == 0) return;
  collect_best(logits, top_count);
  std::sort(candidates_.begin(), candidates_.end(), better);
  for (const Candidate& c : candidates_) top.push_back({c.token, logprob_of(c.logit)});
}

// The draw where neither top_k nor top_p applies: no candidate is stored.
TokenId Sampler::draw_from_all(std::span<const float> logits, float greatest, const SamplingParams& sampling,
                               double uniform) {
  const double total = fill_weights(logits, greatest, sampling.temperature, sampling.min_p, weights_, span_weights_);
  size_t last = span_weights_.size() - 1;
  while (last > 0 && span_weights_[last] == 0) --last;
  double remaining = uniform * total;
  size_t span = 0;
  while (span < last && remaining >= span_weights_[span]) remaining -= span_weights_[span++];
  // Rounding may leave a remainder behind the last token that has a weight; that token takes it.
  TokenId chosen = -1;
  for (size_t i = span * kWeightSpan; i < std::min((span + 1) * kWeightSpan, vocab_size_); ++i) {
    if (weights_[i] == 0) continue;
    chosen = static_cast<TokenId>(i);
    if (remaining < static_cast<double>(weights_[i])) break;
    remaining -= static_cast<double>(weights_[i]);
  }
  CHECK(chosen >= 0, "the greatest logit has weight 1");
  return chosen;
}

TokenId Sampler::draw_from_candidates(double uniform) const {
  double total = 0;
  for (const Candidate& c : candidates_) total += static_cast<double>(c.weight);
  double remaining = uniform * total;
  TokenId chosen = -1;
  for (const Candidate& c : candidates_) {
    if (c.weight == 0) continue;
    chosen = c.token;
    if (remaining < static_cast<double>(c.weight)) break;
    remaining -= static_cast<double>(c.weight);
  }
  CHECK(chosen >= 0, "the greatest logit has weight 1");
  return chosen;
}

// Leaves what min_p, top_k and top_p keep in candidates_, with weights. Only the k best are ever weighed: dropping by
// min_p before or after them is the same.
void Sampler::collect_top_k(std::span<const float> logits, float greatest, const SamplingParams& sampling) {
  collect_best(logits, static_cast<size_t>(sampling.top_k));
  double total = 0;
  for (Candidate& c : candidates_) {
    c.weight = std::exp((c.logit - greatest) / sampling.temperature);
    if (c.weight < sampling.min_p) c.weight = 0;
    total += static_cast<double>(c.weight);
  }
  if (sampling.top_p < 1) keep_nucleus(static_cast<double>(sampling.top_p) * total);
}

// Leaves what min_p and top_p keep in candidates_, with weights.
void Sampler::collect_heavy(std::span<const float> logits, float greatest, const SamplingParams& sampling) {
  const double total = fill_weights(logits, greatest, sampling.temperature, sampling.min_p, weights_, span_weights_);
  const double top_p = static_cast<double>(sampling.top_p);
  // Rounded down, so that no token too many is dropped; of weight 0, none is kept.
  const auto bound = static_cast<float>((1 - top_p) * total / static_cast<double>(vocab_size_) * (1 - 1e-6));
  const float least = std::max(bound, std::numeric_limits<float>::min());
  candidates_.clear();
  for (size_t i = find_at_least(weights_, 0, least); i < vocab_size_; i = find_at_least(weights_, i + 1, least)) {
    candidates_.push_back({logits[i], weights_[i], static_cast<TokenId>(i)});
  }
  keep_nucleus(top_p * total);
}

// Leaves the `count` best tokens with a logit above -inf in candidates_, in no particular order, without weights.
void Sampler::collect_best(std::span<const float> logits, size_t count) {
  candidates_.clear();
  const bool heap = count <= kHeapMax;
  float bound = -std::numeric_limits<float>::max();
  for (size_t i = find_at_least(logits, 0, bound); i < logits.size(); i = find_at_least(logits, i + 1, bound)) {
    if (!heap || candidates_.size() < count) {
      candidates_.push_back({logits[i], 0, static_cast<TokenId>(i)});
      if (!heap || candidates_.size() < count) continue;
      // From here on the worst of the best is on top of the heap, and a newcomer must beat it; ids ascend, so that a
      // tie does not.
      std::make_heap(candidates_.begin(), candidates_.end(), better);
      bound = candidates_.front().logit;
    } else if (logits[i] > bound) {
      std::pop_heap(candidates_.begin(), candidates_.end(), better);
      candidates_.back() = {logits[i], 0, static_cast<TokenId>(i)};
      std::push_heap(candidates_.begin(), candidates_.end(), better);
      bound = candidates_.front().logit;
    }
  }
  if (candidates_.size() > count) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                     better);
    candidates_.resize(count);
  }
}

// Keeps the best candidates, up to and including the one at which the sum of weights reaches `mass`. Quickselect, with
// the sum of weights in the place of the rank.
void Sampler::keep_nucleus(double mass) {
  auto begin = candidates_.begin();  // everything before is kept, and its weight is taken off `mass`
  auto end = candidates_.end();      // everything from here on is dropped
  const auto weight_between = [](auto first, auto last) {
    double sum = 0;
    for (; first != last; ++first) sum += static_cast<double>(first->weight);
    return sum;
  };
  while (end - begin > static_cast<std::ptrdiff_t>(kSelectionMin)) {
    Candidate a = *begin, b = *(begin + (end - begin) / 2), c = *(end - 1);
    if (better(b, a)) std::swap(a, b);
    if (better(c, b)) std::swap(b, c);
    if (better(b, a)) std::swap(a, b);
    const Candidate pivot = b;  // neither the best nor the worst of three, so that both parts are non-empty
    const auto middle =
        std::partition(begin, end, [&](const Candidate& candidate) { return better(candidate, pivot); });
    const double weight = weight_between(begin, middle);
    if (weight >= mass) {
      end = middle;
    } else {
      mass -= weight;
      begin = middle;
    }
  }
  std::sort(begin, end, better);
  for (auto it = begin; it != end; ++it) {
    mass -= static_cast<double>(it->weight);
    if (mass <= 0) {
      end = it + 1;
      break;
    }
  }
  candidates_.erase(end, candidates_.end());
}

}  // namespace twostroke
