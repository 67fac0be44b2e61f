#include "tests/scheduler/harness.h"

#include <algorithm>
#include <cmath>

#include "backend/sim/fake_model.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

void add(StepCounts& total, const StepCounts& counts) {
  total.shape.decode_rows += counts.shape.decode_rows;
  total.shape.prefill_rows += counts.shape.prefill_rows;
  total.shape.decode_tokens += counts.shape.decode_tokens;
  total.shape.prefill_tokens += counts.shape.prefill_tokens;
  total.shape.logit_tokens += counts.shape.logit_tokens;
  total.computed_tokens += counts.computed_tokens;
  total.cached_tokens += counts.cached_tokens;
  total.remote_tokens += counts.remote_tokens;
  total.recomputed_tokens += counts.recomputed_tokens;
  total.sampled_tokens += counts.sampled_tokens;
  total.draft_tokens += counts.draft_tokens;
  total.scored_tokens += counts.scored_tokens;
  total.preemptions += counts.preemptions;
  total.prefix_queries += counts.prefix_queries;
}

}  // namespace

SimOptions small_machine() {
  SimOptions options;
  BackendInfo& info = options.info;
  info.vocab_size = 50;
  info.context_max = 64;
  info.block_size = 4;
  info.block_count = 16;
  info.step_tokens_max = 64;
  info.step_rows_max = 16;
  return options;
}

SchedulerLimits small_limits() {
  SchedulerLimits limits;
  limits.max_step_tokens = 16;
  limits.max_running = 8;
  limits.max_chunk_tokens = 16;
  return limits;
}

std::vector<TokenId> make_prompt(uint32_t length, TokenId first) {
  std::vector<TokenId> prompt(length);
  for (uint32_t i = 0; i < length; ++i) prompt[i] = (first + static_cast<TokenId>(i)) % 50;
  return prompt;
}

