// The rule of operators.h, for every operator set: a row's bits depend on that row alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_operators.h"
#include "tests/kernels/test_steps.h"

namespace twostroke {
namespace {

using test::HostWeight;
using test::normal_floats;
using test::OwnedActivations;
using test::OwnedCache;
using test::OwnedRows;
using test::OwnedTensor;
using test::OwnedWeight;

class Determinism : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor lacks " << isa_name(GetParam());
  }
  std::mt19937_64 random_{42};
};

INSTANTIATE_TEST_SUITE_P(Isas, Determinism, ::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& test) { return isa_name(test.param); });

std::vector<float> slice(const std::vector<float>& values, int64_t begin, int64_t end) {
  return {values.begin() + begin, values.begin() + end};
}

std::vector<float> matmul(int threads, Isa isa, ActivationType type, const HostWeight& host,
                          const std::vector<float>& x) {
  CpuDevice device(threads);
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, isa);
  const OwnedWeight weight(*operators, host);
  const auto rows = static_cast<int64_t>(x.size()) / host.shape.k;
  const OwnedActivations in(*operators, x, rows, host.shape.k);
  const OwnedTensor out(device, std::vector<float>(size_t(rows * host.shape.n)), rows, host.shape.n);
  operators->matmul(out, type == ActivationType::kInt8 ? in.int8() : Activations(in.f32()), weight, false);
  return out.floats();
}

// The forms that weights of this shape read.
std::vector<ActivationType> types_for(const WeightShape& shape) {
  if (shape.group == 0) return {ActivationType::kF32};
  return {ActivationType::kF32, ActivationType::kInt8};
}

TEST_P(Determinism, AMatmulsRowIsTheSameWhateverRowsShareTheCallAndOnHoweverManyThreads) {
  const int64_t n = 40;
  const auto multiply = [&](int threads, ActivationType type, const HostWeight& host, const std::vector<float>& x) {
    return matmul(threads, GetParam(), type, host, x);
  };
  for (int64_t k : {37, 48, 512}) {  // 512 is more than one block of k; 48 ends in half a group of activations
    for (const WeightShape& shape : test::weight_shapes(n, k)) {
      for (const ActivationType type : types_for(shape)) {
        SCOPED_TRACE(test::describe(shape) + (type == ActivationType::kInt8 ? ", int8" : ""));
        const HostWeight host = test::random_weight(random_, shape);
        const std::vector<float> x = normal_floats(random_, 70 * k);
        std::vector<float> alone;
        for (int64_t t = 0; t < 70; ++t) {
          const std::vector<float> y = multiply(1, type, host, slice(x, t * k, (t + 1) * k));
          alone.insert(alone.end(), y.begin(), y.end());
        }
        // The reference has one path for any number of rows; it is slow, so a few do.
        const int64_t stride = GetParam() == Isa::kScalar ? 23 : 1;
        for (int64_t rows = 1; rows <= 70; rows += stride) {
          // Rows from the start and from the end, so that a row is met in every place of a tile.
          ASSERT_EQ(multiply(1, type, host, slice(x, 0, rows * k)), slice(alone, 0, rows * n)) << rows;
          ASSERT_EQ(multiply(1, type, host, slice(x, (70 - rows) * k, 70 * k)), slice(alone, (70 - rows) * n, 70 * n))
              << rows;
        }
        for (int threads = 2; threads <= 4; ++threads) {
          EXPECT_EQ(multiply(threads, type, host, x), alone) << threads << " threads";
          EXPECT_EQ(multiply(threads, type, host, slice(x, 0, k)), slice(alone, 0, n)) << threads << " threads";
        }
      }
    }
  }
}

TEST_P(Determinism, AMatmulOfManyRowsIsTheSameAcrossBlocksOfRows) {
  for (const ActivationType type : {ActivationType::kF32, ActivationType::kInt8}) {
    const HostWeight host = test::random_weight(random_, {WeightLayout::kQ4, 20, 64, 32, true});
    const std::vector<float> x = normal_floats(random_, 300 * 64);
    const std::vector<float> all = matmul(2, GetParam(), type, host, x);
    for (int64_t t : {0, 99, 100, 127, 128, 199, 299}) {
      EXPECT_EQ(matmul(1, GetParam(), type, host, slice(x, t * 64, (t + 1) * 64)), slice(all, t * 20, (t + 1) * 20))
          << t;
    }
  }
}

