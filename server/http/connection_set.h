// ConnectionSet: the open connections of a server, their count and its limit. Thread-safe.
//
// It refers to connections without owning them: a connection leaves when it ends. When there are as many as may be, one
// that has been idle for longer than the grace makes room for a newcomer, the longest idle first: clients that hold
// connections and ask for nothing keep nobody out.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
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

  ConnectionSet(size_t connections_max, std::chrono::milliseconds idle_grace)
      : connections_max_(connections_max), idle_grace_(idle_grace) {}

  // Adds the connection unless it is turned away.
  Admission add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  // From now on it waits for a request, or does not any more.
  void set_idle(const Connection* connection, bool idle);

  // From now on newcomers are turned away; those that are there are drained or stopped.
  void drain();
  void stop();
  bool draining() const;  // since drain() or stop()

  size_t served() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Idle {
    const Connection* connection;
    Clock::time_point since;
  };
  struct Member {
    std::weak_ptr<Connection> connection;
    Admission admission;
    bool leaving = false;  // it has made room, and is not counted any more
    std::optional<std::list<Idle>::iterator> idle = {};
  };

  void close_for_newcomers(void (Connection::*tell)());
  std::shared_ptr<Connection> make_room();
  void end_idle(Member& member);

  const size_t connections_max_;
  const std::chrono::milliseconds idle_grace_;
  mutable std::mutex mutex_;
  std::unordered_map<const Connection*, Member> members_;
  std::list<Idle> idle_;  // the longest idle first
  size_t served_ = 0;
  size_t refused_ = 0;
  bool draining_ = false;
};

}  // namespace twostroke::http
