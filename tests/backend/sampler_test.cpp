#include "backend/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "backend/random.h"
#include "backend/sampler_math.h"

namespace twostroke {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> some_logits(size_t count, uint64_t seed, double spread = 6) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) logits[i] = static_cast<float>((uniform_draw(seed, i) - 0.5) * spread);
  return logits;
}

// A row of a request: owns what a Row borrows.
struct Case {
  SamplingParams sampling;
  std::vector<TokenId> history = {0};
  uint32_t prompt_count = 1;
  std::vector<uint32_t> mask;
  std::vector<TokenId> drafts;

  RowResult sample(Sampler& sampler, const std::vector<float>& logits) const {
    Row row;
    row.samples = true;
    row.sampling = &sampling;
    row.history = history;
    row.prompt_count = prompt_count;
    row.mask = mask;
    RowResult result;
    row.draft_count = static_cast<uint32_t>(drafts.size());
    sampler.sample(row, drafts, logits, result);
    return result;
  }
  TokenId token(const std::vector<float>& logits) const {
    Sampler sampler(static_cast<int32_t>(logits.size()));
    const RowResult result = sample(sampler, logits);
    EXPECT_EQ(result.status, RowStatus::kOk);
    return result.token;
  }
};

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1) {
  double greatest = -1e300, sum = 0;
  for (float l : logits) greatest = std::max(greatest, static_cast<double>(l));
  std::vector<double> p(logits.size());
  for (size_t i = 0; i < p.size(); ++i)
    sum += p[i] = std::exp((static_cast<double>(logits[i]) - greatest) / temperature);
  for (double& x : p) x /= sum;
  return p;
}

// Sets p to 0 where `keep` says no, and renormalises.
std::vector<double> restricted(std::vector<double> p, const std::function<bool(size_t)>& keep) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] = keep(i) ? p[i] : 0;
  for (double& x : p) x /= sum;
  return p;
}

// Token ids, most probable first, by the plain method: a stable sort.
std::vector<size_t> order_of(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  return order;
}

std::vector<double> top_k_of(const std::vector<double>& p, size_t k) {
  const auto order = order_of(p);
  const std::set<size_t> kept(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
  return restricted(p, [&](size_t i) { return kept.contains(i); });
}

std::vector<double> top_p_of(const std::vector<double>& p, double top_p) {
  std::set<size_t> kept;
  double sum = 0;
  for (size_t i : order_of(p)) {
    kept.insert(i);
    if ((sum += p[i]) >= top_p) break;
  }
  return restricted(p, [&](size_t i) { return kept.contains(i); });
}

std::vector<double> min_p_of(const std::vector<double>& p, double min_p) {
  const double bound = min_p * *std::max_element(p.begin(), p.end());
  return restricted(p, [&](size_t i) { return p[i] >= bound; });
}

struct ChiSquare {
  double statistic = 0;  // sum over tokens of (observed - expected)^2 / expected
  double bound = 0;      // passed by chance about once in a million
};

// Draws `draws` tokens with different positions and compares their frequencies with `expected`.
ChiSquare chi_square(Case c, const std::vector<float>& logits, const std::vector<double>& expected) {
  constexpr int kDraws = 20000;
  Sampler sampler(static_cast<int32_t>(logits.size()));
  std::vector<int> observed(logits.size());
  c.sampling.seed = 1234;
  for (int i = 0; i < kDraws; ++i) {
    c.history.resize(static_cast<size_t>(i) % 200 + 1);
    if (c.history.size() == 1) ++c.sampling.seed;
    const RowResult result = c.sample(sampler, logits);
    EXPECT_EQ(result.status, RowStatus::kOk);
    ++observed[static_cast<size_t>(result.token)];
  }
  ChiSquare found;
  int cells = 0;
  double rare_expected = 0, rare_observed = 0;  // tokens too rare for a cell of their own share one
  const auto add_cell = [&](double seen, double wanted) {
    found.statistic += (seen - wanted) * (seen - wanted) / wanted;
    ++cells;
  };
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(observed[i], 0) << "token " << i << " must never be drawn";
    } else if (expected[i] * kDraws < 10) {
      rare_expected += expected[i] * kDraws;
      rare_observed += observed[i];
    } else {
      add_cell(observed[i], expected[i] * kDraws);
    }
  }
  if (rare_expected >= 10) add_cell(rare_observed, rare_expected);
  // Wilson and Hilferty's approximation of the chi-square quantile at 4.75 standard deviations.
  const double dof = std::max(1, cells - 1);
  found.bound = dof * std::pow(1 - 2 / (9 * dof) + 4.75 * std::sqrt(2 / (9 * dof)), 3);
  return found;
}

