// GgufWriter: builds the bytes of a GGUF file for tests, valid ones and, through set_raw() and by editing the bytes,
// damaged ones.
//
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Thread-safety: one user at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gguf.h"

namespace twostroke {

// Numbers of metadata value types in the format.
template <typename T>
constexpr uint32_t gguf_value_type() {
  if constexpr (std::same_as<T, uint8_t>) return 0;
  if constexpr (std::same_as<T, int8_t>) return 1;
  if constexpr (std::same_as<T, uint16_t>) return 2;
  if constexpr (std::same_as<T, int16_t>) return 3;
  if constexpr (std::same_as<T, uint32_t>) return 4;
  if constexpr (std::same_as<T, int32_t>) return 5;
  if constexpr (std::same_as<T, float>) return 6;
  if constexpr (std::same_as<T, bool>) return 7;
  if constexpr (std::same_as<T, uint64_t>) return 10;
  if constexpr (std::same_as<T, int64_t>) return 11;
  if constexpr (std::same_as<T, double>) return 12;
}
inline constexpr uint32_t kGgufString = 8;
inline constexpr uint32_t kGgufArray = 9;

template <typename T>
concept GgufScalar = std::is_arithmetic_v<T>;

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3) : version_(version) {}

  // Sets a metadata value: replaces that of an earlier call with the same key, or appends one.
  template <GgufScalar T>
  void set(const std::string& key, T value) {
    set_raw(key, gguf_value_type<T>(), raw(value));
  }
  void set(const std::string& key, std::string_view value) { set_raw(key, kGgufString, raw_string(value)); }
  template <GgufScalar T>
  void set_array(const std::string& key, const std::vector<T>& values) {
    std::string payload = raw(gguf_value_type<T>()) + raw(uint64_t{values.size()});
    for (const T value : values) payload += raw(value);
    set_raw(key, kGgufArray, std::move(payload));
  }
  void set_array(const std::string& key, const std::vector<std::string>& values);
  // A value of any type number and content.
  void set_raw(const std::string& key, uint32_t type, std::string payload);
  void remove(const std::string& key);

  // Appends a tensor, or replaces the one of that name in its place. `dims` as in the file: contiguous one first.
  void set_tensor(const std::string& name, GgufType type, std::vector<uint64_t> dims, std::string data);
  void set_tensor(const std::string& name, std::vector<uint64_t> dims, std::span<const float> values);  // F32
  void remove_tensor(const std::string& name);

  // The whole file. Tensor data is aligned to general.alignment where that is set as a u32, otherwise to 32.
  std::string bytes() const;

  // Little-endian bytes of a value; a string with its length in front.
  template <GgufScalar T>
  static std::string raw(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static std::string raw_string(std::string_view value) { return raw(uint64_t{value.size()}).append(value); }

 private:
  struct Value {
    std::string key;
    uint32_t type;
    std::string payload;
  };
  struct Tensor {
    std::string name;
    GgufType type;
    std::vector<uint64_t> dims;
    std::string data;
  };
  uint32_t alignment() const;

  uint32_t version_;
  std::vector<Value> values_;
  std::vector<Tensor> tensors_;
};

// GgufFile::open() on a file in memory with this content, which lives as long as the result.
Result<std::unique_ptr<GgufFile>> open_gguf_bytes(std::string_view bytes, const GgufFile::Limits& limits = {});

}  // namespace twostroke
