#include "server/simulate/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scheduler/cost/cost_model.h"
#include "server/simulate/calibration_file.h"
#include "tests/server/simulate/named_file.h"

namespace twostroke::simulate {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Printed {
  int code = 0;
  std::string out;
  std::string err;
};

Printed simulate(std::vector<std::string> arguments) {
  std::ostringstream out;
  std::ostringstream err;
  Printed printed;
  printed.code = simulate_command(arguments, out, err, /*show_progress=*/false);
  printed.out = out.str();
  printed.err = err.str();
  return printed;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SimulateCommand, HelpExplainsAndEndsWell) {
  const Printed help = simulate({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"Examples", "--fleet", "MI300X", "--find-max-rate", "--workload", "--max-step-tokens",
                           "Llama-3.1-70B", "Several fleets at one rate: one keeps up if"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

TEST(SimulateCommand, WrongFlagsSayWhatToDo) {
  const auto message = [](std::vector<std::string> arguments, int code) {
    const Printed outcome = simulate(std::move(arguments));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(message({"--unknown"}, 2), HasSubstr("--unknown"));
  EXPECT_THAT(message({"--rate", "0"}, 2), HasSubstr("--rate"));
  for (const char* flag : {"--rate", "--rate-scale", "--from-s", "--for-s", "--itl-target-ms", "--ttft-ms", "--tpot-ms",
                           "--good-share", "--memory-fraction", "--link-gbit-per-s", "--link-latency-us"}) {
    EXPECT_THAT(message({flag, "nan"}, 2), HasSubstr(std::string(flag) + ": Value nan is not a number"));
  }
  EXPECT_THAT(message({"--find-max-rate"}, 2), HasSubstr("give --ttft-ms, --tpot-ms or both"));
  EXPECT_THAT(message({"--find-max-rate", "--ttft-ms", "9", "--rate", "3"}, 2), HasSubstr("leave out --rate,"));
  EXPECT_THAT(message({"--find-max-rate", "--ttft-ms", "9", "--workload", "t.csv", "--rate-scale", "3"}, 2),
              HasSubstr("leave out --rate-scale,"));
  EXPECT_THAT(message({"--price", "H100=1", "--price", "h100=2"}, 1), HasSubstr("given twice for H100"));
  EXPECT_THAT(message({"--trace", "t.json", "--fleet", "H100", "--fleet", "L4"}, 2), HasSubstr("give one --fleet"));
  EXPECT_THAT(message({"--trace", "-"}, 2), HasSubstr("--trace takes a file"));
  EXPECT_THAT(message({"--trace", "t.csv"}, 2), HasSubstr("to read one give --workload"));
  EXPECT_THAT(message({"--json", "t.jsonl"}, 2), HasSubstr("to read one give --workload"));
  EXPECT_THAT(message({"--trace", "t.json", "--json", "./x/../t.json"}, 2), HasSubstr("the same file"));
  EXPECT_THAT(message({"--itl-target-ms", "1e-300"}, 2), HasSubstr("at least 0.001"));
  EXPECT_THAT(message({"--workload", "t.csv", "--rate", "3"}, 2), HasSubstr("use --rate-scale"));
  EXPECT_THAT(message({"--rate-scale", "3"}, 2), HasSubstr("use --rate"));
  EXPECT_THAT(message({"--mix", "1/5/5", "--prompt-tokens", "9"}, 2), HasSubstr("one or the other"));
  EXPECT_THAT(message({"--fleet", "4xB9000"}, 1), HasSubstr("there are H100"));
  EXPECT_THAT(message({"--model", "GPT-9"}, 1), HasSubstr("there are Llama-3.1-8B"));
  EXPECT_THAT(message({"--router", "magic"}, 1), HasSubstr("prefix_aware"));
  EXPECT_THAT(message({"--prompt-tokens", "many"}, 1), HasSubstr("lognormal:MEDIAN"));
  EXPECT_THAT(message({"--price", "H100"}, 1), HasSubstr("--price H100=2.5"));
  EXPECT_THAT(message({"--price", "H100=1e308"}, 1), HasSubstr("from 0 to 1000000"));
  EXPECT_THAT(message({"--fleet", "2xL4", "--fleet", "A100-80GB", "--price", "L4=1", "--price", "H100=2"}, 1),
              HasSubstr("--price is given for H100, which no fleet has; the machines of this run are A100-80GB, L4"));
  EXPECT_THAT(message({"--order", "fair"}, 2), HasSubstr("no simulated request has one"));
  EXPECT_THAT(message({"--order", "random"}, 2), HasSubstr("there are fcfs and shortest"));
  EXPECT_THAT(message({"--fleet", "L4", "--requests", "2", "--find-max-rate", "--ttft-ms", "1e9"}, 1),
              HasSubstr("L4: no highest rate was found"));
  EXPECT_THAT(message({"--workload", "none.csv"}, 1), HasSubstr("does it exist"));
  EXPECT_THAT(message({"--model", "Llama-3.1-405B"}, 1), HasSubstr("16x"));
  EXPECT_THAT(message({"--requests", "5", "--from-s", "1000000"}, 1), HasSubstr("no requests"));
}

TEST(SimulateCommand, TheSameSeedPrintsTheSame) {
  const std::vector<std::string> arguments = {"--fleet", "2xL4", "--requests", "100", "--rate", "3", "--json", "-"};
  const Printed first = simulate(arguments);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, simulate(arguments).out);
  std::vector<std::string> other = arguments;
  other.insert(other.end(), {"--seed", "2"});
  EXPECT_NE(first.out, simulate(other).out);
}

TEST(SimulateCommand, JsonAddsUp) {
  const Printed outcome = simulate({"--fleet", "prefill=2xL4,decode=H100", "--requests", "200", "--rate", "4",
                                    "--ttft-ms", "800", "--price", "L4=0.5", "--price", "H100=3", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  const json& fleet = report["fleets"][0];
  EXPECT_EQ(fleet["requests"]["offered"], 200);
  EXPECT_EQ(fleet["requests"]["finished"], 200);
  EXPECT_DOUBLE_EQ(fleet["price"]["per_hour"], 4);
  EXPECT_LT(fleet["span_seconds"], fleet["seconds"]);  // it keeps up
  const double hours = fleet["span_seconds"].get<double>() / 3600;
  EXPECT_NEAR(fleet["price"]["per_million_output_tokens"], 4 * hours / fleet["output_tokens"].get<double>() * 1e6,
              1e-9);
  EXPECT_EQ(fleet["groups"].size(), 2u);
  for (const json& group : fleet["groups"]) {
    for (const char* phase : {"prefill", "decode", "all"}) {
      double shares = 0;
      for (const json& share : group[phase]["bound_by"]) shares += share.get<double>();
      EXPECT_NEAR(shares, group[phase]["seconds"] > 0 ? 1 : 0, 1e-9) << phase;
      EXPECT_LE(group[phase]["arithmetic_utilisation"], 0.65 + 1e-9);  // the profiles' efficiencies
      EXPECT_LE(group[phase]["bandwidth_utilisation"], 0.85 + 1e-9);
    }
    EXPECT_NEAR(group["prefill"]["seconds"].get<double>() + group["decode"]["seconds"].get<double>(),
                group["busy_seconds"], 1e-9);
  }
  EXPECT_NEAR(fleet["goodput"]["share"], fleet["requests"]["good"].get<double>() / 200, 1e-12);
}

TEST(SimulateCommand, TheTableNamesWhatBinds) {
  const Printed outcome = simulate({"--fleet", "L4", "--requests", "50", "--rate", "0.5", "--prompt-tokens", "50"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("binds       memory bandwidth"));
  EXPECT_THAT(outcome.out, HasSubstr("TTFT, ms"));
  EXPECT_THAT(outcome.out, HasSubstr("50 finished, 0 refused"));
}

TEST(SimulateCommand, TheTableSaysWhichMachinesDoWhat) {
  const Printed outcome = simulate({"--fleet", "prefill=2xH100,decode=A100-80GB", "--requests", "20"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n  prefill   2 replicas of H100: "));
  EXPECT_THAT(outcome.out, HasSubstr("\n  decode    1 replica of A100-80GB: "));
}

TEST(SimulateCommand, SeveralFleetsAreComparedAndTheBestIsNamed) {
  const Printed outcome = simulate({"--fleet", "L4", "--fleet", "2xH100", "--requests", "60", "--ttft-ms", "300",
                                    "--prompt-tokens", "500", "--output-tokens", "5", "--find-max-rate"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("best: 2xH100"));
}

// What is behind "best: " and what follows it.
std::string verdict(const Printed& printed) {
  const size_t begin = printed.out.find("best: ");
  return begin == std::string::npos ? printed.err : printed.out.substr(begin);
}

TEST(SimulateCommand, FleetsThatKeepUpHaveNoBest) {
  std::vector<std::string> arguments = {"--fleet", "H100", "--fleet", "L40S", "--requests", "20", "--rate", "0.5"};
  const Printed outcome = simulate(arguments);
  EXPECT_THAT(outcome.out, HasSubstr("load        keeps up: the last answer comes "));
  EXPECT_EQ(verdict(outcome),
            "best: none; H100 and L40S keep up with the offered 0.45/s. --ttft-ms, --tpot-ms and --find-max-rate tell "
            "more apart\n");
  // Of three the third may be far behind.
  arguments.insert(arguments.end(), {"--fleet", "L4", "--prompt-tokens", "20000"});
  EXPECT_THAT(verdict(simulate(arguments)), ::testing::StartsWith("best: none; H100 and L40S keep up"));
}

TEST(SimulateCommand, OfFleetsThatKeepUpPricesNameTheCheapest) {
  std::vector<std::string> arguments = {"--fleet",   "H100",       "--fleet", "L40S",      "--rate",
                                        "2",         "--requests", "300",     "--ttft-ms", "500",
                                        "--tpot-ms", "50",         "--price", "H100=2.5"};
  EXPECT_THAT(verdict(simulate(arguments)), ::testing::EndsWith("--find-max-rate tells more apart\n"
                                                                "cheapest: not known: L40S has no price (--price)\n"));
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"--json", "-"});
  EXPECT_EQ(json::parse(simulate(as_json).out)["comparison"]["without_price"], json({"L40S"}));
  arguments.insert(arguments.end(), {"--price", "L40S=1"});
  EXPECT_EQ(verdict(simulate(arguments)),
            "best: none; H100 and L40S keep up with the offered 2.12/s. --find-max-rate tells more apart\n"
            "cheapest: L40S, 0.70 per million output tokens; the next 1.74\n");
  arguments.insert(arguments.end(), {"--json", "-"});
  const json report = json::parse(simulate(arguments).out);
  const json expected = {
      {"best", nullptr}, {"equals", {"H100", "L40S"}}, {"equal_as", "they_keep_up"}, {"cheapest", "L40S"}};
  EXPECT_EQ(report["comparison"], expected);
  for (const json& fleet : report["fleets"]) {
    EXPECT_EQ(fleet["load"]["verdict"], "keeps_up");
    EXPECT_NEAR(fleet["load"]["tail_seconds"], fleet["seconds"].get<double>() - fleet["span_seconds"].get<double>(),
                1e-9);
  }
}

TEST(SimulateCommand, FleetsThatFallBehindAreToldApartByWhatTheyDo) {
  const Printed outcome =
      simulate({"--fleet", "L40S", "--fleet", "H100", "--rate", "200", "--requests", "1000", "--max-running", "64"});
  EXPECT_THAT(outcome.out, HasSubstr("load        falls behind: "));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("keeps up")));
  EXPECT_THAT(verdict(outcome), ::testing::MatchesRegex("best: H100, [2-9].[0-9]+ times the next\n"));
}

TEST(SimulateCommand, ARunOfAFewRequestsTellsNothingApart) {
  std::vector<std::string> arguments = {"--fleet", "L40S",    "--fleet", "H100",    "--requests",
                                        "3",       "--price", "L40S=1",  "--price", "H100=2"};
  EXPECT_THAT(verdict(simulate(arguments)),
              ::testing::MatchesRegex("best: none; L40S and H100 are not told apart by so "
                                      "short a run: .*--requests.\n"));
  arguments.insert(arguments.end(), {"--json", "-"});
  const json comparison = json::parse(simulate(arguments).out)["comparison"];
  EXPECT_EQ(comparison["equal_as"], "the_run_is_too_short");
  EXPECT_TRUE(comparison["cheapest"].is_null());
}

TEST(SimulateCommand, AtTheirHighestRatesTheBestAndTheCheapestMayBeTwo) {
  const Printed outcome =
      simulate({"--fleet", "L4", "--fleet", "H100", "--requests", "100", "--ttft-ms", "300", "--prompt-tokens", "500",
                "--output-tokens", "5", "--find-max-rate", "--price", "L4=0.01", "--price", "H100=9"});
  EXPECT_THAT(verdict(outcome), ::testing::MatchesRegex("best: H100, [0-9.]+ times the next\ncheapest: L4, [0-9.e-]+ "
                                                        "per million output tokens at its highest rate; .*\n"));
}

TEST(SimulateCommand, AHighestRateComesWithWhatFailsBeyondIt) {
  std::vector<std::string> arguments = {"--fleet",        "L4",   "--requests",      "200", "--ttft-ms",       "500",
                                        "--tpot-ms",      "1000", "--prompt-tokens", "500", "--output-tokens", "5",
                                        "--find-max-rate"};
  const Printed outcome = simulate(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("max rate +[0-9.]+ requests/s, the highest of [0-9]+ tried at "
                                                    "which 99% of requests keep within TTFT 500 ms, TPOT 1,000 ms"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("limited by +TTFT: at [0-9.]+ requests/s only 9[0-8][.0-9]*% do. "
                                                    "TTFT is missed by [0-9]+ of 200 .p99 [0-9,]+ ms., TPOT is "
                                                    "missed by 0 of 200"));
  arguments.insert(arguments.end(), {"--json", "-"});
  const json found = json::parse(simulate(arguments).out)["fleets"][0]["max_rate"];
  EXPECT_EQ(found["limited_by"], "ttft");
  EXPECT_GT(found["failed_rate"], found["rate"]);
  EXPECT_LE(found["failed_rate"].get<double>(), found["rate"].get<double>() * 1.02);
  EXPECT_TRUE(found["failed"]["whole_run"]);
  EXPECT_EQ(found["failed"]["offered"], 200);
  EXPECT_LT(found["failed"]["good"], 198);
  EXPECT_EQ(found["failed"]["ttft_missed"].get<int>() + found["failed"]["good"].get<int>(), 200);
}

TEST(SimulateCommand, SaysWhichLimitsOfTheSchedulerAreNotServes) {
  EXPECT_THAT(simulate({"--requests", "1"}).out,
              HasSubstr("steps of 2,048 tokens, 256 sequences running at most, order fcfs (serve has 512 and 64"));
  const Printed same = simulate({"--requests", "1", "--max-step-tokens", "512", "--max-running", "64"});
  EXPECT_THAT(same.out, HasSubstr("steps of 512 tokens, 64 sequences running at most, order fcfs\n"));
  EXPECT_THAT(simulate({"--help"}).out, HasSubstr("512"));
}

// One millisecond for each token.
json millisecond_a_token() {
  json costs = {{"format", kCalibrationFormat},
                {"knots", kCostKnots},
                {"logit_ns", 0.0},
                {"prefill_position_ns", 0.0},
                {"decode_position_ns", 0.0},
                {"key", "twostroke 1; model SmolLM2-135M.gguf, 9 bytes, changed 1; backend cpu"}};
  for (const uint32_t tokens : kCostKnots) costs["token_ns"].push_back(1e6 * tokens);
  return costs;
}

TEST(SimulateCommand, ACalibrationIsOfOneMachine) {
  const NamedFile file(millisecond_a_token().dump(), ".json");
  const auto run = [&file](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--requests", "2", "--calibration", file.path()});
    return simulate(arguments);
  };
  for (const std::vector<std::string>& two :
       {std::vector<std::string>{"--fleet", "H100", "--fleet", "2xL4"}, {"--fleet", "prefill=H100,decode=L4"}}) {
    const Printed outcome = run(two);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("--calibration tells the times of one machine, but H100 and L4 are two"));
  }
  EXPECT_EQ(run({"--fleet", "H100", "--fleet", "2xH100"}).code, 0);
  EXPECT_THAT(run({"--fleet", "2xH100:tp2"}).err, HasSubstr("has replicas of 2 devices"));
}

TEST(SimulateCommand, ACalibrationOfAnotherModelIsWarnedOf) {
  const NamedFile file(millisecond_a_token().dump(), ".json");
  std::vector<std::string> arguments = {"--fleet", "CPU-2",         "--kv-memory-mb", "64",      "--requests",
                                        "2",       "--calibration", file.path(),      "--model", "SmolLM2-135M"};
  EXPECT_THAT(simulate(arguments).out, ::testing::Not(HasSubstr("warning")));
  arguments.back() = "Llama-3.2-1B";
  EXPECT_THAT(simulate(arguments).out, HasSubstr("warning     the calibration is of the model file"));
  arguments.insert(arguments.end(), {"--json", "-"});
  EXPECT_THAT(json::parse(simulate(arguments).out)["calibration_warning"], HasSubstr("Llama-3.2-1B"));
}

TEST(SimulateCommand, ACalibrationOfAnotherMachineOrOtherStepsIsWarnedOfInOneLine) {
  json costs = millisecond_a_token();
  costs["key"] =
      "twostroke 1; model SmolLM2-135M.gguf, 9 bytes, changed -4641; backend cpu cpu (avx2); steps of 512 "
      "tokens and 64 rows; processor X";
  const NamedFile file(costs.dump(), ".json");
  const auto warning = [&file](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--requests", "2", "--model", "SmolLM2-135M", "--calibration", file.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string out = simulate(arguments).out;
    EXPECT_THAT(out, HasSubstr("step times  as calibrated: SmolLM2-135M.gguf, cpu (avx2), X\n"));
    const size_t begin = out.find("\nwarning");
    return begin == std::string::npos ? std::string() : out.substr(begin + 1, out.find('\n', begin + 1) - begin - 1);
  };
  EXPECT_EQ(warning({"--fleet", "CPU-2", "--max-step-tokens", "512", "--max-running", "64"}), "");
  EXPECT_EQ(warning({"--fleet", "L4"}),
            "warning     the calibration is of a processor, cpu (avx2), and L4 is none: its step times are those of "
            "another machine; the calibrated server had steps of 512 tokens and 64 sequences, and 2048 and 256 are "
            "simulated: to predict that server give --max-step-tokens 512 --max-running 64");
}

TEST(SimulateCommand, NamesFromFilesDoNothingToTheTerminal) {
  json costs = millisecond_a_token();
  costs["key"] =
      "x; model \x1b[2Jm.gguf, 9 bytes, changed 1; backend cpu \x1b]0;t\x07; processor \xc2\x9b"
      "1m";
  const NamedFile file(costs.dump(), ".json");
  const NamedFile profile(R"({"name": "\u001b[31mx", "peak_tflops": 9, "memory_gb": 90, "bandwidth_gb_per_s": 90})",
                          ".json");
  const std::vector<std::string> arguments = {"--requests", "2",       "--calibration",
                                              file.path(),  "--fleet", profile.path()};
  const std::string out = simulate(arguments).out;
  EXPECT_THAT(out, HasSubstr("as calibrated: \\u001b[2Jm.gguf"));
  EXPECT_THAT(out, HasSubstr("1 replica of \\u001b[31mx"));
  EXPECT_EQ(out.find_first_of("\x1b\x07"), std::string::npos);
  EXPECT_EQ(out.find("\xc2\x9b"), std::string::npos);
  std::vector<std::string> twice = arguments;
  twice.insert(twice.end(), {"--fleet", "L4"});
  EXPECT_THAT(simulate(twice).err, HasSubstr("\\u001b[31mx and L4 are two"));
}

TEST(SimulateCommand, APipeIsNeverWaitedFor) {
  const NamedFile json_pipe("", ".json");
  const NamedFile csv_pipe("", ".csv");
  for (const NamedFile* pipe : {&json_pipe, &csv_pipe}) {
    std::filesystem::remove(pipe->path());
    ASSERT_EQ(mkfifo(pipe->path().c_str(), 0600), 0);
  }
  for (const auto& [flag, pipe] : {std::pair("--calibration", &json_pipe),
                                   {"--model", &json_pipe},
                                   {"--fleet", &json_pipe},
                                   {"--workload", &csv_pipe}}) {
    const Printed outcome = simulate({"--requests", "2", flag, pipe->path()});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("is no regular file")) << flag;
  }
}

TEST(SimulateCommand, WhereResultsCannotBeWrittenNothingRuns) {
  for (const std::string path : {"/no/such/folder/r.json", "/tmp"}) {
    const Printed outcome = simulate({"--requests", "2", "--json", path});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "") << "the report would be there, had it run";
    EXPECT_THAT(outcome.err, HasSubstr("could not be written to '" + path + "'"));
  }
  // To see whether it can be written leaves nothing and takes nothing away.
  const NamedFile file("the results of before", ".json");
  EXPECT_EQ(simulate({"--fleet", "B9000", "--json", file.path()}).code, 1);
  EXPECT_EQ(read(file.path()), "the results of before");
  std::filesystem::remove(file.path());
  EXPECT_EQ(simulate({"--fleet", "B9000", "--json", file.path()}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(file.path()));
  EXPECT_EQ(simulate({"--requests", "2", "--json", file.path()}).code, 0);
  EXPECT_TRUE(json::accept(read(file.path())));
}

TEST(SimulateCommand, RequestsThatAreAllTooLongAreNoResult) {
  std::vector<std::string> arguments = {"--requests", "3", "--prompt-tokens", "200000", "--fleet", "H100"};
  for (int round = 0; round < 2; ++round) {
    const Printed outcome = simulate(arguments);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("none of the 3 requests fits: a sequence has at most 131072 tokens here"));
    arguments.insert(arguments.end(), {"--find-max-rate", "--ttft-ms", "100"});
  }
}

TEST(SimulateCommand, OneFleetThatNoRequestFitsIsNotJudged) {
  std::vector<std::string> arguments = {"--requests", "3",    "--prompt-tokens", "50000", "--fleet",
                                        "L4",         "H100", "--weights",       "f16"};
  arguments.insert(arguments.begin() + 6, "--fleet");
  const Printed outcome = simulate(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("load        nothing to judge: none of the requests fits\n"));
  EXPECT_THAT(verdict(outcome), ::testing::StartsWith("best: H100"));
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"--json", "-"});
  EXPECT_EQ(json::parse(simulate(as_json).out)["fleets"][0]["load"]["verdict"], "none_fits");
  arguments.insert(arguments.end(), {"--find-max-rate", "--ttft-ms", "3000"});
  EXPECT_THAT(simulate(arguments).out, HasSubstr("max rate    none: none of the requests fits\n"));
}

TEST(SimulateCommand, WhereNoFleetHasAGoodAnswerTheComparisonSaysSo) {
  std::vector<std::string> arguments = {"--fleet",   "H100",  "--fleet", "L4",     "--requests", "3",
                                        "--ttft-ms", "0.001", "--price", "H100=1", "--price",    "L4=1"};
  const Printed outcome = simulate(arguments);
  EXPECT_EQ(verdict(outcome), "best: none: no fleet gives a good answer\n");
  EXPECT_THAT(outcome.out, HasSubstr("price       none for tokens, as no answer is good; 1.00 per hour\n"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("per million")));
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"--json", "-"});
  const json report = json::parse(simulate(as_json).out);
  const json expected = {{"best", nullptr}, {"equals", json::array()}, {"cheapest", nullptr}};
  EXPECT_EQ(report["comparison"], expected);
  EXPECT_FALSE(report["fleets"][0].contains("price"));
  arguments.push_back("--find-max-rate");
  EXPECT_EQ(verdict(simulate(arguments)), "best: none: the targets are met at no rate\n");
}

TEST(SimulateCommand, WhatNoRequestHasIsNoLatencyOfZero) {
  const std::vector<std::string> arguments = {"--fleet",    "H100", "--fleet",         "L4",
                                              "--requests", "3",    "--output-tokens", "1"};
  EXPECT_THAT(simulate(arguments).out, ::testing::ContainsRegex("H100 +[0-9.]+ +[0-9.]+ +- +- memory"));
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"--json", "-"});
  const json fleet = json::parse(simulate(as_json).out)["fleets"][0];
  EXPECT_EQ(fleet["tpot"]["count"], 0);
  EXPECT_TRUE(fleet["tpot"]["p99_seconds"].is_null());
  EXPECT_GT(fleet["ttft"]["p99_seconds"], 0);
}

