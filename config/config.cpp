#include "config/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace twostroke {
namespace {

constexpr int kUsageError = 2;  // the exit code, as for an unknown command

std::string environment_name(const std::string& flag) {
  std::string name = "TWOSTROKE_";
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// A list: each flag adds one item, and commas separate items.
void repeatable(CLI::Option* option) {
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false)->delimiter(',');
}

// Declares every setting once: flag, help text, bounds. The bounds are the named limits of the whole program.
void declare(CLI::App& app, ServeConfig& c) {
  using CLI::IsMember;
  using CLI::Range;
  const auto group = [&app](const char* name) { return app.add_option_group(name); };

  auto* model = group("Model");
  model->add_option("--model", c.model, "GGUF model file (required)");
  model->add_option("--served-model-name", c.served_model_name, "Name that clients use; default: the file's name");
  model->add_option("--chat-template", c.chat_template, "File with a Jinja chat template; default: the model's own");
  model->add_option("--context-max", c.context_max, "Tokens of a sequence, prompt and answer; 0: the model's limit")
      ->check(Range(0u, 1u << 24));

  auto* backend = group("Backend");
  backend->add_option("--backend", c.backend,
                      "cpu, sim (no weights: makes up tokens at once), or a path of a plug-in (*.so)");
  backend->add_option("--plugin-args", c.plugin_args, "Text passed to the plug-in as it is");
  backend
      ->add_option("--threads", c.threads, "Compute threads of the cpu backend; 0: one per processor that it may use")
      ->check(Range(0u, kComputeThreadsMax));
  backend->add_option("--isa", c.isa, "Kernels of the cpu backend")
      ->check(IsMember({"auto", "amx", "avx512", "avx2", "scalar"}));
  backend
      ->add_option("--activations", c.activations,
                   "What the cpu backend multiplies quantised weights with; f32 is slower and more exact")
      ->check(IsMember({"int8", "f32"}));
  backend->add_option("--kv-dtype", c.kv_dtype, "Numbers in the cpu backend's KV cache; q8: 8 bits and a scale")
      ->check(IsMember({"f32", "f16", "q8"}));
  backend
      ->add_option("--kv-memory-mb", c.kv_memory_mb,
                   "Memory for the KV cache in MiB; 0: a quarter of the machine's or container's")
      ->check(Range(uint64_t{0}, uint64_t{1} << 24));
  backend->add_option("--block-size", c.block_size, "Positions in a KV block")->check(Range(1u, 1024u));

  auto* scheduling = group("Scheduling");
  scheduling->add_option("--max-step-tokens", c.max_step_tokens, "Tokens in one step, decodes and prefill together")
      ->check(Range(1u, 1u << 20));
  scheduling
      ->add_option("--max-chunk-tokens", c.max_chunk_tokens, "Tokens of one prefill chunk; 0: chosen for each step")
      ->check(Range(0u, 1u << 20));
  scheduling
      ->add_option("--itl-target-ms", c.itl_target_ms,
                   "Aim between two tokens of a stream, which chunks keep to; 0: none")
      ->check(Range(0.0, 1e7));
  scheduling
      ->add_option("--calibration-ms", c.calibration_ms, "What measuring the steps at start may take; 0: not done")
      ->check(Range(0u, 600'000u));
  scheduling->add_option("--calibration-cache", c.calibration_cache,
                         "Folder that keeps it; default: ~/.cache/twostroke; 'none': nowhere");
  scheduling->add_option("--max-running", c.max_running, "Sequences running at once")->check(Range(1u, 1u << 16));
  scheduling
      ->add_option("--max-waiting-requests", c.max_waiting_requests, "Requests waiting; beyond it clients get 429")
      ->check(Range(1u, 1u << 24));
  scheduling
      ->add_option("--max-waiting-tokens", c.max_waiting_tokens, "Prompt tokens waiting; beyond it clients get 429")
      ->check(Range(uint64_t{1}, uint64_t{1} << 40));
  scheduling->add_option("--max-overtakes", c.max_overtakes, "How often a waiting request may be passed over")
      ->check(Range(0u, 1u << 24));
  scheduling
      ->add_option("--order", c.order,
                   "Who goes first of equal priorities: fcfs (by arrival), fair (the tenant served least), shortest")
      ->check(IsMember({"fcfs", "fair", "shortest"}));
  scheduling->add_option("--aging-ms", c.aging_ms, "Once in so long the longest waiting goes first; 0: never")
      ->check(Range(0u, 86'400'000u));
  scheduling
      ->add_option("--max-preemptions", c.max_preemptions,
                   "How often a sequence gives way while another of its priority can in its place")
      ->check(Range(0u, 1u << 24));
  repeatable(scheduling->add_option("--tenant-weight", c.tenant_weights,
                                    "NAME=WEIGHT, the share of a tenant with --order fair, may be given several times; "
                                    "NAME is a key's in --api-key-file or, without keys, a 'user'"));
  // CLI11 prints a flag that nobody set as false in --print-config, unless its default is spelled out.
  scheduling->add_flag("--prefix-cache,!--no-prefix-cache", c.prefix_cache, "Reuse the KV of equal prompt beginnings")
      ->default_str(c.prefix_cache ? "true" : "false");
  scheduling
      ->add_option("--speculation", c.speculation,
                   "Guess tokens ahead from a sequence's own text where that is faster; the output is the same")
      ->check(IsMember({"off", "ngram"}));
  scheduling->add_option("--max-draft-tokens", c.max_draft_tokens, "Tokens guessed for one sequence in a step")
      ->check(Range(1u, 64u));

  auto* serving = group("Serving");
  serving->add_option("--host", c.host, "Address to listen on");
  serving->add_option("--port", c.port, "Port to listen on; 0: a free one")->check(Range(0u, 65535u));
  repeatable(
      serving->add_option("--api-key", c.api_keys, "Key that requests need, may be given several times; none: open"));
  serving->add_option("--api-key-file", c.api_key_file,
                      "File of such keys, one on each line; '#' begins a comment line");
  repeatable(serving->add_option("--allowed-origin", c.allowed_origins,
                                 "Web origin that may read answers (CORS), may be given several times; '*': all"));
  serving->add_option("--io-threads", c.io_threads, "Threads for sockets")->check(Range(1u, 64u));
  serving->add_option("--text-threads", c.text_threads, "Threads for templates and tokenizing")->check(Range(1u, 64u));
  serving->add_option("--max-connections", c.max_connections, "Open connections")->check(Range(1u, 1u << 20));
  serving->add_option("--max-body-bytes", c.max_body_bytes, "Bytes of a request's body; beyond it clients get 413")
      ->check(Range(uint64_t{1024}, uint64_t{1} << 32));
  serving->add_option("--max-bodies-bytes", c.max_bodies_bytes, "Bytes of all requests' bodies together; beyond it 503")
      ->check(Range(uint64_t{1024}, uint64_t{1} << 40));
  serving
      ->add_option("--max-whole-answer-bytes", c.max_whole_answer_bytes,
                   "Bytes, about, of an answer that is not streamed; beyond it 400")
      ->check(Range(uint64_t{1024}, uint64_t{1} << 40));
  serving->add_option("--max-preparing-requests", c.max_preparing_requests, "Requests being tokenized; beyond it 429")
      ->check(Range(1u, 1u << 20));
  serving->add_option("--max-pending-events", c.max_pending_events, "Tokens that a slow client may leave unread")
      ->check(Range(
          1024u, 1u << 24));  // well above what a step may bring for a request: a token for each choice, and its drafts
  serving
      ->add_option("--max-stored-responses", c.max_stored_responses,
                   "Responses kept for later; the least recently used make room")
      ->check(Range(0u, 1u << 24));
  serving->add_option("--max-stored-bytes", c.max_stored_bytes, "Bytes of the responses that are kept or run")
      ->check(Range(uint64_t{0}, uint64_t{1} << 40));
  serving
      ->add_option("--max-background-responses", c.max_background_responses,
                   "Responses running in the background; beyond it clients get 429")
      ->check(Range(0u, 1u << 20));
  serving->add_option("--max-cached-grammars", c.max_cached_grammars, "Compiled grammars kept for later requests")
      ->check(Range(0u, 1u << 20));
  serving
      ->add_option("--max-cached-grammar-bytes", c.max_cached_grammar_bytes, "Bytes of the sources of those grammars")
      ->check(Range(uint64_t{0}, uint64_t{1} << 40));
  serving->add_option("--sse-keep-alive-ms", c.sse_keep_alive_ms, "Comment on silent streams after so long; 0: never")
      ->check(Range(0u, 86'400'000u));
  serving->add_option("--step-stall-ms", c.step_stall_ms, "A step longer than this makes the server not ready")
      ->check(Range(1u, 86'400'000u));
  serving->add_option("--drain-notice-ms", c.drain_notice_ms, "After SIGTERM: not ready but accepting, for so long")
      ->check(Range(0u, 86'400'000u));
  serving->add_option("--drain-timeout-ms", c.drain_timeout_ms, "Then streams may finish for so long")
      ->check(Range(0u, 86'400'000u));

  auto* journal = group("Journal");
  journal->add_option("--journal", c.journal,
                      "File for every decision of the scheduler, for 'twostroke replay'. Holds prompts and answers as "
                      "token ids; its mode is 0600. One that is there is kept as FILE.1");
  journal->add_option("--journal-max-mb", c.journal_max_mb, "Size in MiB at which the journal ends; serving goes on")
      ->check(Range(uint64_t{1}, uint64_t{1} << 24));

  auto* logging = group("Logging");
  logging->add_option("--log-level", c.log_level, "How much to log")
      ->check(IsMember({"debug", "info", "warn", "error"}));
  logging->add_option("--log-format", c.log_format, "Lines for people or for programs")
      ->check(IsMember({"text", "json"}));
}

// Kubernetes gives every pod beside a service named "twostroke" a TWOSTROKE_PORT of its own, "tcp://10.0.0.11:8000".
bool is_kubernetes_link(const std::string& flag, const std::string& value) {
  return flag == "port" && value.find("://") != std::string::npos;
}

// `line` without its comment: what follows a '#' outside quotes.
std::string without_comment(const std::string& line) {
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

// CLI11 ends a value at a '#' even inside quotes, so comments are taken off before it reads the file.
class ConfigFormat final : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::stringstream plain;
    for (std::string line; std::getline(input, line);) plain << without_comment(line) << '\n';
    CLI::ConfigTOML reader;
    reader.comment('\0');
    return reader.from_config(plain);
  }
};

bool gives(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == "--" + flag || argument.starts_with("--" + flag + "=");
  });
}

