// StreamClient: many streams at once on one thread (epoll), read as cheaply as a client can that still looks at what it
// gets: frames are counted, and the tokens are those of each answer's own usage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twostroke {

struct StreamCounts {
  uint64_t answers = 0;
  uint64_t tokens = 0;  // completion_tokens of all answers
  uint64_t frames = 0;  // server-sent events, keep-alive comments not counted
  uint64_t bytes = 0;
  double seconds = 0;  // from the first request to the end of the last answer
};

class StreamClient {
 public:
  StreamClient(uint16_t port, std::string path, std::string body, size_t connections);
  ~StreamClient();
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  // Every connection asks for `answers` of them, one after another. Ends the program with a message at anything that is
  // not a complete stream with its usage.
  StreamCounts run(uint64_t answers);

 private:
  struct Connection {
    int socket = -1;
    uint64_t answers_left = 0;
    std::string tail;  // the last bytes: usage and the end are found in there
  };
  void send_request(Connection& connection);
  // True when the connection's answer is complete.
  bool take(Connection& connection, std::string_view bytes, StreamCounts& counts);

  const std::string request_;
  int epoll_ = -1;
  std::vector<Connection> connections_;
  std::vector<char> buffer_;
};

}  // namespace twostroke
