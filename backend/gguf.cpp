#include "backend/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/gguf_quote.h"

namespace twostroke {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place, as little-endian");

constexpr uint64_t kKeyBytesMax = 65535;         // from the format
constexpr uint64_t kTensorNameBytesMax = 64;     // from the format
constexpr uint32_t kDefaultAlignment = 32;       // from the format
constexpr uint32_t kAlignmentMax = 4096;         // a mapping starts at a page, so that more could not be kept
constexpr uint64_t kMetadataEntryBytesMin = 14;  // key length, one byte of key, value type, one byte of value
constexpr uint64_t kTensorEntryBytesMin = 33;    // name length, one byte of name, dim count, one dim, type, offset
constexpr std::string_view kAlignmentKey = "general.alignment";

// Types of metadata values, by their number in the format.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// A file mapped for reading; empty until map() succeeds.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, size_);
  }

  Status map(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      const std::string reason = std::strerror(errno);
      if (errno == ENOENT || errno == ENOTDIR) return not_found("no such file");
      return invalid_argument("cannot be opened: " + reason);
    }
    Status status = map_descriptor(fd);
    ::close(fd);
    return status;
  }

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  Status map_descriptor(int fd) {
    struct stat info {};
    if (fstat(fd, &info) != 0) return invalid_argument(std::string("cannot be examined: ") + std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return invalid_argument("not a regular file");
    if (info.st_size <= 0) return invalid_argument("the file is empty");
    const size_t size = static_cast<size_t>(info.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return invalid_argument(std::string("cannot be mapped: ") + std::strerror(errno));
    data_ = data;
    size_ = size;
    return {};
  }

  void* data_ = nullptr;
  size_t size_ = 0;
};

// Reads forward through untrusted bytes. Every read is checked against what remains; a failure says where it was.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  // An error about what was read last.
  Status fail(const std::string& field, const std::string& what) const {
    return invalid_argument(field + " at offset " + std::to_string(last_offset_) + ": " + what);
  }

  template <typename T>
  Status read(T& value, const std::string& field) {
    last_offset_ = offset_;
    if (remaining() < sizeof(T)) return fail(field, "the file ends here (truncated?)");
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return {};
  }

  Status read_string(std::string_view& value, uint64_t bytes_max, const std::string& field) {
    uint64_t size = 0;
    if (Status s = read(size, field + " length"); !s.ok()) return s;
    if (size > bytes_max) {
      return fail(field,
                  "a length of " + std::to_string(size) + " bytes is over the limit of " + std::to_string(bytes_max));
    }
    if (size > remaining()) {
      return fail(field, "a length of " + std::to_string(size) + " bytes, but only " + std::to_string(remaining()) +
                             " bytes of the file remain");
    }
    value = {reinterpret_cast<const char*>(bytes_.data() + offset_), size};
    offset_ += size;
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;       // of what is read next
  uint64_t last_offset_ = 0;  // of what was read last
};

template <typename T>
using Widened =
    std::conditional_t<std::same_as<T, bool>, bool,
                       std::conditional_t<std::floating_point<T>, double,
                                          std::conditional_t<std::unsigned_integral<T>, uint64_t, int64_t>>>;

// Calls `visit` with a value of the C++ type that holds scalars of `type`; false for strings, arrays and unknown types.
template <typename Visit>
bool with_scalar_type(uint32_t type, Visit&& visit) {
  switch (static_cast<ValueType>(type)) {
    case ValueType::kU8:
      return visit(uint8_t{}), true;
    case ValueType::kI8:
      return visit(int8_t{}), true;
    case ValueType::kU16:
      return visit(uint16_t{}), true;
    case ValueType::kI16:
      return visit(int16_t{}), true;
    case ValueType::kU32:
      return visit(uint32_t{}), true;
    case ValueType::kI32:
      return visit(int32_t{}), true;
    case ValueType::kF32:
      return visit(float{}), true;
    case ValueType::kBool:
      return visit(bool{}), true;
    case ValueType::kU64:
      return visit(uint64_t{}), true;
    case ValueType::kI64:
      return visit(int64_t{}), true;
    case ValueType::kF64:
      return visit(double{}), true;
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return false;
}

template <typename T>
Status read_scalar(Reader& reader, Widened<T>& value, const std::string& field) {
  if constexpr (std::same_as<T, bool>) {
    uint8_t raw = 0;
    if (Status s = reader.read(raw, field); !s.ok()) return s;
    if (raw > 1) return reader.fail(field, "a boolean must be 0 or 1, not " + std::to_string(raw));
    value = raw == 1;
  } else {
    T raw{};
    if (Status s = reader.read(raw, field); !s.ok()) return s;
    value = raw;
  }
  return {};
}

Status read_array(Reader& reader, const GgufFile::Limits& limits, GgufValue& value, const std::string& field) {
  uint32_t type = 0;
  uint64_t count = 0;
  if (Status s = reader.read(type, field + " element type"); !s.ok()) return s;
  if (Status s = reader.read(count, field + " element count"); !s.ok()) return s;
  if (type == static_cast<uint32_t>(ValueType::kArray)) return reader.fail(field, "arrays of arrays are not supported");
  if (count > limits.array_elements_max) {
    return reader.fail(
        field, std::to_string(count) + " elements are over the limit of " + std::to_string(limits.array_elements_max));
  }
  const auto check_room = [&](uint64_t element_bytes) {
    if (count <= reader.remaining() / element_bytes) return Status{};
    return reader.fail(field, std::to_string(count) + " elements, but only " + std::to_string(reader.remaining()) +
                                  " bytes of the file remain");
  };

  if (type == static_cast<uint32_t>(ValueType::kString)) {
    if (Status s = check_room(sizeof(uint64_t)); !s.ok()) return s;
    std::vector<std::string_view> strings(count);
    for (auto& string : strings) {
      if (Status s = reader.read_string(string, limits.string_bytes_max, field); !s.ok()) return s;
    }
    value = std::move(strings);
    return {};
  }
  Status status;
  const bool known = with_scalar_type(type, [&]<typename T>(T) {
    if (status = check_room(sizeof(T)); !status.ok()) return;
    std::vector<Widened<T>> elements(count);
    for (uint64_t i = 0; i < count; ++i) {
      Widened<T> element{};
      if (status = read_scalar<T>(reader, element, field); !status.ok()) return;
      elements[i] = element;
    }
    value = std::move(elements);
  });
  if (!known) return reader.fail(field, "unknown element type " + std::to_string(type));
  return status;
}

Status read_value(Reader& reader, const GgufFile::Limits& limits, uint32_t type, GgufValue& value,
                  const std::string& field) {
  if (type == static_cast<uint32_t>(ValueType::kArray)) return read_array(reader, limits, value, field);
  if (type == static_cast<uint32_t>(ValueType::kString)) {
    std::string_view string;
    if (Status s = reader.read_string(string, limits.string_bytes_max, field); !s.ok()) return s;
    value = string;
    return {};
  }
  Status status;
  const bool known = with_scalar_type(type, [&]<typename T>(T) {
    Widened<T> scalar{};
    if (status = read_scalar<T>(reader, scalar, field); status.ok()) value = scalar;
  });
  if (!known) return reader.fail(field, "unknown value type " + std::to_string(type));
  return status;
}

struct Header {
  uint32_t version = 0;
  uint64_t tensor_count = 0;
  uint64_t metadata_count = 0;
};

Status check_magic(Reader& reader) {
  std::array<char, 4> magic{};
  if (Status s = reader.read(magic, "magic"); !s.ok()) return s;
  const std::string_view text(magic.data(), magic.size());
  if (text == "GGUF") return {};
  if (text == "FUGG") return unsupported("magic: a big-endian GGUF file; convert the model as little-endian");
  if (text == "lmgg" || text == "fmgg" || text == "tjgg") {
    return unsupported("magic: a GGML file from before GGUF; convert the model again");
  }
  return invalid_argument("magic: not a GGUF file (it must begin with the letters GGUF)");
}

Status read_header(Reader& reader, const GgufFile::Limits& limits, Header& header) {
  if (Status s = check_magic(reader); !s.ok()) return s;
  if (Status s = reader.read(header.version, "version"); !s.ok()) return s;
  if (header.version != 2 && header.version != 3) {
    const uint32_t swapped = __builtin_bswap32(header.version);
    if (swapped >= 1 && swapped <= 0xffff) {
      return unsupported("version: a big-endian GGUF file; convert the model as little-endian");
    }
    return unsupported("version: GGUF version " + std::to_string(header.version) +
                       " is not supported, only 2 and 3 are");
  }
  if (Status s = reader.read(header.tensor_count, "tensor count"); !s.ok()) return s;
  if (Status s = reader.read(header.metadata_count, "metadata count"); !s.ok()) return s;
  const auto check_count = [&](const char* field, uint64_t count, uint64_t count_max, uint64_t entry_bytes_min) {
    if (count > count_max) {
      return invalid_argument(std::string(field) + ": " + std::to_string(count) + " is over the limit of " +
                              std::to_string(count_max));
    }
    if (count > reader.remaining() / entry_bytes_min) {
      return invalid_argument(std::string(field) + ": " + std::to_string(count) +
                              " entries cannot fit in a file of this size (truncated?)");
    }
    return Status{};
  };
  if (Status s = check_count("tensor count", header.tensor_count, limits.tensor_count_max, kTensorEntryBytesMin);
      !s.ok()) {
    return s;
  }
  return check_count("metadata count", header.metadata_count, limits.metadata_count_max, kMetadataEntryBytesMin);
}

// The value of `general.alignment`, whose type in the file is `type`.
Result<uint32_t> checked_alignment(uint32_t type, const GgufValue& value) {
  const auto* number = std::get_if<uint64_t>(&value);
  if (type != static_cast<uint32_t>(ValueType::kU32) || number == nullptr) {
    return invalid_argument("general.alignment: must be a 32-bit unsigned integer");
  }
  if (*number < 8 || !std::has_single_bit(*number)) {
    return invalid_argument("general.alignment: " + std::to_string(*number) +
                            " is not a power of two and a multiple of 8");
  }
  if (*number > kAlignmentMax) {
    return unsupported("general.alignment: " + std::to_string(*number) + " is over the limit of " +
                       std::to_string(kAlignmentMax));
  }
  return static_cast<uint32_t>(*number);
}

// A tensor's entry in the table; its data is located when the whole table has been read.
struct TensorEntry {
  GgufTensor tensor;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // from the start of the data
};

Status read_tensor_entry(Reader& reader, uint64_t index, TensorEntry& entry) {
  GgufTensor& tensor = entry.tensor;
  if (Status s = reader.read_string(tensor.name, kTensorNameBytesMax, "name of tensor " + std::to_string(index));
      !s.ok()) {
    return s;
  }
  if (tensor.name.empty()) return reader.fail("name of tensor " + std::to_string(index), "is empty");
  const std::string field = "tensor " + quote(tensor.name);

  if (Status s = reader.read(tensor.dim_count, field + " dimension count"); !s.ok()) return s;
  if (tensor.dim_count < 1 || tensor.dim_count > tensor.dims.size()) {
    return reader.fail(field + " dimension count", std::to_string(tensor.dim_count) + " is not between 1 and 4");
  }
  tensor.dims.fill(1);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < tensor.dim_count; ++i) {
    const std::string dim_field = field + " dimension " + std::to_string(i);
    if (Status s = reader.read(tensor.dims[i], dim_field); !s.ok()) return s;
    if (tensor.dims[i] == 0) return reader.fail(dim_field, "is zero");
    if (__builtin_mul_overflow(elements, tensor.dims[i], &elements)) {
      return reader.fail(dim_field, "the number of elements overflows");
    }
  }

  uint32_t type = 0;
  if (Status s = reader.read(type, field + " type"); !s.ok()) return s;
  const GgufTypeTraits* traits = gguf_type_traits(type);
  if (traits == nullptr) return unsupported(field + ": type " + gguf_type_name(type) + " is not supported");
  tensor.type = static_cast<GgufType>(type);
  if (tensor.dims[0] % traits->block_size != 0) {
    return reader.fail(field + " dimension 0", std::to_string(tensor.dims[0]) + " is not a multiple of " +
                                                   std::to_string(traits->block_size) + ", as " + traits->name +
                                                   " needs");
  }
  if (__builtin_mul_overflow(elements / traits->block_size, uint64_t{traits->block_bytes}, &entry.bytes)) {
    return reader.fail(field, "the number of bytes overflows");
  }
  return reader.read(entry.offset, field + " offset");
}

// Gives each tensor its bytes. `data_begin` is the aligned start of the data; it may lie behind the end of a file that
// holds no tensors.
Status locate_tensors(std::span<const std::byte> file, uint64_t data_begin, uint32_t alignment,
                      std::vector<TensorEntry>& entries) {
  for (auto& entry : entries) {
    const std::string field = "tensor " + quote(entry.tensor.name);
    if (entry.offset % alignment != 0) {
      return invalid_argument(field + ": offset " + std::to_string(entry.offset) +
                              " is not a multiple of the alignment, " + std::to_string(alignment));
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    if (__builtin_add_overflow(data_begin, entry.offset, &begin) || __builtin_add_overflow(begin, entry.bytes, &end) ||
        end > file.size()) {
      return invalid_argument(field + ": " + std::to_string(entry.bytes) + " bytes at offset " +
                              std::to_string(entry.offset) + " of the data reach behind the end of the file (" +
                              std::to_string(file.size()) + " bytes; truncated?)");
    }
    entry.tensor.data = file.subspan(begin, entry.bytes);
  }

  std::vector<const TensorEntry*> by_offset;
  by_offset.reserve(entries.size());
  for (const auto& entry : entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorEntry& before = *by_offset[i - 1];
    if (by_offset[i]->offset < before.offset + before.bytes) {  // cannot overflow: both end within the file
      return invalid_argument("tensor " + quote(by_offset[i]->tensor.name) + ": its data overlaps that of " +
                              quote(before.tensor.name));
    }
  }
  return {};
}

Status missing(std::string_view key) {
  return invalid_argument("metadata key " + quote(key) + " is missing from the model file");
}

Status wrong_type(std::string_view key, const char* expected) {
  return invalid_argument("metadata key " + quote(key) + " must be " + expected);
}

// The value of `key`, or `fallback` when there is no such key; `get` is the getter without a default.
template <typename T, typename Get>
Result<T> value_or(const GgufFile& file, std::string_view key, T fallback, Get get) {
  return file.find(key) == nullptr ? Result<T>(fallback) : get();
}

}  // namespace

struct GgufFile::Impl {
  Mapping mapping;
  Header header;
  uint32_t alignment = kDefaultAlignment;
  std::unordered_map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;
  std::unordered_map<std::string_view, size_t> tensor_by_name;

  Status parse(const Limits& limits);
  Status read_metadata(Reader& reader, const Limits& limits);
  Status read_tensors(Reader& reader);
};

Status GgufFile::Impl::parse(const Limits& limits) {
  Reader reader(mapping.bytes());
  if (Status s = read_header(reader, limits, header); !s.ok()) return s;
  if (Status s = read_metadata(reader, limits); !s.ok()) return s;
  return read_tensors(reader);
}

Status GgufFile::Impl::read_metadata(Reader& reader, const Limits& limits) {
  metadata.reserve(header.metadata_count);
  for (uint64_t i = 0; i < header.metadata_count; ++i) {
    const std::string key_field = "metadata key " + std::to_string(i);
    std::string_view key;
    if (Status s = reader.read_string(key, kKeyBytesMax, key_field); !s.ok()) return s;
    if (key.empty()) return reader.fail(key_field, "is empty");
    const std::string field = "metadata key " + quote(key);
    uint32_t type = 0;
    GgufValue value;
    if (Status s = reader.read(type, field + " value type"); !s.ok()) return s;
    if (Status s = read_value(reader, limits, type, value, field); !s.ok()) return s;
    if (key == kAlignmentKey) {
      Result<uint32_t> checked = checked_alignment(type, value);
      if (!checked.ok()) return checked.status();
      alignment = *checked;
    }
    if (!metadata.emplace(key, std::move(value)).second) return invalid_argument(field + " appears twice");
  }
  return {};
}

Status GgufFile::Impl::read_tensors(Reader& reader) {
  std::vector<TensorEntry> entries(header.tensor_count);
  tensor_by_name.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (Status s = read_tensor_entry(reader, i, entries[i]); !s.ok()) return s;
    if (!tensor_by_name.emplace(entries[i].tensor.name, i).second) {
      return invalid_argument("tensor " + quote(entries[i].tensor.name) + " appears twice");
    }
  }
  // Cannot overflow: the offset is within a file that fits in memory.
  const uint64_t data_begin = (reader.offset() + alignment - 1) / alignment * alignment;
  if (Status s = locate_tensors(mapping.bytes(), data_begin, alignment, entries); !s.ok()) return s;
  tensors.reserve(entries.size());
  for (const auto& entry : entries) tensors.push_back(entry.tensor);
  return {};
}

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path, const Limits& limits) {
  auto impl = std::make_unique<Impl>();
  Status status = impl->mapping.map(path);
  if (status.ok()) status = impl->parse(limits);
  if (!status.ok()) return Status(status.code(), path + ": " + status.message());
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(impl)));
}

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