void expect_drawn_from(const Case& c, const std::vector<float>& logits, const std::vector<double>& expected) {
  const ChiSquare found = chi_square(c, logits, expected);
  EXPECT_LT(found.statistic, found.bound);
}

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformDraw, DependsOnSeedAndPositionAndStaysBelowOne) {
  std::set<double> seen;
  double sum = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t position = 0; position < 500; ++position) {
      const double u = uniform_draw(seed << 40 | seed, position);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      seen.insert(u);
      sum += u;
    }
  }
  EXPECT_EQ(seen.size(), 10000u);
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
}

TEST(SamplerMath, WeighsWithinTwoTenMillionthsOfExp) {
  std::vector<float> logits;
  for (float x = 0; x > -84; x -= 0.00137f) logits.push_back(x);
  std::vector<float> weights(logits.size());
  double sum = 0;
  std::vector<double> sums(weight_spans(logits.size()));
  const double found = fill_weights(logits, 0, 1, 0, weights, sums);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double exact = std::exp(static_cast<double>(logits[i]));
    ASSERT_NEAR(static_cast<double>(weights[i]) / exact, 1, 2e-7) << logits[i];
    sum += exact;
  }
  EXPECT_NEAR(found / sum, 1, 1e-7);
  EXPECT_EQ(weights[0], 1);
}

TEST(SamplerMath, WeighsWhatIsFarBehindAsZero) {
  std::vector<float> weights(4);
  std::vector<double> sums(1);
  EXPECT_EQ(fill_weights(std::vector<float>{-3e38f, -kInfinity, 7, -90}, 7, 1, 0, weights, sums), 1);
  EXPECT_EQ(weights, (std::vector<float>{0, 0, 1, 0}));
}

TEST(SamplerMath, LeavesOutWhatWeighsLessThanIsWantedAndSumsSpanBySpan) {
  std::vector<float> logits;
  for (int i = 0; i < 700; ++i) logits.push_back(-static_cast<float>(i % 7));
  std::vector<float> weights(logits.size());
  std::vector<double> sums(weight_spans(logits.size()));
  ASSERT_EQ(sums.size(), 3u);
  const double total = fill_weights(logits, 0, 1, 0.1f, weights, sums);
  std::vector<double> expected(sums.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(weights[i] > 0, i % 7 <= 2) << i;  // exp(-2) = 0.135
    expected[i / kWeightSpan] += static_cast<double>(weights[i]);
  }
  for (size_t span = 0; span < sums.size(); ++span) EXPECT_NEAR(sums[span], expected[span], 1e-9);
  EXPECT_EQ(total, sums[0] + sums[1] + sums[2]);
}

TEST(SamplerMath, ScansAnyPartOfAVocabulary) {
  for (size_t size : {1, 15, 16, 17, 40, 5000}) {
    std::vector<float> numbers(size);
    std::vector<uint32_t> mask((size + 31) / 32);
    size_t twos = 0;
    for (size_t i = 0; i < size; ++i) {
      numbers[i] = static_cast<float>(i * 37 % 5);
      if (numbers[i] == 2) mask[i / 32] |= 1u << (i % 32);
      twos += numbers[i] > 1 && numbers[i] < 3 ? 1 : 0;
    }
    EXPECT_EQ(count_above(numbers, 1) - count_above(numbers, 2), twos);
    std::vector<float> masked(size);
    mask_logits(numbers, mask, masked);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(masked[i], numbers[i] == 2 ? 2 : -kInfinity);
      size_t next = i;
      while (next < size && numbers[next] < 4) ++next;
      if (i % 97 < 20) {
        ASSERT_EQ(find_at_least(numbers, i, 4), next);
      }
    }
    EXPECT_EQ(find_at_least(numbers, 0, 5), size);
    EXPECT_EQ(find_at_least(numbers, size, 0), size);
  }
}

