#include "server/serve.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "scheduler/journal/journal_file.h"
#include "server/api_keys.h"
#include "server/backends.h"
#include "server/calibration_cache.h"
#include "server/drain.h"
#include "server/http/server.h"
#include "server/model_files.h"
#include "server/openai/answer.h"
#include "server/openai/openapi/openapi.h"
#include "server/openai/service.h"
#include "server/ops/endpoints.h"
#include "server/ops/health.h"
#include "server/ops/logging.h"
#include "server/ops/metrics.h"
#include "server/version.h"

namespace twostroke {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

SchedulerLimits scheduler_limits(const ServeConfig& c, const std::optional<CostCoefficients>& costs) {
  return {.max_step_tokens = c.max_step_tokens,
          .max_running = c.max_running,
          .max_chunk_tokens = c.max_chunk_tokens,
          .itl_target_ns = static_cast<TimeNs>(c.itl_target_ms * static_cast<double>(kMillisecondNs)),
          .max_waiting_requests = c.max_waiting_requests,
          .max_waiting_tokens = c.max_waiting_tokens,
          .order = order_named(c.order).value(),
          .aging_ms = c.aging_ms,
          .max_overtakes = c.max_overtakes,
          .max_preemptions = c.max_preemptions,
          .prefix_cache = c.prefix_cache,
          .costs = costs,
          .max_draft_tokens = c.speculation == "ngram" ? c.max_draft_tokens : 0};
}

http::HttpLimits http_limits(const ServeConfig& c) {
  http::HttpLimits limits;
  limits.connections_max = c.max_connections;
  limits.body_bytes_max = c.max_body_bytes;
  limits.bodies_bytes_max = c.max_bodies_bytes;
  return limits;
}

std::string model_name(const ServeConfig& c) {
  return c.served_model_name.empty() ? std::filesystem::path(c.model).stem().string() : c.served_model_name;
}

Result<std::unique_ptr<JournalFile>> open_journal(const ServeConfig& c, Metrics& metrics) {
  JournalFileOptions options{.path = c.journal,
                             .program = kVersion,
                             .unix_seconds = openai::unix_seconds(),
                             .bytes_max = c.journal_max_mb << 20};
  metrics.set_journal(/*recording=*/true);  // before the file may say otherwise
  auto created = JournalFile::create(std::move(options), [path = c.journal, &metrics](const std::string& reason) {
    metrics.set_journal(/*recording=*/false);
    spdlog::warn("the journal {} ends here, serving goes on: {}", log_text(path), reason);
  });
  if (created.ok()) {
    spdlog::info("every step goes to the journal {}: prompts and answers are in it as token ids", log_text(c.journal));
  }
  return created;
}

int fail(const Status& status) {
  spdlog::error("{}", status.message());
  return 1;
}

// The I/O context's threads. They run until release() was called and no work is left, so that every coroutine has ended
// before what it refers to goes away.
class IoThreads {
 public:
  explicit IoThreads(asio::io_context& io) : io_(io), work_(asio::make_work_guard(io)) {}
  ~IoThreads() { stop(); }
  void start(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) threads_.emplace_back([this] { io_.run(); });
  }
  void release() { work_.reset(); }
  // For a failed start: ends the threads although there is work, before anything that it refers to goes away.
  void stop() {
    io_.stop();
    join();
  }
  void join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  asio::io_context& io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

}  // namespace

