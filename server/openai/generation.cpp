#include "server/openai/generation.h"

#include <algorithm>
#include <utility>

#include "server/openai/cache_salt.h"
#include "server/openai/random_id.h"
#include "server/text/grammar/grammar_constraint.h"

namespace twostroke::openai {

namespace asio = boost::asio;

namespace {

// As OpenAI's, unless the model's template takes only ids of a certain size, of letters and digits.
std::string new_call_id(size_t bytes) {
  if (bytes == 0) return new_id("call_");
  std::string id = new_id("");
  while (id.size() < bytes) id += new_id("");
  return id.substr(0, bytes);
}

}  // namespace

size_t piece_bytes(const Piece& piece) {
  constexpr size_t kTokenBytes = 8;
  constexpr size_t kLogprobBytes = 96;  // {"token", "logprob", "bytes"}
  size_t bytes = piece.text.size() + piece.reasoning.size() + kTokenBytes * piece.tokens.size();
  for (const reply::ToolCallDelta& call : piece.tool_calls) bytes += call.arguments.size();
  for (const TokenEntry& entry : piece.entries) bytes += kLogprobBytes * (1 + entry.top.size());
  return bytes;
}

Generation::Generation(Service& service, asio::any_io_executor executor, const GenerationOptions& options,
                       uint64_t tenant)
    : service_(service),
      options_(options),
      cache_salt_(cache_salt(tenant, options.cache_salt)),
      tenant_(Tenants::id_of(tenant, options.user)),
      ids_(std::make_shared<std::vector<RequestId>>()) {
  // The ids are complete before the first event can arrive: start() fills them before it submits.
  queue_ = std::make_shared<EventQueue>(std::move(executor), service.limits.pending_events_max,
                                        [&engine = service.engine, ids = ids_] {
                                          for (const RequestId id : *ids) engine.cancel(id);
                                        });
}

Generation::~Generation() { cancel_all(); }

void Generation::cancel_all() {
  for (Part& part : parts_) {
    if (part.ended) continue;
    part.ended = true;
    service_.engine.cancel(part.id);
    service_.hub.detach(part.id);
  }
}

void Generation::abandon() {
  cancel_all();
  queue_->close();
}

void Generation::set_stop_tokens(bool parses_reply) {
  stop_tokens_ = options_.stop_token_ids;
  const auto add = [this](std::span<const TokenId> tokens) {
    stop_tokens_.insert(stop_tokens_.end(), tokens.begin(), tokens.end());
  };
  if (!options_.ignore_eos) add(service_.tokenizer.end_of_generation());
  if (!options_.ignore_eos && parses_reply) add(service_.reply_syntax->extra_stop_tokens());
  std::sort(stop_tokens_.begin(), stop_tokens_.end());
  stop_tokens_.erase(std::unique(stop_tokens_.begin(), stop_tokens_.end()), stop_tokens_.end());
}

bool Generation::begins_text(const std::vector<TokenId>& prompt) const {
  return prompt.size() == 1 && prompt.front() == service_.tokenizer.bos();
}

Generation::Choice Generation::make_choice(const std::vector<TokenId>& prompt,
                                           const std::optional<reply::ParseOptions>& reply) const {
  SequenceOutput::Options output{
      .stop = options_.stop,
      .include_stop = options_.include_stop,
      .at_start = begins_text(prompt),
      .skip_special = options_.skip_special_tokens,
      .keep_entries = options_.sampling.logprobs >= 0,
      .min_tokens = options_.min_tokens,
  };
  std::unique_ptr<reply::ReplyParser> parser;
  if (reply) {
    output.shown = service_.reply_syntax->marker_tokens();
    parser = service_.reply_syntax->parser(*reply);
  }
  return {.output = SequenceOutput(service_.tokenizer, std::move(output)), .parser = std::move(parser)};
}

Request Generation::make_request(std::vector<TokenId> prompt, uint32_t index, const PreparedPrompts& prepared,
                                 uint32_t max_tokens_default) const {
  Request request;
  request.id = (*ids_)[index];
  request.prompt = std::move(prompt);
  request.max_tokens = std::max(options_.max_tokens.value_or(max_tokens_default), 1U);
  request.n = options_.n;
  request.sampling = options_.sampling;
  request.cache_salt = cache_salt_;
  // Each prompt draws on its own; the first exactly as it would alone.
  request.sampling.seed = sequence_seed(options_.sampling.seed, index * options_.n);
  request.stop_tokens = stop_tokens_;
  request.min_tokens = options_.min_tokens;
  request.allowed_tokens = options_.allowed_token_ids;
  request.bad_words = prepared.bad_words;
  request.prompt_logprobs = options_.prompt_logprobs;
  request.priority = options_.priority;
  service_.tenants.mark(request, tenant_);
  request.objectives = options_.objectives;
  if (prepared.grammar == nullptr) return request;
  for (uint32_t sequence = 0; sequence < options_.n; ++sequence) {
    request.constraints.push_back(grammar::make_constraint(prepared.grammar, service_.tokenizer, *service_.token_trie,
                                                           stop_tokens_, begins_text(request.prompt)));
  }
  return request;
}

std::optional<ApiError> Generation::start(PreparedPrompts prepared, uint32_t max_tokens_default, CallName name) {
  auto& prompts = prepared.tokens;
  for (const auto& prompt : prompts) {
    if (auto error = context_overflow(prompt.size(), service_.engine.backend_info().context_max)) return error;
  }
  if (service_.reply_syntax == nullptr) prepared.reply.reset();
  set_stop_tokens(prepared.reply.has_value());
  if (prepared.grammar != nullptr && stop_tokens_.empty()) {
    return ApiError{.message = "This model has no token that ends an answer: name one in 'stop_token_ids'."};
  }
  for (size_t i = 0; i < prompts.size(); ++i) ids_->push_back(service_.hub.next_id());
  const auto shared_name = std::make_shared<const CallName>(std::move(name));
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (uint32_t sequence = 0; sequence < options_.n; ++sequence) {
      choices_.push_back(make_choice(prompts[i], prepared.reply));
    }
    Request request = make_request(std::move(prompts[i]), static_cast<uint32_t>(i), prepared, max_tokens_default);
    usage_.prompt_tokens += request.prompt.size();

    service_.hub.attach(request.id, queue_);
    service_.hub.index().add(request.id, shared_name);
    parts_.push_back({request.id});
    uint32_t retry_after_s = 0;
    if (const Status status = service_.engine.submit(std::move(request), &retry_after_s); !status.ok()) {
      service_.hub.detach(parts_.back().id);
      service_.hub.index().refused(parts_.back().id);
      parts_.back().ended = true;
      cancel_all();
      return to_api_error(status, retry_after_s);
    }
  }
  return std::nullopt;
}

