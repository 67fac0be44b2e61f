// What a step's work is, and whose. Every scenario of the simulation compares it with the sim machine's own count.
#include "scheduler/cost/phase_work.h"

#include <gtest/gtest.h>

#include <random>

namespace twostroke {
namespace {

BackendInfo priced_model() {
  BackendInfo info;
  info.flops_per_token = 1000;
  info.output_flops = 300;
  info.attention_flops_per_position = 7;
  info.weight_bytes = 5000;
  info.kv_bytes_per_token = 11;
  return info;
}

// One row of `tokens` that ends at position `end`.
StepShape prefill_row(uint32_t end, uint32_t tokens, bool samples) {
  StepShape shape{.prefill_rows = 1, .prefill_tokens = tokens, .logit_tokens = samples ? 1U : 0U};
  for (uint32_t i = end - tokens; i < end; ++i) shape.prefill_context += i + 1;
  shape.prefill_positions = end;
  return shape;
}
StepShape decode_row(uint32_t end, uint32_t tokens) {
  StepShape shape{.decode_rows = 1, .decode_tokens = tokens, .logit_tokens = tokens};
  for (uint32_t i = end - tokens; i < end; ++i) shape.decode_context += i + 1;
  shape.decode_positions = end;
  return shape;
}
void add_row(StepShape& shape, const StepShape& row) {
  shape.prefill_rows += row.prefill_rows;
  shape.prefill_tokens += row.prefill_tokens;
  shape.decode_rows += row.decode_rows;
  shape.decode_tokens += row.decode_tokens;
  shape.logit_tokens += row.logit_tokens;
  shape.prefill_context += row.prefill_context;
  shape.decode_context += row.decode_context;
  shape.prefill_positions += row.prefill_positions;
  shape.decode_positions += row.decode_positions;
}

TEST(PhaseWork, ADecodeReadsTheWeightsAndItsContextAndWritesOneToken) {
  const PhaseWork work = phase_work(decode_row(20, 1), priced_model());
  EXPECT_EQ(work.decode.flops, 1000 + 300 + 20 * 7);
  EXPECT_EQ(work.decode.read_bytes, 5000 + 20 * 11);
  EXPECT_EQ(work.decode.written_bytes, 11);
  EXPECT_EQ(work.prefill.flops + work.prefill.read_bytes + work.prefill.written_bytes, 0);
}

TEST(PhaseWork, AChunkNeedsTheOutputProductForItsLastTokenAtMost) {
  const PhaseWork middle = phase_work(prefill_row(30, 10, false), priced_model());
  EXPECT_EQ(middle.prefill.flops, 10 * 1000 + (21 + 30) * 10 / 2 * 7);
  EXPECT_EQ(middle.prefill.read_bytes, 5000 + 30 * 11) << "its tokens share one read of the context";
  EXPECT_EQ(middle.prefill.written_bytes, 10 * 11);
  EXPECT_EQ(middle.decode.flops + middle.decode.read_bytes + middle.decode.written_bytes, 0);
  const PhaseWork last = phase_work(prefill_row(30, 10, true), priced_model());
  EXPECT_EQ(last.prefill.flops, middle.prefill.flops + 300);
}

TEST(PhaseWork, DraftsShareADecodesReads) {
  const Work one = phase_work(decode_row(20, 1), priced_model()).decode;
  const Work four = phase_work(decode_row(23, 4), priced_model()).decode;
  EXPECT_EQ(four.flops, 4 * 1300 + (20 + 21 + 22 + 23) * 7);
  EXPECT_EQ(four.read_bytes, one.read_bytes + 3 * 11);
  EXPECT_EQ(four.written_bytes, 4 * 11);
}

TEST(PhaseWork, InAMixedStepThePhasesShareTheReadOfTheWeights) {
  const StepShape decode = decode_row(20, 1);
  StepShape mixed = prefill_row(30, 10, true);
  add_row(mixed, decode);
  const PhaseWork work = phase_work(mixed, priced_model());
  EXPECT_EQ(work.decode.read_bytes, 5000 / 2 + 20 * 11);
  EXPECT_EQ(work.prefill.read_bytes, 5000 / 2 + 30 * 11);
}

TEST(PhaseWork, AStepWithoutRowsDoesNothing) {
  const Work work = phase_work({}, priced_model()).total();
  EXPECT_EQ(work.flops + work.read_bytes + work.written_bytes, 0);
}

// All numbers are integers far below 2^53: sums are exact.
TEST(PhaseWork, PhasesAddUpToTheStepAndRowsToTheirPhase) {
  std::mt19937 random(20260117);
  const auto between = [&](uint32_t low, uint32_t high) {
    return static_cast<uint32_t>(low + random() % (high - low + 1));
  };
  const BackendInfo info = priced_model();
  for (int step = 0; step < 2000; ++step) {
    StepShape shape;
    Work whole;  // counted token by token
    double prefill_flops = 0;
    for (uint32_t rows = between(1, 12); rows > 0; --rows) {
      const bool decodes = between(0, 1) == 1;
      const uint32_t tokens = between(1, decodes ? 4 : 50);
      const uint32_t end = tokens + between(0, 100);
      const bool samples = decodes || between(0, 1) == 1;
      const StepShape row = decodes ? decode_row(end, tokens) : prefill_row(end, tokens, samples);
      add_row(shape, row);
      double flops = 0;
      for (uint32_t i = 0; i < tokens; ++i) {
        flops += info.flops_per_token + (end - i) * info.attention_flops_per_position;
        whole.written_bytes += info.kv_bytes_per_token;
      }
      flops += row.logit_tokens * info.output_flops;
      whole.flops += flops;
      if (!decodes) prefill_flops += flops;
      whole.read_bytes += end * info.kv_bytes_per_token;
    }
    whole.read_bytes += info.weight_bytes;
    const PhaseWork work = phase_work(shape, info);
    EXPECT_EQ(work.total().flops, whole.flops);
    EXPECT_EQ(work.total().read_bytes, whole.read_bytes);
    EXPECT_EQ(work.total().written_bytes, whole.written_bytes);
    EXPECT_EQ(work.prefill.flops, prefill_flops);
    for (const Work& phase : {work.prefill, work.decode}) {
      EXPECT_GE(phase.flops, 0);
      EXPECT_GE(phase.read_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace twostroke
