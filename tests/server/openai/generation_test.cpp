// From submitted prompts to pieces of text: stop tokens, stop strings, usage, and what a vanished or slow client
// leaves.
#include "server/openai/generation.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <set>
#include <thread>

#include "backend/sim/sim_backend.h"
#include "byte_tokenizer.h"
#include "fake_reply_syntax.h"
#include "server/text/grammar/gbnf.h"

namespace twostroke::openai {
namespace {

namespace asio = boost::asio;

// An engine over a simulated backend that writes `answer` and then ends, for every sequence; and an I/O thread.
class GenerationTest : public testing::Test {
 protected:
  void start(std::string answer, SchedulerLimits limits = {}, std::map<uint64_t, SimFault> faults = {}) {
    SimOptions options;
    options.info.vocab_size = tokenizer_.vocab_size();
    options.script = [answer](const SimRowView& row) -> std::optional<TokenId> {
      if (answer.empty()) return std::nullopt;  // what the fake model and the rules of the request make of it
      if (row.output_index >= answer.size()) return ByteTokenizer::kEos;
      return static_cast<unsigned char>(answer[row.output_index]);
    };
    options.step_faults = std::move(faults);
    backend_ = std::move(SimBackend::create(std::move(options))).value();
    engine_ = std::make_unique<Engine>(limits, EngineLimits{}, *backend_,
                                       [this](StepOutput&& output) { hub_.deliver(std::move(output)); });
    service_.reset(new Service{.tokenizer = tokenizer_,
                               .reply_syntax = reply_syntax_.get(),
                               .token_trie = &token_trie_,
                               .engine = *engine_,
                               .hub = hub_,
                               .text_pool = text_pool_,
                               .limits = {.pending_events_max = pending_events_max_}});
    io_thread_ = std::thread([this] { io_.run(); });
  }

  void TearDown() override {
    work_.reset();
    if (io_thread_.joinable()) io_thread_.join();
    if (engine_) engine_->stop();
    EXPECT_EQ(hub_.attached(), 0U) << "a request was left behind";
    if (backend_) {
      EXPECT_TRUE(backend_->faults().empty());
    }
  }

  // Runs `body`, a coroutine, on the I/O thread to its end.
  template <typename Body>
  void run(Body body) {
    std::promise<void> done;
    asio::co_spawn(io_, std::move(body), [&done](const std::exception_ptr& error) {
      if (error) {
        done.set_exception(error);
      } else {
        done.set_value();
      }
    });
    done.get_future().get();
  }

  struct Answer {
    std::vector<std::string> texts;
    std::vector<Piece> pieces;
    std::vector<std::optional<FinishReason>> finished;
    std::vector<size_t> entries;
    Usage usage;
    std::optional<ApiError> error;
  };
  Answer generate(const GenerationOptions& options, std::vector<std::vector<TokenId>> prompts = {{'h', 'i'}},
                  std::optional<reply::ParseOptions> reply = std::nullopt) {
    return generate(options, PreparedPrompts{.tokens = std::move(prompts), .reply = std::move(reply)});
  }
  Answer generate(const GenerationOptions& options, const PreparedPrompts& prepared) {
    Answer answer;
    const size_t choices = prepared.tokens.size() * options.n;
    answer.texts.resize(choices);
    answer.finished.resize(choices);
    answer.entries.resize(choices);
    run([&]() -> asio::awaitable<void> {
      Generation generation(*service_, io_.get_executor(), options, /*tenant=*/0);
      answer.error = generation.start(prepared, 100);
      while (!answer.error) {
        Batch batch = co_await generation.next(std::chrono::milliseconds(0));
        for (Piece& piece : batch.pieces) {
          answer.pieces.push_back(piece);
          answer.texts[piece.choice] += piece.text;
          answer.entries[piece.choice] += piece.entries.size();
          if (!piece.finished) continue;
          EXPECT_FALSE(answer.finished[piece.choice]) << "a choice finished twice";
          answer.finished[piece.choice] = piece.finished;
        }
        answer.error = batch.error;
        if (batch.ended) break;
      }
      answer.usage = generation.usage();
    });
    return answer;
  }

