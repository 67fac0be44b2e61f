#include "kernels/cpu/int8_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "kernels/cpu/panel_format.h"

namespace twostroke {
namespace {

static_assert(kInt8Codes == kInt8Group);

// The largest magnitude, as the bits of a float: they order as the numbers do, and what is not finite comes last.
uint32_t largest_magnitude(std::span<const float> in) {
  uint32_t largest = 0;
  for (const float x : in) largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
  return largest;
}

int32_t sum_of(const int8_t* codes, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += codes[i];
  return sum;
}

}  // namespace

Int8Format int8_format(int64_t k) {
  CHECK(k > 0);
  Int8Format format = {};
  format.k = k;
  format.groups = (k + kInt8Group - 1) / kInt8Group;
  const auto groups = static_cast<size_t>(format.groups);
  constexpr size_t kLine = 64;
  size_t end = 0;
  const auto place = [&](size_t bytes) {
    const size_t begin = end;
    end += (bytes + kLine - 1) / kLine * kLine;
    return begin;
  };
  place(groups * kInt8Group);
  format.wide = place(groups * kInt8Group * sizeof(int16_t));
  format.scales = place(groups * sizeof(float));
  format.sums = place(groups * sizeof(float));
  format.half_sums = place(groups * 2 * sizeof(float));
  format.offsets = place(groups * sizeof(int32_t));
  format.half_offsets = place(groups * 2 * sizeof(int32_t));
  format.pair_offsets = place(groups * 4 * sizeof(int16_t));
  // An odd number of lines: what several rows have at the same place falls into different sets of a cache.
  format.row_bytes = end / kLine % 2 == 0 ? end + kLine : end;
  return format;
}

void quantise_row(const Int8Format& format, std::byte* row, std::span<const float> in) {
  CHECK(static_cast<int64_t>(in.size()) == format.k);
  auto* codes = reinterpret_cast<int8_t*>(row);
  auto* wide = reinterpret_cast<int16_t*>(row + format.wide);
  auto* scales = reinterpret_cast<float*>(row + format.scales);
  auto* sums = reinterpret_cast<float*>(row + format.sums);
  auto* half_sums = reinterpret_cast<float*>(row + format.half_sums);
  auto* offsets = reinterpret_cast<int32_t*>(row + format.offsets);
  auto* half_offsets = reinterpret_cast<int32_t*>(row + format.half_offsets);
  auto* pair_offsets = reinterpret_cast<int16_t*>(row + format.pair_offsets);
  for (int64_t g = 0; g < format.groups; ++g, codes += kInt8Group) {
    const auto begin = static_cast<size_t>(g * kInt8Group);
    const std::span<const float> group = in.subspan(begin, std::min<size_t>(kInt8Group, in.size() - begin));
    const uint32_t bits = largest_magnitude(group);
    const auto largest = std::bit_cast<float>(bits);
    float scale = 0;
    std::fill_n(codes, kInt8Group, int8_t{0});
    if (bits >= 0x7f800000u) {
      scale = std::numeric_limits<float>::quiet_NaN();
    } else if (largest >= kInt8Least) {
      scale = largest / 127;
      const float inverse = 127 / largest;
      for (size_t i = 0; i < group.size(); ++i) codes[i] = static_cast<int8_t>(std::lrint(group[i] * inverse));
    }
    std::copy_n(codes, kInt8Group, wide + begin);
    const int32_t first = sum_of(codes, kInt8Group / 2);
    const int32_t second = sum_of(codes + kInt8Group / 2, kInt8Group / 2);
    scales[g] = scale;
    sums[g] = scale * static_cast<float>(first + second);
    half_sums[2 * g] = scale * static_cast<float>(first);
    half_sums[2 * g + 1] = scale * static_cast<float>(second);
    offsets[g] = -kCode4Middle * (first + second);
    half_offsets[2 * g] = -kCode4Middle * first;
    half_offsets[2 * g + 1] = -kCode4Middle * second;
    int32_t pairs[4] = {};
    for (size_t i = 0; i < size_t{kInt8Group}; ++i) pairs[i / 16 * 2 + i / 2 % 2] += codes[i];
    for (size_t i = 0; i < 4; ++i) pair_offsets[size_t(g) * 4 + i] = static_cast<int16_t>(-kCode6Middle * pairs[i]);
  }
}

void restore_row(const Int8Format& format, const std::byte* row, std::span<double> out) {
  CHECK(static_cast<int64_t>(out.size()) == format.k);
  const auto* codes = reinterpret_cast<const int8_t*>(row);
  const auto* scales = reinterpret_cast<const float*>(row + format.scales);
  for (size_t i = 0; i < out.size(); ++i) out[i] = double{scales[i / kInt8Group]} * codes[i];
}

}  // namespace twostroke
