// FakeKv: a KV cache that stores, instead of keys and values, a hash of everything that they depend on.
//
// Real keys and values at a position depend on all tokens up to it. So slot (block, offset) of position p stores
//   value(p) = mix(value(p - 1), token(p)),   value(-1) = a constant
// and a row's tokens follow from the value behind its last token. What the scheduler does wrong with blocks then shows:
// as a fault that is reported, and in the tokens.
//
// Faults that are found (KvCheck::kRecord; a walk over every row's context in each step)
// - a position was never written, or holds what a lost step left there;
// - it was written for another chain of tokens than the row's: a stranger's block, a stale prefix hit, a wrong copy.
//   A row that samples is compared with its history. One that does not has none: there the chain must fit together.
// - two rows write one slot in one step, or one reads what another writes in the same step.
// What drafts leave behind that were not accepted belongs to another chain of tokens.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/step.h"

namespace twostroke {

enum class KvCheck : uint8_t {
  kOff,     // a row costs only its own tokens
  kRecord,  // faults are kept for SimBackend::faults()
  kAbort,   // the first fault is a failed CHECK
};

// Keeps the first of many.
class FaultLog {
 public:
  explicit FaultLog(KvCheck check) : check_(check) {}
  bool enabled() const { return check_ != KvCheck::kOff; }
  void add(std::string message);
  const std::vector<std::string>& messages() const { return messages_; }  // at most kKeptMax
  uint64_t count() const { return count_; }

  static constexpr size_t kKeptMax = 64;

 private:
  KvCheck check_;
  std::vector<std::string> messages_;
  uint64_t count_ = 0;
};

class FakeKv {
 public:
  FakeKv(uint32_t block_count, uint32_t block_size);

  // Does the plan's copies, then what its rows import, then the rows; values[i] becomes the value behind row i's last
  // token, drafts aside. The plan is sound (check_plan). Faults go to `faults`; the row then goes on with what the cache
  // holds, as a real backend would.
  void execute(const StepPlan& plan, FaultLog& faults, std::vector<uint64_t>& values);

  // The value behind the row's token at `index`, after execute().
  uint64_t value_behind(const StepPlan& plan, const Row& row, uint32_t index) {
    return slot(plan, row, uint64_t{row.position} + index).value;
  }

  // Leaves garbage in all slots that the row was to write.
  void spoil(const StepPlan& plan, const Row& row);
  // The same for all rows and the targets of copies: nothing may be relied upon after a lost step.
  void spoil(const StepPlan& plan);

  // The value behind these tokens: what execute() gives for a row that ends there.
  static uint64_t chain_value(std::span<const TokenId> tokens);

 private:
  struct Slot {
    uint64_t value = 0;     // of the position; kUnwritten, kSpoilt, or a hash
    uint64_t previous = 0;  // the value that it was made from
    uint64_t writer = 0;    // the execution that wrote it last, by number
  };
  Slot& slot(const StepPlan& plan, const Row& row, uint64_t position);
  void copy(const BlockCopy& copy);
  void import(const StepPlan& plan, const Row& row);
  void claim_writes(const StepPlan& plan, FaultLog& faults);
  std::string check_reads(const StepPlan& plan, const Row& row);
  std::string check_slot(const Slot& slot, uint64_t expected_previous, const uint64_t* expected_value) const;

  uint32_t block_size_;
  uint64_t execution_ = 0;
  std::vector<Slot> slots_;  // [block_count * block_size]
};

}  // namespace twostroke
