#include "server/openai/random_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "kernels/check.h"

namespace twostroke::openai {
namespace {

constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr size_t kCharacters = 24;

}  // namespace

std::string new_id(std::string_view prefix) {
  std::string id(prefix);
  while (id.size() < prefix.size() + kCharacters) {
    std::array<unsigned char, 32> bytes;
    // Blocks only before the system has gathered any entropy, at boot; 256 bytes or less come whole.
    const ssize_t count = getrandom(bytes.data(), bytes.size(), 0);
    CHECK(count == static_cast<ssize_t>(bytes.size()) || errno == EINTR, "the system has randomness");
    for (ssize_t i = 0; i < count && id.size() < prefix.size() + kCharacters; ++i) {
      // 252 is the largest multiple of 36 that a byte holds: what lies above would make some characters likelier.
      if (bytes[i] < 252) id += kAlphabet[bytes[i] % kAlphabet.size()];
    }
  }
  return id;
}

}  // namespace twostroke::openai
