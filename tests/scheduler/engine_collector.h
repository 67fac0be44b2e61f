// Collector: a sink that remembers what the engine posted, and lets a test wait for it.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "backend/sim/fake_kv.h"
#include "backend/sim/fake_model.h"
#include "scheduler/engine.h"

namespace twostroke {

// What the sim backend answers to `prompt`, greedily.
inline std::vector<TokenId> expected_tokens(std::vector<TokenId> tokens, size_t count, int32_t vocab_size) {
  FakeModel model(vocab_size);
  SamplingParams sampling;
  sampling.temperature = 0;
  const auto prompt_count = static_cast<uint32_t>(tokens.size());
  while (tokens.size() < prompt_count + count) {
    Row row;
    row.samples = true;
    row.sampling = &sampling;
    row.history = tokens;
    row.prompt_count = prompt_count;
    RowResult result;
    model.sample(FakeKv::chain_value(tokens), row, result);
    tokens.push_back(result.token);
  }
  return {tokens.begin() + prompt_count, tokens.end()};
}

inline Request greedy_request(RequestId id, std::vector<TokenId> prompt, uint32_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// Thread-safe.
class Collector {
 public:
  struct Record {
    std::map<uint32_t, std::vector<TokenId>> tokens;  // by sequence
    std::map<uint32_t, FinishReason> finished;        // by sequence
    std::vector<TokenScore> prompt;
    std::vector<float> embedding;
    uint32_t ends = 0;
    bool event_after_end = false;
    Outcome outcome = Outcome::kFinished;
    Status error;
    RequestSummary summary;
  };

  Engine::Sink sink() {
    return [this](StepOutput&& output) { take(std::move(output)); };
  }

  // The record of a request that has ended.
  Record await_end(RequestId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return records_[id].ends > 0; });
    return records_[id];
  }
  void await_ends(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ >= count; });
  }
  void await_tokens(RequestId id, size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return records_[id].tokens[0].size() >= count; });
  }

  std::map<RequestId, Record> records() const {
    const std::lock_guard lock(mutex_);
    return records_;
  }
  // All outputs, without their events; `event_counts()[i]` is how many output i had.
  std::vector<StepOutput> outputs() const {
    const std::lock_guard lock(mutex_);
    return outputs_;
  }
  std::vector<size_t> event_counts() const {
    const std::lock_guard lock(mutex_);
    return event_counts_;
  }
  SchedulerGauges last_gauges() const {
    const std::lock_guard lock(mutex_);
    return outputs_.back().gauges;
  }

 private:
  void take(StepOutput&& output) {
    const std::lock_guard lock(mutex_);
    event_counts_.push_back(output.events.size());
    for (const Event& event : output.events) {
      Record& record = records_[event.request];
      record.event_after_end = record.event_after_end || record.ends > 0;
      switch (event.kind) {
        case Event::Kind::kPrompt:
          record.prompt = event.prompt;
          break;
        case Event::Kind::kToken:
          record.tokens[event.sequence].push_back(event.token);
          break;
        case Event::Kind::kSequenceFinished:
          record.finished[event.sequence] = event.finish_reason;
          break;
        case Event::Kind::kEnded:
          ++record.ends;
          ++ends_;
          record.outcome = event.outcome;
          record.error = event.error;
          record.summary = event.summary;
          record.embedding = event.embedding;
          break;
      }
    }
    output.events.clear();
    outputs_.push_back(std::move(output));
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Record> records_;
  std::vector<StepOutput> outputs_;
  std::vector<size_t> event_counts_;
  size_t ends_ = 0;
};

}  // namespace twostroke