// The environment as flags that stand before the command line's own, so that the last one wins; a list that the command
// line gives leaves no room for the environment's. (CLI11 would let the file win over the environment.)
std::vector<std::string> environment_arguments(const CLI::App& app, const std::vector<std::string>& command_line) {
  std::vector<std::string> arguments;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_configurable(); })) {
    const std::string flag = option->get_single_name();
    const char* value = std::getenv(environment_name(flag).c_str());
    if (value == nullptr || is_kubernetes_link(flag, value)) continue;
    if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll && gives(command_line, flag)) continue;
    arguments.push_back("--" + flag + "=" + value);
  }
  return arguments;
}

// "scheme://host" or "scheme://host:port", as a browser writes it: no path, no trailing slash.
bool is_origin(const std::string& origin) {
  const size_t scheme_end = origin.find("://");
  if (scheme_end == 0 || scheme_end == std::string::npos) return false;
  const std::string host = origin.substr(scheme_end + 3);
  return !host.empty() &&
         std::all_of(origin.begin(), origin.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; }) &&
         host.find_first_of("/?#@*") == std::string::npos;
}

Status validate_access(const ServeConfig& c) {
  if (c.api_keys.size() > kApiKeysMax) {
    return invalid_argument("--api-key: at most " + std::to_string(kApiKeysMax) + " keys");
  }
  for (const std::string& key : c.api_keys) {
    if (const Status status = check_api_key(key); !status.ok())
      return invalid_argument("--api-key: " + status.message());
  }
  if (c.allowed_origins.size() > kAllowedOriginsMax) {
    return invalid_argument("--allowed-origin: at most " + std::to_string(kAllowedOriginsMax) + " origins");
  }
  for (const std::string& origin : c.allowed_origins) {
    if (origin != "*" && !is_origin(origin)) {
      return invalid_argument("--allowed-origin '" + origin + "' is no origin: write it as browsers do, for example " +
                              "https://example.org or http://localhost:3000, without a path; or '*' for all");
    }
  }
  return {};
}

