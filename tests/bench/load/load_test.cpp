#include <gtest/gtest.h>

#include <algorithm>

#include "tests/bench/load/load_plan.h"
#include "tests/bench/load/load_report.h"
#include "tests/bench/load/prompt_text.h"
#include "tests/bench/load/stream_reader.h"
#include "tests/tools/temp_file.h"

namespace twostroke::load {
namespace {

LoadOptions mixed() {
  LoadOptions options;
  options.mix = {{.prompt_tokens = 60, .output_tokens = 100, .weight = 3},
                 {.prompt_tokens = 1500, .output_tokens = 10}};
  options.rate = 4;
  options.requests = 4000;
  return options;
}

TEST(LoadPlan, ArrivalsComeAtTheRateAndLengthsByTheWeights) {
  const auto plan = make_plan(mixed());
  ASSERT_TRUE(plan.ok());
  EXPECT_NEAR(4000 / plan->back().at_seconds, 4, 0.2);
  size_t many = 0;
  for (const PlannedRequest& request : *plan) many += request.prompt_tokens > 1000 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(many) / 4000, 0.25, 0.03);
}

TEST(LoadPlan, TheSameSeedGivesTheSamePlanAndAnotherDoesNot) {
  LoadOptions options = mixed();
  const auto first = make_plan(options);
  const auto again = make_plan(options);
  options.seed = 2;
  const auto other = make_plan(options);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ((*first)[100].at_seconds, (*again)[100].at_seconds);
  EXPECT_EQ((*first)[100].text_seed, (*again)[100].text_seed);
  EXPECT_NE((*first)[100].at_seconds, (*other)[100].at_seconds);
}

TEST(LoadPlan, ReadsBothKindsOfTraces) {
  const TempFile azure(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,374,44\n2023-11-16 18:15:48.0,396,109\n");
  LoadOptions options;
  options.trace = azure.path();
  options.trace_speed = 2;
  const auto plan = make_plan(options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->size(), 2U);
  EXPECT_DOUBLE_EQ((*plan)[1].at_seconds, 0.75);
  EXPECT_EQ((*plan)[1].output_tokens, 109U);

  const TempFile mooncake("{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [3, 9]}\n");
  options.trace = mooncake.path();
  const auto blocks = make_plan(options);
  ASSERT_TRUE(blocks.ok()) << blocks.status().message();
  EXPECT_EQ((*blocks)[0].blocks, (std::vector<uint64_t>{3, 9}));
}

TEST(LoadPlan, NamesTheLineOfADamagedTrace) {
  const TempFile trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,374,44\n2023-11-16 18:15:47,x,1\n");
  LoadOptions options;
  options.trace = trace.path();
  const auto plan = make_plan(options);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("line 3"), std::string::npos) << plan.status().message();
}

TEST(LoadPlan, RefusesAPartOfAMixThatIsNone) {
  for (const char* text : {"60", "60/", "0/5", "60/5*0", "60/5*-1", "60/5x", "/5", "nan/5"}) {
    EXPECT_FALSE(parse_mix(text).ok()) << text;
  }
}

TEST(PromptText, SharesExactlyTheWordsThatItShould) {
  PlannedRequest one = {.prompt_tokens = 100, .text_seed = 1, .shared_tokens = 60, .shared_seed = 5};
  PlannedRequest two = one;
  two.text_seed = 2;
  const std::string a = prompt_text(one, {});
  const std::string b = prompt_text(two, {});
  const std::string shared = words(60, 5);
  EXPECT_EQ(a.substr(0, shared.size()), shared);
  EXPECT_EQ(b.substr(0, shared.size()), shared);
  EXPECT_NE(a, b);
  EXPECT_EQ(std::count(a.begin(), a.end(), ' '), 100);
  EXPECT_EQ(std::ranges::count(prompt_text(one, {.tokens_per_word = 2, .fixed_tokens = 10}), ' '), 45);
}

TEST(StreamReader, FindsTextWhateverThePiecesThatBytesComeIn) {
  const std::string stream =
      ": waiting\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\r\n\r\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,"
      "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    StreamReader reader;
    int texts = 0;
    for (size_t at = 0; at < stream.size(); at += piece)
      texts += reader.take(std::string_view(stream).substr(at, piece));
    EXPECT_EQ(texts, 1) << piece;
    EXPECT_TRUE(reader.done());
    EXPECT_EQ(reader.prompt_tokens(), 7U);
    EXPECT_EQ(reader.cached_tokens(), 4U);
    EXPECT_EQ(reader.output_tokens(), 2U);
  }
}

TEST(StreamReader, KeepsTheErrorOfAStream) {
  StreamReader reader;
  reader.take("data: {\"error\":{\"message\":\"the step was lost\"}}\n\ndata: [DONE]\n\n");
  EXPECT_NE(reader.error().find("the step was lost"), std::string::npos);
}

TEST(LoadReport, CountsAsGoodOnlyWhatMeetsEveryObjective) {
  LoadOutcome fast = {.planned_at = 0, .sent_at = 0, .ended_at = 2, .arrivals = {0.5, 0.6, 0.7}, .output_tokens = 3};
  LoadOutcome late = fast;
  late.arrivals = {1.5, 1.6, 1.7};
  LoadOutcome stalled = fast;
  stalled.arrivals = {0.5, 0.6, 1.6};
  LoadOutcome failed = fast;
  failed.error = "HTTP 500";
  const LoadReport report = make_report({fast, late, stalled, failed}, {.ttft = 1, .tpot = 0.6, .itl = 0.2});
  EXPECT_EQ(report.offered, 4U);
  EXPECT_EQ(report.failed, 1U);
  EXPECT_EQ(report.good, 1U);
  EXPECT_DOUBLE_EQ(report.goodput(), 0.5);
  EXPECT_DOUBLE_EQ(report.itl.max, 1.0);
}

TEST(LoadReport, PercentilesAreNearestRanks) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Percentiles found = percentiles(values);
  EXPECT_EQ(found.p50, 50);
  EXPECT_EQ(found.p90, 90);
  EXPECT_EQ(found.p99, 99);
  EXPECT_EQ(found.max, 100);
  EXPECT_EQ(found.mean, 50.5);
}

}  // namespace
}  // namespace twostroke::load
