// grammar_bench: what a mask of allowed tokens costs, over a vocabulary of 128,256 tokens.
//
//   build/release/grammar_bench [--verbose]
//
// For each grammar: the time to compile it, then the time of every fill_mask() along its texts. "first" is the first
// time through all texts after compilation, when everything still has to be found out; "again" the second time, with
// new matchers of the same grammar, as a server has them. accept() is measured along with it. Needs ../shared.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "server/text/grammar/gbnf.h"
#include "server/text/grammar/json_schema.h"
#include "server/text/grammar/matcher.h"
#include "tests/bench/grammar/grammar_cases.h"
#include "tests/bench/grammar/vocabulary.h"

namespace twostroke {
namespace {

constexpr size_t kVocabulary = 128'256;

// Of this thread's processor time, so that a busy machine is no part of the figures.
double microseconds_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

struct Times {
  std::vector<double> masks_us;
  double accepts_us = 0;
};

bool verbose = false;

Times read_texts(const GrammarCase& test, const std::shared_ptr<const grammar::Grammar>& grammar,
                 const grammar::TokenTrie& trie, const Vocabulary& vocabulary) {
  Times times;
  std::vector<uint32_t> mask((kVocabulary + 31) / 32);
  for (const std::string& text : test.texts) {
    grammar::Matcher matcher(grammar);
    for (const TokenId token : vocabulary.encode(text)) {
      std::fill(mask.begin(), mask.end(), 0);
      const double begin = microseconds_now();
      matcher.fill_mask(trie, mask);
      const double middle = microseconds_now();
      CHECK(mask[static_cast<size_t>(token) / 32] >> token % 32 & 1, "a text is not one of its grammar");
      matcher.accept_token(token, vocabulary.pieces[static_cast<size_t>(token)]);
      times.accepts_us += microseconds_now() - middle;
      times.masks_us.push_back(middle - begin);
      if (verbose) std::printf("%9.1f  %s\n", middle - begin, vocabulary.pieces[static_cast<size_t>(token)].c_str());
    }
    CHECK(matcher.may_end(), "a text is not one of its grammar");
  }
  return times;
}

void report(const char* label, Times times) {
  std::vector<double>& all = times.masks_us;
  double sum = 0;
  for (const double time : all) sum += time;
  std::sort(all.begin(), all.end());
  const auto count = static_cast<double>(all.size());
  std::printf("  %-6s %6zu masks: mean %7.1f us, median %7.1f, p99 %8.1f, max %8.1f; accept mean %5.2f us\n", label,
              all.size(), sum / count, all[all.size() / 2], all[all.size() * 99 / 100], all.back(),
              times.accepts_us / count);
}

void run() {
  const Vocabulary vocabulary = make_vocabulary(std::string(TWOSTROKE_SHARED_DIR) + "/tokenizers", kVocabulary);
  const double begin = microseconds_now();
  const grammar::TokenTrie trie(vocabulary.pieces);
  std::printf("tree of %zu tokens: %.1f ms\n", vocabulary.pieces.size(), (microseconds_now() - begin) / 1000);
  for (const GrammarCase& test : grammar_cases()) {
    const double compile_begin = microseconds_now();
    const auto grammar = test.schema.empty() ? grammar::compile_gbnf(test.gbnf)
                                             : grammar::compile_json_schema(nlohmann::ordered_json::parse(test.schema));
    CHECK(grammar.ok(), grammar.status().message());
    std::printf("%s: compiled in %.2f ms\n", test.name.c_str(), (microseconds_now() - compile_begin) / 1000);
    report("first", read_texts(test, *grammar, trie, vocabulary));
    report("again", read_texts(test, *grammar, trie, vocabulary));
  }
}

}  // namespace
}  // namespace twostroke

int main(int argc, char** argv) {
  twostroke::verbose = argc > 1 && std::strcmp(argv[1], "--verbose") == 0;
  twostroke::run();
  return 0;
}