asio::awaitable<Batch> Generation::next(std::chrono::milliseconds timeout) {
  Batch batch;
  std::vector<Event> events = co_await queue_->next(timeout);
  if (queue_->closed()) {
    batch.ended = true;
    batch.gone = true;
    co_return batch;
  }
  if (queue_->overflowed()) {
    cancel_all();
    batch.ended = true;
    batch.error =
        ApiError{.status = 503,
                 .message = "The answer was made faster than it could be written or was read, and was given up.",
                 .type = "server_error",
                 .code = "client_too_slow"};
    co_return batch;
  }
  batch.silent = events.empty();
  for (Event& event : events) {
    take(event, batch);
    if (batch.ended) break;
  }
  co_return batch;
}

void Generation::take(Event& event, Batch& batch) {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.id == event.request; });
  CHECK(found != parts_.end(), "an event of a request that is not this client's");
  const uint32_t index = static_cast<uint32_t>(found - parts_.begin()) * options_.n + event.sequence;
  switch (event.kind) {
    case Event::Kind::kPrompt:
      take_prompt(event, index, batch);
      break;
    case Event::Kind::kToken:
      take_token(event, index, batch);
      break;
    case Event::Kind::kSequenceFinished:
      take_finish(index, event.finish_reason, batch);
      break;
    case Event::Kind::kEnded:
      take_end(*found, event, batch);
      break;
  }
}

bool Generation::is_own_stop(TokenId token) const {
  const auto& own = options_.stop_token_ids;
  return std::binary_search(own.begin(), own.end(), token);
}

bool Generation::ends_generation(TokenId token) const {
  const auto ends = service_.tokenizer.end_of_generation();
  return !options_.ignore_eos && std::binary_search(ends.begin(), ends.end(), token);
}

