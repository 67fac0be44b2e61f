// Order: who of those that wait goes first. Chosen by configuration; each is a pure function of the queue, of the
// moments that the scheduler was given, and, for kFair, of the work done for each tenant so far.
//
// Before all of them stands priority (Request::priority): the lower goes first, strictly. Within one priority:
//
//   kFcfs      by arrival.
//   kFair      the tenant that was served least, for its weight, goes first; within a tenant by arrival (fairness.h).
//   kShortest  the one with the fewest tokens still to compute goes first: its prompt, and output if it gave way, less
//              what the prefix cache has of it. Estimated when it enters the queue, looked up again before it starts.
//              The eldest of a priority is overtaken by its equals at most max_overtakes times.
//
// Aging: nothing waits for ever behind better priorities. Once in every aging interval the sequence that has waited
// longest of those for which there is a better priority, if it has waited an interval at least, is taken out of its
// order: its request goes before all that have not aged, with half of a step's prefill tokens at most while others want
// some, and keeps that place for good, also when it gives way. So of k requests that wait behind a
// stream of better ones the last has its turn after k intervals at most, while a flood of old requests cannot push
// aside those of a better priority, or other tenants, but for one in each interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace twostroke {

enum class Order : uint8_t { kFcfs, kFair, kShortest };

constexpr std::string_view name_of(Order order) {
  switch (order) {
    case Order::kFcfs:
      return "fcfs";
    case Order::kFair:
      return "fair";
    case Order::kShortest:
      return "shortest";
  }
  return "";
}

constexpr std::optional<Order> order_named(std::string_view name) {
  for (const Order order : {Order::kFcfs, Order::kFair, Order::kShortest}) {
    if (name_of(order) == name) return order;
  }
  return std::nullopt;
}

// The rank of a request among others: its priority, or, once it has aged, before all priorities. The lower first.
using Level = int64_t;
constexpr Level kAgedLevel = std::numeric_limits<Level>::min();

// Why a sequence in the queue did not start when a step last looked at it.
enum class WaitReason : uint8_t {
  kTurn,     // no step has looked at it yet: others go first
  kSlot,     // max_running sequences run
  kTokens,   // the step's tokens are used up, or it yields to shorter prompts
  kBlocks,   // fewer blocks are free than it needs
  kPrefix,   // another sequence is computing the beginning of its prompt
  kGaveWay,  // in that step sequences gave way, and it goes before none of them
};
constexpr size_t kWaitReasons = 6;

constexpr std::string_view name_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::kTurn:
      return "turn";
    case WaitReason::kSlot:
      return "slot";
    case WaitReason::kTokens:
      return "tokens";
    case WaitReason::kBlocks:
      return "blocks";
    case WaitReason::kPrefix:
      return "prefix";
    case WaitReason::kGaveWay:
      return "gave_way";
  }
  return "";
}

}  // namespace twostroke