Status validate_tenants(const ServeConfig& c) {
  if (c.tenant_weights.empty()) return {};
  if (c.order != "fair") {
    return invalid_argument("--tenant-weight has no meaning with --order " + c.order + ": give --order fair");
  }
  if (c.tenant_weights.size() > kTenantWeightsMax) {
    return invalid_argument("--tenant-weight: at most " + std::to_string(kTenantWeightsMax) + " of them");
  }
  std::set<std::string> names;
  for (const std::string& text : c.tenant_weights) {
    const Result<TenantWeight> weight = parse_tenant_weight(text);
    if (!weight.ok()) return weight.status();
    if (!names.insert(weight->name).second) {
      return invalid_argument("--tenant-weight gives '" + weight->name + "' two weights: leave one of them out");
    }
  }
  return {};
}

// What another backend would not heed must not be given to it.
Status validate_backend(const ServeConfig& c) {
  if (c.backend == "cpu") return {};
  const bool sim = c.backend == "sim";
  const ServeConfig untouched;
  const std::pair<const char*, bool> unheeded[] = {{"--threads", c.threads != untouched.threads},
                                                   {"--isa", c.isa != untouched.isa},
                                                   {"--activations", c.activations != untouched.activations},
                                                   {"--kv-dtype", c.kv_dtype != untouched.kv_dtype},
                                                   {"--kv-memory-mb", sim && c.kv_memory_mb != 0}};
  for (const auto& [flag, given] : unheeded) {
    if (!given) continue;
    return invalid_argument(std::string(flag) + " has no meaning for --backend " + c.backend + ": leave it out" +
                            (sim ? "" : "; what the plug-in is to know goes into --plugin-args"));
  }
  return {};
}