  ByteTokenizer tokenizer_;
  const grammar::TokenTrie token_trie_{tokenizer_};
  std::unique_ptr<FakeReplySyntax> reply_syntax_;
  size_t pending_events_max_ = 1000;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  asio::thread_pool text_pool_{1};
  RequestHub hub_{io_, [](const StepOutput&) {}};
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
  std::thread io_thread_;
};

TEST(RequestHub, FailsAllThatIsAttachedAndDropsWhatComesLater) {
  asio::io_context io;
  RequestHub hub(io, [](const StepOutput&) {});
  const auto queue = std::make_shared<EventQueue>(io.get_executor(), 10, [] {});
  hub.attach(1, queue);
  hub.attach(2, queue);
  hub.fail_all(unavailable("over"));
  EXPECT_EQ(hub.attached(), 0U);
  StepOutput late;
  late.events.push_back({.kind = Event::Kind::kEnded, .request = 1});
  hub.deliver(std::move(late));
  io.run();
  io.restart();
  std::vector<Event> events;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        std::vector<Event> all = co_await queue->next(std::chrono::milliseconds(0));
        events = std::move(all);
      },
      asio::detached);
  io.run();
  ASSERT_EQ(events.size(), 2U);
  for (const Event& event : events) {
    EXPECT_EQ(event.outcome, Outcome::kFailed);
    EXPECT_EQ(event.error.message(), "over");
  }
}

TEST_F(GenerationTest, AStopTokenEndsTheTextAndIsNoPartOfIt) {
  start("hello");
  GenerationOptions options;
  options.sampling.logprobs = 0;
  const Answer answer = generate(options);
  EXPECT_EQ(answer.texts[0], "hello");
  EXPECT_EQ(answer.finished[0], FinishReason::kStop);
  EXPECT_EQ(answer.entries[0], 5U);
  EXPECT_EQ(answer.usage.prompt_tokens, 2U);
  EXPECT_EQ(answer.usage.completion_tokens, 6U) << "the stop token was made, and is counted";
}

TEST_F(GenerationTest, WithIgnoreEosOnlyTheLengthEndsTheText) {
  start("hello");
  GenerationOptions options;
  options.ignore_eos = true;
  options.max_tokens = 9;
  const Answer answer = generate(options);
  EXPECT_EQ(answer.texts[0], "hello");  // control tokens have no text
  EXPECT_EQ(answer.finished[0], FinishReason::kLength);
  EXPECT_EQ(answer.usage.completion_tokens, 9U);
}

TEST_F(GenerationTest, AStopStringEndsTheSequenceInTheEngineToo) {
  start("count 12345 and on and on and on");
  GenerationOptions options;
  options.stop = {"34"};
  options.sampling.logprobs = 0;
  const Answer answer = generate(options);
  EXPECT_EQ(answer.texts[0], "count 12");
  EXPECT_EQ(answer.finished[0], FinishReason::kStop);
  EXPECT_EQ(answer.entries[0], 8U) << "as many log-probabilities as tokens of the text";
  EXPECT_EQ(answer.usage.completion_tokens, 10U);
}

TEST_F(GenerationTest, TheBeginningOfAStopStringIsGivenOutWhenTheTextEnds) {
  start("ab");
  GenerationOptions options;
  options.stop = {"abc"};
  EXPECT_EQ(generate(options).texts[0], "ab");
}

TEST_F(GenerationTest, BrokenUtf8AtTheEndBecomesAReplacementCharacter) {
  start("a\xC3");
  EXPECT_EQ(generate({}).texts[0], "a\xEF\xBF\xBD");
}

TEST_F(GenerationTest, SaysWhichOfTheClientsOwnStopsEndedTheText) {
  start("count 12345");
  GenerationOptions options;
  options.stop = {"9", "34"};
  EXPECT_EQ(generate(options).pieces.back().stop_reason, StopReason("34"));
  options.stop = {};
  EXPECT_EQ(generate(options).pieces.back().stop_reason, StopReason()) << "the model's own end";
  options.stop_token_ids = {'2'};
  const Answer answer = generate(options);
  EXPECT_EQ(answer.texts[0], "count 1");
  EXPECT_EQ(answer.pieces.back().stop_reason, StopReason(TokenId{'2'}));
}

TEST_F(GenerationTest, KeepsWhatEndedTheTextWhenAskedTo) {
  start("count 12345");
  GenerationOptions options;
  options.include_stop = true;
  options.stop = {"34"};
  EXPECT_EQ(generate(options).texts[0], "count 1234");
  options.stop = {};
  options.stop_token_ids = {'2'};
  EXPECT_EQ(generate(options).texts[0], "count 12");
}

