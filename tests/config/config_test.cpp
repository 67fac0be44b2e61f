// Where a setting comes from, what --print-config prints, and what is refused.
#include "config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace twostroke {
namespace {

using Variables = std::map<std::string, std::string>;

// Environment variables for as long as it lives. Tests of one program run one after another.
class Environment {
 public:
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const Variables variables_;
};

// A file of settings for as long as it lives.
class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("twostroke_config_test_" + std::to_string(getpid()))) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

struct Parsed {
  ServeCommand command;
  std::string out;
  std::string err;
};

Parsed parse(std::vector<std::string> arguments) {
  std::ostringstream out;
  std::ostringstream err;
  Parsed parsed;
  parsed.command = parse_serve_command(arguments, out, err);
  parsed.out = out.str();
  parsed.err = err.str();
  return parsed;
}

ServeConfig config_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--model=m.gguf");
  const Parsed parsed = parse(std::move(arguments));
  EXPECT_TRUE(parsed.command.run) << parsed.err;
  return parsed.command.config;
}

void expect_refused(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--model=m.gguf");
  const Parsed parsed = parse(arguments);
  EXPECT_FALSE(parsed.command.run) << arguments.back();
  EXPECT_EQ(parsed.command.exit_code, 2) << arguments.back();
  EXPECT_FALSE(parsed.err.empty()) << arguments.back();
}

TEST(Config, TheObjectiveAndTheCalibrationAreSettingsLikeOthers) {
  const ServeConfig defaults = config_of({});
  EXPECT_EQ(defaults.itl_target_ms, 0);
  EXPECT_EQ(defaults.max_chunk_tokens, 0U);
  EXPECT_GT(defaults.calibration_ms, 0U);
  const Environment environment(Variables{{"TWOSTROKE_ITL_TARGET_MS", "12.5"}, {"TWOSTROKE_CALIBRATION_MS", "0"}});
  const ServeConfig config = config_of({"--calibration-cache=none"});
  EXPECT_EQ(config.itl_target_ms, 12.5);
  EXPECT_EQ(config.calibration_ms, 0U);
  EXPECT_EQ(config.calibration_cache, "none");
  expect_refused({"--itl-target-ms=-1"});
  expect_refused({"--itl-target-ms=nan"});
  expect_refused({"--itl-target-ms=1e-300"});  // would round to none
  expect_refused({"--calibration-ms=-1"});
}

TEST(Config, FlagWinsOverEnvironmentOverFileOverDefault) {
  const File file("max-running = 7\nthreads = 3\nblock-size = 32\n");
  const Environment environment(Variables{{"TWOSTROKE_MAX_RUNNING", "9"}, {"TWOSTROKE_THREADS", "5"}});
  const ServeConfig config = config_of({"--config", file.path(), "--max-running", "11"});
  EXPECT_EQ(config.max_running, 11U);
  EXPECT_EQ(config.threads, 5U);
  EXPECT_EQ(config.block_size, 32U);
  EXPECT_EQ(config.max_step_tokens, ServeConfig{}.max_step_tokens);
}

TEST(Config, AFlagMayBeTurnedOffFromEverywhere) {
  EXPECT_TRUE(config_of({}).prefix_cache);
  EXPECT_FALSE(config_of({"--no-prefix-cache"}).prefix_cache);
  const File file("prefix-cache = false\n");
  EXPECT_FALSE(config_of({"--config", file.path()}).prefix_cache);
  const Environment environment(Variables{{"TWOSTROKE_PREFIX_CACHE", "false"}});
  EXPECT_FALSE(config_of({}).prefix_cache);
}

TEST(Config, SpeculationIsChosenByNameAndItsDraftsAreBounded) {
  const ServeConfig config = config_of({"--speculation=ngram", "--max-draft-tokens=64"});
  EXPECT_EQ(config.speculation, "ngram");
  EXPECT_EQ(config.max_draft_tokens, 64U);
  const File file("speculation = \"ngram\"\nmax-draft-tokens = 3\n");
  EXPECT_EQ(config_of({"--config", file.path()}).max_draft_tokens, 3U);
  const Environment environment(Variables{{"TWOSTROKE_SPECULATION", "off"}});
  EXPECT_EQ(config_of({"--config", file.path()}).speculation, "off");
  expect_refused({"--speculation=on"});
  expect_refused({"--max-draft-tokens=0"});
  expect_refused({"--max-draft-tokens=65"});
}

