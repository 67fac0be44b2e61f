// bench_load: an open-loop load on any OpenAI server, and what its clients saw.
//
//   build/release/bench_load --url http://127.0.0.1:8000/v1 --mix "60/128*0.7 1500/64*0.3" --rate 2 --requests 100
//   build/release/bench_load --url http://127.0.0.1:8000/v1 --trace FILE --trace-speed 0.5 --requests 200
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/load/load_client.h"
#include "tests/bench/load/load_plan.h"
#include "tests/bench/load/load_report.h"

namespace {

using namespace twostroke;
using namespace twostroke::load;

int fail(const std::string& message) {
  std::fprintf(stderr, "bench_load: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string url = "http://127.0.0.1:8000/v1";
  std::string mix = "60/128*0.7 1500/64*0.3";
  std::string model;
  std::string api_key;
  std::string json_file;
  std::vector<std::string> headers;
  LoadOptions options;
  LoadObjectives objectives;
  bool chat = false;
  bool let_end = false;
  double timeout = 600;
  CLI::App app("An open-loop load on an OpenAI server: requests arrive when planned, whatever became of those before.");
  app.add_option("--url", url, "The server's base")->capture_default_str();
  app.add_option("--model-name", model, "The model in requests; default: the server's first");
  app.add_option("--api-key", api_key, "Sent as a bearer token");
  app.add_option("--header", headers, "NAME=VALUE, sent with every request");
  app.add_flag("--chat", chat, "/chat/completions instead of /completions");
  app.add_flag("--let-end", let_end, "Answers may end early: do not send ignore_eos");
  app.add_option("--mix", mix, "Kinds of requests: PROMPT/OUTPUT*WEIGHT, in tokens; = behind the lengths: exact")
      ->capture_default_str();
  app.add_option("--shared-prefix", options.shared_tokens, "The mix's prompts begin alike for so many tokens");
  app.add_option("--rate", options.rate, "Requests per second of the mix, Poisson arrivals")->capture_default_str();
  app.add_option("--trace", options.trace, "Azure CSV or Mooncake JSONL instead of the mix");
  app.add_option("--trace-speed", options.trace_speed, "Arrivals so many times as fast")->capture_default_str();
  app.add_option("--prompt-max", options.prompt_max, "Cuts a trace's prompts, in tokens");
  app.add_option("--output-max", options.output_max, "Cuts a trace's outputs, in tokens");
  app.add_option("--requests", options.requests, "How many at most")->capture_default_str();
  app.add_option("--seed", options.seed, "Of arrivals, lengths and texts")->capture_default_str();
  app.add_option("--timeout", timeout, "Seconds for one request")->capture_default_str();
  app.add_option("--ttft-ms", objectives.ttft, "Objective: time to first token");
  app.add_option("--tpot-ms", objectives.tpot, "Objective: time per output token, the request's mean");
  app.add_option("--itl-ms", objectives.itl, "Objective: 99 of 100 gaps of a request");
  app.add_option("--json", json_file, "Also writes the report as JSON to this file; - is standard output, alone");
  CLI11_PARSE(app, argc, argv);
  objectives = {objectives.ttft / 1e3, objectives.tpot / 1e3, objectives.itl / 1e3};

  Result<LoadTarget> target = parse_target(url);
  if (!target.ok()) return fail(target.status().message());
  target->model = model;
  target->api_key = api_key;
  target->chat = chat;
  target->ignore_eos = !let_end;
  target->timeout_seconds = timeout;
  for (const std::string& header : headers) {
    const size_t equals = header.find('=');
    if (equals == std::string::npos || equals == 0) return fail("--header takes NAME=VALUE, not '" + header + "'");
    target->headers.emplace_back(header.substr(0, equals), header.substr(equals + 1));
  }
  Result<std::vector<MixPart>> parts = parse_mix(mix);
  if (!parts.ok()) return fail(parts.status().message());
  options.mix = std::move(parts).value();
  const Result<std::vector<PlannedRequest>> plan = make_plan(options);
  if (!plan.ok()) return fail(plan.status().message());
  const Result<TextScale> scale = calibrate(*target);
  if (!scale.ok()) return fail(scale.status().message());

  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](const LoadProgress& p) {
    std::fprintf(stderr, "\r%llu of %zu sent, %llu ended, %llu failed ", static_cast<unsigned long long>(p.sent),
                 plan->size(), static_cast<unsigned long long>(p.ended), static_cast<unsigned long long>(p.failed));
  };
  const std::vector<LoadOutcome> outcomes =
      run_load(*target, *plan, *scale, terminal ? progress : std::function<void(const LoadProgress&)>());
  if (terminal) std::fprintf(stderr, "\n");
  const LoadReport report = make_report(outcomes, objectives);
  if (json_file != "-") std::cout << report_table(report, objectives);
  if (!json_file.empty()) {
    const std::string text = report_json(report, objectives).dump(2) + "\n";
    if (json_file == "-") {
      std::cout << text;
    } else if (!(std::ofstream(json_file) << text)) {
      return fail("cannot write " + json_file);
    }
  }
  return report.complete > 0 ? 0 : 1;
}
