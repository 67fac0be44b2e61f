// GgufFile: a model file in GGUF version 2 or 3, memory-mapped and checked.
//
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (little-endian; header, metadata, tensor table,
// padding, tensor data). A file is untrusted input: every count, length, product, padding and sum is computed with
// checked arithmetic and compared with the file's size before anything is read or allocated, and every error names the
// field. A file that claims 2^63 elements fails at once, in little memory.
//
// Ownership: the object owns the mapping; every string_view and span that it gives out lives as long as it does. The
// file must not be shortened while it is mapped: replace a model by renaming a new file over it.
// Thread-safety: immutable after open; all const methods may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "kernels/status.h"

namespace twostroke {

// Tensor types of the file, by their number in the format. Others are refused by name or number when the file is
// opened.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

struct GgufTypeTraits {
  const char* name;      // "Q4_K"
  uint32_t block_size;   // elements in a block (1 for plain types)
  uint32_t block_bytes;  // bytes of a block
};

// Traits of a supported type; nullptr for any other number.
const GgufTypeTraits* gguf_type_traits(uint32_t type);

// For messages: "Q4_K", "IQ2_XXS" (also for known types that are not supported), or "number 99".
std::string gguf_type_name(uint32_t type);

struct GgufTensor {
  std::string_view name;
  GgufType type;
  // Dimensions as in the file: dims[0] is the contiguous one. A weight that maps x[in] to y[out] has dims {in, out}.
  std::array<uint64_t, 4> dims;  // unused ones are 1
  uint32_t dim_count;
  std::span<const std::byte> data;  // exactly the tensor's bytes, aligned to the file's alignment

  uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }  // checked at open: does not overflow
};

// A metadata value. Integers of any width are widened, arrays are homogeneous; arrays of arrays are refused at open.
using GgufValue =
    std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<uint64_t>, std::vector<int64_t>,
                 std::vector<double>, std::vector<bool>, std::vector<std::string_view>>;

class GgufFile {
 public:
  struct Limits {
    uint64_t metadata_count_max = 1 << 16;
    uint64_t tensor_count_max = 1 << 16;
    uint64_t array_elements_max = 1 << 24;
    uint64_t string_bytes_max = 1 << 24;
  };

  // Maps and checks the file at `path`. Errors: kNotFound (no such file), kInvalidArgument (damaged, truncated, or a
  // limit is exceeded; names the field and the offset), kUnsupported (version, tensor type).
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path, const Limits& limits);
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path) { return open(path, Limits{}); }
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  uint32_t version() const;
  uint64_t file_bytes() const;

  // The value of a key, or nullptr.
  const GgufValue* find(std::string_view key) const;

  // Typed access. Errors: kInvalidArgument naming the key when it is absent or of another type. The integer getters
  // accept any integer type whose value fits; get_f64 accepts integers too.
  Result<uint64_t> get_u64(std::string_view key) const;
  Result<double> get_f64(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  // The same with a default for an absent key; a value of another type is still an error.
  Result<uint64_t> get_u64_or(std::string_view key, uint64_t fallback) const;
  Result<double> get_f64_or(std::string_view key, double fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
  // Arrays, borrowed. Integer arrays of any width and sign whose values fit are widened at open.
  Result<std::span<const std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<int64_t>> get_i64s(std::string_view key) const;
  Result<std::vector<double>> get_f64s(std::string_view key) const;

  std::span<const GgufTensor> tensors() const;
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr when absent

  // Takes `bytes`, a part of a tensor's data that has been read, out of this process's resident memory, as far as they
  // are whole pages. Reading them again is allowed and fetches them again. Thread-safe.
  static void forget(std::span<const std::byte> bytes);

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke
