// What steps and requests make of the metrics, on outputs written by hand.
#include "server/ops/metrics.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "exposition.h"

namespace twostroke {
namespace {

using testing::IsEmpty;

class MetricsTest : public testing::Test {
 protected:
  Exposition read() {
    Exposition exposition = read_exposition(metrics_.text());
    EXPECT_THAT(exposition.faults, IsEmpty());
    return exposition;
  }

  Metrics metrics_{{.version = "1.2.3", .model = "a \"model\"", .backend = "sim", .block_size = 16}};
};

StepOutput step(StepClass step_class, const StepCounts& counts, TimeNs duration_ns) {
  return {.stepped = true, .step_class = step_class, .counts = counts, .duration_ns = duration_ns};
}

TEST_F(MetricsTest, AScrapeIsWellFormedBeforeAndAfterTheFirstStep) {
  EXPECT_GT(read().types.size(), 25U);
  metrics_.observe(step(StepClass::kMixed,
                        {.shape = {.prefill_rows = 1, .prefill_tokens = 100, .decode_rows = 3, .decode_tokens = 3},
                         .computed_tokens = 100},
                        1'000'000));
  metrics_.observe_http("GET", "/v1/models", 200, 0.01);
  metrics_.observe_refusal(429, "limit");
  for (const auto& [family, help] : read().helps) EXPECT_TRUE(help.ends_with('.')) << family << ": " << help;
}

TEST_F(MetricsTest, EveryFamilySaysWhatItCountsInItsName) {
  for (const auto& [family, type] : read().types) {
    EXPECT_TRUE(family.starts_with("twostroke_") || family.starts_with("process_")) << family;
    EXPECT_EQ(family.ends_with("_total"), type == "counter") << family << " is a " << type;
    EXPECT_FALSE(family.ends_with("_ms")) << family << ": seconds are the unit";
  }
}

TEST_F(MetricsTest, WorkIsCountedInItsPhase) {
  metrics_.observe(step(StepClass::kPrefill,
                        {.shape = {.prefill_rows = 2, .prefill_tokens = 200, .prefill_context = 5000},
                         .computed_tokens = 200,
                         .cached_tokens = 32,
                         .sampled_tokens = 1,
                         .prefix_queries = 240},
                        40'000'000));
  metrics_.observe(step(StepClass::kDecode,
                        {.shape = {.decode_rows = 5, .decode_tokens = 12, .decode_context = 700},
                         .sampled_tokens = 5,
                         .draft_tokens = 7,
                         .accepted_draft_tokens = 3},
                        8'000'000));
  metrics_.observe(step(StepClass::kMixed,
                        {.shape = {.prefill_rows = 1,
                                   .prefill_tokens = 69,
                                   .decode_rows = 4,
                                   .decode_tokens = 4,
                                   .prefill_context = 1,
                                   .decode_context = 2},
                         .computed_tokens = 60,
                         .recomputed_tokens = 9,
                         .sampled_tokens = 4,
                         .preemptions = 2},
                        30'000'000));
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_prefill_tokens_total{source=\"computed\"}"], 260);
  EXPECT_EQ(seen["twostroke_prefill_tokens_total{source=\"cached\"}"], 32);
  EXPECT_EQ(seen["twostroke_decode_tokens_total"], 9 + 3);
  EXPECT_EQ(seen["twostroke_output_tokens_total"], 10 + 3);
  EXPECT_EQ(seen["twostroke_draft_tokens_total"], 7);
  EXPECT_EQ(seen["twostroke_accepted_draft_tokens_total"], 3);
  EXPECT_EQ(seen["twostroke_recomputed_tokens_total"], 9);
  EXPECT_EQ(seen["twostroke_preemptions_total"], 2);
  EXPECT_EQ(seen["twostroke_prefix_cache_query_tokens_total"], 240);
  EXPECT_EQ(seen["twostroke_prefix_cache_hit_tokens_total"], 32);
  EXPECT_EQ(seen["twostroke_attention_context_tokens_total{phase=\"prefill\"}"], 5001);
  EXPECT_EQ(seen["twostroke_attention_context_tokens_total{phase=\"decode\"}"], 702);
  for (const char* step_class : {"prefill", "decode", "mixed"}) {
    EXPECT_EQ(seen[std::string("twostroke_step_duration_seconds_count{class=\"") + step_class + "\"}"], 1);
  }
  EXPECT_DOUBLE_EQ(seen["twostroke_step_duration_seconds_sum{class=\"prefill\"}"], 0.04);
  // A phase that took no part in a step had no rows there, which is not the same as 0 rows.
  EXPECT_EQ(seen["twostroke_step_rows_count{phase=\"prefill\"}"], 2);
  EXPECT_EQ(seen["twostroke_step_rows_sum{phase=\"decode\"}"], 9);
  EXPECT_EQ(seen["twostroke_step_tokens_sum"], 200 + 12 + 60 + 9 + 4);
  EXPECT_THAT(seen.faults, IsEmpty());
}

TEST_F(MetricsTest, TokensOfPhasesAreCountedByTheClassOfTheirStep) {
  metrics_.observe(step(StepClass::kPrefill, {.shape = {.prefill_rows = 1, .prefill_tokens = 200}}, 1));
  metrics_.observe(
      step(StepClass::kDecode,
           {.shape = {.decode_rows = 5, .decode_tokens = 9}, .draft_tokens = 4, .accepted_draft_tokens = 2}, 1));
  metrics_.observe(step(StepClass::kMixed,
                        {.shape = {.prefill_rows = 1, .prefill_tokens = 60, .decode_rows = 4, .decode_tokens = 4}}, 1));
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_phase_tokens_total{class=\"prefill\",phase=\"prefill\"}"], 200);
  EXPECT_EQ(seen["twostroke_phase_tokens_total{class=\"decode\",phase=\"decode\"}"], 7);
  EXPECT_EQ(seen["twostroke_phase_tokens_total{class=\"mixed\",phase=\"prefill\"}"], 60);
  EXPECT_EQ(seen["twostroke_phase_tokens_total{class=\"mixed\",phase=\"decode\"}"], 4);
}