TEST(SamplerMath, FindsTheFirstOfSeveralGreatestInALongVocabulary) {
  for (size_t first : {0, 1, 2047, 2048, 2049, 4100}) {
    std::vector<float> logits(9000, -2);
    for (size_t i = first; i < logits.size(); i += 1500) logits[i] = 3;
    EXPECT_EQ(find_greatest(logits).token, static_cast<TokenId>(first));
    EXPECT_EQ(find_greatest(logits).logit, 3);
    logits[8999] = kNan;
    EXPECT_TRUE(find_greatest(logits).bad);
  }
}

TEST(SamplerMath, FindsTheGreatestWhereverItIs) {
  for (size_t size : {1, 2, 7, 8, 9, 30}) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -2);
      logits[at] = -1;
      EXPECT_EQ(find_greatest(logits).token, static_cast<TokenId>(at));
      EXPECT_FALSE(find_greatest(logits).bad);
      for (float bad : {kNan, kInfinity}) {
        logits[at] = bad;
        EXPECT_TRUE(find_greatest(logits).bad);
      }
    }
  }
}

TEST(SamplerGreedy, TakesTheGreatestLogitAndTheLowestIdOnTies) {
  Case c;
  c.sampling.temperature = 0;
  EXPECT_EQ(c.token({0, 3, 1, 3, 2}), 1);
  EXPECT_EQ(c.token({-kInfinity, -5, -kInfinity}), 1);
}

TEST(SamplerGreedy, HasNoUseForTopKTopPAndMinP) {
  Case c;
  c.sampling.temperature = 0;
  c.sampling.top_k = 1;
  c.sampling.top_p = 0.1f;
  c.sampling.min_p = 0.9f;
  EXPECT_EQ(c.token({0, 3, 1, 3, 2}), 1);
}

TEST(SamplerGreedy, ComesAfterBiasAndPenalties) {
  Case c;
  c.sampling.temperature = 0;
  c.sampling.logit_bias = {{2, 10.0f}};
  EXPECT_EQ(c.token({1, 3, 0}), 2);
  c.sampling.logit_bias.clear();
  c.history = {0, 1};
  c.sampling.presence_penalty = 2;
  EXPECT_EQ(c.token({1.5f, 3, 0}), 0);
}

TEST(SamplerPenalties, RepetitionDividesPositiveAndMultipliesNegativeLogitsOfPromptAndOutputOnce) {
  Case c;
  c.sampling.temperature = 0;
  c.sampling.repetition_penalty = 2;
  c.history = {0, 0, 0, 1};
  c.prompt_count = 2;
  EXPECT_EQ(c.token({4, 4, 1.9f}), 0);     // 2, 2, 1.9: divided once, however often it occurred
  EXPECT_EQ(c.token({4, 3, 2.1f}), 2);     // 2, 1.5, 2.1
  EXPECT_EQ(c.token({-1, -3, -1.9f}), 2);  // -2, -6, -1.9
}

TEST(SamplerPenalties, FrequencyCountsAndPresenceMarksOutputTokensOnly) {
  Case c;
  c.sampling.temperature = 0;
  c.history = {0, 0, 0, 1, 1, 2};  // output: 1 twice, 2 once
  c.prompt_count = 3;
  c.sampling.frequency_penalty = 0.5f;
  EXPECT_EQ(c.token({1.0f, 1.9f, 0}), 0);  // 1, 0.9
  EXPECT_EQ(c.token({1.0f, 2.1f, 0}), 1);  // 1, 1.1
  c.sampling.frequency_penalty = 0;
  c.sampling.presence_penalty = 0.5f;
  EXPECT_EQ(c.token({1.0f, 1.4f, 0}), 0);  // 1, 0.9
  EXPECT_EQ(c.token({1.0f, 1.6f, 0}), 1);  // 1, 1.1
  c.sampling.presence_penalty = -2;
  EXPECT_EQ(c.token({1.0f, -0.9f, -5}), 1);  // a negative penalty favours what has occurred
}