TEST(DeterminismOfInt8, AllVectorSetsGiveTheSameBits) {
  std::mt19937_64 random(5);
  // One tile of rows and several, whole and not; weights of one block of k, of an odd number of groups, of several.
  for (int64_t k : {48, 256, 288, 1024}) {
    for (const WeightShape& shape : test::weight_shapes(70, k)) {
      if (shape.group == 0) continue;
      for (const int64_t rows : {10, 13, 16, 37, 64, 79}) {
        SCOPED_TRACE(test::describe(shape) + ", rows " + std::to_string(rows));
        const HostWeight host = test::random_weight(random, shape);
        const std::vector<float> x = normal_floats(random, rows * k);
        std::vector<std::vector<float>> results;
        for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
          if (isa_supported(isa)) results.push_back(matmul(1, isa, ActivationType::kInt8, host, x));
        }
        for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i], results[0]);
      }
    }
  }
}

// Two sequences over one small model layer's attention, cut into steps of `chunk` tokens.
struct Prompt {
  int32_t heads = 6;
  int32_t kv_heads = 2;
  int32_t head_size = 12;
  int32_t block_size = 4;
  DType dtype = DType::kF16;
  int32_t lengths[2] = {61, 35};
  std::vector<float> q[2], k[2], v[2];
};

Prompt random_prompt(std::mt19937_64& random, DType dtype, Prompt prompt = {}) {
  prompt.dtype = dtype;
  for (int s = 0; s < 2; ++s) {
    prompt.q[s] = normal_floats(random, int64_t{prompt.lengths[s]} * prompt.heads * prompt.head_size, 2);
    prompt.k[s] = normal_floats(random, int64_t{prompt.lengths[s]} * prompt.kv_heads * prompt.head_size, 2);
    prompt.v[s] = normal_floats(random, int64_t{prompt.lengths[s]} * prompt.kv_heads * prompt.head_size);
  }
  return prompt;
}

// Outputs of sequence 0 computed in chunks of `chunk`; beside it in each step, when `beside`, a chunk of sequence 1.
std::vector<float> attend(int threads, Isa isa, const Prompt& prompt, int32_t chunk, bool beside, int32_t blocks = 20) {
  CpuDevice device(threads);
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, isa);
  const KvCache shape = {.data = {},
                         .dtype = prompt.dtype,
                         .layers = 1,
                         .blocks = 2 * blocks,
                         .kv_heads = prompt.kv_heads,
                         .block_size = prompt.block_size,
                         .head_size = prompt.head_size};
  const OwnedCache cache(device, shape, std::numeric_limits<float>::quiet_NaN());
  std::mt19937_64 random(beside ? 1 : 2);  // block numbers must not matter either
  const std::vector<int32_t> table = test::random_table(random, 2 * blocks);
  const OwnedTensor frequency(device, std::vector<float>{1, 0.1f, 0.01f}, 1, 3);
  std::vector<float> outputs;
  for (int32_t begin = 0; begin < prompt.lengths[0]; begin += chunk) {
    std::vector<RowSegment> segments;
    std::vector<std::vector<int32_t>> tables;
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    for (int s = beside ? 1 : 0; s >= 0; --s) {
      const int32_t count = std::min(chunk, prompt.lengths[s] - begin);
      if (count <= 0) continue;
      segments.push_back({.token_count = count, .position = begin});
      tables.emplace_back(table.begin() + blocks * s, table.begin() + blocks * (s + 1));
      const auto append = [&](std::vector<float>& to, const std::vector<float>& from, int32_t heads) {
        const auto width = int64_t{heads} * prompt.head_size;
        to.insert(to.end(), from.begin() + begin * width, from.begin() + (begin + count) * width);
      };
      append(q, prompt.q[s], prompt.heads);
      append(k, prompt.k[s], prompt.kv_heads);
      append(v, prompt.v[s], prompt.kv_heads);
    }
    const OwnedRows rows(device, segments, tables);
    const int64_t tokens = rows.tokens();
    const int64_t width = prompt.heads * prompt.head_size;
    const OwnedTensor query(device, q, tokens, width);
    const OwnedTensor key(device, k, tokens, prompt.kv_heads * prompt.head_size);
    const OwnedTensor value(device, v, tokens, prompt.kv_heads * prompt.head_size);
    const OwnedTensor out(device, std::vector<float>(size_t(tokens * width)), tokens, width);
    operators->rotate_and_store(query, key, value, frequency, *cache, 0, *rows);
    operators->attention(out, query, *cache, 0, *rows);
    const std::vector<float> values = out.floats();
    const int32_t own = std::min(chunk, prompt.lengths[0] - begin);
    outputs.insert(outputs.end(), values.end() - own * width, values.end());
  }
  return outputs;
}

