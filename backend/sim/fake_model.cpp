#include "backend/sim/fake_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "backend/sim/hash.h"
#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr uint32_t kRankedMax = 8;
constexpr double kBestLogit = 8;
constexpr double kTailLogit = -8;

bool allowed(std::span<const uint32_t> mask, uint32_t token) {
  return mask.empty() || ((mask[token / 32] >> (token % 32)) & 1) != 0;
}

double ranked_logit(size_t rank) { return kBestLogit - std::numbers::ln2 * static_cast<double>(rank); }

}  // namespace

void FakeModel::rank(uint64_t chain) {
  ranked_.clear();
  const uint32_t count = std::min(kRankedMax, vocab_size_);
  for (uint32_t k = 0; k < count; ++k) {
    uint32_t token = sim::bounded(sim::mix(chain, k), vocab_size_);
    while (std::ranges::find(ranked_, static_cast<TokenId>(token)) != ranked_.end()) token = (token + 1) % vocab_size_;
    ranked_.push_back(static_cast<TokenId>(token));
  }
}

double FakeModel::own_logit(TokenId token) const {
  const auto found = std::ranges::find(ranked_, token);
  return found == ranked_.end() ? kTailLogit : ranked_logit(static_cast<size_t>(found - ranked_.begin()));
}

bool FakeModel::is_candidate(TokenId token) const {
  return std::ranges::find(candidates_, token, &Candidate::token) != candidates_.end();
}

void FakeModel::add_tail_token(uint64_t chain, std::span<const uint32_t> mask) {
  const uint32_t start = sim::bounded(sim::mix(chain, kRankedMax), vocab_size_);
  for (uint32_t i = 0; i < vocab_size_; ++i) {
    const uint32_t token = (start + i) % vocab_size_;
    if (!allowed(mask, token) || is_candidate(static_cast<TokenId>(token))) continue;
    candidates_.push_back({static_cast<TokenId>(token), own_logit(static_cast<TokenId>(token))});
    return;
  }
}

void FakeModel::apply_penalties(const Row& row) {
  const SamplingParams& sampling = *row.sampling;
  if (!sampling.has_penalties()) return;
  const std::span<const TokenId> output = row.history.subspan(row.prompt_count);
  for (Candidate& candidate : candidates_) {
    const auto count = static_cast<double>(std::ranges::count(output, candidate.token));
    if (count > 0 || std::ranges::find(row.history, candidate.token) != row.history.end()) {
      const double repetition = sampling.repetition_penalty;
      candidate.logit = candidate.logit > 0 ? candidate.logit / repetition : candidate.logit * repetition;
    }
    if (count > 0) candidate.logit -= sampling.frequency_penalty * count + sampling.presence_penalty;
  }
}

TokenId FakeModel::draw(const SamplingParams& sampling, uint64_t position) {
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  if (sampling.temperature == 0) return candidates_.front().token;

  const auto weight = [&, greatest = candidates_.front().logit](const Candidate& c) {
    return std::exp((c.logit - greatest) / sampling.temperature);
  };
  size_t kept = candidates_.size();
  while (kept > 1 && weight(candidates_[kept - 1]) < sampling.min_p) --kept;
  if (sampling.top_k > 0) kept = std::min(kept, static_cast<size_t>(sampling.top_k));
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += weight(candidates_[i]);
  if (sampling.top_p < 1) {
    double sum = weight(candidates_[0]);
    size_t nucleus = 1;
    while (nucleus < kept && sum < sampling.top_p * total) sum += weight(candidates_[nucleus++]);
    kept = nucleus;
    total = sum;
  }
  double left = sim::unit(sim::mix(sim::scramble(sampling.seed), position)) * total;
  for (size_t i = 0; i + 1 < kept; ++i) {
    left -= weight(candidates_[i]);
    if (left < 0) return candidates_[i].token;
  }
  return candidates_[kept - 1].token;
}

void FakeModel::sample(uint64_t chain, const Row& row, RowResult& result) {
  rank(chain);
  candidates_.clear();
  for (size_t k = 0; k < ranked_.size(); ++k) {
    if (allowed(row.mask, static_cast<uint32_t>(ranked_[k]))) candidates_.push_back({ranked_[k], ranked_logit(k)});
  }
  for (const auto& [token, bias] : row.sampling->logit_bias) {
    if (!is_candidate(token) && allowed(row.mask, static_cast<uint32_t>(token))) {
      candidates_.push_back({token, own_logit(token)});
    }
  }
  add_tail_token(chain, row.mask);
  if (candidates_.empty()) {  // every token is masked
    result.status = RowStatus::kNotFinite;
    return;
  }
  for (const auto& [token, bias] : row.sampling->logit_bias) {
    const auto found = std::ranges::find(candidates_, token, &Candidate::token);
    if (found != candidates_.end()) found->logit += bias;
  }
  apply_penalties(row);
  report(chain, draw(*row.sampling, row.history.size()), *row.sampling, result);
}

void FakeModel::report(uint64_t chain, TokenId token, const SamplingParams& sampling, RowResult& result) {
  CHECK(token >= 0 && static_cast<uint32_t>(token) < vocab_size_, "a token outside the vocabulary");
  result.token = token;
  if (sampling.logprobs < 0) return;
  TokenScore own;
  score(chain, token, static_cast<uint32_t>(sampling.logprobs), own);
  result.logprob = own.logprob;
  result.rank = own.rank;
  result.top = std::move(own.top);
}

void FakeModel::score(uint64_t chain, TokenId token, uint32_t top_count, TokenScore& score) {
  rank(chain);
  double mass = (vocab_size_ - static_cast<double>(ranked_.size())) * std::exp(kTailLogit);
  for (size_t k = 0; k < ranked_.size(); ++k) mass += std::exp(ranked_logit(k));
  const double log_mass = std::log(mass);
  score.logprob = static_cast<float>(own_logit(token) - log_mass);
  score.rank = 1 + static_cast<uint32_t>(std::ranges::find(ranked_, token) - ranked_.begin());
  score.top.clear();
  const size_t count = std::min(top_count, vocab_size_);
  for (size_t k = 0; k < std::min(count, ranked_.size()); ++k) {
    score.top.push_back({ranked_[k], static_cast<float>(ranked_logit(k) - log_mass)});
  }
  for (TokenId tail = 0; score.top.size() < count; ++tail) {  // all alike: in order of id
    if (own_logit(tail) == kTailLogit) score.top.push_back({tail, static_cast<float>(kTailLogit - log_mass)});
  }
}

void FakeModel::add_state(uint64_t chain, std::span<double> sum) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += 2 * sim::unit(sim::mix(sim::scramble(chain), i)) - 1;
}

}  // namespace twostroke