TEST(SamplerPenalties, ApplyRepetitionBeforeFrequencyAndPresenceAndBiasBeforeAll) {
  Case c;
  c.sampling.temperature = 0;
  c.sampling.repetition_penalty = 2;
  c.sampling.frequency_penalty = 1;
  c.sampling.presence_penalty = 1;
  c.sampling.logit_bias = {{1, 2.0f}};
  c.history = {0, 1};
  EXPECT_EQ(c.token({0, 8, 2.9f}), 1);  // (8 + 2) / 2 - 1 - 1 = 3
  EXPECT_EQ(c.token({0, 8, 3.1f}), 2);
}

// The distribution that is drawn from, against the formulas of sampler.h taken literally.
TEST(SamplerPenalties, DrawFromTheDistributionOfTheirFormulas) {
  constexpr size_t kVocab = 12;
  constexpr int kDraws = 20000;
  const auto logits = some_logits(kVocab, 21, 4);
  Case c;
  c.sampling.repetition_penalty = 1.5f;
  c.sampling.frequency_penalty = 0.3f;
  c.sampling.presence_penalty = -0.4f;
  c.sampling.temperature = 0.8f;
  c.sampling.logit_bias = {{4, 1.25f}, {7, -2.0f}, {1, 0.5f}};
  c.history = {0, 1, 2, 3, 3, 4, 5, 5, 5, 1};
  c.prompt_count = 4;
  const std::vector<float> bias = {0, 0.5f, 0, 0, 1.25f, 0, 0, -2, 0, 0, 0, 0};
  const std::vector<int> in_output = {0, 1, 0, 1, 1, 3, 0, 0, 0, 0, 0, 0};
  std::vector<float> adjusted(kVocab);
  for (size_t t = 0; t < kVocab; ++t) {
    float l = logits[t] + bias[t];
    if (t <= 5) l = l > 0 ? l / 1.5f : l * 1.5f;
    l -= 0.3f * static_cast<float>(in_output[t]) + (in_output[t] > 0 ? -0.4f : 0.0f);
    adjusted[t] = l;
  }
  const std::vector<double> expected = softmax(adjusted, static_cast<double>(0.8f));
  Sampler sampler(kVocab);
  std::vector<double> observed(kVocab);
  for (int i = 0; i < kDraws; ++i) {
    c.sampling.seed = static_cast<uint64_t>(i);
    ++observed[static_cast<size_t>(c.sample(sampler, logits).token)];
  }
  double statistic = 0;
  for (size_t t = 0; t < kVocab; ++t) {
    const double wanted = expected[t] * kDraws;
    ASSERT_GE(wanted, 10) << "too rare for a cell: choose other logits";
    statistic += (observed[t] - wanted) * (observed[t] - wanted) / wanted;
  }
  EXPECT_LT(statistic, 47) << "11 degrees of freedom: passed by chance about once in a million";
}

TEST(SamplerPenalties, LeaveNoTraceForTheNextCall) {
  Case penalised;
  penalised.sampling.temperature = 0;
  penalised.sampling.presence_penalty = 2;
  penalised.history = {0, 1, 1};
  Sampler sampler(3);
  EXPECT_EQ(penalised.sample(sampler, {1, 2, 0}).token, 0);
  Case other = penalised;
  other.history = {0, 2};
  EXPECT_EQ(other.sample(sampler, {1, 2, 0}).token, 1);
}

TEST(SamplerMask, ForbidsWhatIsNotAllowed) {
  Case c;
  c.sampling.temperature = 0;
  auto logits = some_logits(70, 1);
  logits[3] = 90;
  logits[40] = 80;
  c.mask = {0, 1u << (40 - 32) | 1u << (50 - 32), 0};
  EXPECT_EQ(c.token(logits), 40);
  c.sampling.temperature = 1;
  std::vector<double> expected = restricted(softmax(some_logits(70, 1)), [](size_t i) { return i == 40 || i == 50; });
  expect_drawn_from(c, some_logits(70, 1), expected);
}

