#include "tests/bench/load/load_client.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/bench/load/stream_reader.h"

namespace twostroke::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using nlohmann::json;
using Seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

constexpr size_t kAnswerBytesMax = size_t{256} << 20;

std::string request_body(const LoadTarget& target, std::string prompt, uint32_t output_tokens, bool stream) {
  json body = {{"max_tokens", output_tokens}, {"temperature", 0}, {"stream", stream}};
  if (!target.model.empty()) body["model"] = target.model;
  if (target.chat) {
    body["messages"] = json::array({{{"role", "user"}, {"content", std::move(prompt)}}});
  } else {
    body["prompt"] = std::move(prompt);
  }
  if (stream) body["stream_options"] = {{"include_usage", true}};
  if (target.ignore_eos) body["ignore_eos"] = true;
  return body.dump();
}

http::request<http::string_body> make_request(const LoadTarget& target, http::verb verb, const std::string& path,
                                              std::string body) {
  http::request<http::string_body> request(verb, target.base_path + path, 11);
  request.set(http::field::host, target.host + ":" + target.port);
  request.set(http::field::connection, "close");
  if (!target.api_key.empty()) request.set(http::field::authorization, "Bearer " + target.api_key);
  for (const auto& [name, value] : target.headers) request.set(name, value);
  if (!body.empty()) {
    request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
  }
  request.prepare_payload();
  return request;
}

// One request and its whole answer, for what comes before the load.
Result<json> ask(const LoadTarget& target, http::verb verb, const std::string& path, std::string body) {
  const std::string place = "http://" + target.host + ":" + target.port + target.base_path + path;
  try {
    asio::io_context io;
    tcp::resolver resolver(io);
    beast::tcp_stream stream(io);
    stream.connect(resolver.resolve(target.host, target.port));
    http::write(stream, make_request(target, verb, path, std::move(body)));
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(stream, buffer, response);
    if (response.result_int() != 200) {
      return unavailable(place + " answers " + std::to_string(response.result_int()) + ": " +
                         response.body().substr(0, 500));
    }
    json answer = json::parse(response.body(), nullptr, false);
    if (answer.is_discarded()) return unavailable(place + " answers something that is not JSON");
    return answer;
  } catch (const boost::system::system_error& error) {
    return unavailable(place + ": " + error.code().message());
  }
}

uint64_t count_at(const json& value, const char* pointer) {
  const json::json_pointer place(pointer);
  return value.contains(place) && value[place].is_number_unsigned() ? value[place].get<uint64_t>() : 0;
}

class Run {
 public:
  Run(const LoadTarget& target, const std::vector<PlannedRequest>& plan, const TextScale& scale,
      const std::function<void(const LoadProgress&)>& progress)
      : target_(target), plan_(plan), scale_(scale), report_(progress), outcomes_(plan.size()), ticker_(io_) {}

  std::vector<LoadOutcome> run() {
    tcp::resolver resolver(io_);
    endpoints_ = resolver.resolve(target_.host, target_.port);
    begin_ = steady_clock::now();
    asio::co_spawn(io_, dispatch(), asio::detached);
    if (report_) asio::co_spawn(io_, tell(), asio::detached);
    io_.run();
    return std::move(outcomes_);
  }

 private:
  double now() const { return Seconds(steady_clock::now() - begin_).count(); }

  asio::awaitable<void> dispatch() {
    asio::steady_timer timer(io_);
    for (size_t i = 0; i < plan_.size(); ++i) {
      const PlannedRequest& planned = plan_[i];
      outcomes_[i].planned_at = planned.at_seconds;
      // Text is made before its time has come, so that making it delays nothing.
      std::string prompt = prompt_text(planned, scale_);
      http::request<http::string_body> request =
          make_request(target_, http::verb::post, target_.chat ? "/chat/completions" : "/completions",
                       request_body(target_, std::move(prompt), planned.output_tokens, true));
      timer.expires_at(begin_ + std::chrono::duration_cast<steady_clock::duration>(Seconds(planned.at_seconds)));
      error_code ignored;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      asio::co_spawn(io_, one(std::move(request), outcomes_[i]), asio::detached);
      ++progress_.sent;
    }
  }

  asio::awaitable<void> tell() {
    error_code error;
    while (progress_.ended < plan_.size() && !error) {
      ticker_.expires_after(std::chrono::seconds(1));
      co_await ticker_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      report_(progress_);
    }
  }

