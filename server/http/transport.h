// Transport: one client's socket, with what HTTP needs of it: reading ahead within a bound, noticing that the client
// has gone, writing with a deadline, and closing without losing the last answer.
//
// A read loop runs from start() until the end, also while an answer is being made, so a client that closes (or half-
// closes: both look alike) or resets is noticed at once. While the read-ahead is full nothing is read; then the socket
// is asked every kFullProbeInterval whether the client hung up, and a failing write notices it too.
//
// Writes try the socket first and wait only when it is full: the usual small chunk is one system call and no wait.
//
// Strand only: everything is called on executor(), except the constructor. Owned by shared_ptr, which the read loop and
// pending waits hold too; close() ends them.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "server/http/read_ahead.h"

namespace twostroke::http {

class Transport : public std::enable_shared_from_this<Transport> {
 public:
  using Clock = std::chrono::steady_clock;
  using Parts = std::array<std::string_view, 3>;

  static constexpr size_t kReadBytesMax = 64 * 1024;  // of one read
  static constexpr std::chrono::milliseconds kFullProbeInterval{100};

  // `socket` is connected, and its executor is a strand.
  Transport(boost::asio::ip::tcp::socket socket, std::chrono::milliseconds write_timeout);

  void start();
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }

  // How many unread bytes may pile up before reading pauses.
  void set_unread_bytes_max(size_t count);
  std::string_view unread() const { return read_ahead_.bytes(); }
  void consume(size_t count);
  void release_memory();  // when nothing is unread

  // Returns when the unread bytes have become more, the client has gone, wake() was called, or at the deadline; also
  // for no reason: the caller looks at the state again.
  boost::asio::awaitable<void> wait(Clock::time_point deadline);
  void wake() { wake_.cancel(); }

  // Sends the parts one after another, as one write where the socket takes it. False: the client is gone, or did not
  // read for the write timeout (and was reset). The parts must stay until it returns; one send at a time.
  boost::asio::awaitable<bool> send(Parts parts);
  // Of it, what needs no wait: takes off the parts what the socket takes at once.
  enum class Sent { kAll, kPart, kFailed };
  Sent send_now(Parts& parts);

  // The client closed, half-closed or reset the connection, or this side gave it up. Never reverts.
  bool peer_gone() const { return peer_gone_; }
  // Runs on the executor when peer_gone() becomes true; if it already is, soon, but not within this call. Must not
  // throw. nullptr removes it.
  void on_peer_gone(std::function<void()> callback);

  // Says that this side is done, then reads and drops what the client still sends until it closes too, at most for
  // `duration`. Closing with unread bytes would reset the connection, and the client might lose the answer.
  boost::asio::awaitable<void> linger(std::chrono::milliseconds duration);

  // Both end the read loop and every wait. reset() tells the client that the answer is broken off.
  void close();
  void reset();

 private:
  boost::asio::awaitable<void> read_loop();
  boost::asio::awaitable<bool> wait_until_writable();
  size_t room() const;
  void peer_left();
  void notify() noexcept;

  boost::asio::ip::tcp::socket socket_;
  const std::chrono::milliseconds write_timeout_;
  boost::asio::steady_timer wake_;         // wait() sleeps on it
  boost::asio::steady_timer room_timer_;   // the read loop sleeps on it while the read-ahead is full
  boost::asio::steady_timer write_timer_;  // runs while a send waits for the socket
  uint64_t write_waits_ = 0;               // tells the waits apart for a timer that fires late
  ReadAhead read_ahead_;
  size_t unread_bytes_max_ = kReadBytesMax;
  bool discarding_ = false;
  bool peer_gone_ = false;
  std::function<void()> on_peer_gone_;
};

}  // namespace twostroke::http
