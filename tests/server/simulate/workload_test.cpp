#include "server/simulate/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "server/simulate/simulated_time.h"
#include "server/simulate/synthetic.h"
#include "server/simulate/trace_file.h"
#include "tests/server/simulate/named_file.h"

namespace twostroke::simulate {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

// All requests, or the error that ended them.
Result<std::vector<Arrival>> read_all(Workload& workload) {
  std::vector<Arrival> all;
  Arrival arrival;
  while (true) {
    const Result<bool> more = workload.next(arrival);
    if (!more.ok()) return more.status();
    if (!*more) return all;
    all.push_back(arrival);
  }
}

Result<std::vector<Arrival>> read_trace(const std::string& text, const char* ending, uint64_t seed = 1) {
  const NamedFile file(text, ending);
  Result<std::unique_ptr<Workload>> trace = open_trace(file.path(), seed);
  if (!trace.ok()) return trace.status();
  return read_all(**trace);
}

TEST(AzureTrace, GivesTimesAndLengths) {
  const auto all = read_trace(
      std::string(kHeader) + "2023-11-16 23:59:59.5000000,374,44\r\n2023-11-17 00:00:01.0000001,396,109", ".csv");
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].time, 0);
  EXPECT_EQ((*all)[0].prompt_tokens, 374u);
  EXPECT_EQ((*all)[0].output_tokens, 44u);
  EXPECT_EQ((*all)[1].time, 1'500'000'100);
  EXPECT_NE((*all)[0].prompt[0].seed, (*all)[1].prompt[0].seed);
}

TEST(AzureTrace, DamagedLinesAreErrorsThatNameTheLine) {
  const auto message = [](const std::string& line) {
    return read_trace(std::string(kHeader) + "2023-11-16 18:15:46.0,1,1\n" + line + "\n", ".csv").status().message();
  };
  EXPECT_THAT(message("2023-11-16 18:15:47.0,1"), HasSubstr(".csv:3: the request has fewer than three fields"));
  EXPECT_THAT(message("yesterday,1,1"), HasSubstr(":3: the request has no time"));
  EXPECT_THAT(message("2023-11-31 18:15:47.0,1,1"), HasSubstr("has no time"));
  EXPECT_THAT(message("2023-11-16 18:15:47.0,0,1"), HasSubstr("ContextTokens"));
  EXPECT_THAT(message("2023-11-16 18:15:47.0,1,-1"), HasSubstr("GeneratedTokens"));
  EXPECT_THAT(message("2023-11-16 18:15:47.0,1,1,1"), HasSubstr("GeneratedTokens"));
  EXPECT_THAT(message("2023-11-16 18:15:45.0,1,1"), HasSubstr("earlier than the one before"));
  EXPECT_THAT(message(std::string(kTraceLineBytesMax + 1, 'x')), HasSubstr("longer than"));
  EXPECT_THAT(read_trace("a,b,c\n", ".csv").status().message(), HasSubstr(":1: the first line"));
  EXPECT_THAT(read_trace("", ".csv").status().message(), HasSubstr(":1: the first line"));
}

TEST(MooncakeTrace, EqualIdsAreEqualTokens) {
  const auto all = read_trace(
      "{\"timestamp\": 7000, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [1, 2]}\n"
      "{\"timestamp\": 7500, \"input_length\": 1024, \"output_length\": 0, \"hash_ids\": [1, 3]}\n",
      ".jsonl");
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].time, 0);
  EXPECT_EQ((*all)[1].time, 500'000'000);
  EXPECT_EQ((*all)[1].output_tokens, 1u);
  ASSERT_EQ((*all)[0].prompt.size(), 2u);
  EXPECT_EQ((*all)[0].prompt[1].length, 488u);
  std::vector<TokenId> first;
  std::vector<TokenId> second;
  for (const TokenRun& run : (*all)[0].prompt) append_tokens(run, 32000, first);
  for (const TokenRun& run : (*all)[1].prompt) append_tokens(run, 32000, second);
  EXPECT_EQ(first.size(), 1000u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 512, second.begin()));
  EXPECT_FALSE(std::equal(first.begin() + 512, first.end(), second.begin() + 512));
}