Request make_request(RequestId id, std::vector<TokenId> prompt, uint32_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

namespace {

bool may_come(const Request& request, const std::vector<TokenId>& tokens, TokenId token) {
  const auto& allowed = request.allowed_tokens;
  if (!allowed.empty() && std::ranges::find(allowed, token) == allowed.end()) return false;
  std::vector<TokenId> longer = tokens;
  longer.push_back(token);
  return std::ranges::none_of(request.bad_words, [&](const std::vector<TokenId>& word) {
    return word.size() <= longer.size() && std::equal(word.rbegin(), word.rend(), longer.rbegin());
  });
}

// The tokens that may come, as a mask; all zero when none may.
std::vector<uint32_t> literal_mask(const BackendInfo& info, const Request& request, const std::vector<TokenId>& tokens,
                                   bool even) {
  const size_t output_count = tokens.size() - request.prompt.size();
  std::vector<TokenId> open;
  std::vector<TokenId> stops;
  for (TokenId token = 0; token < info.vocab_size; ++token) {
    if ((even && token % 2 != 0) || !may_come(request, tokens, token)) continue;
    const bool stop = std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end();
    (stop && output_count < request.min_tokens ? stops : open).push_back(token);
  }
  if (even && open.empty()) open = stops;
  std::vector<uint32_t> mask((static_cast<size_t>(info.vocab_size) + 31) / 32);
  for (const TokenId token : open) mask[static_cast<size_t>(token) / 32] |= 1U << (token % 32);
  return mask;
}

}  // namespace

ExpectedOutput expected_output(const BackendInfo& info, const Request& request, uint32_t index, bool even) {
  ExpectedOutput expected;
  if (request.pooling != Pooling::kNone) return expected;
  const auto length_max = static_cast<size_t>(std::min(info.context_max, info.block_count * info.block_size));
  SamplingParams sampling = request.sampling;
  sampling.seed = sequence_seed(sampling.seed, index);
  FakeModel model(info.vocab_size);
  std::vector<TokenId> tokens = request.prompt;
  std::vector<TokenId>& output = expected.tokens;
  while (output.size() < request.max_tokens && tokens.size() < length_max) {
    const std::vector<uint32_t> mask = literal_mask(info, request, tokens, even);
    expected.stuck = std::ranges::count(mask, 0U) == static_cast<std::ptrdiff_t>(mask.size());
    if (expected.stuck) break;
    Row row;
    row.samples = true;
    row.sampling = &sampling;
    row.history = tokens;
    row.prompt_count = static_cast<uint32_t>(request.prompt.size());
    row.mask = mask;
    RowResult result;
    model.sample(FakeKv::chain_value(tokens), row, result);
    output.push_back(result.token);
    tokens.push_back(result.token);
    if (std::ranges::binary_search(request.stop_tokens, result.token)) break;
  }
  return expected;
}

std::vector<TokenScore> expected_prompt(const BackendInfo& info, const Request& request) {
  FakeModel model(info.vocab_size);
  std::vector<TokenScore> scores;
  for (size_t i = 1; i < request.prompt.size(); ++i) {
    model.score(FakeKv::chain_value(std::span(request.prompt).first(i)), request.prompt[i],
                static_cast<uint32_t>(request.prompt_logprobs), scores.emplace_back());
  }
  return scores;
}

std::vector<float> expected_embedding(const BackendInfo& info, const Request& request) {
  std::vector<double> sum(static_cast<size_t>(info.embedding_size));
  const size_t count = request.prompt.size();
  const size_t first = request.pooling == Pooling::kMean ? 1 : count;
  for (size_t i = first; i <= count; ++i) {
    FakeModel::add_state(FakeKv::chain_value(std::span(request.prompt).first(i)), sum);
  }
  std::vector<float> embedding;
  for (const double number : sum)
    embedding.push_back(static_cast<float>(number / static_cast<double>(count - first + 1)));
  return embedding;
}

Harness::Harness(const SchedulerLimits& limits, SimOptions machine)
    : backend(std::move(SimBackend::create(std::move(machine)).value())),
      scheduler(limits, backend->info()),
      checker(scheduler.limits(), backend->info()) {}

void Harness::fail(const std::string& what) {
  if (problem.empty()) problem = "step " + std::to_string(steps) + ": " + what;
}

void Harness::look() {
  if (const std::string error = scheduler.check_invariants(); !error.empty()) fail(error);
}

Status Harness::submit(Request request) {
  Track track;
  track.request.id = request.id;
  track.request.prompt = request.prompt;
  track.request.max_tokens = request.max_tokens;
  track.request.n = request.n;
  track.request.sampling = request.sampling;
  track.request.stop_tokens = request.stop_tokens;
  track.request.allowed_tokens = request.allowed_tokens;
  track.request.bad_words = request.bad_words;
  track.request.min_tokens = request.min_tokens;
  track.request.prompt_logprobs = request.prompt_logprobs;
  track.request.pooling = request.pooling;
  track.request.remote_tokens = request.remote_tokens;
  track.constrained = !request.constraints.empty();
  track.ends_whole = !track.constrained || request.constraints.front()->ended_whole();
  track.outputs.resize(request.n);
  track.finished.resize(request.n);
  track.told_to_finish.resize(request.n);
  track.computed_max.resize(request.n);
  Status status = scheduler.submit(std::move(request), now);
  if (status.ok()) tracks_.emplace(track.request.id, std::move(track));
  look();
  return status;
}

void Harness::cancel(RequestId request) {
  if (const auto found = tracks_.find(request); found != tracks_.end() && found->second.ends == 0) {
    found->second.cancelled = true;
  }
  if (const auto* first = SchedulerTestPeer::sequence(scheduler, request)) {
    for (const Sequence& sequence : first->request->sequences) checker.forget(sequence.id);
  }
  scheduler.cancel(request, now);
  look();
}

void Harness::finish_sequence(RequestId request, uint32_t sequence) {
  const auto found = tracks_.find(request);
  if (found != tracks_.end() && sequence < found->second.outputs.size() && !found->second.finished[sequence] &&
      found->second.ends == 0 && found->second.request.pooling == Pooling::kNone) {
    found->second.told_to_finish[sequence] = true;
    if (const auto* ended = SchedulerTestPeer::sequence(scheduler, request, sequence)) checker.forget(ended->id);
  }
  scheduler.finish_sequence(request, sequence, now);
  look();
}

bool Harness::step() {
  if (!problem.empty()) return false;
  ++steps;
  now += kMillisecondNs;
  scheduler.schedule(now, plan, counts);
  look();
  // What all progress rests on. (Where tenants are served fairly its tenant may have to wait; but then others advance.)
  const auto& running = SchedulerTestPeer::impl(scheduler).running_;
  const bool fair = scheduler.limits().order == Order::kFair;
  if (!running.empty() &&
      (fair ? plan.rows.empty()
            : std::ranges::find(plan.rows, running.front()->id, &Row::sequence) == plan.rows.end())) {
    fail("the oldest running sequence got no row");
  }
  const SchedulerGauges gauges = scheduler.gauges();
  if (const std::string error = checker.check(plan, counts, gauges.blocks_free + gauges.blocks_cached);
      !error.empty()) {
    fail(error);
  }
  if (!problem.empty()) return false;
  add(total, counts);
  count_rows();
  events.clear();
  if (plan.empty()) {
    if (!scheduler.idle()) fail("nothing is planned, though requests are left");
    scheduler.drain_events(events);
    take_events();
    return false;
  }
  now += 5 * kMillisecondNs;
  Status status = backend->submit(plan);
  if (status.ok()) {
    scheduler.fill_masks(plan);
    status = backend->wait(result);
  }
  if (status.ok()) {
    scheduler.commit(plan, result, now, events);
    const auto duration = static_cast<double>(backend->last_cost().total_ns);
    scheduler.learn(counts.shape, static_cast<TimeNs>(slowness * duration));
  } else {
    scheduler.fail(plan, status, now, events);
  }
  if (const std::vector<std::string> faults = backend->faults(); !faults.empty()) fail("backend: " + faults.front());
  take_events();
  look();
  return problem.empty();
}

void Harness::run(uint32_t steps_max) {
  const uint64_t last = steps + steps_max;
  while (step()) {
    if (steps > last) return fail("not done after " + std::to_string(steps_max) + " steps");
  }
  check_ends();
}

// What the plan's rows do for each request, position by position, against what the scheduler says.
void Harness::count_rows() {
  uint32_t prefill = 0;
  uint32_t cached = 0;
  uint32_t remote = 0;
  uint32_t recomputed = 0;
  for (const Row& row : plan.rows) {
    const auto& running = SchedulerTestPeer::impl(scheduler).running_;
    const Sequence* sequence = *std::ranges::find(running, row.sequence, &Sequence::id);
    Track& track = tracks_.at(sequence->request->request.id);
    uint32_t& computed_max = track.computed_max[sequence->index];
    const auto prompt = static_cast<uint32_t>(track.request.prompt.size());
    const auto imported = static_cast<uint32_t>(row.imported.size());
    const auto skip_to = [&](uint32_t position, uint32_t& of_step, uint32_t& of_request) {
      const uint32_t skipped = std::min(position, prompt);
      if (skipped <= track.prompt_seen) return;
      of_step += skipped - track.prompt_seen;
      of_request += skipped - track.prompt_seen;
      track.prompt_seen = skipped;
    };
    if (imported > 0 && row.position > track.request.remote_tokens) fail("a row imports more than its request brings");
    skip_to(row.position - imported, cached, track.cached_tokens);
    skip_to(row.position, imported > 0 ? remote : cached, imported > 0 ? track.remote_tokens : track.cached_tokens);
    const uint32_t end = row.position + row.token_count - row.draft_count;
    for (uint32_t position = row.position; position < end; ++position) {
      if (position < prompt && position >= track.prompt_seen) {
        ++prefill;
        ++track.prefill_tokens;
        ++track.prompt_seen;
      } else if (position + 1 == prompt && computed_max < prompt) {
        // Each sequence computes the last prompt token for its own first sample.
      } else if (position < prompt || position < computed_max) {
        ++recomputed;
        ++track.recomputed_tokens;
      }
    }
    computed_max = std::max(computed_max, end);
  }
  if (prefill != counts.computed_tokens) fail("computed_tokens is not what the rows compute for the first time");
  if (cached != counts.cached_tokens) fail("cached_tokens is not what the rows leave out");
  if (remote != counts.remote_tokens) fail("remote_tokens is not what the rows import");
  if (recomputed != counts.recomputed_tokens) fail("recomputed_tokens is not what the rows compute again");
}

void Harness::take_events() {
  const Event* last = nullptr;
  for (const Event& event : events) {
    const std::string name = "request " + std::to_string(event.request);
    const auto found = tracks_.find(event.request);
    if (found == tracks_.end()) return fail(name + " has an event, but was never accepted");
    Track& track = found->second;
    if (track.ends > 0) return fail(name + " has an event after its end");
    if (event.kind == Event::Kind::kEnded) {
      ++track.ends;
      track.outcome = event.outcome;
      track.error = event.error;
      track.summary = event.summary;
      track.embedding = event.embedding;
      continue;
    }
    if (event.kind == Event::Kind::kPrompt) {
      if (track.prompt) return fail(name + " gets its prompt twice");
      if (std::ranges::any_of(track.outputs, [](const auto& output) { return !output.empty(); })) {
        return fail(name + " gets its prompt behind a token");
      }
      track.prompt = event.prompt;
      continue;
    }
    if (event.sequence >= track.outputs.size()) return fail(name + " has an event for a sequence that it has not");
    if (track.finished[event.sequence]) return fail(name + " has an event for a sequence that is finished");
    if (event.kind == Event::Kind::kToken) {
      const bool follows = last != nullptr && last->kind == Event::Kind::kToken && last->request == event.request &&
                           last->sequence == event.sequence;
      if (event.same_step != follows) return fail(name + " is told wrongly what came in one step");
      if (event.same_step && (event.gap_ns != 0 || event.time != last->time)) return fail(name + " has a wrong gap");
      total.accepted_draft_tokens += event.same_step ? 1 : 0;
      std::vector<TokenId>& output = track.outputs[event.sequence];
      output.push_back(event.token);
      // All but the last are computed now, however they came.
      uint32_t& computed_max = track.computed_max[event.sequence];
      computed_max = std::max(computed_max, static_cast<uint32_t>(track.request.prompt.size() + output.size()) - 1);
      last = &event;
    } else {
      track.finished[event.sequence] = event.finish_reason;
    }
  }
  // What has ended by itself is not expected in the next plan.
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    bool alive = false;
    for (const Sequence* sequence : SchedulerTestPeer::impl(scheduler).running_) {
      alive |= sequence->id == plan.rows[i].sequence;
    }
    if (!alive) checker.forget(plan.rows[i].sequence);
  }
}