int serve(const ServeConfig& config) {
  // A reader of the log that goes away must not take the server with it.
  std::signal(SIGPIPE, SIG_IGN);
  start_logging(config.log_level, config.log_format);
  const std::string name = model_name(config);
  spdlog::info("twostroke {} loads {}", kVersion, log_text(config.model));
  const Result<std::vector<ApiKey>> api_keys = load_api_keys(config);
  if (!api_keys.ok()) return fail(api_keys.status());
  if (!config.journal.empty()) {
    if (const Status status = check_journal_path(config.journal); !status.ok()) return fail(status);
  }
  Result<openai::Tenants> tenants = load_tenants(config, *api_keys);
  if (!tenants.ok()) return fail(tenants.status());
  std::vector<std::string> secrets;
  for (const ApiKey& key : *api_keys) secrets.push_back(key.key);
  Result<ModelText> text = load_model_text(config.model, config.chat_template);
  if (!text.ok()) return fail(text.status());

  asio::io_context io(static_cast<int>(config.io_threads));
  Health health(config.step_stall_ms * kMillisecondNs);
  Metrics metrics({.version = kVersion,
                   .model = name,
                   .backend = config.backend,
                   .block_size = static_cast<int32_t>(config.block_size)});
  openai::ServiceSlot slot;
  // Filled after the server exists, which needs the routes first.
  http::HttpServer* server_pointer = nullptr;
  http::Router router;
  openai::add_routes(router, slot);
  add_ops_routes(router, health, metrics, kVersion, [&] {
    metrics.set_connections(server_pointer->connections());
    metrics.set_ready(health.readiness().ok());
  });
  const auto on_access = [&metrics](const http::AccessRecord& record) {
    metrics.observe_http(record.method, record.route, record.status, record.seconds);
    spdlog::debug("{} {} {} {:.3f}s {} id={}", record.method, record.route, record.status, record.seconds,
                  record.remote, log_text(record.request_id));
  };
  http::HttpServer server(io, http_limits(config), std::move(router), on_access,
                          http::AccessPolicy(secrets, config.allowed_origins));
  server_pointer = &server;
  // The port is taken before the model is loaded: a wrong address shows at once, and probes see "loading".
  if (const Status status = server.listen(config.host, config.port); !status.ok()) return fail(status);

  IoThreads io_threads(io);
  const auto end = [&] {
    if (slot.get() == nullptr) {
      // Nothing was accepted yet, and a large model may still take minutes to load.
      spdlog::info("ended while loading");
      std::_Exit(0);
    }
    server.stop();
    io_threads.release();
  };
  // The backend's threads use what main would take down, and never end: no destructor may run.
  const auto give_up = [] {
    spdlog::critical("the backend hangs in a step: ending without it; clients that waited for it got an error");
    spdlog::default_logger()->flush();
    std::_Exit(1);
  };
  openai::RequestHub hub(
      io, [&metrics](const StepOutput& output) { metrics.observe(output); }, config.io_threads);
  const auto fail_requests = [&hub] { hub.fail_all(unavailable("the server is shutting down")); };
  Drain drain(io, {milliseconds(config.drain_notice_ms), milliseconds(config.drain_timeout_ms)}, health, server,
              {.fail_requests = fail_requests, .on_end = end, .on_hang = give_up});
  asio::thread_pool text_pool(config.text_threads);
  io_threads.start(config.io_threads);

  Result<std::unique_ptr<Backend>> backend = make_backend(config, *text->file, text->tokenizer->vocab_size());
  if (!backend.ok()) {
    io_threads.stop();
    return fail(backend.status());
  }
  const BackendInfo& info = (*backend)->info();
  metrics.set_backend(info);
  std::unique_ptr<JournalFile> journal;
  if (!config.journal.empty()) {
    Result<std::unique_ptr<JournalFile>> created = open_journal(config, metrics);
    if (!created.ok()) {
      io_threads.stop();
      return fail(created.status());
    }
    journal = std::move(*created);
  }
  const std::optional<CostCoefficients> costs = calibrated_costs(config, **backend);
  Engine engine(
      scheduler_limits(config, costs), EngineLimits{}, **backend,
      [&hub](StepOutput&& output) { hub.deliver(std::move(output)); }, steady_clock(), journal.get());
  const grammar::TokenTrie token_trie(*text->tokenizer);
  openai::Service service{
      .tokenizer = *text->tokenizer,
      .chat_template = text->chat_template ? &*text->chat_template : nullptr,
      .template_knows_developer = text->template_knows_developer,
      .reply_syntax = text->reply_syntax.get(),
      .token_trie = &token_trie,
      .engine = engine,
      .hub = hub,
      .text_pool = text_pool,
      .model_name = name,
      .on_refusal = [&metrics](int status, std::string_view reason) { metrics.observe_refusal(status, reason); },
      .created = openai::unix_seconds(),
      .openapi = openai::to_text(openai::openapi_document({.version = kVersion,
                                                           .vocab_size = text->tokenizer->vocab_size(),
                                                           .context_max = info.context_max,
                                                           .embedding_size = info.embedding_size})),
      .limits = {.preparing_max = config.max_preparing_requests,
                 .pending_events_max = config.max_pending_events,
                 .whole_answer_bytes_max = config.max_whole_answer_bytes,
                 .keep_alive = milliseconds(config.sse_keep_alive_ms)},
      .tenants = *std::move(tenants),
      .grammars = openai::GrammarCache(
          {.entries_max = config.max_cached_grammars, .source_bytes_max = config.max_cached_grammar_bytes}),
      .responses = openai::ResponseStore({.responses_max = config.max_stored_responses,
                                          .bytes_max = config.max_stored_bytes,
                                          .running_max = config.max_background_responses}),
  };
  drain.set_engine(&engine);
  slot.set(&service);
  health.model_loaded(engine);
  spdlog::info("{}: {} tokens of context, {} KV blocks of {} positions, steps of {} tokens", info.name,
               info.context_max, info.block_count, info.block_size, engine.limits().max_step_tokens);
  if (info.peak_flops > 0 && info.peak_bytes_per_second > 0) {
    spdlog::info("this machine's peaks: {:.3g} FLOP/s, {:.3g} bytes/s", info.peak_flops, info.peak_bytes_per_second);
  }
  const bool ipv6 = config.host.find(':') != std::string::npos;
  spdlog::info("ready: model '{}' on http://{}:{}/v1", log_text(name), ipv6 ? "[" + config.host + "]" : config.host,
               server.port());
  io_threads.join();
  text_pool.join();
  spdlog::info("ended");
  return 0;
}

}  // namespace twostroke
