#include "server/ops/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "server/ops/process_stats.h"

namespace twostroke {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;
using Bounds = Histogram::BucketBoundaries;

// Seconds. OpenTelemetry's GenAI conventions, with more bounds at both ends: a small model's token takes milliseconds,
// and a first token behind a long queue takes many minutes.
const Bounds kRequestSeconds = {.01,  .02,   .04,   .08,   .16,   .32,    .64,    1.28,   2.56,
                                5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 655.36, 2621.44};
const Bounds kFirstTokenSeconds = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                   1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Bounds kTokenSeconds = {.001, .0025, .005, .0075, .01, .015, .025, .05, .075, .1,
                              .15,  .2,    .3,   .4,    .5,  .75,  1,    2.5, 10};
const Bounds kStepSeconds = {.0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .25, .5, 1, 2.5, 10};
const Bounds kHttpSeconds = {.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600};
const Bounds kPowersOfTwo = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
const Bounds kLengths = {1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072};

constexpr size_t kStepClasses = 3;
const char* step_class_name(size_t step_class) {
  static constexpr const char* kNames[kStepClasses] = {"prefill", "decode", "mixed"};
  return kNames[step_class];
}
// As the OpenAI side's refusal_reason() says.
constexpr std::pair<const char*, const char*> kRefusals[] = {
    {"400", "invalid"}, {"429", "limit"}, {"429", "objective"}, {"429", "unattainable"}, {"503", "unavailable"}};
constexpr size_t kOutcomes = 3;
const char* outcome_name(size_t outcome) {
  static constexpr const char* kNames[kOutcomes] = {"finished", "cancelled", "failed"};
  return kNames[outcome];
}

// Most counters of a step have nothing to count, and an atomic addition costs more than to see that.
void add(Counter& counter, double count) {
  if (count > 0) counter.Increment(count);
}

// A counter of each phase.
struct PhaseCounters {
  explicit PhaseCounters(Family<Counter>& family)
      : prefill(family.Add({{"phase", "prefill"}})), decode(family.Add({{"phase", "decode"}})) {}
  void add(double of_prefill, double of_decode) {
    twostroke::add(prefill, of_prefill);
    twostroke::add(decode, of_decode);
  }
  Counter& prefill;
  Counter& decode;
};

}  // namespace

struct Metrics::Impl {
  Registry registry;

  Family<Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Counter& counter(const char* name, const char* help) { return counters(name, help).Add({}); }
  Family<Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  Gauge& gauge(const char* name, const char* help) { return gauges(name, help).Add({}); }
  Family<Histogram>& histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  Histogram& histogram(const char* name, const char* help, const Bounds& bounds) {
    return histograms(name, help).Add({}, bounds);
  }

  // Work by phase.
  Family<Counter>& prefill_tokens = counters("twostroke_prefill_tokens_total",
                                             "Prompt tokens by source: computed, or found in the prefix cache. "
                                             "Together they are the prompt tokens processed.");
  Counter& prefill_computed = prefill_tokens.Add({{"source", "computed"}});
  Counter& prefill_cached = prefill_tokens.Add({{"source", "cached"}});
  Counter& decode_tokens =
      counter("twostroke_decode_tokens_total", "Tokens made by decode rows, accepted drafts included.");
  Counter& output_tokens = counter("twostroke_output_tokens_total",
                                   "Tokens made: by decode rows, and first tokens by the last prefill chunk.");
  Counter& draft_tokens =
      counter("twostroke_draft_tokens_total", "Guesses at further tokens that decode rows carried to be verified.");
  Counter& accepted_draft_tokens =
      counter("twostroke_accepted_draft_tokens_total", "Of these guesses, those that became output.");
  Counter& recomputed_tokens =
      counter("twostroke_recomputed_tokens_total", "Tokens computed again after a preemption.");
  PhaseCounters context_tokens{counters("twostroke_attention_context_tokens_total",
                                        "Cached positions that attention read, summed over tokens, by phase.")};
  Family<Counter>& phase_tokens = counters(
      "twostroke_phase_tokens_total",
      "Tokens that prefill rows computed and that decode rows made, by phase and by the class of their step: what "
      "pure steps did in their time needs no attribution.");
  Counter& prefill_tokens_alone = phase_tokens.Add({{"class", "prefill"}, {"phase", "prefill"}});
  Counter& prefill_tokens_mixed = phase_tokens.Add({{"class", "mixed"}, {"phase", "prefill"}});
  Counter& decode_tokens_alone = phase_tokens.Add({{"class", "decode"}, {"phase", "decode"}});
  Counter& decode_tokens_mixed = phase_tokens.Add({{"class", "mixed"}, {"phase", "decode"}});