TEST(Config, PrintedSettingsReadBackAsTheSame) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--print-config"},
           {"--print-config", "--no-prefix-cache", "--max-running=3"},
           {"--print-config", "--model=/models/a # b.gguf", "--served-model-name=a, \"b\" [c"}}) {
    const Parsed first = parse(arguments);
    EXPECT_EQ(first.command.exit_code, 0);
    const File file(first.out);
    const Parsed second = parse({"--config", file.path(), "--print-config"});
    EXPECT_EQ(second.out, first.out) << second.err;
  }
  EXPECT_NE(parse({"--print-config"}).out.find("prefix-cache=true\n"), std::string::npos);
}

TEST(Config, AHashInQuotesIsNoComment) {
  const File file("# a comment\nserved-model-name = \"a # b\"  # another\nmax-running = 7 # and one more\n");
  const ServeConfig config = config_of({"--config", file.path()});
  EXPECT_EQ(config.served_model_name, "a # b");
  EXPECT_EQ(config.max_running, 7U);
}

TEST(Config, TheFileOfTheEnvironmentMustExist) {
  const File file("max-running = 7\n");
  {
    const Environment environment(Variables{{"TWOSTROKE_CONFIG", file.path()}});
    EXPECT_EQ(config_of({}).max_running, 7U);
  }
  const Environment environment(Variables{{"TWOSTROKE_CONFIG", file.path() + ".absent"}});
  expect_refused({});
  EXPECT_EQ(config_of({"--config", file.path()}).max_running, 7U) << "the flag wins";
}

TEST(Config, VariablesThatKubernetesAddsForAServiceOfThisNameDoNoHarm) {
  const Environment environment(Variables{{"TWOSTROKE_SERVICE_HOST", "10.0.0.11"},
                                          {"TWOSTROKE_SERVICE_PORT", "8000"},
                                          {"TWOSTROKE_PORT", "tcp://10.0.0.11:8000"},
                                          {"TWOSTROKE_PORT_8000_TCP", "tcp://10.0.0.11:8000"}});
  EXPECT_EQ(config_of({}).port, ServeConfig{}.port);
}

TEST(Config, RefusesWhatIsNotASetting) {
  for (const char* argument :
       {"--no-such-flag", "stray", "--port=", "--port=-1", "--port=65536", "--port=x", "--host=", "--threads=513",
        "--threads=1.5", "--max-running=0", "--isa=sse", "--kv-dtype=q4", "--backend=gpu", "--log-level=loud",
        "--sse-keep-alive-ms=", "--drain-timeout-ms=99999999999", "--plugin-args=x", "--config=/no/such/file"}) {
    expect_refused({argument});
  }
  for (const char* line : {"max-runing = 7", "max-running = \"x\"", "[section]\nmax-running = 7", "max-running = "}) {
    const File file(std::string(line) + "\n");
    expect_refused({"--config", file.path()});
  }
}

TEST(Config, AListComesFromThePlaceThatHasPrecedence) {
  using Keys = std::vector<std::string>;
  EXPECT_TRUE(config_of({}).api_keys.empty());
  const File file("api-key = [\"file-1\", \"file-2\"]\n");
  EXPECT_EQ(config_of({"--config", file.path()}).api_keys, (Keys{"file-1", "file-2"}));
  const Environment environment(Variables{{"TWOSTROKE_API_KEY", "environment-1,environment-2"}});
  EXPECT_EQ(config_of({"--config", file.path()}).api_keys, (Keys{"environment-1", "environment-2"}));
  EXPECT_EQ(config_of({"--config", file.path(), "--api-key", "flag-1", "--api-key=flag-2"}).api_keys,
            (Keys{"flag-1", "flag-2"}));
}