  asio::awaitable<void> one(http::request<http::string_body> request, LoadOutcome& outcome) {
    beast::tcp_stream stream(io_);
    stream.expires_after(std::chrono::duration_cast<steady_clock::duration>(Seconds(target_.timeout_seconds)));
    outcome.sent_at = now();
    error_code error;
    co_await stream.async_connect(endpoints_, asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      error_code no_delay;
      stream.socket().set_option(tcp::no_delay(true), no_delay);
      co_await http::async_write(stream, request, asio::redirect_error(asio::use_awaitable, error));
    }
    if (!error) co_await read_answer(stream, outcome, error);
    outcome.ended_at = now();
    if (error == beast::error::timeout) {
      outcome.error = "no complete answer in " + std::to_string(target_.timeout_seconds) + " s";
    } else if (error) {
      outcome.error = error.message();
    }
    ++progress_.ended;
    if (!outcome.complete()) ++progress_.failed;
    if (progress_.ended == plan_.size()) ticker_.cancel();
  }

  asio::awaitable<void> read_answer(beast::tcp_stream& stream, LoadOutcome& outcome, error_code& error) {
    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(kAnswerBytesMax);
    co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    outcome.http_status = static_cast<int>(parser.get().result_int());
    StreamReader reader;
    std::string refusal;
    std::vector<char> bytes(16384);
    while (!parser.is_done()) {
      parser.get().body().data = bytes.data();
      parser.get().body().size = bytes.size();
      // Returns with what there is: some would wait for the buffer to be full otherwise.
      co_await http::async_read_some(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
      if (error == http::error::need_buffer) error = {};
      if (error) co_return;
      const std::string_view got(bytes.data(), bytes.size() - parser.get().body().size);
      if (outcome.http_status != 200) {
        refusal += got;
      } else if (reader.take(got)) {
        outcome.arrivals.push_back(now());
      }
    }
    if (outcome.http_status != 200) {
      outcome.error = "HTTP " + std::to_string(outcome.http_status) + ": " + refusal.substr(0, 300);
    } else if (!reader.error().empty()) {
      outcome.error = reader.error();
    } else if (!reader.done()) {
      outcome.error = "the stream ended without [DONE]";
    }
    outcome.prompt_tokens = reader.prompt_tokens();
    outcome.cached_tokens = reader.cached_tokens();
    outcome.output_tokens = reader.output_tokens();
  }

  const LoadTarget& target_;
  const std::vector<PlannedRequest>& plan_;
  const TextScale& scale_;
  const std::function<void(const LoadProgress&)>& report_;
  std::vector<LoadOutcome> outcomes_;
  LoadProgress progress_;
  asio::io_context io_{1};
  tcp::resolver::results_type endpoints_;
  steady_clock::time_point begin_;
  asio::steady_timer ticker_;
};

}  // namespace

Result<LoadTarget> parse_target(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return invalid_argument("'" + url + "' is not a URL like http://127.0.0.1:8000/v1");
  LoadTarget target;
  std::string rest = url.substr(kScheme.size());
  const size_t slash = rest.find('/');
  if (slash != std::string::npos) {
    target.base_path = rest.substr(slash);
    while (target.base_path.ends_with('/')) target.base_path.pop_back();
    rest.resize(slash);
  }
  const size_t colon = rest.rfind(':');
  target.port = colon == std::string::npos ? "80" : rest.substr(colon + 1);
  target.host = rest.substr(0, colon);
  if (target.host.empty() || target.port.empty()) {
    return invalid_argument("'" + url + "' is not a URL like http://127.0.0.1:8000/v1");
  }
  return target;
}

Result<TextScale> calibrate(LoadTarget& target) {
  if (target.model.empty()) {
    const Result<json> models = ask(target, http::verb::get, "/models", "");
    if (!models.ok()) return models.status();
    const json::json_pointer first("/data/0/id");
    if (!models->contains(first) || !(*models)[first].is_string()) {
      return unavailable("the server names no model; give --model-name");
    }
    target.model = (*models)[first].get<std::string>();
  }
  const auto measure = [&](uint32_t count) -> Result<double> {
    const Result<json> answer = ask(target, http::verb::post, target.chat ? "/chat/completions" : "/completions",
                                    request_body(target, words(count, count), 1, false));
    if (!answer.ok()) return answer.status();
    const uint64_t tokens = count_at(*answer, "/usage/prompt_tokens");
    if (tokens == 0) return unavailable("the server's answer has no usage.prompt_tokens");
    return static_cast<double>(tokens);
  };
  const Result<double> few = measure(50);
  if (!few.ok()) return few.status();
  const Result<double> many = measure(250);
  if (!many.ok()) return many.status();
  TextScale scale;
  scale.tokens_per_word = std::max(0.25, (*many - *few) / 200);
  scale.fixed_tokens = std::max(0.0, *few - 50 * scale.tokens_per_word);
  return scale;
}

std::vector<LoadOutcome> run_load(const LoadTarget& target, const std::vector<PlannedRequest>& plan,
                                  const TextScale& scale, const std::function<void(const LoadProgress&)>& progress) {
  Run run(target, plan, scale, progress);
  return run.run();
}

}  // namespace twostroke::load
