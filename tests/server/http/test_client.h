// A client on a blocking socket that sends exactly the bytes it is told to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twostroke::http {

struct Answer {
  int status = 0;  // 0: the connection ended before a whole answer
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool complete = false;              // its framing says that nothing is missing
  std::vector<std::string> chunks{};  // of a chunked answer

  std::string header(std::string_view name) const;  // "" where there is none
};

// The bytes of a GET; each of `headers` ends with CR LF.
std::string get(const std::string& path, const std::string& headers = "");

// Waits of this class end after 30 s, as if the server had closed: a test then fails instead of hanging.
class TestClient {
 public:
  // `receive_buffer_bytes` makes a small window, for a client that soon stops taking data; 0 leaves it as it is.
  explicit TestClient(uint16_t port, int receive_buffer_bytes = 0);
  // A socket that is not connected yet.
  static TestClient unconnected();
  ~TestClient();
  TestClient(TestClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), unread_(std::move(other.unread_)) {}
  TestClient& operator=(TestClient&&) = delete;

  bool connect(uint16_t port);
  bool send(std::string_view bytes);  // false when the server has closed
  Answer read_answer(bool to_head = false);
  std::string read_until(std::string_view end);  // everything up to and with `end`, or all there was
  std::string read_to_close();
  bool was_reset() const { return was_reset_; }
  void half_close();
  void close();
  void reset();

 private:
  TestClient() = default;
  bool read_more();  // false at the end
  bool read_line(std::string& line);
  bool read_bytes(size_t count, std::string& out);
  void read_chunks(Answer& answer);

  int fd_ = -1;
  bool was_reset_ = false;
  std::string unread_;
};

}  // namespace twostroke::http