TEST_F(MetricsTest, WorkAddsUpOverSteps) {
  StepOutput output = step(StepClass::kMixed, {}, 1);
  output.work = {.prefill = {.flops = 1e12, .read_bytes = 10, .written_bytes = 20},
                 .decode = {.flops = 5, .read_bytes = 4e9, .written_bytes = 7}};
  metrics_.observe(output);
  metrics_.observe(output);
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_flops_total{phase=\"prefill\"}"], 2e12);
  EXPECT_EQ(seen["twostroke_flops_total{phase=\"decode\"}"], 10);
  EXPECT_EQ(seen["twostroke_read_bytes_total{phase=\"prefill\"}"], 20);
  EXPECT_EQ(seen["twostroke_read_bytes_total{phase=\"decode\"}"], 8e9);
  EXPECT_EQ(seen["twostroke_written_bytes_total{phase=\"prefill\"}"], 40);
  EXPECT_EQ(seen["twostroke_written_bytes_total{phase=\"decode\"}"], 14);
}

TEST_F(MetricsTest, AttributedTimeIsBesideTheMeasuredOne) {
  StepOutput output = step(StepClass::kMixed, {}, 30'000'000);
  output.attributed = {.prefill_ns = 20'000'000, .decode_ns = 10'000'000};
  metrics_.observe(output);
  output = step(StepClass::kDecode, {}, 8'000'000);
  output.attributed = {.decode_ns = 8'000'000};
  metrics_.observe(output);
  Exposition seen = read();
  EXPECT_DOUBLE_EQ(seen["twostroke_attributed_seconds_total{phase=\"prefill\"}"], 0.02);
  EXPECT_DOUBLE_EQ(seen["twostroke_attributed_seconds_total{phase=\"decode\"}"], 0.018);
  EXPECT_DOUBLE_EQ(seen["twostroke_step_duration_seconds_sum{class=\"mixed\"}"], 0.03);
}

TEST_F(MetricsTest, PeaksAreThereWhereTheyAreKnown) {
  EXPECT_EQ(metrics_.text().find("twostroke_peak"), std::string::npos);
  BackendInfo info;
  metrics_.set_backend(info);
  EXPECT_EQ(metrics_.text().find("twostroke_peak"), std::string::npos) << "0 is unknown";
  info.peak_flops = 3e12;
  info.peak_bytes_per_second = 2e11;
  metrics_.set_backend(info);
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_peak_flops_per_second"], 3e12);
  EXPECT_EQ(seen["twostroke_peak_read_bytes_per_second"], 2e11);
}

