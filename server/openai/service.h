// Service: what every endpoint shares. Built once by main, before the first request; everything in it outlives the
// server.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "scheduler/engine.h"
#include "server/http/server.h"
#include "server/openai/event_queue.h"
#include "server/openai/grammar_cache.h"
#include "server/openai/responses/response_store.h"
#include "server/openai/tenants.h"
#include "server/text/grammar/token_trie.h"
#include "server/text/jinja/template.h"
#include "server/text/reply/reply_syntax.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

struct ServiceLimits {
  size_t preparing_max = 1024;                        // requests being rendered and tokenized at once
  size_t pending_events_max = 65536;                  // tokens that a slow client may leave unread
  size_t whole_answer_bytes_max = size_t{128} << 20;  // of an answer that is not streamed
  std::chrono::milliseconds keep_alive{10'000};       // a comment on streams that are silent for so long; 0: never
  std::chrono::milliseconds explain_timeout{2'000};   // what /debug/requests waits for the step under way
};

struct Service {
  const Tokenizer& tokenizer;
  const jinja::Template* chat_template;              // nullptr: the model has none
  bool template_knows_developer = false;             // otherwise a "developer" message is a "system" message
  const reply::ReplySyntax* reply_syntax = nullptr;  // nullptr: answers are not parsed, all of their text is content
  const grammar::TokenTrie* token_trie = nullptr;    // of the tokenizer's vocabulary, for grammars
  Engine& engine;
  RequestHub& hub;
  boost::asio::thread_pool& text_pool;  // templates and tokenizing stay off the I/O threads
  std::string model_name;
  // A generation request was refused; for metrics. `reason` as refusal_reason() says.
  std::function<void(int http_status, std::string_view reason)> on_refusal;
  int64_t created = 0;                              // seconds since 1970, of the model entry
  std::string openapi;                              // the document of GET /openapi.json
  ServiceLimits limits;
  Tenants tenants;
  std::atomic<size_t> preparing{0};
  mutable GrammarCache grammars;  // thread-safe
  ResponseStore responses;        // thread-safe
};

// The service, once the model is loaded. Until then every endpoint answers 503 with Retry-After.
class ServiceSlot {
 public:
  void set(Service* service) { service_.store(service, std::memory_order_release); }
  Service* get() const { return service_.load(std::memory_order_acquire); }

 private:
  std::atomic<Service*> service_{nullptr};
};

// Registers every endpoint of this folder.
void add_routes(http::Router& router, const ServiceSlot& slot);

}  // namespace twostroke::openai