  // Estimated work, and what the machine could do.
  PhaseCounters flops{
      counters("twostroke_flops_total", "Floating-point operations of the model, estimated, by phase.")};
  PhaseCounters read_bytes{counters("twostroke_read_bytes_total",
                                    "Bytes of weights and KV that steps had to read, estimated, by phase. The weights, "
                                    "read once, are shared by both phases of a mixed step.")};
  PhaseCounters written_bytes{
      counters("twostroke_written_bytes_total", "Bytes of KV that steps had to write, estimated, by phase.")};

  // Steps.
  Family<Histogram>& step_seconds = histograms("twostroke_step_duration_seconds",
                                               "Wall time of a step, by class: prefill alone, decode alone, or mixed.");
  Histogram* step_seconds_of[kStepClasses] = {};
  PhaseCounters attributed_seconds{counters("twostroke_attributed_seconds_total",
                                            "Time of steps by phase: pure steps are all their phase's, a mixed step's "
                                            "time is attributed by the cost model.")};
  Family<Histogram>& step_rows = histograms("twostroke_step_rows", "Rows of a step, by phase.");
  Histogram& step_rows_prefill = step_rows.Add({{"phase", "prefill"}}, kPowersOfTwo);
  Histogram& step_rows_decode = step_rows.Add({{"phase", "decode"}}, kPowersOfTwo);
  Histogram& step_tokens =
      histogram("twostroke_step_tokens", "Tokens of a step, prefill and decode together.", kPowersOfTwo);

  // What the scheduler expects of steps.
  Family<Gauge>& chunk_tokens = gauges(
      "twostroke_prefill_chunk_tokens",
      "Prefill tokens that the last step might carry, in the series of the reason that decided it; 0 in the others.");
  Gauge* chunk_tokens_of[kChunkReasons] = {};
  Family<Counter>& budgets =
      counters("twostroke_step_budgets_total", "Steps, by the reason that decided how much prefill they might carry.");
  Counter* budgets_of[kChunkReasons] = {};
  Gauge& ridge_tokens =
      gauge("twostroke_ridge_tokens",
            "Tokens that the last step could carry before it costs noticeably more than its decodes.");
  Gauge& cost_error = gauge("twostroke_cost_model_error_ratio",
                            "Median of |predicted - measured| / measured over the last steps, each predicted before it "
                            "was learned.");
  Counter& predicted_seconds =
      counter("twostroke_step_predicted_seconds_total", "Time that steps were predicted to take.");

  // Latency.
  Histogram& first_token_seconds =
      histogram("twostroke_time_to_first_token_seconds", "From acceptance to the first token.", kFirstTokenSeconds);
  Histogram& inter_token_seconds =
      histogram("twostroke_inter_token_latency_seconds",
                "Each gap between two tokens of a sequence; 0 for tokens that came in one step, by accepted drafts.",
                kTokenSeconds);
  Histogram& output_token_seconds =
      histogram("twostroke_time_per_output_token_seconds",
                "Mean gap of a finished request: (end to end - time to first token) / (tokens of a sequence - 1).",
                kTokenSeconds);
  Histogram& request_seconds = histogram("twostroke_request_duration_seconds",
                                         "From acceptance to the end of a finished request.", kRequestSeconds);
  Histogram& queue_seconds =
      histogram("twostroke_queue_time_seconds", "From acceptance to the first step that a request took part in.",
                kFirstTokenSeconds);
  Histogram& prompt_length =
      histogram("twostroke_request_prompt_tokens", "Prompt tokens of a finished request.", kLengths);
  Histogram& output_length = histogram("twostroke_request_output_tokens",
                                       "Output tokens of a finished request, all its sequences together.", kLengths);

