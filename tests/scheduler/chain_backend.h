// ChainBackend: a model whose answer depends on every token before it, read through the block tables.
//
// Its "keys and values" of a position are one number, which mixes the token there with the numbers of all positions
// before it, as they stand in the blocks that the row names. A block that is wrong, stale, shared with a stranger or
// copied too late gives another number, and with it other output tokens. expected_output() says what must come out,
// from the tokens alone.
//
// Faults are chosen by the test: `lose_step` decides for a whole step, `spoil_row` for one row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "scheduler/request.h"

namespace twostroke::testing {

struct ChainModel {
  int32_t vocab_size = 50;

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93u;
    return value ^ (value >> 29);
  }
  // The number of a position: `before` is the sum of those before it.
  static uint64_t number(uint64_t before, TokenId token) { return mix(before * 31 + static_cast<uint32_t>(token) + 1); }

  TokenId next_token(uint64_t last_number, uint64_t seed, std::span<const uint32_t> mask) const {
    auto token = static_cast<uint32_t>(mix(last_number ^ mix(seed)) % static_cast<uint32_t>(vocab_size));
    const auto allowed = [&] { return mask.empty() || (mask[token / 32] >> (token % 32) & 1) != 0; };
    for (int32_t tried = 0; tried < vocab_size && !allowed(); ++tried) {
      token = (token + 1) % static_cast<uint32_t>(vocab_size);
    }
    return allowed() ? static_cast<TokenId>(token) : -1;
  }

  // What sequence `index` of an unconstrained request must give when nothing cuts it short.
  std::vector<TokenId> expected_output(const std::vector<TokenId>& prompt, const Request& request, uint32_t index,
                                       size_t length_max) const;
};

class ChainBackend final : public Backend {
 public:
  explicit ChainBackend(const BackendInfo& info);

  const BackendInfo& info() const override { return info_; }
  Status submit(const StepPlan& plan) override;
  Status wait(StepResult& result) override;

  ChainModel model() const { return {.vocab_size = info_.vocab_size}; }

  std::function<bool(const StepPlan&)> lose_step;
  std::function<bool(const Row&)> spoil_row;

 private:
  uint64_t& kv(const Row& row, uint32_t position);

  BackendInfo info_;
  std::vector<uint64_t> kv_;  // (blocks, block_size)
  const StepPlan* plan_ = nullptr;
};

}  // namespace twostroke::testing