TEST(SamplerDraw, FollowsTheDistribution) {
  const auto logits = some_logits(40, 2);
  expect_drawn_from(Case{}, logits, softmax(logits));
}

TEST(SamplerDraw, FollowsTheDistributionOverAVocabularyOfManySpans) {
  const auto logits = some_logits(3000, 3, 14);
  expect_drawn_from(Case{}, logits, softmax(logits));
}

TEST(SamplerDraw, FollowsTheTemperature) {
  const auto logits = some_logits(40, 4);
  Case c;
  c.sampling.temperature = 0.5f;
  expect_drawn_from(c, logits, softmax(logits, 0.5));
  c.sampling.temperature = 1.7f;
  expect_drawn_from(c, logits, softmax(logits, static_cast<double>(1.7f)));
}

TEST(SamplerDraw, ChiSquareTellsAWrongTemperature) {
  const auto logits = some_logits(40, 4);
  const ChiSquare found = chi_square(Case{}, logits, softmax(logits, 1.1));
  EXPECT_GT(found.statistic, found.bound);
}

TEST(SamplerTopK, DrawsFromTheKBestWithTiesToTheLowestIds) {
  auto logits = some_logits(300, 5);
  for (size_t i = 20; i < 40; ++i) logits[i] = 3;  // 20 tokens are equally the best
  Case c;
  for (int k : {1, 7, 30, 299, 300, 1000}) {
    c.sampling.top_k = k;
    expect_drawn_from(c, logits, top_k_of(softmax(logits), static_cast<size_t>(std::min(k, 300))));
  }
}

TEST(SamplerTopK, MayBeMoreThanAHeapIsGoodFor) {
  std::vector<float> logits(3000, 1);
  for (size_t i = 0; i < 1000; ++i) logits[i * 3] = 2;
  Case c;
  c.sampling.top_k = 2000;  // all 1000 of the better ones, and of the others those with the lowest ids
  std::vector<double> p(3000, 0);
  size_t others = 0;
  for (size_t i = 0; i < 3000; ++i) {
    if (i % 3 == 0) p[i] = std::exp(1.0);
    if (i % 3 != 0 && others++ < 1000) p[i] = 1;
  }
  expect_drawn_from(c, logits, restricted(p, [](size_t) { return true; }));
}

TEST(SamplerTopP, DrawsFromTheSmallestSetThatReachesP) {
  const auto logits = some_logits(500, 6, 10);
  Case c;
  for (float p : {0.05f, 0.5f, 0.9f, 0.999f}) {
    c.sampling.top_p = p;
    expect_drawn_from(c, logits, top_p_of(softmax(logits), static_cast<double>(p)));
  }
}

TEST(SamplerTopP, KeepsTheTokenThatReachesPAndNoMore) {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const std::vector<float> logits = {std::log(4.0f), std::log(2.0f), 0, 0};
  Case c;
  c.sampling.top_p = 0.6f;
  expect_drawn_from(c, logits, {2.0 / 3, 1.0 / 3, 0, 0});
  c.sampling.top_p = 0.8f;
  expect_drawn_from(c, logits, {4.0 / 7, 2.0 / 7, 1.0 / 7, 0});
}

TEST(SamplerTopP, TakesTiesByIdInAFlatDistribution) {
  const std::vector<float> logits(1000, 0.25f);
  Case c;
  c.sampling.top_p = 0.0995f;
  expect_drawn_from(c, logits, restricted(std::vector<double>(1000, 1), [](size_t i) { return i < 100; }));
}

TEST(SamplerMinP, KeepsWhatIsNotTooFarBehindTheBest) {
  const auto logits = some_logits(200, 7, 10);
  Case c;
  c.sampling.min_p = 0.1f;
  expect_drawn_from(c, logits, min_p_of(softmax(logits), 0.1));
  c.sampling.temperature = 2;  // the bound holds for the distribution at this temperature
  expect_drawn_from(c, logits, min_p_of(softmax(logits, 2), 0.1));
}

