#include "server/openai/generation.h"

#include <algorithm>

namespace twostroke::openai {

namespace asio = boost::asio;

Generation::Generation(Service& service, asio::any_io_executor executor, const GenerationOptions& options)
    : service_(service), options_(options), ids_(std::make_shared<std::vector<RequestId>>()) {
  // The ids are complete before the first event can arrive: start() fills them before it submits.
  queue_ = std::make_shared<EventQueue>(std::move(executor), service.limits.pending_events_max,
                                        [&engine = service.engine, ids = ids_] {
                                          for (const RequestId id : *ids) engine.cancel(id);
                                        });
  if (!options_.ignore_eos) {
    const auto tokens = service.tokenizer.end_of_generation();
    stop_tokens_.assign(tokens.begin(), tokens.end());
  }
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

std::optional<ApiError> Generation::start(std::vector<std::vector<TokenId>> prompts, uint32_t max_tokens_default) {
  for (const auto& prompt : prompts) {
    if (auto error = context_overflow(prompt.size(), service_.engine.backend_info().context_max)) return error;
  }
  for (size_t i = 0; i < prompts.size(); ++i) ids_->push_back(service_.hub.next_id());
  for (size_t i = 0; i < prompts.size(); ++i) {
    // Text continues the prompt, unless there is nothing but BOS before it.
    const bool at_start = prompts[i].size() == 1 && prompts[i].front() == service_.tokenizer.bos();
    for (uint32_t sequence = 0; sequence < options_.n; ++sequence) {
      choices_.push_back({SequenceOutput(
          service_.tokenizer,
          {.stop = options_.stop, .at_start = at_start, .keep_entries = options_.sampling.logprobs >= 0})});
    }
    Request request;
    request.id = (*ids_)[i];
    request.prompt = std::move(prompts[i]);
    request.max_tokens = options_.max_tokens.value_or(max_tokens_default);
    request.n = options_.n;
    request.sampling = options_.sampling;
    // Each prompt draws on its own; the first exactly as it would alone.
    request.sampling.seed = sequence_seed(options_.sampling.seed, static_cast<uint32_t>(i) * options_.n);
    request.stop_tokens = stop_tokens_;
    usage_.prompt_tokens += request.prompt.size();

    service_.hub.attach(request.id, queue_);
    parts_.push_back({request.id});
    if (const Status status = service_.engine.submit(std::move(request)); !status.ok()) {
      service_.hub.detach(parts_.back().id);
      parts_.back().ended = true;
      cancel_all();
      return to_api_error(status);
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
    batch.error = ApiError{.status = 503,
                           .message = "The answer was not read as fast as it was made, and was given up.",
                           .type = "server_error",
                           .code = "client_too_slow"};
    co_return batch;
  }
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
      break;  // no endpoint asks for one yet
    case Event::Kind::kToken:
      take_token(event, index, batch);
      break;
    case Event::Kind::kSequenceFinished:
      finish_choice(index, event.finish_reason, batch);
      break;
    case Event::Kind::kEnded:
      take_end(*found, event, batch);
      break;
  }
}

void Generation::take_token(Event& event, uint32_t index, Batch& batch) {
  Choice& choice = choices_[index];
  if (choice.finished) return;  // made in the step that was under way when its stop string was found
  if (std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), event.token)) {
    choice.output.push_stop_token();
    return;
  }
  OutputDelta delta = choice.output.push(event.token, event.logprob, std::move(event.top));
  const bool stopped = delta.stopped;
  if (!delta.text.empty() || !delta.entries.empty() || stopped) {
    batch.pieces.push_back({.choice = index, .text = std::move(delta.text), .entries = std::move(delta.entries)});
  }
  if (stopped) {
    batch.pieces.back().finished = FinishReason::kStop;
    choice.finished = true;
    usage_.completion_tokens += choice.output.token_count();
    service_.engine.finish_sequence(event.request, event.sequence);
  }
}

void Generation::finish_choice(uint32_t index, FinishReason reason, Batch& batch) {
  Choice& choice = choices_[index];
  if (choice.finished) return;
  choice.finished = true;
  OutputDelta delta = choice.output.finish();
  usage_.completion_tokens += choice.output.token_count();
  batch.pieces.push_back({.choice = index,
                          .text = std::move(delta.text),
                          .entries = std::move(delta.entries),
                          .finished = delta.stopped ? FinishReason::kStop : reason});
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
