// ServeConfig: every setting of `twostroke serve`, typed and checked, with its default.
//
// Where a value comes from, first match wins:  --flag  >  TWOSTROKE_FLAG in the environment  >  the file of --config  >
// the default here. Unknown flags and unknown keys of the file are fatal; unknown TWOSTROKE_ variables are not, since
// Kubernetes puts TWOSTROKE_SERVICE_HOST and the like into every pod beside a service of that name; its TWOSTROKE_PORT
// ("tcp://...") is passed over too.
// --print-config prints all settings in force, in the file's own format (TOML), and ends.
//
// A setting that may be given several times is one list: the first of these places that has any gives all of it. The
// environment separates items by commas, the file writes ["a", "b"]. --print-config leaves API keys out.
//
// These are plain numbers and strings: the layers below have settings types of their own, which main fills from this
// one.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "kernels/status.h"

namespace twostroke {

constexpr uint32_t kComputeThreadsMax = 512;  // of the cpu backend
constexpr size_t kApiKeysMax = 1024;
constexpr size_t kApiKeyBytesMax = 512;
constexpr size_t kAllowedOriginsMax = 64;

constexpr size_t kTenantWeightsMax = 1024;

// Of one --tenant-weight, "NAME=WEIGHT". The weight is from 0.01 to 100.
struct TenantWeight {
  std::string name;
  double weight = 1;
};
Result<TenantWeight> parse_tenant_weight(const std::string& text);

// Whether an API key can be sent in a header: 1 to kApiKeyBytesMax printable ASCII characters without spaces and
// commas. The message does not repeat it.
Status check_api_key(const std::string& key);

constexpr double kItlTargetMsMin = 1e-3;  // of --itl-target-ms; below it only 0: none

struct ServeConfig {
  // Model and backend.
  std::string model;                 // GGUF file
  std::string served_model_name;     // "": the file's name without .gguf
  std::string chat_template;         // file with a Jinja template; "": the model's own
  std::string backend = "cpu";       // cpu, sim, or the path of a plug-in (*.so)
  std::string plugin_args;           // passed to a plug-in as it is
  uint32_t threads = 0;              // compute threads; 0: one per processor that the process may use
  std::string isa = "auto";          // auto, amx, avx512, avx2, scalar
  std::string activations = "int8";  // int8, f32: what quantised weights are multiplied with
  std::string kv_dtype = "f16";      // f32, f16, q8 (8-bit codes with a scale for each key and value of a head)
  uint64_t kv_memory_mb = 0;         // memory for KV blocks; 0: chosen from the machine's memory
  uint32_t block_size = 16;          // positions in a KV block
  uint32_t context_max = 0;          // tokens of one sequence; 0: the model's own limit

  // Scheduling.
  uint32_t max_step_tokens = 512;
  // Of one prefill chunk; 0: what the objective leaves, or the machine's ridge makes worthwhile.
  uint32_t max_chunk_tokens = 0;
  double itl_target_ms = 0;         // between two tokens of a stream: chunks are kept to it; 0: no objective
  uint32_t calibration_ms = 2'500;  // what finding out the step times at start may take, about; 0: not done
  std::string calibration_cache;    // folder for what was found; "": ~/.cache/twostroke; "none": not kept
  uint32_t max_running = 64;
  uint32_t max_waiting_requests = 1024;
  uint64_t max_waiting_tokens = 1 << 20;
  uint32_t max_overtakes = 64;
  // Who goes first.
  std::string order = "fcfs";  // fcfs, fair, shortest
  uint32_t aging_ms = 10'000;  // once in so long the longest waiting goes first; 0: never
  uint32_t max_preemptions = 4;
  std::vector<std::string> tenant_weights;  // NAME=WEIGHT: of the key of that name, or without keys of that `user`
  bool prefix_cache = true;

  // Speculation: guessing tokens ahead from the sequence's own text, and verifying the guesses in the same step. It
  // changes no output.
  std::string speculation = "ngram";  // off, ngram
  uint32_t max_draft_tokens = 8;      // guesses for one sequence in a step

  // Serving.
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::vector<std::string> api_keys;         // with --api-key-file's: a request needs one of them; none: open to all
  std::string api_key_file;                  // a key on each line; "": no file
  std::vector<std::string> allowed_origins;  // web pages that may read answers (CORS): origins, or "*" for all
  uint32_t io_threads = 1;
  uint32_t text_threads = 1;  // templates and tokenizing, apart from the I/O threads
  uint32_t max_connections = 4096;
  uint64_t max_body_bytes = 32 << 20;
  uint64_t max_bodies_bytes = 1 << 30;          // of all requests together
  uint64_t max_whole_answer_bytes = 128 << 20;  // of an answer that is not streamed
  uint32_t max_preparing_requests = 1024;       // requests in the text threads' hands at once
  uint32_t max_pending_events = 65536;     // tokens that a slow client may leave unread before its request is cancelled
  uint32_t max_stored_responses = 10'000;  // of /v1/responses; the least recently used one makes room
  uint64_t max_stored_bytes = 64 << 20;    // of them all
  uint32_t max_background_responses = 256;
  uint32_t max_cached_grammars = 128;  // compiled ones of formats and demanded calls, likewise
  uint64_t max_cached_grammar_bytes = 4 << 20;
  uint32_t sse_keep_alive_ms = 10'000;  // a comment on streams that are silent for so long; 0: never
  uint32_t step_stall_ms = 60'000;      // a step that takes longer than this makes the server not ready
  uint32_t drain_notice_ms = 5'000;     // after SIGTERM: not ready, but still accepting, so that routers notice
  uint32_t drain_timeout_ms = 30'000;   // then: streams may finish for so long

  // Seeing why.
  std::string journal;             // file for the step journal (twostroke replay); "": none
  uint64_t journal_max_mb = 1024;  // its size in MiB, where it ends

  std::string log_level = "info";   // debug, info, warn, error
  std::string log_format = "text";  // text, json
};

// What parsing the command line came to.
struct ServeCommand {
  ServeConfig config;
  bool run = false;   // false: --help or --print-config was printed to `out`, or an error to `err`
  int exit_code = 0;  // when !run
};

// `arguments` are those behind "serve". Flags that they leave out are looked for in the process's environment, as
// TWOSTROKE_<NAME>.
ServeCommand parse_serve_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace twostroke