TEST(SimulateCommand, AFleetThatMeetsItsTargetsAtNoRateHasNoLatencies) {
  const Printed outcome =
      simulate({"--fleet", "H100", "--fleet", "L4", "--requests", "3", "--find-max-rate", "--ttft-ms", "1e-6"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string comparison = outcome.out.substr(outcome.out.find("comparison"));
  EXPECT_THAT(comparison, ::testing::ContainsRegex("H100 +none +- +- +- +-\n"));
  EXPECT_THAT(comparison, ::testing::ContainsRegex("L4 +none +- +- +- +-\n"));
}

TEST(SimulateCommand, AProfileOfNearlyNothingIsRefusedInsteadOfTakingForEver) {
  const NamedFile file(R"({"name": "x", "peak_tflops": 1, "memory_gb": 90, "bandwidth_gb_per_s": 1e-300})", ".json");
  const Printed outcome = simulate({"--fleet", file.path(), "--requests", "2"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("bandwidth_gb_per_s"));
  const NamedFile slowest(R"({"name": "x", "peak_tflops": 1e-6, "memory_gb": 90, "bandwidth_gb_per_s": 1e-6,
                              "compute_efficiency": 1e-6, "memory_efficiency": 1e-6})",
                          ".json");
  EXPECT_THAT(simulate({"--fleet", slowest.path(), "--requests", "2"}).err, HasSubstr("passes 73 years"));
}

TEST(SimulateCommand, ATraceHoldsEveryStep) {
  const NamedFile file("", ".json");
  const Printed outcome =
      simulate({"--fleet", "2xL4", "--requests", "30", "--rate", "3", "--trace", file.path(), "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json trace = json::parse(read(file.path()));
  double step_us = 0;
  uint64_t steps = 0;
  uint64_t spans = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") step_us += event["dur"].get<double>(), ++steps;
    if (event["ph"] == "b") ++spans;
  }
  const json group = json::parse(outcome.out)["fleets"][0]["groups"][0];
  EXPECT_EQ(steps, group["steps"]);
  EXPECT_NEAR(step_us * 1e-6, group["busy_seconds"], 1e-3);
  EXPECT_EQ(spans, 60u);
  EXPECT_THAT(simulate({"--requests", "5", "--trace", "/no/such/folder/t.json"}).err, HasSubstr("folder"));
}

TEST(SimulateCommand, ReadsTracesWithAWindow) {
  const NamedFile file(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n2023-11-16 18:15:50,396,109\n"
      "2023-11-16 18:16:50,100,10\n",
      ".csv");
  const Printed outcome = simulate({"--workload", file.path(), "--from-s", "2", "--for-s", "30", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["fleets"][0]["prompt_tokens"], 396);
}

}  // namespace
}  // namespace twostroke::simulate
