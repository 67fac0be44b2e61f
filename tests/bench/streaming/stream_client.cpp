#include "stream_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/bench/streaming/fail.h"

namespace twostroke {
namespace {

constexpr size_t kReadBytes = 256 * 1024;
constexpr size_t kTailBytes = 1024;  // holds the usage event, [DONE] and the last chunk
constexpr std::string_view kEnd = "data: [DONE]\n\n\r\n0\r\n\r\n";
constexpr std::string_view kTokens = "\"completion_tokens\":";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int connect_to(uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail("cannot connect to 127.0.0.1:" + std::to_string(port));
  }
  return descriptor;
}

uint64_t count_of(std::string_view word, std::string_view text) {
  uint64_t count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

}  // namespace

StreamClient::StreamClient(uint16_t port, std::string path, std::string body, size_t connections)
    : request_("POST " + path + " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      connections_(connections),
      buffer_(kReadBytes) {
  for (Connection& connection : connections_) {
    connection.socket = connect_to(port);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.socket, &event);
  }
}

StreamClient::~StreamClient() {
  for (const Connection& connection : connections_) close(connection.socket);
  close(epoll_);
}

void StreamClient::send_request(Connection& connection) {
  --connection.answers_left;
  connection.tail.clear();
  const auto sent = send(connection.socket, request_.data(), request_.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request_.size())) fail("the server does not take requests");
}

bool StreamClient::take(Connection& connection, std::string_view bytes, StreamCounts& counts) {
  counts.bytes += bytes.size();
  // A frame's beginning that two reads share is seen in the joined end of the first and beginning of the second.
  constexpr std::string_view kFrame = "data: {";
  counts.frames += count_of(kFrame, bytes);
  const std::string seam =
      connection.tail.substr(connection.tail.size() - std::min(connection.tail.size(), kFrame.size() - 1)) +
      std::string(bytes.substr(0, kFrame.size() - 1));
  counts.frames += count_of(kFrame, seam);

  if (bytes.size() >= kTailBytes) connection.tail.clear();
  connection.tail += bytes.substr(bytes.size() - std::min(bytes.size(), kTailBytes));
  if (connection.tail.size() > 2 * kTailBytes) connection.tail.erase(0, connection.tail.size() - kTailBytes);
  if (!connection.tail.ends_with(kEnd)) return false;
  const size_t tokens = connection.tail.rfind(kTokens);
  if (tokens == std::string::npos) fail("an answer has no usage:\n" + connection.tail);
  counts.tokens += std::strtoull(connection.tail.c_str() + tokens + kTokens.size(), nullptr, 10);
  ++counts.answers;
  return true;
}

StreamCounts StreamClient::run(uint64_t answers) {
  StreamCounts counts;
  const double begin = seconds_now();
  for (Connection& connection : connections_) {
    connection.answers_left = answers;
    send_request(connection);
  }
  std::array<epoll_event, 256> events{};
  for (size_t open = connections_.size(); open > 0;) {
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 60'000);
    if (ready <= 0) fail("nothing came for a minute");
    for (int i = 0; i < ready; ++i) {
      auto& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      const ssize_t count = read(connection.socket, buffer_.data(), buffer_.size());
      if (count <= 0) fail("the server closed a stream that was not complete");
      if (!take(connection, {buffer_.data(), static_cast<size_t>(count)}, counts)) continue;
      if (connection.answers_left > 0)
        send_request(connection);
      else
        --open;
    }
  }
  counts.seconds = seconds_now() - begin;
  return counts;
}

}  // namespace twostroke