TEST(Config, TheOrderOfRequestsAndItsBounds) {
  EXPECT_EQ(config_of({}).order, "fcfs");
  const ServeConfig config = config_of({"--order", "fair", "--aging-ms=500", "--max-preemptions", "2",
                                        "--tenant-weight", "a=b=2.5", "--tenant-weight=c=1"});
  EXPECT_EQ(config.order, "fair");
  EXPECT_EQ(config.aging_ms, 500u);
  EXPECT_EQ(config.max_preemptions, 2u);
  EXPECT_EQ(config.tenant_weights, (std::vector<std::string>{"a=b=2.5", "c=1"}));
  EXPECT_EQ(parse_tenant_weight("a=b=2.5")->name, "a=b");
  EXPECT_EQ(parse_tenant_weight("a=b=2.5")->weight, 2.5);
  expect_refused({"--order=best"});
  expect_refused({"--aging-ms=-1"});
  expect_refused({"--tenant-weight=a=1"});  // first come, first served: weights mean nothing
  expect_refused({"--order=fair", "--tenant-weight=a=1", "--tenant-weight=b=1", "--tenant-weight=a=2"});
  for (const char* weight : {"a", "=1", "a=", "a=0", "a=101", "a=1x", "a=nan"}) {
    expect_refused({"--order=fair", std::string("--tenant-weight=") + weight});
  }
}

TEST(Config, ApiKeysAreNotPrinted) {
  const Parsed parsed = parse({"--print-config", "--api-key=hush-hush", "--allowed-origin=http://localhost:3000"});
  EXPECT_EQ(parsed.out.find("hush"), std::string::npos) << parsed.out;
  EXPECT_NE(parsed.out.find("http://localhost:3000"), std::string::npos) << parsed.out;
  EXPECT_EQ(parse({"--api-key=hush hush"}).err.find("hush hush"), std::string::npos);
}

TEST(Config, RefusesKeysAndOriginsThatCannotWork) {
  for (const char* argument : {"--api-key=", "--api-key=a b", "--allowed-origin=", "--allowed-origin=example.org",
                               "--allowed-origin=https://example.org/", "--allowed-origin=https://*.example.org",
                               "--allowed-origin=null", "--allowed-origin=https://"}) {
    expect_refused({argument});
  }
  expect_refused({"--api-key=" + std::string(kApiKeyBytesMax + 1, 'k')});
  EXPECT_EQ(config_of({"--allowed-origin=*"}).allowed_origins, std::vector<std::string>{"*"});
  const Environment environment(Variables{{"TWOSTROKE_API_KEY", ""}});
  expect_refused({"--max-running=3"});
}

TEST(Config, AJournalIsWrittenWhereItsFileIsNamed) {
  EXPECT_EQ(config_of({}).journal, "");
  EXPECT_EQ(config_of({"--journal=/a/b"}).journal, "/a/b");
  EXPECT_EQ(config_of({}).journal_max_mb, 1024u);
  EXPECT_EQ(config_of({"--journal-max-mb=7"}).journal_max_mb, 7u);
  for (const char* argument : {"--journal-max-mb=0", "--journal-max-mb=16777217", "--journal-max-mb=x"}) {
    expect_refused({argument});
  }
}

TEST(Config, WhatOnlyTheCpuBackendHeedsIsRefusedForOthers) {
  for (const char* argument : {"--threads=2", "--isa=avx2", "--activations=f32", "--kv-dtype=q8"}) {
    const std::string flag = std::string(argument).substr(0, std::string(argument).find('='));
    for (const char* backend : {"--backend=sim", "--backend=./plugin.so"}) {
      const Parsed parsed = parse({"--model=m.gguf", backend, argument});
      EXPECT_FALSE(parsed.command.run) << backend << " " << argument;
      EXPECT_NE(parsed.err.find(flag + " has no meaning"), std::string::npos) << parsed.err;
    }
    EXPECT_TRUE(parse({"--model=m.gguf", argument}).command.run) << argument;
  }
  EXPECT_FALSE(parse({"--model=m.gguf", "--backend=sim", "--kv-memory-mb=5"}).command.run);
  EXPECT_TRUE(parse({"--model=m.gguf", "--backend=./plugin.so", "--kv-memory-mb=5"}).command.run);
  EXPECT_TRUE(parse({"--model=m.gguf", "--backend=sim", "--isa=auto", "--threads=0"}).command.run);
}

TEST(Config, NeedsAModel) {
  const Parsed parsed = parse({});
  EXPECT_FALSE(parsed.command.run);
  EXPECT_EQ(parsed.command.exit_code, 2);
  EXPECT_NE(parsed.err.find("--model"), std::string::npos);
}

}  // namespace
}  // namespace twostroke
