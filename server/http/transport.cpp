#include "server/http/transport.h"

#include <poll.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

namespace twostroke::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);

bool try_again(const error_code& ec) {
  return ec == asio::error::would_block || ec == asio::error::try_again || ec == asio::error::interrupted;
}

// Whether the client has closed its side, seen without reading what it sent before.
bool hung_up(int descriptor) {
  pollfd entry{};
  entry.fd = descriptor;
  entry.events = POLLRDHUP;
  return ::poll(&entry, 1, 0) > 0;
}

// Takes `count` bytes off the front of `parts`; true when nothing is left.
bool take_off(Transport::Parts& parts, size_t count) {
  bool done = true;
  for (std::string_view& part : parts) {
    const size_t taken = std::min(count, part.size());
    part.remove_prefix(taken);
    count -= taken;
    done = done && part.empty();
  }
  return done;
}

}  // namespace

Transport::Transport(asio::ip::tcp::socket socket, std::chrono::milliseconds write_timeout)
    : socket_(std::move(socket)),
      write_timeout_(write_timeout),
      wake_(socket_.get_executor()),
      room_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()) {}

void Transport::start() {
  // Failing here means a socket that is already broken; the first read or write will say so.
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  asio::co_spawn(executor(), read_loop(), [self = shared_from_this()](std::exception_ptr failure) {
    if (failure) self->reset();  // out of memory: give up this client, not the server
  });
}

void Transport::set_unread_bytes_max(size_t count) {
  unread_bytes_max_ = count;
  if (room() > 0) room_timer_.cancel();
}

void Transport::consume(size_t count) {
  read_ahead_.consume(count);
  if (room() > 0) room_timer_.cancel();
}

void Transport::release_memory() { read_ahead_.clear(); }

size_t Transport::room() const {
  return discarding_ ? kReadBytesMax : unread_bytes_max_ - std::min(unread_bytes_max_, read_ahead_.size());
}

asio::awaitable<void> Transport::read_loop() {
  const auto self = shared_from_this();
  while (socket_.is_open()) {
    if (room() == 0) {
      room_timer_.expires_after(kFullProbeInterval);
      co_await room_timer_.async_wait(kAwaitTuple);
      if (room() == 0 && socket_.is_open() && hung_up(socket_.native_handle())) break;
      continue;
    }
    const auto [wait_failure] = co_await socket_.async_wait(asio::socket_base::wait_read, kAwaitTuple);
    if (wait_failure || !socket_.is_open()) break;
    if (room() == 0) continue;
    const std::span<char> space = read_ahead_.prepare(std::min(room(), kReadBytesMax));
    error_code ec;
    const size_t count = socket_.read_some(asio::buffer(space.data(), space.size()), ec);
    if (try_again(ec)) continue;
    if (ec) break;
    if (!discarding_) read_ahead_.commit(count);
    wake();
  }
  peer_left();
}

asio::awaitable<void> Transport::wait(Clock::time_point deadline) {
  const auto self = shared_from_this();
  wake_.expires_at(deadline);
  co_await wake_.async_wait(kAwaitTuple);
}

Transport::Sent Transport::send_now(Parts& parts) {
  bool done = take_off(parts, 0);
  while (!done) {
    const std::array<asio::const_buffer, 3> buffers = {asio::const_buffer(parts[0].data(), parts[0].size()),
                                                       asio::const_buffer(parts[1].data(), parts[1].size()),
                                                       asio::const_buffer(parts[2].data(), parts[2].size())};
    error_code ec;
    const size_t count = socket_.write_some(buffers, ec);
    if (try_again(ec)) return Sent::kPart;
    if (ec) {
      peer_left();
      return Sent::kFailed;
    }
    done = take_off(parts, count);
  }
  return Sent::kAll;
}

asio::awaitable<bool> Transport::send(Parts parts) {
  const auto self = shared_from_this();
  Sent sent = send_now(parts);
  while (sent == Sent::kPart) {
    const bool writable = co_await wait_until_writable();
    sent = writable ? send_now(parts) : Sent::kFailed;
  }
  co_return sent == Sent::kAll;
}

asio::awaitable<bool> Transport::wait_until_writable() {
  const uint64_t wait = ++write_waits_;
  write_timer_.expires_after(write_timeout_);
  write_timer_.async_wait([self = shared_from_this(), wait](const error_code& ec) {
    if (!ec && self->write_waits_ == wait) self->reset();
  });
  const auto [ec] = co_await socket_.async_wait(asio::socket_base::wait_write, kAwaitTuple);
  ++write_waits_;
  write_timer_.cancel();
  co_return !ec && socket_.is_open();
}

void Transport::on_peer_gone(std::function<void()> callback) {
  on_peer_gone_ = std::move(callback);
  if (!peer_gone_ || !on_peer_gone_) return;
  asio::post(executor(), [self = shared_from_this()] { self->notify(); });
}

asio::awaitable<void> Transport::linger(std::chrono::milliseconds duration) {
  const auto self = shared_from_this();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  discarding_ = true;
  read_ahead_.clear();
  room_timer_.cancel();
  const auto deadline = Clock::now() + duration;
  while (!peer_gone_ && Clock::now() < deadline) co_await wait(deadline);
}

void Transport::close() {
  error_code ignored;
  socket_.close(ignored);
  peer_left();
}

void Transport::reset() {
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

void Transport::peer_left() {
  peer_gone_ = true;
  wake_.cancel();
  room_timer_.cancel();
  notify();
}

void Transport::notify() noexcept {
  const std::function<void()> callback = std::exchange(on_peer_gone_, nullptr);
  if (callback) callback();
}

}  // namespace twostroke::http