  // Queue and memory.
  Gauge& requests_waiting = gauge("twostroke_requests_waiting", "Requests that wait, preempted ones included.");
  Gauge& requests_running = gauge("twostroke_requests_running", "Requests that hold KV blocks.");
  Gauge& sequences_waiting = gauge("twostroke_sequences_waiting", "Sequences that wait.");
  Gauge& sequences_running = gauge("twostroke_sequences_running", "Sequences that hold KV blocks.");
  Gauge& waiting_prompt_tokens =
      gauge("twostroke_waiting_prompt_tokens", "Prompt tokens of requests that have not started.");
  Family<Gauge>& kv_blocks = gauges(
      "twostroke_kv_blocks", "KV blocks by state: free, cached (reusable prefix, evictable) or referenced (in use).");
  Gauge& kv_free = kv_blocks.Add({{"state", "free"}});
  Gauge& kv_cached = kv_blocks.Add({{"state", "cached"}});
  Gauge& kv_referenced = kv_blocks.Add({{"state", "referenced"}});
  Family<Gauge>& kv_positions =
      gauges("twostroke_kv_positions",
             "Positions of referenced KV blocks: used (they hold a token), or unused (held for tokens to come).");
  Gauge& kv_used = kv_positions.Add({{"state", "used"}});
  Gauge& kv_unused = kv_positions.Add({{"state", "unused"}});
  Counter& prefix_queries = counter("twostroke_prefix_cache_query_tokens_total",
                                    "Prompt tokens looked up in the prefix cache, once per request.");
  Counter& prefix_hits =
      counter("twostroke_prefix_cache_hit_tokens_total", "Prompt tokens found in the prefix cache, once per request.");
  Counter& preemptions_for_priority =
      counter("twostroke_preemptions_for_priority_total", "Of the preemptions, those that let a better priority in.");
  Family<Gauge>& waiting_by_reason = gauges("twostroke_sequences_waiting_by_reason",
                                            "Sequences in the queue, by why they did not start when last looked at.");
  Gauge* waiting_of[kWaitReasons] = {};
  Gauge& kv_headroom =
      gauge("twostroke_kv_headroom_blocks", "KV blocks that admission keeps free besides, since blocks last ran out.");
  Counter& preemptions =
      counter("twostroke_preemptions_total", "Sequences that gave up their blocks to be computed again later.");

  // Ends.
  Family<Counter>& requests =
      counters("twostroke_requests_total",
               "Requests by how they ended: finished, cancelled, failed, or refused before they started.");
  Counter* requests_of[kOutcomes] = {};
  Counter& requests_refused = requests.Add({{"outcome", "refused"}});
  Family<Counter>& refusals =
      counters("twostroke_refusals_total", "Requests refused before they started, by HTTP status and reason.");
  Family<Counter>& objectives =
      counters("twostroke_objective_requests_total",
               "Finished requests that had an objective (time to first token, time per output "
               "token), by whether they met all of theirs.");
  Counter& objectives_met = objectives.Add({{"met", "yes"}});
  Counter& objectives_missed = objectives.Add({{"met", "no"}});
  Family<Counter>& finished = counters("twostroke_sequences_finished_total", "Sequences that finished, by reason.");
  Counter& finished_stop = finished.Add({{"reason", "stop"}});
  Counter& finished_length = finished.Add({{"reason", "length"}});

  // The process.
  Family<Counter>& http =
      counters("twostroke_http_requests_total", "HTTP requests answered, by method, route and status.");
  Family<Histogram>& http_seconds = histograms("twostroke_http_request_duration_seconds",
                                               "From a request's arrival to the end of its answer, by route.");
  Gauge& connections = gauge("twostroke_http_connections", "Open connections.");
  Gauge& ready = gauge("twostroke_ready", "1 when the server takes requests, else 0.");
  Gauge& start_time =
      gauge("process_start_time_seconds", "Start time of the process since the Unix epoch, in seconds.");
  Counter& cpu_seconds = counter("process_cpu_seconds_total", "Processor time of the process, user and system.");
  Gauge& resident_bytes = gauge("process_resident_memory_bytes", "Memory of the process that is in use.");
  Gauge& open_descriptors = gauge("process_open_fds", "Open file descriptors of the process.");
  std::mutex process_mutex;  // of the counter, which can only be added to