void Harness::check_end(RequestId id, const Track& track) {
  const std::string name = "request " + std::to_string(id);
  uint32_t output_tokens = 0;
  bool any_stuck = false;
  for (uint32_t i = 0; i < track.outputs.size(); ++i) {
    const std::vector<TokenId>& output = track.outputs[i];
    output_tokens += static_cast<uint32_t>(output.size());
    const auto [expected, stuck] = expected_output(backend->info(), track.request, i, track.constrained);
    any_stuck |= stuck && output.size() == expected.size();
    const bool cut = track.outcome != Outcome::kFinished || track.told_to_finish[i];
    if (output.size() > expected.size() || !std::equal(output.begin(), output.end(), expected.begin())) {
      return fail(name + " got other tokens than alone");
    }
    if (!cut && output.size() != expected.size()) return fail(name + " got too few tokens");
    if (!cut && stuck) return fail(name + " finished, though no token could come");
    if (track.outcome != Outcome::kFinished || track.request.pooling != Pooling::kNone) continue;
    if (!track.finished[i]) return fail(name + " finished, but not all of its sequences");
    const bool stopped = !output.empty() && std::ranges::binary_search(track.request.stop_tokens, output.back());
    const bool stops = (stopped && track.ends_whole) || track.told_to_finish[i];
    const FinishReason reason = stops ? FinishReason::kStop : FinishReason::kLength;
    if (*track.finished[i] != reason) return fail(name + " gives the wrong reason for its end");
  }
  if (track.error.code() == StatusCode::kInvalidArgument && !any_stuck) {
    return fail(name + " failed for its rules, though a token could come");
  }
  check_prompt(id, track, output_tokens > 0);
  const RequestSummary& summary = track.summary;
  if (summary.output_tokens != output_tokens) return fail(name + " counts its output wrongly");
  if (summary.prompt_tokens != track.request.prompt.size()) return fail(name + " counts its prompt wrongly");
  if (summary.cached_tokens >= std::max<size_t>(track.request.prompt.size(), 1))
    return fail(name + " had it all cached");
  if (output_tokens > 0 && track.prefill_tokens + track.cached_tokens + track.remote_tokens != summary.prompt_tokens) {
    return fail(name + " has prefill + cached + remote != prompt tokens");
  }
  if (summary.remote_tokens != track.remote_tokens || summary.cached_tokens != track.cached_tokens ||
      summary.recomputed_tokens != track.recomputed_tokens) {
    return fail(name + " sums up other counts than its rows give");
  }
  if (track.cancelled != (track.outcome == Outcome::kCancelled)) return fail(name + " has the wrong outcome");
  if ((track.outcome == Outcome::kFailed) == track.error.ok()) return fail(name + " has the wrong error");
  const bool ordered = summary.submitted <= summary.ended &&
                       (summary.first_scheduled < 0 || summary.first_scheduled >= summary.submitted) &&
                       (summary.first_token < 0 || summary.first_token >= summary.first_scheduled) &&
                       (summary.first_token < 0) == (output_tokens == 0);
  if (!ordered) return fail(name + " has impossible times");
}