TEST_F(MetricsTest, TheProcessIsMeasuredAtEveryScrape) {
  Exposition before = read();
  EXPECT_GT(before["process_resident_memory_bytes"], 1 << 20);
  EXPECT_GE(before["process_open_fds"], 3);
  const int descriptor = dup(0);
  // Spends processor time, however fast it is: until the operating system says so.
  while (read()["process_cpu_seconds_total"] <= before["process_cpu_seconds_total"]) {
  }
  EXPECT_EQ(read()["process_open_fds"], before["process_open_fds"] + 1);
  close(descriptor);
}

TEST_F(MetricsTest, EventsWithoutAStepAreNoStep) {
  StepOutput output;
  output.gauges = {.requests_waiting = 3,
                   .blocks_free = 7,
                   .blocks_cached = 2,
                   .blocks_referenced = 1,
                   .positions_used = 13,
                   .positions_unused = 3};
  metrics_.observe(output);
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_step_tokens_count"], 0);
  EXPECT_EQ(seen["twostroke_requests_waiting"], 3);
  EXPECT_EQ(seen["twostroke_kv_blocks{state=\"free\"}"], 7);
  EXPECT_EQ(seen["twostroke_kv_blocks{state=\"cached\"}"], 2);
  EXPECT_EQ(seen["twostroke_kv_blocks{state=\"referenced\"}"], 1);
  EXPECT_EQ(seen["twostroke_kv_positions{state=\"used\"}"], 13);
  EXPECT_EQ(seen["twostroke_kv_positions{state=\"unused\"}"], 3);
}

TEST_F(MetricsTest, TheChunkIsInTheSeriesOfItsReason) {
  StepOutput output;
  output.stepped = true;
  output.counts.predicted_ns = 30 * kMillisecondNs;
  output.gauges = {.prefill_chunk_tokens = 48,
                   .chunk_reason = ChunkReason::kObjective,
                   .ridge_tokens = 200,
                   .cost_error_ratio = 0.04};
  metrics_.observe(output);
  output.gauges.chunk_reason = ChunkReason::kRidge;
  output.gauges.prefill_chunk_tokens = 168;
  metrics_.observe(output);
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_prefill_chunk_tokens{reason=\"ridge\"}"], 168);
  EXPECT_EQ(seen["twostroke_prefill_chunk_tokens{reason=\"objective\"}"], 0);
  EXPECT_EQ(seen["twostroke_step_budgets_total{reason=\"objective\"}"], 1);
  EXPECT_EQ(seen["twostroke_step_budgets_total{reason=\"ridge\"}"], 1);
  EXPECT_EQ(seen["twostroke_step_budgets_total{reason=\"floor\"}"], 0);
  EXPECT_EQ(seen["twostroke_ridge_tokens"], 200);
  EXPECT_DOUBLE_EQ(seen["twostroke_cost_model_error_ratio"], 0.04);
  EXPECT_DOUBLE_EQ(seen["twostroke_step_predicted_seconds_total"], 0.06);
}