Status validate(const ServeConfig& c) {
  if (c.model.empty()) return invalid_argument("--model is required: give a GGUF file, for example --model model.gguf");
  if (c.host.empty())
    return invalid_argument("--host must not be empty: give an address, for example 127.0.0.1, or 0.0.0.0 for all");
  if (!c.plugin_args.empty() && (c.backend == "cpu" || c.backend == "sim")) {
    return invalid_argument("--plugin-args has no meaning for --backend " + c.backend + ": leave it out");
  }
  if (c.backend != "cpu" && c.backend != "sim" && c.backend.find('/') == std::string::npos) {
    return invalid_argument("--backend '" + c.backend + "' is neither cpu, sim nor a path: write ./" + c.backend +
                            " for a plug-in in this folder");
  }
  if (Status status = validate_backend(c); !status.ok()) return status;
  if (!std::isfinite(c.itl_target_ms) || (c.itl_target_ms > 0 && c.itl_target_ms < kItlTargetMsMin)) {
    return invalid_argument("--itl-target-ms must be a number of milliseconds, 0.001 at least, or 0 for none");
  }
  if (Status status = validate_tenants(c); !status.ok()) return status;
  return validate_access(c);
}

// The settings without the secrets among them.
std::string printed(const CLI::App& app) {
  std::istringstream lines(app.config_to_str(true, true));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("api-key=")) text += line + "\n";
  }
  return text;
}

}  // namespace

Result<TenantWeight> parse_tenant_weight(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals != std::string::npos && equals > 0) {
    const char* begin = text.data() + equals + 1;
    const char* end = text.data() + text.size();
    TenantWeight weight{.name = text.substr(0, equals), .weight = 0};
    const auto [rest, error] = std::from_chars(begin, end, weight.weight);
    if (error == std::errc() && rest == end && weight.weight >= 0.01 && weight.weight <= 100) return weight;
  }
  return invalid_argument("--tenant-weight '" + text + "' must be NAME=WEIGHT with a weight from 0.01 to 100");
}

Status check_api_key(const std::string& key) {
  const bool printable =
      std::all_of(key.begin(), key.end(), [](unsigned char c) { return c > ' ' && c < 0x7f && c != ','; });
  if (key.empty() || key.size() > kApiKeyBytesMax || !printable) {
    return invalid_argument("a key has 1 to " + std::to_string(kApiKeyBytesMax) +
                            " printable ASCII characters, without spaces and commas");
  }
  return {};
}

ServeCommand parse_serve_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  ServeCommand command;
  ServeConfig& config = command.config;
  CLI::App app(
      "Serves a model over the OpenAI API.\nEvery setting may also come from the environment "
      "(--max-running is TWOSTROKE_MAX_RUNNING) or from the file of --config, in this order of precedence:\n"
      "flag, environment, file, default.",
      "twostroke serve");
  app.get_formatter()->column_width(36);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->always_capture_default();
  declare(app, config);
  bool print_config = false;
  app.add_flag("--print-config", print_config, "Print the settings in force, as a file for --config, and end")
      ->configurable(false);
  app.set_config("--config", "", "File of settings (TOML: max-running = 32)");
  app.allow_config_extras(false);
  app.config_formatter(std::make_shared<ConfigFormat>());

  std::vector<std::string> all;
  // As a flag, so that a file that is not there is an error.
  if (const char* file = std::getenv("TWOSTROKE_CONFIG")) all.push_back(std::string("--config=") + file);
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    const auto found = environment_arguments(*group, arguments);
    all.insert(all.end(), found.begin(), found.end());
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::reverse(all.begin(), all.end());  // CLI11 takes a vector from its end
  try {
    app.parse(all);
  } catch (const CLI::ConfigError& error) {
    // The library knows a key that is no setting ("INI was not able to parse KEY") and one that a file may not have
    // ("KEY: ...").
    const std::string_view what = error.what();
    constexpr std::string_view kUnknown = "INI was not able to parse ";
    const std::string_view key =
        what.starts_with(kUnknown) ? what.substr(kUnknown.size()) : what.substr(0, what.find(':'));
    err << "twostroke serve: '" << key << "' in the file of --config is not a setting; see --print-config for them\n";
    command.exit_code = kUsageError;
    return command;
  } catch (const CLI::ParseError& error) {
    command.exit_code = app.exit(error, out, err) == 0 ? 0 : kUsageError;
    return command;
  }
  if (print_config) {
    out << printed(app);
    return command;
  }
  if (const Status status = validate(config); !status.ok()) {
    err << "twostroke serve: " << status.message() << "\n";
    command.exit_code = kUsageError;
    return command;
  }
  command.run = true;
  return command;
}

}  // namespace twostroke
