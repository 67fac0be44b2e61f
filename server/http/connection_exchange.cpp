#include "server/http/connection_exchange.h"

#include <array>
#include <charconv>

#include "kernels/check.h"

namespace twostroke::http {
namespace {

namespace asio = boost::asio;

}  // namespace

ConnectionExchange::ConnectionExchange(std::shared_ptr<Transport> transport, HttpRequest request, Options options)
    : transport_(std::move(transport)), request_(std::move(request)), options_(std::move(options)) {}

ConnectionExchange::~ConnectionExchange() { transport_->on_peer_gone(nullptr); }

void ConnectionExchange::on_disconnect(std::function<void()> callback) {
  transport_->on_peer_gone(complete() ? nullptr : std::move(callback));
}

std::string ConnectionExchange::make_head(const HttpResponse& response, Framing framing) {
  CHECK(phase_ == Phase::kNothing, "a request is answered once");
  if (framing == Framing::kUntilClose || options_.draining()) options_.keep_alive = false;
  framing_ = framing;
  sends_body_ = request_.method != "HEAD" && status_has_body(response.status);
  HeadOptions options;
  options.framing = framing;
  options.keep_alive = options_.keep_alive;
  options.http_1_0 = options_.http_1_0;
  options.request_id = request_.id;
  options.headers = &options_.headers;
  options.now = std::chrono::system_clock::now();
  return response_head(response, options);
}

void ConnectionExchange::complete_answer() {
  phase_ = Phase::kComplete;
  transport_->on_peer_gone(nullptr);  // a client that leaves with its whole answer has not broken off
}

asio::awaitable<bool> ConnectionExchange::send(Transport::Parts parts) {
  if (disconnected()) co_return false;
  const bool sent = co_await transport_->send(parts);
  co_return sent;
}

asio::awaitable<bool> ConnectionExchange::respond(HttpResponse response) {
  const std::string head = make_head(response, Framing::kContentLength);
  phase_ = Phase::kBegun;
  const Transport::Parts parts = {head, sends_body_ ? std::string_view(response.body) : std::string_view(), {}};
  if (!disconnected()) status_ = response.status;
  const bool sent = co_await send(parts);
  if (sent) complete_answer();
  co_return sent;
}

asio::awaitable<bool> ConnectionExchange::begin_stream(HttpResponse head) {
  const Framing framing = options_.http_1_0 ? Framing::kUntilClose : Framing::kChunked;
  const std::string text = make_head(head, framing);
  phase_ = Phase::kBegun;
  const Transport::Parts parts = {text, {}, {}};
  if (!disconnected()) status_ = head.status;
  const bool sent = co_await send(parts);
  co_return sent;
}

asio::awaitable<bool> ConnectionExchange::write(std::string_view data) {
  CHECK(phase_ == Phase::kBegun, "write() comes between begin_stream() and end_stream()");
  if (disconnected()) co_return false;
  if (data.empty() || !sends_body_) co_return true;  // an empty chunk would end the stream
  std::array<char, 20> line;
  const auto [end, error] = std::to_chars(line.data(), line.data() + 16, data.size(), 16);
  CHECK(error == std::errc());
  end[0] = '\r';
  end[1] = '\n';
  const std::string_view size_line(line.data(), static_cast<size_t>(end + 2 - line.data()));
  const bool chunked = framing_ == Framing::kChunked;
  Transport::Parts parts = {chunked ? size_line : std::string_view(), data,
                            chunked ? std::string_view("\r\n") : std::string_view()};
  // Nearly always the socket takes it, and no further coroutines are needed.
  const Transport::Sent sent = transport_->send_now(parts);
  if (sent != Transport::Sent::kPart) co_return sent == Transport::Sent::kAll;
  const bool sent_all = co_await transport_->send(parts);
  co_return sent_all;
}

asio::awaitable<bool> ConnectionExchange::end_stream() {
  CHECK(phase_ == Phase::kBegun, "end_stream() comes once, after begin_stream()");
  const bool last_chunk = sends_body_ && framing_ == Framing::kChunked;
  const Transport::Parts parts = {last_chunk ? std::string_view("0\r\n\r\n") : std::string_view(), {}, {}};
  const bool sent = co_await send(parts);
  if (sent) complete_answer();
  co_return sent;
}

}  // namespace twostroke::http
