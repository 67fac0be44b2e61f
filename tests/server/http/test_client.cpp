#include "tests/server/http/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace twostroke::http {

std::string Answer::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (strcasecmp(key.c_str(), std::string(name).c_str()) == 0) return value;
  }
  return {};
}

TestClient TestClient::unconnected() {
  TestClient client;
  client.fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval timeout{30, 0};
  ::setsockopt(client.fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(client.fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  return client;
}

std::string get(const std::string& path, const std::string& headers) {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}

TestClient::TestClient(uint16_t port, int receive_buffer_bytes) : TestClient(unconnected()) {
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  }
  if (!connect(port)) throw std::runtime_error("the test server does not accept");
}

TestClient::~TestClient() { close(); }

bool TestClient::connect(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool TestClient::read_more() {
  char buffer[16 * 1024];
  while (true) {
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == ECONNRESET) was_reset_ = true;
    if (count <= 0) return false;
    unread_.append(buffer, static_cast<size_t>(count));
    return true;
  }
}

bool TestClient::read_line(std::string& line) {
  size_t end = 0;
  while ((end = unread_.find("\r\n")) == std::string::npos) {
    if (!read_more()) return false;
  }
  line = unread_.substr(0, end);
  unread_.erase(0, end + 2);
  return true;
}

bool TestClient::read_bytes(size_t count, std::string& out) {
  while (unread_.size() < count) {
    if (!read_more()) break;
  }
  const bool complete = unread_.size() >= count;
  out += unread_.substr(0, count);
  unread_.erase(0, count);
  return complete;
}

void TestClient::read_chunks(Answer& answer) {
  std::string line;
  while (read_line(line)) {
    const size_t size = std::stoul(line, nullptr, 16);
    std::string chunk;
    if (!read_bytes(size, chunk) || !read_line(line)) return;
    if (size == 0) {
      answer.complete = true;
      return;
    }
    answer.body += chunk;
    answer.chunks.push_back(chunk);
  }
}

Answer TestClient::read_answer(bool to_head) {
  Answer answer;
  std::string line;
  if (!read_line(line) || !line.starts_with("HTTP/1.1 ")) return answer;
  const int status = std::stoi(line.substr(9));
  while (read_line(line)) {
    if (line.empty()) {
      answer.status = status;
      break;
    }
    const size_t colon = line.find(": ");
    answer.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  if (answer.status == 0) return answer;
  if (to_head || answer.status < 200 || answer.status == 204) {  // no body
    answer.complete = true;
  } else if (answer.header("Transfer-Encoding") == "chunked") {
    read_chunks(answer);
  } else if (!answer.header("Content-Length").empty()) {
    answer.complete = read_bytes(std::stoul(answer.header("Content-Length")), answer.body);
  } else {
    answer.body = read_to_close();
    answer.complete = !was_reset_;
  }
  return answer;
}

std::string TestClient::read_until(std::string_view end) {
  size_t found = 0;
  while ((found = unread_.find(end)) == std::string::npos) {
    if (!read_more()) return std::exchange(unread_, {});
  }
  const std::string bytes = unread_.substr(0, found + end.size());
  unread_.erase(0, found + end.size());
  return bytes;
}

std::string TestClient::read_to_close() {
  while (read_more()) {
  }
  return std::exchange(unread_, {});
}

void TestClient::half_close() { ::shutdown(fd_, SHUT_WR); }

void TestClient::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void TestClient::reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

}  // namespace twostroke::http