TEST_P(Determinism, AttentionIsTheSameHoweverAPromptIsCutWhateverIsBesideItAndOnHoweverManyThreads) {
  for (DType dtype : {DType::kF16, DType::kF32, DType::kI8}) {
    const Prompt prompt = random_prompt(random_, dtype);
    const std::vector<float> whole = attend(1, GetParam(), prompt, 61, false);
    for (float value : whole) ASSERT_TRUE(std::isfinite(value));
    for (int32_t chunk : {1, 2, 7, 16, 17, 33, 61}) {
      for (bool beside : {false, true}) {
        EXPECT_EQ(attend(1, GetParam(), prompt, chunk, beside), whole) << "chunk " << chunk << ", beside " << beside;
      }
    }
    for (int threads = 2; threads <= 4; ++threads) {
      EXPECT_EQ(attend(threads, GetParam(), prompt, 33, true), whole) << threads << " threads";
    }
  }
}

// Long enough for contexts that are split among threads, in shapes whose few queries take a way of their own.
TEST_P(Determinism, AttentionToALongContextIsTheSameHoweverItIsSplit) {
  const bool reference = GetParam() == Isa::kScalar;  // it splits nothing, and is slow
  const int32_t length = reference ? 70 : 1301;
  for (DType dtype : {DType::kF16, DType::kF32, DType::kI8}) {
    for (int32_t heads : {2, 4, 6, 8, 12}) {
      for (int32_t block_size : {16, 32, 5}) {
        SCOPED_TRACE("heads " + std::to_string(heads) + ", block size " + std::to_string(block_size));
        const Prompt prompt = random_prompt(random_, dtype,
                                            {.heads = heads,
                                             .kv_heads = 2,
                                             .head_size = heads == 2   ? 80
                                                          : heads == 4 ? 24
                                                                       : 16,
                                             .block_size = block_size,
                                             .lengths = {length, length / 2}});
        const int32_t blocks = length / block_size + 1;
        const std::vector<float> whole = attend(1, GetParam(), prompt, length, false, blocks);
        for (float value : whole) ASSERT_TRUE(std::isfinite(value));
        EXPECT_EQ(attend(1, GetParam(), prompt, 150, true, blocks), whole);
        if (reference) continue;
        // Alone, a row of one token has fewer units than threads from the second span on.
        for (int threads : {1, 3}) {
          EXPECT_EQ(attend(threads, GetParam(), prompt, 1, false, blocks), whole) << threads << " threads";
        }
        EXPECT_EQ(attend(4, GetParam(), prompt, 700, true, blocks), whole);
      }
    }
  }
}

TEST_P(Determinism, RowWiseOperatorsComputeEachRowAlone) {
  const int64_t size = 83;
  const std::vector<float> x = normal_floats(random_, 500 * size);
  const std::vector<float> scale = normal_floats(random_, size);
  const auto run = [&](int threads, const std::vector<float>& values) {
    CpuDevice device(threads);
    const std::unique_ptr<Operators> operators = make_cpu_operators(device, GetParam());
    const auto rows = static_cast<int64_t>(values.size()) / size;
    const OwnedTensor in(device, values, rows, size);
    const OwnedTensor norm(device, scale, 1, size);
    const OwnedTensor out(device, std::vector<float>(values.size()), rows, size);
    operators->rms_norm(out, in, norm, 1e-5f);
    operators->silu_gate(out, out, in);
    return out.floats();
  };
  const std::vector<float> all = run(1, x);
  for (int threads = 2; threads <= 4; ++threads) EXPECT_EQ(run(threads, x), all) << threads << " threads";
  for (int64_t t : {0, 1, 98, 99, 250, 499}) {
    EXPECT_EQ(run(1, slice(x, t * size, (t + 1) * size)), slice(all, t * size, (t + 1) * size)) << t;
  }
}

}  // namespace
}  // namespace twostroke