uint32_t GgufFile::version() const { return impl_->header.version; }
uint64_t GgufFile::file_bytes() const { return impl_->mapping.bytes().size(); }

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto it = impl_->metadata.find(key);
  return it == impl_->metadata.end() ? nullptr : &it->second;
}

Result<uint64_t> GgufFile::get_u64(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  return wrong_type(key, "a non-negative integer");
}

Result<double> GgufFile::get_f64(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return wrong_type(key, "a number");
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  return wrong_type(key, "a boolean");
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* string = std::get_if<std::string_view>(value)) return *string;
  return wrong_type(key, "a string");
}

Result<uint64_t> GgufFile::get_u64_or(std::string_view key, uint64_t fallback) const {
  return value_or(*this, key, fallback, [&] { return get_u64(key); });
}
Result<double> GgufFile::get_f64_or(std::string_view key, double fallback) const {
  return value_or(*this, key, fallback, [&] { return get_f64(key); });
}
Result<bool> GgufFile::get_bool_or(std::string_view key, bool fallback) const {
  return value_or(*this, key, fallback, [&] { return get_bool(key); });
}
Result<std::string_view> GgufFile::get_string_or(std::string_view key, std::string_view fallback) const {
  return value_or(*this, key, fallback, [&] { return get_string(key); });
}

