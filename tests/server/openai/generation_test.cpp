// From submitted prompts to pieces of text: stop tokens, stop strings, usage, and what a vanished or slow client
// leaves.
#include "server/openai/generation.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <thread>

#include "backend/sim/sim_backend.h"
#include "byte_tokenizer.h"

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
      if (row.output_index >= answer.size()) return ByteTokenizer::kEos;
      return static_cast<unsigned char>(answer[row.output_index]);
    };
    options.step_faults = std::move(faults);
    backend_ = std::move(SimBackend::create(std::move(options))).value();
    engine_ = std::make_unique<Engine>(limits, EngineLimits{}, *backend_,
                                       [this](StepOutput&& output) { hub_.deliver(std::move(output)); });
    service_.reset(new Service{.tokenizer = tokenizer_,
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
    std::vector<std::optional<FinishReason>> finished;
    std::vector<size_t> entries;
    Usage usage;
    std::optional<ApiError> error;
  };
  Answer generate(const GenerationOptions& options, std::vector<std::vector<TokenId>> prompts = {{'h', 'i'}}) {
    Answer answer;
    const size_t choices = prompts.size() * options.n;
    answer.texts.resize(choices);
    answer.finished.resize(choices);
    answer.entries.resize(choices);
    run([&]() -> asio::awaitable<void> {
      Generation generation(*service_, io_.get_executor(), options);
      answer.error = generation.start(prompts, 100);
      while (!answer.error) {
        Batch batch = co_await generation.next(std::chrono::milliseconds(0));
        for (Piece& piece : batch.pieces) {
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
    Generation generation(*service_, io_.get_executor(), options);
    EXPECT_FALSE(generation.start({{'a'}}, 900));
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
    Generation generation(*service_, io_.get_executor(), {});
    EXPECT_FALSE(generation.start({{'a'}}, 900));
    // Another request, which is read, comes to its end meanwhile; its tokens are the measure of time.
    Generation other(*service_, io_.get_executor(), {.max_tokens = 200});
    EXPECT_FALSE(other.start({{'b'}}, 900));
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
    Generation generation(*service_, io_.get_executor(), {});
    EXPECT_FALSE(generation.start({{'a'}}, 10));
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