  explicit Impl(const MetricsLabels& labels) {
    for (size_t i = 0; i < kStepClasses; ++i) {
      step_seconds_of[i] = &step_seconds.Add({{"class", step_class_name(i)}}, kStepSeconds);
    }
    // There from the start, so that a first refusal is a rise and not a new series, which has no rate.
    for (const auto& [code, reason] : kRefusals) refusals.Add({{"code", code}, {"reason", reason}});
    for (size_t i = 0; i < kOutcomes; ++i) requests_of[i] = &requests.Add({{"outcome", outcome_name(i)}});
    for (size_t i = 0; i < kChunkReasons; ++i) {
      const Labels reason = {{"reason", chunk_reason_name(static_cast<ChunkReason>(i))}};
      chunk_tokens_of[i] = &chunk_tokens.Add(reason);
      budgets_of[i] = &budgets.Add(reason);
    }
    for (size_t i = 0; i < kWaitReasons; ++i) {
      const std::string reason(name_of(static_cast<WaitReason>(i)));
      waiting_of[i] = &waiting_by_reason.Add({{"reason", reason}});
    }
    gauges("twostroke_build_info", "Always 1; what runs is in the labels.")
        .Add({{"version", labels.version},
              {"model", labels.model},
              {"backend", labels.backend},
              {"block_size", std::to_string(labels.block_size)}})
        .Set(1);
    start_time.Set(static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count()) /
                   1000);
  }

  void observe_step(const StepOutput& output) {
    const StepCounts& counts = output.counts;
    add(prefill_computed, counts.computed_tokens);
    add(prefill_cached, counts.cached_tokens);
    add(output_tokens, counts.sampled_tokens + counts.accepted_draft_tokens);
    add(draft_tokens, counts.draft_tokens);
    add(accepted_draft_tokens, counts.accepted_draft_tokens);
    add(recomputed_tokens, counts.recomputed_tokens);
    const bool mixed = output.step_class == StepClass::kMixed;
    const uint32_t decoded = counts.shape.decode_rows + counts.accepted_draft_tokens;
    add(mixed ? prefill_tokens_mixed : prefill_tokens_alone, counts.shape.prefill_tokens);
    add(mixed ? decode_tokens_mixed : decode_tokens_alone, decoded);
    add(decode_tokens, decoded);
    const PhaseWork& work = output.work;
    flops.add(work.prefill.flops, work.decode.flops);
    read_bytes.add(work.prefill.read_bytes, work.decode.read_bytes);
    written_bytes.add(work.prefill.written_bytes, work.decode.written_bytes);
    context_tokens.add(static_cast<double>(counts.shape.prefill_context),
                       static_cast<double>(counts.shape.decode_context));
    step_seconds_of[static_cast<size_t>(output.step_class)]->Observe(to_seconds(output.duration_ns));
    budgets_of[static_cast<size_t>(output.gauges.chunk_reason)]->Increment();
    add(predicted_seconds, to_seconds(counts.predicted_ns));
    attributed_seconds.add(to_seconds(output.attributed.prefill_ns), to_seconds(output.attributed.decode_ns));
    if (counts.shape.prefill_rows > 0) step_rows_prefill.Observe(counts.shape.prefill_rows);
    if (counts.shape.decode_rows > 0) step_rows_decode.Observe(counts.shape.decode_rows);
    step_tokens.Observe(counts.shape.tokens());
    add(prefix_queries, counts.prefix_queries);
    add(prefix_hits, counts.cached_tokens);
    add(preemptions, counts.preemptions);
    add(preemptions_for_priority, counts.preemptions_for_priority);
  }

  void observe_gauges(const SchedulerGauges& gauges) {
    requests_waiting.Set(gauges.requests_waiting);
    requests_running.Set(gauges.requests_running);
    sequences_waiting.Set(gauges.sequences_waiting);
    sequences_running.Set(gauges.sequences_running);
    waiting_prompt_tokens.Set(static_cast<double>(gauges.waiting_prompt_tokens));
    for (size_t i = 0; i < kChunkReasons; ++i) {
      const bool decided = i == static_cast<size_t>(gauges.chunk_reason);
      chunk_tokens_of[i]->Set(decided ? gauges.prefill_chunk_tokens : 0);
    }
    for (size_t i = 0; i < kWaitReasons; ++i) waiting_of[i]->Set(gauges.sequences_by_reason[i]);
    kv_headroom.Set(gauges.blocks_headroom);
    ridge_tokens.Set(gauges.ridge_tokens);
    cost_error.Set(gauges.cost_error_ratio);
    kv_free.Set(gauges.blocks_free);
    kv_cached.Set(gauges.blocks_cached);
    kv_referenced.Set(gauges.blocks_referenced);
    kv_used.Set(static_cast<double>(gauges.positions_used));
    kv_unused.Set(static_cast<double>(gauges.positions_unused));
  }

  void observe_process() {
    const ProcessStats stats = read_process_stats();
    const std::lock_guard lock(process_mutex);
    cpu_seconds.Increment(std::max(0.0, stats.cpu_seconds - cpu_seconds.Value()));
    resident_bytes.Set(static_cast<double>(stats.resident_bytes));
    open_descriptors.Set(static_cast<double>(stats.open_descriptors));
  }

  void observe_end(const Event& event) {
    requests_of[static_cast<size_t>(event.outcome)]->Increment();
    const RequestSummary& summary = event.summary;
    if (summary.first_scheduled >= 0) queue_seconds.Observe(to_seconds(summary.first_scheduled - summary.submitted));
    if (summary.first_token >= 0) first_token_seconds.Observe(to_seconds(summary.first_token - summary.submitted));
    if (event.outcome != Outcome::kFinished) return;
    request_seconds.Observe(to_seconds(summary.ended - summary.submitted));
    prompt_length.Observe(summary.prompt_tokens);
    output_length.Observe(summary.output_tokens);
    const double tokens = static_cast<double>(summary.output_tokens) / summary.sequences;
    const double token_seconds = tokens > 1 ? to_seconds(summary.ended - summary.first_token) / (tokens - 1) : 0;
    if (tokens > 1) output_token_seconds.Observe(token_seconds);
    observe_objectives(summary, token_seconds);
  }

  void observe_objectives(const RequestSummary& summary, double token_seconds) {
    const auto [ttft_ns, tpot_ns] = summary.objectives;
    if (ttft_ns == 0 && tpot_ns == 0) return;
    const bool first_in_time = ttft_ns == 0 || summary.first_token - summary.submitted <= ttft_ns;
    const bool others_in_time = tpot_ns == 0 || token_seconds <= to_seconds(tpot_ns);
    (first_in_time && others_in_time ? objectives_met : objectives_missed).Increment();
  }
};