TEST_F(GenerationTest, LooksForStopStringsBehindTheLeastNumberOfTokensOnly) {
  start("ababab");
  GenerationOptions options;
  options.stop = {"b"};
  options.min_tokens = 3;
  EXPECT_EQ(generate(options).texts[0], "aba");
}

TEST_F(GenerationTest, ShowsSpecialTokensWhenAskedTo) {
  start("ab");
  GenerationOptions options;
  options.skip_special_tokens = false;
  options.ignore_eos = true;
  options.max_tokens = 4;
  EXPECT_EQ(generate(options).texts[0], "ab<eos><eos>");
}

TEST_F(GenerationTest, ReturnsEveryTokenOfAChoiceOnce) {
  start("a\xC3\xBC!");
  GenerationOptions options;
  options.return_token_ids = true;
  std::vector<TokenId> tokens;
  for (const Piece& piece : generate(options).pieces) {
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
  }
  EXPECT_EQ(tokens, (std::vector<TokenId>{'a', 0xC3, 0xBC, '!', ByteTokenizer::kEos}));
}

TEST_F(GenerationTest, CountsUsageAsThePiecesCome) {
  start("abc");
  GenerationOptions options;
  uint64_t before = 0;
  const Answer answer = generate(options);
  for (const Piece& piece : answer.pieces) {
    EXPECT_EQ(piece.usage.prompt_tokens, 2U);
    EXPECT_GE(piece.usage.completion_tokens, before);
    before = piece.usage.completion_tokens;
  }
  EXPECT_EQ(before, answer.usage.completion_tokens);
}

TEST_F(GenerationTest, ReadsReasoningAndCallsOutOfTheText) {
  reply_syntax_ = std::make_unique<FakeReplySyntax>(std::vector<TokenId>{}, std::vector<TokenId>{});
  start("HMyes#{1}#{2}");
  GenerationOptions options;
  options.sampling.logprobs = 0;
  const Answer answer = generate(options, {{'h'}}, reply::ParseOptions{.tool_calls = true});
  std::string reasoning;
  std::vector<std::string> ids, arguments(2);
  for (const Piece& piece : answer.pieces) {
    reasoning += piece.reasoning;
    for (const reply::ToolCallDelta& call : piece.tool_calls) {
      if (call.begins) ids.push_back(call.id);
      arguments.at(call.index) += call.arguments;
    }
  }
  EXPECT_EQ(answer.texts[0], "yes.") << "what the parser held back until the end, too";
  EXPECT_EQ(reasoning, "HM");
  EXPECT_EQ(arguments, (std::vector<std::string>{"{1}", "{2}"}));
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_TRUE(ids[0].starts_with("call_") && ids[0].size() == 29) << ids[0];
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(answer.entries[0], 13U) << "log-probabilities of all tokens of the turn";
}

TEST_F(GenerationTest, AGrammarHoldsForEveryChoiceOfEveryPrompt) {
  start("");
  PreparedPrompts prepared{.tokens = {{'a'}, {'b'}}};
  prepared.grammar = *grammar::compile_gbnf(R"(root ::= "yes" | "no" [0-9]{2})");
  GenerationOptions options;
  options.n = 8;
  std::set<std::string> texts;
  const Answer answer = generate(options, prepared);
  ASSERT_FALSE(answer.error) << answer.error->message;
  for (size_t i = 0; i < answer.texts.size(); ++i) {
    const std::string& text = answer.texts[i];
    EXPECT_TRUE(text == "yes" || (text.size() == 4 && text.starts_with("no"))) << text;
    EXPECT_EQ(answer.finished[i], FinishReason::kStop);
    texts.insert(text);
  }
  EXPECT_GT(texts.size(), 1U) << "each choice is on its own";
}

TEST_F(GenerationTest, RulesForTokensReachTheEngine) {
  start("");
  GenerationOptions options;
  options.max_tokens = 30;
  options.ignore_eos = true;
  options.allowed_token_ids = {'a', 'b', 'c'};
  PreparedPrompts prepared{.tokens = {{'h'}}, .bad_words = {{'b'}, {'a', 'a'}, {'c', 'c'}}};
  std::string text = generate(options, prepared).texts[0];
  EXPECT_EQ(text.size(), 30U);
  for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ(text[i], text[i % 2]) << text;
  EXPECT_NE(text[0], text[1]);
}