TEST(SamplerFilters, ApplyMinPThenTopKThenTopP) {
  const auto logits = some_logits(200, 8, 10);
  Case c;
  c.sampling.temperature = 1.5f;
  c.sampling.min_p = 0.05f;
  c.sampling.top_k = 12;
  c.sampling.top_p = 0.8f;
  expect_drawn_from(c, logits, top_p_of(top_k_of(min_p_of(softmax(logits, 1.5), 0.05), 12), static_cast<double>(0.8f)));
}

TEST(SamplerDraw, IsAFunctionOfSeedAndPosition) {
  const auto logits = some_logits(1000, 9, 2);
  Sampler sampler(1000);
  Case c;
  c.sampling.seed = 99;
  c.history.resize(17);
  const TokenId token = c.sample(sampler, logits).token;
  for (int i = 0; i < 5; ++i) {
    Case other = c;
    other.sampling.seed = static_cast<uint64_t>(i);
    other.sampling.top_p = 0.5f;
    other.sample(sampler, some_logits(1000, 10));  // whatever happens in between
    EXPECT_EQ(c.sample(sampler, logits).token, token);
  }
  EXPECT_EQ(c.token(logits), token);  // and in another sampler
  std::set<TokenId> by_seed, by_position;
  for (uint64_t i = 0; i < 20; ++i) {
    c.sampling.seed = i;
    by_seed.insert(c.sample(sampler, logits).token);
  }
  for (size_t i = 1; i < 20; ++i) {
    c.history.resize(i);
    by_position.insert(c.sample(sampler, logits).token);
  }
  EXPECT_GT(by_seed.size(), 15u);
  EXPECT_GT(by_position.size(), 14u);
}

TEST(SamplerDraw, SurvivesATinyTemperatureAndExtremeLogits) {
  Case c;
  c.sampling.temperature = 1e-30f;
  EXPECT_EQ(c.token({1, 2, 1.999f}), 1);
  c.sampling.top_p = 0.5f;
  EXPECT_EQ(c.token({1, 2, 1.999f}), 1);
  c.sampling.temperature = 1;
  EXPECT_EQ(c.token({-3e38f, 3e38f, 0}), 1);
}

TEST(SamplerLogprobs, AreThoseOfTheRawLogitsWhateverTheSettings) {
  const auto logits = some_logits(500, 11);
  Case c;
  c.sampling.logprobs = 3;
  c.sampling.temperature = 0.3f;
  c.sampling.top_k = 5;
  c.sampling.logit_bias = {{7, 50.0f}};
  Sampler sampler(500);
  const RowResult result = c.sample(sampler, logits);
  EXPECT_EQ(result.token, 7);
  const auto p = softmax(logits);
  EXPECT_NEAR(static_cast<double>(result.logprob), std::log(p[7]), 1e-5);
  const auto order = order_of(p);
  ASSERT_EQ(result.top.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.top[i].token, static_cast<TokenId>(order[i]));
    EXPECT_NEAR(static_cast<double>(result.top[i].logprob), std::log(p[order[i]]), 1e-5);
  }
}

TEST(SamplerLogprobs, RankIsOneMoreThanHowManyAreMoreProbable) {
  Case c;
  c.sampling.temperature = 0;
  c.sampling.logprobs = 0;
  Sampler sampler(5);
  const auto rank_of = [&](TokenId token) {
    c.sampling.logit_bias = {{token, 100.0f}};
    const RowResult result = c.sample(sampler, {1, 4, 2, 0, 2});
    EXPECT_EQ(result.token, token);
    return result.rank;
  };
  EXPECT_EQ(rank_of(1), 1u);
  EXPECT_EQ(rank_of(2), 2u);
  EXPECT_EQ(rank_of(4), 2u) << "equals share a rank";
  EXPECT_EQ(rank_of(0), 4u);
  EXPECT_EQ(rank_of(3), 5u);
  c.sampling.logprobs = -1;
  EXPECT_EQ(rank_of(3), 0u) << "not asked for";
}

