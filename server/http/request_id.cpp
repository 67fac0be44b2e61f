#include "server/http/request_id.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>

namespace twostroke::http {

bool usable_request_id(std::string_view id) {
  return !id.empty() && id.size() <= kRequestIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

RequestIds::RequestIds()
    : origin_([] {
        std::random_device device;
        return (uint64_t{device()} << 32) | device();
      }()) {}

std::string RequestIds::next() {
  std::array<char, 32> text;
  const int length =
      std::snprintf(text.data(), text.size(), "req_%016llx%08x", static_cast<unsigned long long>(origin_),
                    static_cast<unsigned>(count_.fetch_add(1, std::memory_order_relaxed)));
  return std::string(text.data(), static_cast<size_t>(length));
}

}  // namespace twostroke::http