// What is read out of the prompt, and that all of it was computed for that.
void Harness::check_prompt(RequestId id, const Track& track, bool any_output) {
  const std::string name = "request " + std::to_string(id);
  const Request& request = track.request;
  const bool scores = request.prompt_logprobs >= 0;
  if (track.prompt && !scores) return fail(name + " gets prompt log-probabilities, but asked for none");
  if (scores && !track.prompt && any_output) return fail(name + " gets no prompt log-probabilities");
  if (track.prompt && *track.prompt != expected_prompt(backend->info(), request)) {
    return fail(name + " gets other prompt log-probabilities than alone");
  }
  if ((scores || request.pooling == Pooling::kMean) && track.cached_tokens > 0) {
    return fail(name + " needs its whole prompt computed, but had some of it cached");
  }
  const bool embeds = request.pooling != Pooling::kNone && track.outcome == Outcome::kFinished;
  if (embeds == track.embedding.empty()) return fail(name + " has the wrong kind of end");
  if (!embeds) return;
  if (track.prefill_tokens + track.cached_tokens + track.remote_tokens != request.prompt.size()) {
    return fail(name + " ended too early");
  }
  const std::vector<float> expected = expected_embedding(backend->info(), request);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (track.embedding.size() != expected.size() || std::abs(track.embedding[i] - expected[i]) > 1e-5F) {
      return fail(name + " gets another embedding than alone");
    }
  }
}

void Harness::check_ends() {
  for (const auto& [id, track] : tracks_) {
    if (track.ends > 0) {
      check_end(id, track);
    } else if (scheduler.idle()) {
      fail("request " + std::to_string(id) + " never ended");
    }
  }
  const SchedulerGauges gauges = scheduler.gauges();
  if (!scheduler.idle()) return;
  if (gauges.blocks_referenced != 0) fail("blocks are held though nothing is left");
  if (gauges.requests_waiting + gauges.requests_running + gauges.sequences_waiting + gauges.sequences_running != 0 ||
      gauges.waiting_prompt_tokens != 0) {
    fail("gauges count something though nothing is left");
  }
}

const Row* Harness::row(RequestId request, uint32_t sequence) const {
  const Sequence* found = SchedulerTestPeer::sequence(scheduler, request, sequence);
  if (found == nullptr) return nullptr;
  const auto row = std::ranges::find(plan.rows, found->id, &Row::sequence);
  return row == plan.rows.end() ? nullptr : &*row;
}

}  // namespace twostroke::test
