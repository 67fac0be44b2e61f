// Speculation over real arithmetic: the CPU backend, whose tokens follow from logits that were computed in rows of
// other sizes than without it.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "scheduler/scheduler.h"
#include "tests/tools/stories_to_gguf.h"
#include "tests/tools/temp_file.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke::test {
namespace {

constexpr uint32_t kOutput = 120;

struct ModelRun {
  std::map<std::pair<RequestId, uint32_t>, std::vector<SampledToken>> tokens;  // by request and sequence
  uint64_t drafts = 0;
  uint64_t accepted = 0;
  uint64_t steps = 0;
};

// Greedy and sampled requests whose prompts repeat a phrase, all at once.
std::vector<Request> phrase_requests(int32_t vocab) {
  std::vector<Request> requests;
  std::mt19937 random(7);
  for (RequestId id = 1; id <= 6; ++id) {
    Request request;
    request.id = id;
    std::vector<TokenId> phrase(6 + id);
    for (TokenId& token : phrase) token = static_cast<TokenId>(random() % static_cast<uint32_t>(vocab));
    for (int i = 0; i < 3; ++i) request.prompt.insert(request.prompt.end(), phrase.begin(), phrase.end());
    request.max_tokens = kOutput;
    request.n = id == 4 ? 2 : 1;
    request.sampling.seed = id;
    request.sampling.logprobs = 2;
    request.sampling.temperature = id % 2 == 0 ? 0.0F : 0.6F;
    if (id == 3) request.sampling.top_p = 0.7F;
    if (id == 5) request.sampling.repetition_penalty = 1.05F;
    requests.push_back(std::move(request));
  }
  return requests;
}

ModelRun run_model(const std::string& path, uint32_t max_draft_tokens) {
  CpuBackendOptions options;
  options.model_path = path;
  options.threads = 2;
  options.block_count = 256;
  options.context_max = 256;
  const auto backend = CpuBackend::create(options, nullptr).value();
  SchedulerLimits limits;
  limits.max_draft_tokens = max_draft_tokens;
  limits.costs.emplace().token_ns.fill(1e6);  // nothing costs anything: every guess is sent
  Scheduler scheduler(limits, backend->info());
  for (Request& request : phrase_requests(backend->info().vocab_size)) {
    EXPECT_TRUE(scheduler.submit(std::move(request), 0).ok());
  }
  ModelRun run;
  StepPlan plan;
  StepResult result;
  StepCounts counts;
  std::vector<Event> events;
  while (!scheduler.idle()) {
    scheduler.schedule(static_cast<TimeNs>(run.steps), plan, counts);
    EXPECT_TRUE(backend->submit(plan).ok());
    EXPECT_TRUE(backend->wait(result).ok());
    events.clear();
    scheduler.commit(plan, result, static_cast<TimeNs>(run.steps), events);
    EXPECT_EQ(scheduler.check_invariants(), "");
    ++run.steps;
    run.drafts += counts.draft_tokens;
    for (const Event& event : events) {
      if (event.kind != Event::Kind::kToken) continue;
      run.accepted += event.same_step ? 1 : 0;
      run.tokens[{event.request, event.sequence}].push_back({event.token, event.logprob, event.rank, event.top});
    }
  }
  return run;
}

void expect_same_output(const std::string& path) {
  const ModelRun plain = run_model(path, 0);
  const ModelRun drafted = run_model(path, 6);
  EXPECT_EQ(plain.drafts, 0u);
  EXPECT_GT(drafted.accepted, 0u);
  EXPECT_GT(drafted.drafts, drafted.accepted) << "some of them wrong";
  EXPECT_LT(drafted.steps, plain.steps);
  EXPECT_EQ(drafted.tokens, plain.tokens) << "tokens, log-probabilities and ranks, bit for bit";
}

class SpeculationModel : public ::testing::TestWithParam<GgufType> {};

TEST_P(SpeculationModel, GivesTheSameOutputToTheBit) {
  TinyLlama shape;
  shape.matrix_type = GetParam();
  const TempFile file(tiny_llama(shape).bytes());
  expect_same_output(file.path());
}

INSTANTIATE_TEST_SUITE_P(Layouts, SpeculationModel,
                         ::testing::Values(GgufType::kF32, GgufType::kF16, GgufType::kQ4_1, GgufType::kQ8_0),
                         [](const auto& type) { return gguf_type_name(static_cast<uint32_t>(type.param)); });

TEST(SpeculationOfStories, GivesTheSameOutputToTheBit) {
  const Result<GgufWriter> model = stories_to_gguf(TWOSTROKE_SHARED_DIR "/models/stories260K");
  if (!model.ok()) GTEST_SKIP() << "no stories260K in the shared test data: " << model.status().message();
  const TempFile file(model->bytes());
  expect_same_output(file.path());
}

}  // namespace
}  // namespace twostroke::test