Metrics::Metrics(const MetricsLabels& labels) : impl_(std::make_unique<Impl>(labels)) {}
Metrics::~Metrics() = default;

void Metrics::observe(const StepOutput& output) {
  if (output.stepped) impl_->observe_step(output);
  impl_->observe_gauges(output.gauges);
  for (const Event& event : output.events) {
    switch (event.kind) {
      case Event::Kind::kPrompt:
        break;
      case Event::Kind::kToken:
        if (event.gap_ns >= 0) impl_->inter_token_seconds.Observe(to_seconds(event.gap_ns));
        break;
      case Event::Kind::kSequenceFinished:
        (event.finish_reason == FinishReason::kStop ? impl_->finished_stop : impl_->finished_length).Increment();
        break;
      case Event::Kind::kEnded:
        impl_->observe_end(event);
        break;
    }
  }
}

void Metrics::observe_refusal(int http_status, std::string_view reason) {
  impl_->requests_refused.Increment();
  impl_->refusals.Add({{"code", std::to_string(http_status)}, {"reason", std::string(reason)}}).Increment();
}

void Metrics::observe_http(const std::string& method, const std::string& route, int status, double seconds) {
  // Clients may invent methods; labels must stay few.
  const bool known =
      method == "GET" || method == "POST" || method == "HEAD" || method == "OPTIONS" || method == "DELETE";
  impl_->http.Add({{"method", known ? method : "other"}, {"route", route}, {"code", std::to_string(status)}})
      .Increment();
  impl_->http_seconds.Add({{"route", route}}, kHttpSeconds).Observe(seconds);
}

// A gauge that is not there says "unknown" better than 0, by which one might divide.
void Metrics::set_backend(const BackendInfo& info) {
  if (info.peak_flops > 0) {
    impl_
        ->gauge("twostroke_peak_flops_per_second",
                "Floating-point operations per second that the machine does at most.")
        .Set(info.peak_flops);
  }
  if (info.peak_bytes_per_second > 0) {
    impl_->gauge("twostroke_peak_read_bytes_per_second", "Bytes per second that the machine reads from memory at most.")
        .Set(info.peak_bytes_per_second);
  }
}

void Metrics::set_connections(size_t open) { impl_->connections.Set(static_cast<double>(open)); }
void Metrics::set_ready(bool ready) { impl_->ready.Set(ready ? 1 : 0); }
void Metrics::set_journal(bool recording) {
  impl_->gauge("twostroke_journal_recording", "1 while steps go to the journal, 0 since it has ended before its time.")
      .Set(recording ? 1 : 0);
}

std::string Metrics::text() const {
  impl_->observe_process();
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace twostroke
