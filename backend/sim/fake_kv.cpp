#include "backend/sim/fake_kv.h"

#include <algorithm>

#include "backend/sim/hash.h"
#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr uint64_t kUnwritten = 0;
constexpr uint64_t kSpoilt = 1;
constexpr uint64_t kRoot = 2;  // value(-1)

uint64_t next_value(uint64_t previous, TokenId token) {
  const uint64_t value = sim::mix(previous, static_cast<uint32_t>(token));
  return value > kRoot ? value : value + kRoot + 1;
}

std::string describe(const StepPlan& plan, size_t row) {
  return "step " + std::to_string(plan.step) + ", row " + std::to_string(row) + " (sequence " +
         std::to_string(plan.rows[row].sequence) + "): ";
}

}  // namespace

void FaultLog::add(std::string message) {
  CHECK(check_ != KvCheck::kAbort, message);
  ++count_;
  if (messages_.size() < kKeptMax) messages_.push_back(std::move(message));
}

FakeKv::FakeKv(uint32_t block_count, uint32_t block_size)
    : block_size_(block_size), slots_(size_t{block_count} * block_size) {}

uint64_t FakeKv::chain_value(std::span<const TokenId> tokens) {
  uint64_t value = kRoot;
  for (const TokenId token : tokens) value = next_value(value, token);
  return value;
}

FakeKv::Slot& FakeKv::slot(const StepPlan& plan, const Row& row, uint64_t position) {
  const BlockId block = plan.blocks[row.block_begin + position / block_size_];
  return slots_[size_t{block} * block_size_ + position % block_size_];
}

void FakeKv::copy(const BlockCopy& copy) {
  const size_t source = size_t{copy.source} * block_size_;
  const size_t target = size_t{copy.target} * block_size_;
  for (uint32_t i = 0; i < block_size_; ++i) {
    slots_[target + i] = slots_[source + i];
    slots_[target + i].writer = 0;  // copies precede the rows: these may read them
  }
}

// As copies do: the slots may be read by every row of the step.
void FakeKv::import(const StepPlan& plan, const Row& row) {
  const uint64_t begin = row.position - row.imported.size();
  uint64_t value = begin == 0 ? kRoot : slot(plan, row, begin - 1).value;
  for (size_t i = 0; i < row.imported.size(); ++i) {
    Slot& target = slot(plan, row, begin + i);
    const uint64_t previous = value;
    value = next_value(previous, row.imported[i]);
    target = {.value = value, .previous = previous, .writer = 0};
  }
}

void FakeKv::claim_writes(const StepPlan& plan, FaultLog& faults) {
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    bool clash = false;
    for (uint32_t t = 0; t < row.token_count; ++t) {
      Slot& target = slot(plan, row, uint64_t{row.position} + t);
      clash = clash || target.writer == execution_;
      target.writer = execution_;
    }
    if (clash) faults.add(describe(plan, i) + "writes where another row of the same step writes");
  }
}

std::string FakeKv::check_slot(const Slot& found, uint64_t expected_previous, const uint64_t* expected_value) const {
  if (found.value == kUnwritten) return "was never written";
  if (found.value == kSpoilt) return "holds what a lost step left";
  if (found.writer == execution_) return "is written by a row of the same step";
  const bool matches = expected_value == nullptr ? found.previous == expected_previous : found.value == *expected_value;
  return matches ? std::string() : "was written for another chain of tokens";
}

std::string FakeKv::check_reads(const StepPlan& plan, const Row& row) {
  uint64_t value = kRoot;
  for (uint32_t p = 0; p < row.position; ++p) {
    const Slot& found = slot(plan, row, p);
    const uint64_t expected = row.samples ? next_value(value, row.history[p]) : 0;
    const std::string fault = check_slot(found, value, row.samples ? &expected : nullptr);
    if (!fault.empty()) {
      return "position " + std::to_string(p) + " (block " +
             std::to_string(plan.blocks[row.block_begin + p / block_size_]) + ", offset " +
             std::to_string(p % block_size_) + ") " + fault;
    }
    value = found.value;
  }
  return {};
}

void FakeKv::execute(const StepPlan& plan, FaultLog& faults, std::vector<uint64_t>& values) {
  ++execution_;
  for (const BlockCopy& one : plan.copies) copy(one);
  for (const Row& row : plan.rows) import(plan, row);
  // Reads are checked before anything is written, but after all writes are known.
  if (faults.enabled()) {
    claim_writes(plan, faults);
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      const std::string fault = check_reads(plan, plan.rows[i]);
      if (!fault.empty()) faults.add(describe(plan, i) + fault);
    }
  }
  values.resize(plan.rows.size());
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    uint64_t value = row.position == 0 ? kRoot : slot(plan, row, uint64_t{row.position} - 1).value;
    for (uint32_t t = 0; t < row.token_count; ++t) {
      Slot& target = slot(plan, row, uint64_t{row.position} + t);
      target.previous = value;
      value = next_value(value, plan.tokens[row.token_begin + t]);
      target.value = value;
      if (t + row.draft_count + 1 == row.token_count) values[i] = value;
    }
  }
}

void FakeKv::spoil(const StepPlan& plan, const Row& row) {
  for (uint32_t t = 0; t < row.token_count; ++t) slot(plan, row, uint64_t{row.position} + t).value = kSpoilt;
}

void FakeKv::spoil(const StepPlan& plan) {
  for (const Row& row : plan.rows) spoil(plan, row);
  for (const BlockCopy& one : plan.copies) {
    for (uint32_t i = 0; i < block_size_; ++i) slots_[size_t{one.target} * block_size_ + i].value = kSpoilt;
  }
}

}  // namespace twostroke
