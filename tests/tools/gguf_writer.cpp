#include "tests/tools/gguf_writer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace twostroke {
namespace {

void pad_to(std::string& bytes, size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
}

}  // namespace

void GgufWriter::set_array(const std::string& key, const std::vector<std::string>& values) {
  std::string payload = raw(kGgufString) + raw(uint64_t{values.size()});
  for (const auto& value : values) payload += raw_string(value);
  set_raw(key, kGgufArray, std::move(payload));
}

void GgufWriter::set_raw(const std::string& key, uint32_t type, std::string payload) {
  Value value{key, type, std::move(payload)};
  const auto it = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.key == key; });
  if (it == values_.end()) {
    values_.push_back(std::move(value));
  } else {
    *it = std::move(value);
  }
}

void GgufWriter::remove(const std::string& key) {
  std::erase_if(values_, [&](const Value& v) { return v.key == key; });
}

void GgufWriter::set_tensor(const std::string& name, GgufType type, std::vector<uint64_t> dims, std::string data) {
  Tensor tensor{name, type, std::move(dims), std::move(data)};
  const auto it = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
  if (it == tensors_.end()) {
    tensors_.push_back(std::move(tensor));
  } else {
    *it = std::move(tensor);
  }
}

void GgufWriter::set_tensor(const std::string& name, std::vector<uint64_t> dims, std::span<const float> values) {
  set_tensor(name, GgufType::kF32, std::move(dims),
             std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

void GgufWriter::remove_tensor(const std::string& name) {
  std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
}

uint32_t GgufWriter::alignment() const {
  uint32_t alignment = 32;
  for (const auto& value : values_) {
    if (value.key == "general.alignment" && value.type == gguf_value_type<uint32_t>()) {
      std::memcpy(&alignment, value.payload.data(), sizeof(alignment));
    }
  }
  return std::max(alignment, uint32_t{1});
}

std::string GgufWriter::bytes() const {
  std::string out = "GGUF" + raw(version_) + raw(uint64_t{tensors_.size()}) + raw(uint64_t{values_.size()});
  for (const auto& value : values_) out += raw_string(value.key) + raw(value.type) + value.payload;
  std::string data;
  for (const auto& tensor : tensors_) {
    pad_to(data, alignment());
    out += raw_string(tensor.name) + raw(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) out += raw(dim);
    out += raw(static_cast<uint32_t>(tensor.type)) + raw(uint64_t{data.size()});
    data += tensor.data;
  }
  if (!tensors_.empty()) pad_to(out, alignment());
  return out + data;
}

Result<std::unique_ptr<GgufFile>> open_gguf_bytes(std::string_view bytes, const GgufFile::Limits& limits) {
  const int fd = memfd_create("gguf", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  auto file = GgufFile::open("/proc/self/fd/" + std::to_string(fd), limits);
  close(fd);
  return file;
}

}  // namespace twostroke