// The prompt is all of its choices'.
void Generation::take_prompt(Event& event, uint32_t index, Batch& batch) const {
  const auto scores = std::make_shared<const std::vector<TokenScore>>(std::move(event.prompt));
  for (uint32_t sequence = 0; sequence < options_.n; ++sequence) {
    batch.pieces.push_back({.choice = index + sequence, .prompt_scores = scores, .usage = usage_});
  }
}

void Generation::take_token(Event& event, uint32_t index, Batch& batch) {
  Choice& choice = choices_[index];
  if (choice.finished) return;  // made in the step that was under way when its stop string was found
  // The engine makes a token at least; a client that asked for none gets none.
  if (options_.max_tokens == 0U) return;
  ++usage_.completion_tokens;
  if (options_.return_token_ids) choice.tokens.push_back(event.token);
  if (std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), event.token)) {
    choice.stop_token = event.token;
    if (!options_.include_stop || !is_own_stop(event.token)) return;
  }
  Piece piece = make_piece(index, choice.output.push(event.token, event.logprob, std::move(event.top)));
  if (choice.finished) service_.engine.finish_sequence(event.request, event.sequence);
  const bool news = !piece.text.empty() || !piece.reasoning.empty() || !piece.tool_calls.empty() ||
                    !piece.entries.empty() || piece.finished;
  if (!news) {
    if (options_.return_token_ids) choice.tokens = std::move(piece.tokens);
    return;
  }
  batch.pieces.push_back(std::move(piece));
}

void Generation::take_finish(uint32_t index, FinishReason reason, Batch& batch) {
  Choice& choice = choices_[index];
  if (choice.finished) return;
  Piece piece = make_piece(index, choice.output.finish());
  if (!choice.finished) {
    if (is_own_stop(choice.stop_token) && !ends_generation(choice.stop_token)) piece.stop_reason = choice.stop_token;
    finish_choice(piece, options_.max_tokens == 0U ? FinishReason::kLength : reason);
  }
  batch.pieces.push_back(std::move(piece));
}

// A piece of what has become certain; the choice's last one when a stop string was found.
Piece Generation::make_piece(uint32_t index, OutputDelta&& delta) {
  Choice& choice = choices_[index];
  Piece piece{.choice = index, .entries = std::move(delta.entries), .tokens = std::exchange(choice.tokens, {})};
  if (choice.parser) {
    read_reply(choice.parser->push(delta.text), piece);
  } else {
    piece.text = std::move(delta.text);
  }
  piece.usage = usage_;
  if (delta.stopped) {
    piece.stop_reason = std::move(delta.stop);
    finish_choice(piece, FinishReason::kStop);
  }
  return piece;
}

void Generation::read_reply(reply::ReplyDelta&& delta, Piece& piece) const {
  if (options_.include_reasoning) piece.reasoning += delta.reasoning;
  piece.text += delta.content;
  for (reply::ToolCallDelta& call : delta.tool_calls) {
    if (!options_.parallel_tool_calls && call.index > 0) continue;
    if (call.begins && call.id.empty()) call.id = new_call_id(service_.reply_syntax->call_id_bytes());
    piece.tool_calls.push_back(std::move(call));
  }
}

void Generation::finish_choice(Piece& piece, FinishReason reason) {
  Choice& choice = choices_[piece.choice];
  choice.finished = true;
  piece.finished = reason;
  if (!choice.parser) return;
  // A stop token that is no text for the client may still be a marker.
  const auto markers = service_.reply_syntax->marker_tokens();
  const bool unseen = !options_.include_stop || !is_own_stop(choice.stop_token);
  if (unseen && std::binary_search(markers.begin(), markers.end(), choice.stop_token)) {
    read_reply(choice.parser->push(service_.tokenizer.piece(choice.stop_token, /*special=*/true)), piece);
  }
  read_reply(choice.parser->finish(), piece);
}

void Generation::take_end(Part& part, const Event& event, Batch& batch) {
  part.ended = true;
  ++parts_ended_;
  usage_.cached_tokens += event.summary.cached_tokens;
  if (event.outcome != Outcome::kFinished) {
    cancel_all();
    batch.ended = true;
    batch.error =
        event.outcome == Outcome::kFailed
            ? to_api_error(event.error)
            : ApiError{
                  .status = 503, .message = "The request was cancelled.", .type = "server_error", .code = "cancelled"};
    return;
  }
  batch.ended = parts_ended_ == parts_.size();
}

}  // namespace twostroke::openai