Result<std::span<const std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* strings = std::get_if<std::vector<std::string_view>>(value)) {
    return std::span<const std::string_view>(*strings);
  }
  return wrong_type(key, "an array of strings");
}

Result<std::vector<int64_t>> GgufFile::get_i64s(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) return *numbers;
  if (const auto* numbers = std::get_if<std::vector<uint64_t>>(value)) {
    const auto fits = [](uint64_t n) { return n <= uint64_t{std::numeric_limits<int64_t>::max()}; };
    if (std::all_of(numbers->begin(), numbers->end(), fits)) {
      return std::vector<int64_t>(numbers->begin(), numbers->end());
    }
  }
  return wrong_type(key, "an array of 64-bit signed integers");
}

Result<std::vector<double>> GgufFile::get_f64s(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* numbers = std::get_if<std::vector<double>>(value)) return *numbers;
  const auto widen = [](const auto& integers) {
    std::vector<double> out(integers.size());
    std::transform(integers.begin(), integers.end(), out.begin(), [](auto n) { return static_cast<double>(n); });
    return out;
  };
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) return widen(*numbers);
  if (const auto* numbers = std::get_if<std::vector<uint64_t>>(value)) return widen(*numbers);
  return wrong_type(key, "an array of numbers");
}

void GgufFile::forget(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes.size()) / page * page;
  // Of a file's unchanged pages only the mapping goes: advice, whose refusal costs memory only.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::span<const GgufTensor> GgufFile::tensors() const { return impl_->tensors; }

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = impl_->tensor_by_name.find(name);
  return it == impl_->tensor_by_name.end() ? nullptr : &impl_->tensors[it->second];
}

}  // namespace twostroke
