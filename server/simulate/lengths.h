// Lengths: how many tokens prompts or answers have. Written as
//
//     512                     always so many
//     uniform:100:900         from 100 to 900, each as likely
//     lognormal:400:0.8       median 400, sigma 0.8 of the logarithm; at most kLengthMax
//     lognormal:400:0.8:4000  the same, at most 4,000 (longer ones are cut)
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/status.h"
#include "server/simulate/random.h"

namespace twostroke::simulate {

constexpr uint32_t kLengthMax = 1 << 24;

struct Lengths {
  enum class Kind : uint8_t { kFixed, kUniform, kLognormal };
  Kind kind = Kind::kFixed;
  uint32_t low = 1;
  uint32_t high = 1;
  double median = 0;
  double sigma = 0;

  uint32_t draw(Random& random) const;  // [1, kLengthMax]
};

// Errors: kInvalidArgument that says how it is written.
Result<Lengths> parse_lengths(const std::string& text);

}  // namespace twostroke::simulate