TEST(SamplerScore, IsThatOfATokenChosenFromTheSameLogits) {
  const auto logits = some_logits(500, 12);
  const auto p = softmax(logits);
  const auto order = order_of(p);
  Sampler sampler(500);
  for (const size_t place : {size_t{0}, size_t{1}, size_t{250}, size_t{499}}) {
    TokenScore score;
    ASSERT_TRUE(sampler.score(logits, static_cast<TokenId>(order[place]), 2, score));
    EXPECT_NEAR(static_cast<double>(score.logprob), std::log(p[order[place]]), 1e-5);
    EXPECT_EQ(score.rank, place + 1);
    ASSERT_EQ(score.top.size(), 2u);
    EXPECT_EQ(score.top[1].token, static_cast<TokenId>(order[1]));
  }
}

TEST(SamplerScore, IsFiniteAlsoForWhatIsImpossibleAndRefusedForWhatIsNotFinite) {
  Sampler sampler(3);
  TokenScore score;
  ASSERT_TRUE(sampler.score(std::vector<float>{1, -kInfinity, 2}, 1, 5, score));
  EXPECT_EQ(score.logprob, std::numeric_limits<float>::lowest());
  EXPECT_EQ(score.rank, 3u);
  EXPECT_EQ(score.top.size(), 2u);
  EXPECT_FALSE(sampler.score(std::vector<float>{1, kNan, 2}, 0, 0, score));
  EXPECT_FALSE(sampler.score(std::vector<float>{1, kInfinity, 2}, 0, 0, score));
}

TEST(SamplerLogprobs, OrderTiesByIdAndStopAtTheVocabulary) {
  Case c;
  c.sampling.temperature = 0;
  c.sampling.logprobs = 20;
  Sampler sampler(5);
  const RowResult result = c.sample(sampler, {1, 2, 2, 0, 2});
  ASSERT_EQ(result.top.size(), 5u);
  const std::vector<TokenId> expected = {1, 2, 4, 0, 3};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(result.top[i].token, expected[i]);
  c.sampling.logprobs = 2;
  const RowResult two = c.sample(sampler, {1, 2, 2, 0, 2});
  ASSERT_EQ(two.top.size(), 2u);
  EXPECT_EQ(two.top[0].token, 1);
  EXPECT_EQ(two.top[1].token, 2);
}

TEST(SamplerLogprobs, AreOnlyGivenWhenAsked) {
  Case c;
  Sampler sampler(3);
  EXPECT_EQ(c.sample(sampler, {1, 2, 3}).logprob, 0);
  c.sampling.logprobs = 0;
  const RowResult chosen_only = c.sample(sampler, {1, 2, 3});
  EXPECT_LT(chosen_only.logprob, 0);
  EXPECT_TRUE(chosen_only.top.empty());
}

TEST(SamplerFailure, IsReportedForWhatIsNotFinite) {
  Case c;
  Sampler sampler(3);
  const auto expect_failed = [&](const std::vector<float>& logits) {
    for (float temperature : {0.0f, 1.0f}) {
      c.sampling.temperature = temperature;
      const RowResult result = c.sample(sampler, logits);
      EXPECT_EQ(result.status, RowStatus::kNotFinite);
      EXPECT_EQ(result.token, -1);
      EXPECT_TRUE(result.top.empty());
    }
  };
  expect_failed({1, kNan, 2});
  expect_failed({kNan, kNan, kNan});
  expect_failed({1, kInfinity, 2});
  expect_failed({-kInfinity, -kInfinity, -kInfinity});
  c.mask = {0};
  expect_failed({1, 2, 3});
  c.mask = {2};
  expect_failed({1, -kInfinity, 3});
}

TEST(SamplerFailure, NeverDrawsATokenOfProbabilityZero) {
  Case c;
  Sampler sampler(4);
  for (size_t i = 1; i < 200; ++i) {
    c.history.resize(i);
    for (float top_p : {0.999f, 1.0f}) {
      c.sampling.top_p = top_p;
      const TokenId token = c.sample(sampler, {-kInfinity, 0, -200, -kInfinity}).token;
      EXPECT_EQ(token, 1);
    }
  }
}

}  // namespace
}  // namespace twostroke