TEST(MooncakeTrace, DamagedLinesAreErrorsThatNameTheLine) {
  const auto message = [](const std::string& line) {
    return read_trace("\n" + line + "\n", ".jsonl").status().message();
  };
  EXPECT_THAT(message("{"), HasSubstr(".jsonl:2: the request is not a JSON object"));
  EXPECT_THAT(message("{\"timestamp\": -1}"), HasSubstr("\"timestamp\""));
  EXPECT_THAT(message("{\"timestamp\": 1, \"input_length\": 0}"), HasSubstr("\"input_length\""));
  EXPECT_THAT(message("{\"timestamp\": 1, \"input_length\": 5, \"output_length\": \"x\"}"), HasSubstr("output_length"));
  EXPECT_THAT(message("{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [1, 2]}"),
              HasSubstr("1 for 5"));
  EXPECT_THAT(message("{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [-1]}"),
              HasSubstr("whole numbers"));
}

TEST(TraceFile, IsRefusedWhenItIsNotThereOrOfNoKnownKind) {
  EXPECT_EQ(open_trace("no-such-file.csv", 1).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(open_trace("trace.txt", 1).status().message(), HasSubstr(".jsonl (Mooncake)"));
}

TEST(TraceFile, TheRecordedHoursAreReadInFull) {
  const std::string folder = TWOSTROKE_SHARED_DIR "/traces/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  for (const auto& [name, requests, prompts, outputs] :
       {std::tuple{"azure_llm_2023_conv.csv", 19366u, 22361870u, 4088665u},
        std::tuple{"azure_llm_2023_code.csv", 8819u, 18059974u, 245896u},
        std::tuple{"mooncake_conversation.jsonl", 12031u, 144793823u, 4122048u}}) {
    const Result<std::unique_ptr<Workload>> trace = open_trace(folder + name, 1);
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    const Result<std::vector<Arrival>> all = read_all(**trace);
    ASSERT_TRUE(all.ok()) << all.status().message();
    EXPECT_EQ(all->size(), requests) << name;
    uint64_t prompt = 0;
    uint64_t output = 0;
    for (const Arrival& arrival : *all) prompt += arrival.prompt_tokens, output += arrival.output_tokens;
    EXPECT_EQ(prompt, prompts) << name;
    EXPECT_EQ(output, outputs) << name;
    EXPECT_EQ((*trace)->progress(), 1) << name;
  }
}

TEST(Timestamp, CountsNanosecondsSince1970) {
  EXPECT_EQ(parse_timestamp("1970-01-02 00:00:01.5"), 86'401'500'000'000);
  EXPECT_EQ(parse_timestamp("2024-02-29T12:00:00"), 1'709'208'000'000'000'000);
  for (const char* wrong : {"", "2023-02-29 00:00:00", "2023-01-01 24:00:00", "2023-01-01 00:00:00.",
                            "1969-12-31 00:00:00", "2023-01-01 00:00:00.1234567890", "2023-01-01 00:00:00Z"}) {
    EXPECT_EQ(parse_timestamp(wrong), std::nullopt) << wrong;
  }
}

SyntheticOptions synthetic(double rate, uint64_t requests) {
  SyntheticOptions options;
  options.rate = rate;
  options.requests = requests;
  options.kinds = {
      {.weight = 1, .prompt = *parse_lengths("lognormal:400:0.8:4000"), .output = *parse_lengths("uniform:10:30")}};
  return options;
}