TEST_F(GenerationTest, ThePromptsLogProbabilitiesComeOnceForEachChoiceAndBeforeItsText) {
  start("xy");
  GenerationOptions options;
  options.n = 2;
  options.prompt_logprobs = 3;
  const Answer answer = generate(options, {{'a', 'b', 'c'}, {'d'}});
  std::vector<std::vector<size_t>> scores(4);
  std::vector<bool> has_text(4);
  for (const Piece& piece : answer.pieces) {
    if (piece.prompt_scores == nullptr) {
      has_text[piece.choice] = true;
      continue;
    }
    EXPECT_FALSE(has_text[piece.choice]);
    scores[piece.choice].push_back(piece.prompt_scores->size());
    for (const TokenScore& score : *piece.prompt_scores) EXPECT_EQ(score.top.size(), 3U);
  }
  EXPECT_EQ(scores, (std::vector<std::vector<size_t>>{{2}, {2}, {0}, {0}}));
}

TEST_F(GenerationTest, WhoAsksForNoTokensGetsNone) {
  start("xy");
  GenerationOptions options;
  options.max_tokens = 0;
  const Answer answer = generate(options);
  EXPECT_EQ(answer.texts[0], "");
  EXPECT_EQ(answer.finished[0], FinishReason::kLength);
  EXPECT_EQ(answer.usage.completion_tokens, 0U);
}

TEST_F(GenerationTest, CallIdsHaveTheSizeThatTheTemplateTakes) {
  reply_syntax_ = std::make_unique<FakeReplySyntax>(std::vector<TokenId>{}, std::vector<TokenId>{});
  reply_syntax_->set_call_id_bytes(9);
  start("#");
  const Answer answer = generate({}, {{'h'}}, reply::ParseOptions{.tool_calls = true});
  ASSERT_EQ(answer.pieces.at(0).tool_calls.size(), 1U);
  EXPECT_EQ(answer.pieces[0].tool_calls[0].id.size(), 9U);
}

TEST_F(GenerationTest, ReasoningIsLeftOutWhenNobodyWantsIt) {
  reply_syntax_ = std::make_unique<FakeReplySyntax>(std::vector<TokenId>{}, std::vector<TokenId>{});
  start("HMyes");
  GenerationOptions options;
  options.include_reasoning = false;
  for (const Piece& piece : generate(options, {{'h'}}, reply::ParseOptions{}).pieces) EXPECT_EQ(piece.reasoning, "");
}

TEST_F(GenerationTest, WithoutParallelCallsOnlyTheFirstCounts) {
  reply_syntax_ = std::make_unique<FakeReplySyntax>(std::vector<TokenId>{}, std::vector<TokenId>{});
  start("#{1}#{2}");
  GenerationOptions options;
  options.parallel_tool_calls = false;
  std::string arguments;
  for (const Piece& piece : generate(options, {{'h'}}, reply::ParseOptions{.tool_calls = true}).pieces) {
    for (const reply::ToolCallDelta& call : piece.tool_calls) {
      EXPECT_EQ(call.index, 0U);
      arguments += call.arguments;
    }
  }
  EXPECT_EQ(arguments, "{1}");
}

TEST_F(GenerationTest, MarkersReachTheParserAlone) {
  reply_syntax_ =
      std::make_unique<FakeReplySyntax>(std::vector<TokenId>{ByteTokenizer::kEos}, std::vector<TokenId>{'!'});
  start("a");
  EXPECT_EQ(generate({}, {{'h'}}, reply::ParseOptions{}).texts[0], "a<eos>.") << "this parser leaves it in the content";
  EXPECT_EQ(generate({}).texts[0], "a") << "no parser, no markers";
}

TEST_F(GenerationTest, ASyntaxHasStopTokensOfItsOwn) {
  reply_syntax_ = std::make_unique<FakeReplySyntax>(std::vector<TokenId>{}, std::vector<TokenId>{'!'});
  start("a!b");
  EXPECT_EQ(generate({}, {{'h'}}, reply::ParseOptions{}).texts[0], "a.");
  EXPECT_EQ(generate({}).texts[0], "a!b");
}

