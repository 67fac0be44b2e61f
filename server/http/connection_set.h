// ConnectionSet: the open connections of a server, their count and its limit. Thread-safe.
//
// It refers to connections without owning them: a connection leaves when it ends.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace twostroke::http {

class Connection;

enum class Admission {
  kServed,
  kRefused,     // gets an answer that says so, and is closed
  kTurnedAway,  // closed without an answer: the server is draining, or refuses as many as it may already
};

class ConnectionSet {
 public:
  // So many connections beyond the limit may be told so at the same time.
  static constexpr size_t kRefusedMax = 64;

  explicit ConnectionSet(size_t connections_max) : connections_max_(connections_max) {}

  // Adds the connection unless it is turned away.
  Admission add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);

  // From now on newcomers are turned away; those that are there are drained or stopped.
  void drain();
  void stop();
  bool draining() const;  // since drain() or stop()

  size_t served() const;

 private:
  struct Member {
    std::weak_ptr<Connection> connection;
    Admission admission;
  };

  void close_for_newcomers(void (Connection::*tell)());

  const size_t connections_max_;
  mutable std::mutex mutex_;
  std::unordered_map<const Connection*, Member> members_;
  size_t served_ = 0;
  size_t refused_ = 0;
  bool draining_ = false;
};

}  // namespace twostroke::http
