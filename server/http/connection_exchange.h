// ConnectionExchange: the Exchange of one request on a Transport. Strand only.
#pragma once

#include <memory>

#include "server/http/exchange.h"
#include "server/http/response_head.h"
#include "server/http/transport.h"

namespace twostroke::http {

class ConnectionExchange final : public Exchange {
 public:
  struct Options {
    bool keep_alive = true;
    bool http_1_0 = false;
    Headers headers;                 // of every answer, beside its own
    std::function<bool()> draining;  // asked when the head is made: the answer then says that the connection closes
  };

  ConnectionExchange(std::shared_ptr<Transport> transport, HttpRequest request, Options options);
  ~ConnectionExchange() override;

  const HttpRequest& request() const override { return request_; }
  boost::asio::any_io_executor executor() const override { return transport_->executor(); }
  boost::asio::awaitable<bool> respond(HttpResponse response) override;
  boost::asio::awaitable<bool> begin_stream(HttpResponse head) override;
  boost::asio::awaitable<bool> write(std::string_view data) override;
  boost::asio::awaitable<bool> end_stream() override;
  void on_disconnect(std::function<void()> callback) override;
  bool disconnected() const override { return transport_->peer_gone(); }

  int status() const { return status_; }  // 0 until a head is sent
  bool begun() const { return phase_ != Phase::kNothing; }
  bool complete() const { return phase_ == Phase::kComplete; }
  bool keep_alive() const { return complete() && options_.keep_alive && !disconnected(); }
  bool ends_at_close() const { return framing_ == Framing::kUntilClose; }

 private:
  enum class Phase { kNothing, kBegun, kComplete };

  std::string make_head(const HttpResponse& response, Framing framing);
  void complete_answer();
  boost::asio::awaitable<bool> send(Transport::Parts parts);

  const std::shared_ptr<Transport> transport_;
  HttpRequest request_;
  Options options_;
  Phase phase_ = Phase::kNothing;
  Framing framing_ = Framing::kContentLength;
  bool sends_body_ = true;  // not for HEAD, nor for a status without a body
  int status_ = 0;
};

}  // namespace twostroke::http