TEST_F(GenerationTest, SeveralPromptsAndChoicesCountThroughAndThePromptCountsOnce) {
  start("xyz");
  GenerationOptions options;
  options.n = 3;
  const Answer answer = generate(options, {{'a'}, {'b', 'c'}});
  EXPECT_EQ(answer.texts, std::vector<std::string>(6, "xyz"));
  EXPECT_EQ(answer.usage.prompt_tokens, 3U);
  EXPECT_EQ(answer.usage.completion_tokens, 24U);
}

TEST_F(GenerationTest, APromptBeyondTheContextIsRefusedInTheWordsThatClientsKnow) {
  start("x");
  const Answer answer = generate({}, {std::vector<TokenId>(5000, 'a')});
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->status, 400);
  EXPECT_EQ(answer.error->code, "context_length_exceeded");
  EXPECT_NE(answer.error->message.find("This model's maximum context length is"), std::string::npos);
}

TEST_F(GenerationTest, WhenOneOfSeveralPromptsIsRefusedNoneRuns) {
  start("x", {.max_running = 1, .max_waiting_requests = 1});
  const Answer answer = generate({}, std::vector<std::vector<TokenId>>(64, {'a'}));
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->status, 429);
  EXPECT_GT(answer.error->retry_after_s, 0);
  // A cancel takes effect when the step thread gets to it; until then the place may still be taken.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (generate({}).error) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the place never became free again";
  }
}

TEST_F(GenerationTest, ALostStepIsAnErrorOfItsRequests) {
  start("hello", {}, {{2, {.kind = SimFault::Kind::kWaitError, .error = internal_error("it broke")}}});
  const Answer answer = generate({});
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->status, 500);
  EXPECT_FALSE(generate({}).error) << "the next request works";
}

TEST_F(GenerationTest, AnAbandonedGenerationEndsAtOnceAndLeavesNothing) {
  start(std::string(900, 'x'));
  run([&]() -> asio::awaitable<void> {
    GenerationOptions options;
    options.n = 4;
    Generation generation(*service_, io_.get_executor(), options, /*tenant=*/0);
    EXPECT_FALSE(generation.start({.tokens = {{'a'}}}, 900));
    co_await generation.next(std::chrono::milliseconds(0));
    generation.abandon();
    const Batch batch = co_await generation.next(std::chrono::milliseconds(0));
    EXPECT_TRUE(batch.gone && batch.ended);
  });
  EXPECT_EQ(hub_.attached(), 0U);
  EXPECT_FALSE(generate({.max_tokens = 1}).error);
}

TEST_F(GenerationTest, AClientThatDoesNotReadLosesItsOwnRequestOnly) {
  pending_events_max_ = 20;
  start(std::string(900, 'x'));
  run([&]() -> asio::awaitable<void> {
    Generation generation(*service_, io_.get_executor(), {}, /*tenant=*/0);
    EXPECT_FALSE(generation.start({.tokens = {{'a'}}}, 900));
    // Another request, which is read, comes to its end meanwhile; its tokens are the measure of time.
    Generation other(*service_, io_.get_executor(), {.max_tokens = 200}, /*tenant=*/0);
    EXPECT_FALSE(other.start({.tokens = {{'b'}}}, 900));
    while (!(co_await other.next(std::chrono::milliseconds(0))).ended) {
    }
    const Batch batch = co_await generation.next(std::chrono::milliseconds(0));
    EXPECT_TRUE(batch.ended);
    EXPECT_TRUE(batch.error) << "it was cancelled";
    EXPECT_EQ(batch.error.value_or(ApiError{}).code, "client_too_slow");
  });
}

TEST_F(GenerationTest, SilenceGivesAnEmptyBatchThatHasNotEnded) {
  start("hello", {}, {{1, {.kind = SimFault::Kind::kHang}}});
  run([&]() -> asio::awaitable<void> {
    Generation generation(*service_, io_.get_executor(), {}, /*tenant=*/0);
    EXPECT_FALSE(generation.start({.tokens = {{'a'}}}, 10));
    const Batch silence = co_await generation.next(std::chrono::milliseconds(1));
    EXPECT_TRUE(silence.pieces.empty());
    EXPECT_FALSE(silence.ended);
    backend_->await_hang();
    backend_->release();
    while (!(co_await generation.next(std::chrono::milliseconds(0))).ended) {
    }
  });
}

}  // namespace
}  // namespace twostroke::openai