TEST_F(MetricsTest, ARequestsLatenciesAreTakenFromItsSummary) {
  Event token{.kind = Event::Kind::kToken, .gap_ns = -1};
  Event second = token;
  second.gap_ns = 20 * kMillisecondNs;
  Event finished{.kind = Event::Kind::kSequenceFinished, .finish_reason = FinishReason::kLength};
  Event ended{.kind = Event::Kind::kEnded, .outcome = Outcome::kFinished};
  ended.summary = {.submitted = 0,
                   .first_scheduled = 100 * kMillisecondNs,
                   .first_token = 300 * kMillisecondNs,
                   .ended = 500 * kMillisecondNs,
                   .prompt_tokens = 40,
                   .output_tokens = 11};
  metrics_.observe({.events = {token, second, finished, ended}});
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_inter_token_latency_seconds_count"], 1) << "a first token has no gap";
  EXPECT_DOUBLE_EQ(seen["twostroke_inter_token_latency_seconds_sum"], 0.02);
  EXPECT_DOUBLE_EQ(seen["twostroke_queue_time_seconds_sum"], 0.1);
  EXPECT_DOUBLE_EQ(seen["twostroke_time_to_first_token_seconds_sum"], 0.3);
  EXPECT_DOUBLE_EQ(seen["twostroke_time_per_output_token_seconds_sum"], 0.2 / 10);
  EXPECT_DOUBLE_EQ(seen["twostroke_request_duration_seconds_sum"], 0.5);
  EXPECT_EQ(seen["twostroke_request_prompt_tokens_sum"], 40);
  EXPECT_EQ(seen["twostroke_request_output_tokens_sum"], 11);
  EXPECT_EQ(seen["twostroke_requests_total{outcome=\"finished\"}"], 1);
  EXPECT_EQ(seen["twostroke_sequences_finished_total{reason=\"length\"}"], 1);
  EXPECT_EQ(seen["twostroke_sequences_finished_total{reason=\"stop\"}"], 0);
}

TEST_F(MetricsTest, ObjectivesAreMetByAllOfThemOrMissed) {
  // First token after 300 ms, 10 more in 200 ms.
  const auto end_with = [&](const Objectives& objectives) {
    Event ended{.kind = Event::Kind::kEnded, .outcome = Outcome::kFinished};
    ended.summary = {.first_token = 300 * kMillisecondNs,
                     .ended = 500 * kMillisecondNs,
                     .prompt_tokens = 40,
                     .output_tokens = 11,
                     .objectives = objectives};
    metrics_.observe({.events = {ended}});
    Exposition seen = read();
    return std::pair{seen["twostroke_objective_requests_total{met=\"yes\"}"],
                     seen["twostroke_objective_requests_total{met=\"no\"}"]};
  };
  EXPECT_EQ(end_with({}), (std::pair{0.0, 0.0})) << "nothing was promised";
  EXPECT_EQ(end_with({.ttft_ns = 300 * kMillisecondNs}), (std::pair{1.0, 0.0}));
  EXPECT_EQ(end_with({.tpot_ns = 20 * kMillisecondNs}), (std::pair{2.0, 0.0}));
  EXPECT_EQ(end_with({.ttft_ns = 299 * kMillisecondNs, .tpot_ns = kSecondNs}), (std::pair{2.0, 1.0}));
  EXPECT_EQ(end_with({.ttft_ns = kSecondNs, .tpot_ns = 19 * kMillisecondNs}), (std::pair{2.0, 2.0}));
}

TEST_F(MetricsTest, ACancelledRequestHasNoDurationAndNoLength) {
  Event ended{.kind = Event::Kind::kEnded, .outcome = Outcome::kCancelled};
  ended.summary = {.submitted = 0, .ended = kSecondNs, .prompt_tokens = 40};
  metrics_.observe({.events = {ended}});
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_requests_total{outcome=\"cancelled\"}"], 1);
  EXPECT_EQ(seen["twostroke_request_duration_seconds_count"], 0);
  EXPECT_EQ(seen["twostroke_request_prompt_tokens_count"], 0);
  EXPECT_EQ(seen["twostroke_queue_time_seconds_count"], 0) << "it was never scheduled";
}

TEST_F(MetricsTest, MethodsThatClientsMakeUpShareOneLabel) {
  for (const char* method : {"BREW", "PROPFIND", ""}) metrics_.observe_http(method, "", 404, 0.001);
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_http_requests_total{code=\"404\",method=\"other\",route=\"\"}"], 3);
}

TEST_F(MetricsTest, RefusalsAreRequestsToo) {
  metrics_.observe_refusal(429, "limit");
  metrics_.observe_refusal(400, "invalid");
  metrics_.observe_refusal(429, "limit");
  Exposition seen = read();
  EXPECT_EQ(seen["twostroke_requests_total{outcome=\"refused\"}"], 3);
  EXPECT_EQ(seen["twostroke_refusals_total{code=\"429\",reason=\"limit\"}"], 2);
  EXPECT_EQ(seen["twostroke_refusals_total{code=\"400\",reason=\"invalid\"}"], 1);
}

}  // namespace
}  // namespace twostroke
