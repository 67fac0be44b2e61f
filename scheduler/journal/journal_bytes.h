// ByteWriter and ByteReader: how the journal's records are laid out in bytes. Inside only: see journal.h.
//
// Integers are varints of 7 bits a byte, the low ones first; signed ones are folded first (0, -1, 1, -2, ...), so that
// small numbers are short. Floats, doubles and checksums are little-endian as they are. A list is its length, then its
// items. Both sides list a struct's fields through one function (journal_records.h), so that they cannot differ.
//
// A reader never reads beyond its bytes: the first thing that is not there, or cannot be, makes failed() true for good,
// and everything after it reads as zero. A list never claims more items than there are bytes left.
// Thread-safety: plain values.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace twostroke {

static_assert(std::endian::native == std::endian::little, "the journal's fixed-size numbers are little-endian");

class ByteWriter {
 public:
  // Appends to `out`, which must outlive it.
  explicit ByteWriter(std::string& out) : out_(&out) {}

  template <typename... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

  void put(bool value) { out_->push_back(value ? 1 : 0); }
  template <std::unsigned_integral T>
  void put(T value) {
    uint64_t rest = value;
    for (; rest >= 0x80; rest >>= 7) out_->push_back(static_cast<char>(rest | 0x80));
    out_->push_back(static_cast<char>(rest));
  }
  template <std::signed_integral T>
  void put(T value) {
    const auto wide = static_cast<int64_t>(value);
    put((static_cast<uint64_t>(wide) << 1) ^ static_cast<uint64_t>(wide >> 63));
  }
  template <typename T>
  requires std::is_enum_v<T>
  void put(T value) { put(static_cast<uint64_t>(value)); }
  template <std::floating_point T>
  void put(T value) {
    put_raw(value);
  }
  void put(const std::string& value) {
    put(value.size());
    out_->append(value);
  }
  template <typename T, size_t N>
  void put(const std::array<T, N>& values) {
    for (const T& value : values) put(value);
  }
  template <typename A, typename B>
  void put(const std::pair<A, B>& value) {
    put(value.first), put(value.second);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }
  // As it is in memory.
  template <typename T>
  void put_raw(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_->append(bytes, sizeof(T));
  }

 private:
  std::string* out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  bool failed() const { return failed_; }
  bool at_end() const { return left_.empty(); }
  void fail() { failed_ = true, left_ = {}; }

  template <typename... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

  void get(bool& value) {
    uint64_t number = 0;
    get(number);
    if (number > 1) fail();
    value = number == 1;
  }
  template <std::unsigned_integral T>
  void get(T& value) {
    value = 0;
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) return fail();
      const auto byte = static_cast<uint8_t>(left_.front());
      left_.remove_prefix(1);
      if (shift == 63 && byte > 1) return fail();
      number |= uint64_t{byte & 0x7fU} << shift;
      if (byte >= 0x80) continue;
      value = static_cast<T>(number);
      if (value != number) fail();
      return;
    }
    fail();
  }
  template <std::signed_integral T>
  void get(T& value) {
    uint64_t folded = 0;
    get(folded);
    const auto wide = static_cast<int64_t>((folded >> 1) ^ (0 - (folded & 1)));
    value = static_cast<T>(wide);
    if (value != wide) value = 0, fail();
  }
  // Enumerators count up from 0 to T's last one, which last_of() names.
  template <typename T>
  requires std::is_enum_v<T>
  void get(T& value) {
    uint64_t number = 0;
    get(number);
    if (number > static_cast<uint64_t>(last_of(T{}))) number = 0, fail();
    value = static_cast<T>(number);
  }
  template <std::floating_point T>
  void get(T& value) {
    get_raw(value);
  }
  void get(std::string& value) {
    const size_t size = get_length();
    value.assign(left_.substr(0, size));
    left_.remove_prefix(size);
  }
  template <typename T, size_t N>
  void get(std::array<T, N>& values) {
    for (T& value : values) get(value);
  }
  template <typename A, typename B>
  void get(std::pair<A, B>& value) {
    get(value.first), get(value.second);
  }
  template <typename T>
  void get(std::vector<T>& values) {
    values.resize(get_length());
    for (T& value : values) get(value);
    if (failed_) values.clear();
  }
  template <typename T>
  void get_raw(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    value = T{};
    if (left_.size() < sizeof(T)) return fail();
    std::memcpy(&value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
  }
  // Of a list whose items take a byte each at least.
  size_t get_length() {
    uint64_t size = 0;
    get(size);
    if (size > left_.size()) size = 0, fail();
    return size;
  }

 private:
  std::string_view left_;
  bool failed_ = false;
};

}  // namespace twostroke
