// Byte-level BPE against its definition: within each piece, the pair of lowest rank is joined, the leftmost of equals,
// until there is none. Every text is encoded twice, so that what the tokenizer remembers of it is compared, too.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/text/pre_tokenizer.h"
#include "server/text/utf8.h"
#include "tests/text/tokenizer/tokenizer_files.h"

namespace twostroke {
namespace {

using Ids = std::vector<TokenId>;

class Definition {
 public:
  // `tokenizer` is that of `spec`; only the bytes of its tokens are taken from it.
  Definition(const TokenizerSpec& spec, const Tokenizer& tokenizer) {
    auto pre_tokenizer = PreTokenizer::create(spec.pre);
    if (!pre_tokenizer.ok()) {
      ADD_FAILURE() << pre_tokenizer.status().message();
      return;
    }
    pre_tokenizer_ = std::move(*pre_tokenizer);
    std::unordered_map<std::string, TokenId> ids;
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      ids.emplace(spec.tokens[i], id);
      if (spec.types[i] == TokenType::kNormal && !tokenizer.piece(id, false).empty()) {
        if (pre_tokenizer_->ignores_merges()) whole_.emplace(tokenizer.piece(id, false), id);
      }
    }
    const TokenizerSpec alphabet = byte_level_spec("gpt-2", {});
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto found = ids.find(alphabet.tokens[byte]);
      bytes_.push_back(found == ids.end() ? -1 : found->second);
    }
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
      const std::string& merge = spec.merges[rank];
      const size_t space = merge.find(' ', 1);
      const TokenId left = ids.at(merge.substr(0, space));
      const TokenId right = ids.at(merge.substr(space + 1));
      const TokenId joined = ids.at(merge.substr(0, space) + merge.substr(space + 1));
      if (!tokenizer.is_control(joined)) merges_.emplace(pair_of(left, right), std::pair{rank, joined});
    }
  }

  Ids encode(const std::string& text) const {
    Ids out;
    std::vector<std::string_view> pieces;
    pre_tokenizer_->split(text, pieces);
    for (const std::string_view piece : pieces) {
      const Ids ids = encode_piece(std::string(piece));
      out.insert(out.end(), ids.begin(), ids.end());
    }
    return out;
  }

 private:
  static uint64_t pair_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  }

  Ids encode_piece(const std::string& piece) const {
    if (const auto whole = whole_.find(piece); whole != whole_.end()) return {whole->second};
    Ids ids;
    for (const char c : piece) {
      const TokenId id = bytes_[static_cast<uint8_t>(c)];
      if (id >= 0) {
        ids.push_back(id);
      } else {
        for (const char byte : kReplacementCharacter) ids.push_back(bytes_[static_cast<uint8_t>(byte)]);
      }
    }
    for (;;) {
      std::pair<size_t, TokenId> best{SIZE_MAX, -1};
      size_t at = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = merges_.find(pair_of(ids[i], ids[i + 1]));
        if (found == merges_.end() || found->second.first >= best.first) continue;
        best = found->second;
        at = i;
      }
      if (best.second < 0) return ids;
      ids[at] = best.second;
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
  }

  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unordered_map<std::string, TokenId> whole_;  // where merges are ignored for tokens
  std::vector<TokenId> bytes_;
  std::unordered_map<uint64_t, std::pair<size_t, TokenId>> merges_;
};

// Words made of a few parts each, bytes of every value, and runs of one letter.
std::string random_words_and_bytes(std::mt19937& random) {
  const std::string parts[] = {"an",       "ana", "ban", "the", "ing", "er",          "aa",
                               "\xC3\xA9", "0",   "12",  "_",   "->",  "\xE4\xB8\xAD"};
  std::string text;
  for (auto words = random() % 12; words > 0; --words) {
    switch (random() % 4) {
      case 0:
        for (auto bytes = random() % 8; bytes > 0; --bytes) text += static_cast<char>(random() % 256);
        break;
      case 1:
        text += std::string(random() % 40, static_cast<char>(random() % 2 == 0 ? ' ' : 'a' + random() % 26));
        break;
      default:
        text += ' ';
        for (auto left = random() % 6; left > 0; --left) text += parts[random() % std::size(parts)];
    }
  }
  return text;
}

