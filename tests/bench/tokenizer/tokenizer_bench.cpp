// What it costs to encode a prompt of 4 KiB with byte-level BPE, by kind of text.
//
//   cmake --build --preset release --target tokenizer_bench && build/release/tokenizer_bench
//
// "first": a tokenizer that has encoded nothing yet. "again": the prompts of one text in turn, as a server meets them.
// "cold": the same, with the processor's caches emptied before each prompt, as beside an engine that streams weights.
// Texts are this project's documents and sources, and seeded random ones. Needs ../shared.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gguf.h"
#include "kernels/check.h"
#include "server/text/tokenizer.h"

namespace twostroke {
namespace {

constexpr size_t kPromptBytes = 4096;
constexpr size_t kTextBytes = 256 * 1024;
constexpr size_t kCacheBytes = 64 * 1024 * 1024;  // more than a core's own caches hold

enum class State { kFirst, kAgain, kCold };

std::unique_ptr<Tokenizer> make_tokenizer() {
  const auto file = GgufFile::open(std::string(TWOSTROKE_SHARED_DIR) + "/tokenizers/ggml-vocab-starcoder.gguf");
  CHECK(file.ok(), file.status().message());
  auto tokenizer = Tokenizer::from_gguf(**file);
  CHECK(tokenizer.ok(), tokenizer.status().message());
  return std::move(*tokenizer);
}

// The files of the project's folders that end in `extension`, by path, up to kTextBytes.
std::string files(const std::string& extension) {
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"backend", "docs", "kernels", "scheduler", "server", "tests"}) {
    const auto root = std::filesystem::path(TWOSTROKE_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() == extension) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(in), {});
    if (text.size() >= kTextBytes) break;
  }
  return text.substr(0, kTextBytes);
}

std::string random_words() {
  std::mt19937_64 random(1);
  std::string text;
  while (text.size() < kTextBytes) {
    text += ' ';
    for (size_t letters = 3 + random() % 7; letters > 0; --letters) text += static_cast<char>('a' + random() % 26);
  }
  return text;
}

std::string random_bytes() {
  std::mt19937_64 random(1);
  std::string text(kTextBytes, ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

const std::string& text_named(const std::string& name) {
  static const std::string english = files(".md");
  static const std::string code = files(".cpp");
  static const std::string words = random_words();
  static const std::string bytes = random_bytes();
  static const std::string letter(kTextBytes, 'a');
  if (name == "english") return english;
  if (name == "code") return code;
  if (name == "random_words") return words;
  return name == "random_bytes" ? bytes : letter;
}

void empty_processor_caches() {
  static std::vector<char> other(kCacheBytes);
  for (size_t i = 0; i < other.size(); i += 64) ++other[i];
  benchmark::DoNotOptimize(other.data());
}

void encode(benchmark::State& state, const std::string& name, State kind) {
  const std::string_view text = text_named(name);
  const size_t prompts = text.size() / kPromptBytes;
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer();
  if (kind != State::kFirst) (void)tokenizer->encode(text, {});
  size_t next = 0;
  size_t tokens = 0;
  for (auto _ : state) {
    if (kind == State::kFirst) tokenizer = make_tokenizer();
    if (kind == State::kCold) empty_processor_caches();
    const std::string_view prompt = text.substr(next++ % prompts * kPromptBytes, kPromptBytes);
    const auto begin = std::chrono::steady_clock::now();
    tokens += tokenizer->encode(prompt, {}).size();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  state.counters["tokens"] = static_cast<double>(tokens) / static_cast<double>(state.iterations());
}

void settings(benchmark::internal::Benchmark* bench) { bench->Unit(benchmark::kMicrosecond)->UseManualTime(); }
void few(benchmark::internal::Benchmark* bench) {
  settings(bench);
  bench->Iterations(64);
}

BENCHMARK_CAPTURE(encode, english_first, "english", State::kFirst)->Apply(few);
BENCHMARK_CAPTURE(encode, english_again, "english", State::kAgain)->Apply(settings);
BENCHMARK_CAPTURE(encode, english_cold, "english", State::kCold)->Apply(few);
BENCHMARK_CAPTURE(encode, code_first, "code", State::kFirst)->Apply(few);
BENCHMARK_CAPTURE(encode, code_again, "code", State::kAgain)->Apply(settings);
BENCHMARK_CAPTURE(encode, code_cold, "code", State::kCold)->Apply(few);
BENCHMARK_CAPTURE(encode, random_words_again, "random_words", State::kAgain)->Apply(settings);
BENCHMARK_CAPTURE(encode, random_bytes_again, "random_bytes", State::kAgain)->Apply(settings);
BENCHMARK_CAPTURE(encode, one_letter_again, "one_letter", State::kAgain)->Apply(settings);

}  // namespace
}  // namespace twostroke