TEST(Synthetic, ArrivesAtItsRateAndWithItsLengths) {
  const Result<std::vector<Arrival>> all = read_all(*make_synthetic(synthetic(5, 20'000)));
  ASSERT_EQ(all->size(), 20'000u);
  EXPECT_NEAR(to_seconds(all->back().time), 4000, 4000 * 0.03);
  std::vector<uint32_t> prompts;
  double outputs = 0;
  for (const Arrival& arrival : *all) {
    prompts.push_back(arrival.prompt_tokens);
    outputs += arrival.output_tokens;
    ASSERT_GE(arrival.output_tokens, 10u);
    ASSERT_LE(arrival.output_tokens, 30u);
    ASSERT_LE(arrival.prompt_tokens, 4000u);
  }
  std::ranges::nth_element(prompts, prompts.begin() + 10'000);
  EXPECT_NEAR(prompts[10'000], 400, 20);
  EXPECT_NEAR(outputs / 20'000, 20, 0.2);
}

TEST(Synthetic, TheSeedDecidesEverythingAndTheRateTimesAlone) {
  const auto first = *read_all(*make_synthetic(synthetic(5, 100)));
  const auto again = *read_all(*make_synthetic(synthetic(5, 100)));
  const auto faster = *read_all(*make_synthetic(synthetic(50, 100)));
  SyntheticOptions other = synthetic(5, 100);
  other.seed = 2;
  const auto different = *read_all(*make_synthetic(other));
  bool differs = false;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(first[i].time, again[i].time);
    EXPECT_EQ(first[i].prompt, again[i].prompt);
    EXPECT_EQ(first[i].prompt, faster[i].prompt);
    EXPECT_NEAR(to_seconds(first[i].time), 10 * to_seconds(faster[i].time), 1e-6);
    differs |= first[i].prompt_tokens != different[i].prompt_tokens;
  }
  EXPECT_TRUE(differs);
}

TEST(Synthetic, KindsComeByTheirWeight) {
  SyntheticOptions options = synthetic(1, 10'000);
  options.kinds = {*parse_kind("0.8/60/200"), *parse_kind("0.2/1500/50")};
  uint32_t small = 0;
  const std::vector<Arrival> all = read_all(*make_synthetic(options)).value();
  for (const Arrival& arrival : all) {
    ASSERT_TRUE(arrival.prompt_tokens == 60 ? arrival.output_tokens == 200 : arrival.output_tokens == 50);
    small += arrival.prompt_tokens == 60 ? 1 : 0;
  }
  EXPECT_NEAR(small, 8000, 200);
}

TEST(Synthetic, AGroupSharesItsPrefixAndNothingElse) {
  SyntheticOptions options = synthetic(1, 200);
  options.prefix_tokens = 64;
  options.prefix_groups = 3;
  std::set<uint64_t> prefixes;
  std::set<uint64_t> others;
  const std::vector<Arrival> all = read_all(*make_synthetic(options)).value();
  for (const Arrival& arrival : all) {
    ASSERT_EQ(arrival.prompt.size(), 2u);
    EXPECT_EQ(arrival.prompt[0].length, 64u);
    EXPECT_EQ(arrival.prompt_tokens, 64 + arrival.prompt[1].length);
    prefixes.insert(arrival.prompt[0].seed);
    others.insert(arrival.prompt[1].seed);
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(others.size(), 200u);
}

TEST(Lengths, MisspeltOnesAreRefused) {
  for (const char* wrong : {"", "0", "1.5", "-3", "normal:3:4", "uniform:5", "uniform:9:5", "lognormal:400",
                            "lognormal:400:0", "lognormal:400:0.8:0", "99999999999"}) {
    EXPECT_FALSE(parse_lengths(wrong).ok()) << wrong;
  }
  for (const char* wrong : {"", "1", "1/2", "0/2/2", "x/2/2", "1/2/2/2", "nan/1/1", "1e308/1/1", "1e-308/1/1"})
    EXPECT_FALSE(parse_kind(wrong).ok()) << wrong;
}

TEST(Window, CutsAndSpeedsUp) {
  WorkloadWindow window;
  window.from_seconds = 10;
  window.for_seconds = 20;
  window.rate_scale = 2;
  const auto all = *read_all(*make_synthetic(synthetic(5, 1000)));
  const auto part = *read_all(*cut(make_synthetic(synthetic(5, 1000)), window));
  size_t first = 0;
  while (to_seconds(all[first].time) < 10) ++first;
  ASSERT_NEAR(static_cast<double>(part.size()), 100, 40);
  for (size_t i = 0; i < part.size(); ++i) {
    EXPECT_EQ(part[i].prompt, all[first + i].prompt);
    EXPECT_NEAR(to_seconds(part[i].time), (to_seconds(all[first + i].time) - 10) / 2, 1e-6);
  }
  EXPECT_GE(to_seconds(all[first + part.size()].time), 30);
  window.requests_max = 3;
  EXPECT_EQ(read_all(*cut(make_synthetic(synthetic(5, 1000)), window))->size(), 3u);
}

TEST(Window, ATraceSlowedDownBeyondTimeStaysAtItsEnd) {
  WorkloadWindow window;
  window.rate_scale = 1e-10;
  const auto all = *read_all(*cut(make_synthetic(synthetic(5, 1000)), window));
  EXPECT_EQ(all.back().time, kSimulatedTimeMax);
}

TEST(TokenRun, StaysInTheVocabularyAndFollowsFromItsSeed) {
  std::vector<TokenId> tokens;
  append_tokens({.seed = 5, .length = 10'000}, 100, tokens);
  std::set<TokenId> seen(tokens.begin(), tokens.end());
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 99);
  std::vector<TokenId> again;
  append_tokens({.seed = 5, .length = 10'000}, 100, again);
  EXPECT_EQ(tokens, again);
  std::vector<TokenId> beginning;
  append_tokens({.seed = 5, .length = 10}, 100, beginning);
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.end(), tokens.begin()));
}

}  // namespace
}  // namespace twostroke::simulate