struct MergesCase {
  std::string vocabulary;  // "smollm2", or one of the shared folder
  std::string pre;         // in place of the file's; "": its own
};

class BpeMerges : public testing::TestWithParam<MergesCase> {
 protected:
  void SetUp() override {
    const std::string& name = GetParam().vocabulary;
    const bool shared = name != "smollm2";
    if (shared && vocabulary_directory().empty()) GTEST_SKIP() << "no shared data at " << TWOSTROKE_SHARED_DIR;
    if (!shared && smollm2_path().empty())
      GTEST_SKIP() << "SmolLM2 is not in ~/.cache/twostroke; deploy/quickstart puts it there";
    const auto file =
        GgufFile::open(shared ? vocabulary_directory() + "/ggml-vocab-" + name + ".gguf" : smollm2_path());
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto spec = read_tokenizer_spec(**file);
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    if (!GetParam().pre.empty()) spec->pre = GetParam().pre;
    tokenizer_ = make_tokenizer(*spec);
    ASSERT_NE(tokenizer_, nullptr);
    definition_ = std::make_unique<Definition>(*spec, *tokenizer_);
    spec_ = std::move(*spec);
  }

  TokenizerSpec spec_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Definition> definition_;
};

TEST_P(BpeMerges, JoinEveryTokenOfTheVocabularyAsDefined) {
  size_t whole = 0;
  for (TokenId token = 0; token < tokenizer_->vocab_size(); ++token) {
    if (spec_.types[static_cast<size_t>(token)] != TokenType::kNormal) continue;
    const std::string text(tokenizer_->piece(token, false));
    const Ids expected = definition_->encode(text);
    ASSERT_EQ(tokenizer_->encode(text, {}), expected) << token << ": " << text;
    ASSERT_EQ(tokenizer_->encode(text, {}), expected) << token << ", again: " << text;
    whole += expected == Ids{token} ? 1 : 0;
  }
  EXPECT_GT(whole, static_cast<size_t>(tokenizer_->vocab_size()) / 2);
}

TEST_P(BpeMerges, JoinRandomTextAsDefined) {
  const unsigned seed = 17;
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_words_and_bytes(random);
    const Ids expected = definition_->encode(text);
    ASSERT_EQ(tokenizer_->encode(text, {}), expected) << "seed " << seed << ", round " << round;
    ASSERT_EQ(tokenizer_->encode(text, {}), expected) << "seed " << seed << ", again in round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, BpeMerges,
                         testing::Values(MergesCase{"gpt-2", ""}, MergesCase{"gpt-2", "llama-bpe"},
                                         MergesCase{"starcoder", ""}, MergesCase{"smollm2", ""}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.vocabulary + "_" + parameter.param.pre;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(BpeMergesOfAMadeUpVocabulary, NeverGiveATokenThatTheyDoNotReach) {
  // "bc" is joined before "ab", so that nothing leads to "abc" as a whole; "cab" has no merge at all.
  TokenizerSpec spec = byte_level_spec("gpt-2", {"b c", "a b", "ab c"});
  add_token(spec, "cab", TokenType::kNormal);
  const auto tokenizer = make_tokenizer(spec);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{'a', 256})) << round;
    EXPECT_EQ(tokenizer->encode("cab", {}), (Ids{'c', 257})) << round;
  }
}

TEST(BpeMergesOfAMadeUpVocabulary, GiveTheSameOnEveryThreadAtOnce) {
  const TokenizerSpec spec = byte_level_spec("gpt-2", {"a n", "an a", "b an", "t h", "th e", "i n", "in g", "a a"});
  const auto tokenizer = make_tokenizer(spec);
  const Definition definition(spec, *tokenizer);
  const unsigned seed = 5;
  std::mt19937 random(seed);
  std::vector<std::string> texts(400);
  for (std::string& text : texts) text = random_words_and_bytes(random);
  std::vector<std::thread> threads;
  std::vector<size_t> wrong(4);
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < 4 * texts.size(); ++i) {
        const std::string& text = texts[(i + 100 * thread) % texts.size()];
        wrong[thread] += tokenizer->encode(text, {}) == definition.encode(text) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<size_t>(4)) << "seed " << seed;
}

}  // namespace
}  // namespace twostroke
