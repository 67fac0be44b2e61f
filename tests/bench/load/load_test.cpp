#include <gtest/gtest.h>

#include <algorithm>

#include "tests/bench/load/load_plan.h"
#include "tests/bench/load/load_report.h"
#include "tests/bench/load/prompt_text.h"
#include "tests/bench/load/stream_reader.h"
#include "tests/server/simulate/named_file.h"

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
  for (const PlannedRequest& request : *plan) many += request.prompt.back().length > 1000 ? 1 : 0;
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
  EXPECT_EQ((*first)[100].prompt, (*again)[100].prompt);
  EXPECT_NE((*first)[100].at_seconds, (*other)[100].at_seconds);
}

TEST(LoadPlan, ReadsBothKindsOfTraces) {
  const simulate::NamedFile azure(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,374,44\n2023-11-16 18:15:48.0,396,109\n", ".csv");
  LoadOptions options;
  options.trace = azure.path();
  options.trace_speed = 2;
  const auto plan = make_plan(options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->size(), 2U);
  EXPECT_DOUBLE_EQ((*plan)[1].at_seconds, 0.75);
  EXPECT_EQ((*plan)[1].output_tokens, 109U);

  const simulate::NamedFile mooncake(
      "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [3, 9]}\n"
      "{\"timestamp\": 9, \"input_length\": 900, \"output_length\": 5, \"hash_ids\": [3, 8]}\n",
      ".jsonl");
  options.trace = mooncake.path();
  const auto blocks = make_plan(options);
  ASSERT_TRUE(blocks.ok()) << blocks.status().message();
  ASSERT_EQ((*blocks)[0].prompt.size(), 2U);
  EXPECT_EQ((*blocks)[0].prompt[0], (*blocks)[1].prompt[0]) << "equal ids are equal text";
  EXPECT_NE((*blocks)[0].prompt[1].seed, (*blocks)[1].prompt[1].seed);
  options.prompt_max = 600;
  const auto cut = make_plan(options);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ((*cut)[0].prompt[0].length + (*cut)[0].prompt[1].length, 600U);
}

TEST(LoadPlan, NamesTheLineOfADamagedTrace) {
  const simulate::NamedFile trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,374,44\n2023-11-16 18:15:47,x,1\n", ".csv");
  LoadOptions options;
  options.trace = trace.path();
  const auto plan = make_plan(options);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find(".csv:3:"), std::string::npos) << plan.status().message();
}

TEST(LoadPlan, RefusesAPartOfAMixThatIsNone) {
  for (const char* text : {"60", "60/", "0/5", "60/5*0", "60/5*-1", "60/5*inf", "60/5x", "/5", "nan/5"}) {
    EXPECT_FALSE(parse_mix(text).ok()) << text;
  }
}

TEST(PromptText, SharesExactlyTheWordsThatItShould) {
  const PlannedRequest one = {.prompt = {{.seed = 5, .length = 60}, {.seed = 1, .length = 40}}};
  const PlannedRequest two = {.prompt = {{.seed = 5, .length = 60}, {.seed = 2, .length = 40}}};
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
