// Pre-tokenizers and SmolLM2's tokenizer against Hugging Face's implementation; make_reference.py made the values.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "server/text/pre_tokenizer.h"
#include "server/text/pre_tokenizer_patterns.h"
#include "tests/text/tokenizer/tokenizer_files.h"

namespace twostroke {
namespace {

nlohmann::json read_fixture(const std::string& name) {
  return nlohmann::json::parse(read_file(std::string(TWOSTROKE_TESTS_DIR) + "/text/tokenizer/fixtures/" + name));
}

TEST(PreTokenizerReference, EveryFamilyCutsWhereHuggingFaceDoes) {
  const nlohmann::json reference = read_fixture("pre_tokenizers.json");
  const auto texts = reference.at("texts").get<std::vector<std::string>>();
  ASSERT_EQ(texts.size(), 60u);
  std::vector<std::string_view> pieces;
  for (const auto& [name, cuts] : reference.at("ends").items()) {
    const auto pre_tokenizer = PreTokenizer::create(name);
    ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status().message();
    for (size_t i = 0; i < texts.size(); ++i) {
      (*pre_tokenizer)->split(texts[i], pieces);
      std::vector<size_t> ends;
      for (const std::string_view piece : pieces) ends.push_back((ends.empty() ? 0 : ends.back()) + piece.size());
      EXPECT_EQ(ends, cuts[i].get<std::vector<size_t>>()) << name << ": " << nlohmann::json(texts[i]);
    }
  }
}

TEST(PreTokenizerReference, NoPatternIsWithoutReference) {
  const nlohmann::json reference = read_fixture("pre_tokenizers.json");
  const auto key = [](const PreTokenizerPattern& pattern) {
    std::string joined;
    for (const std::string_view stage : pattern.stages) joined.append(stage).append("\n");
    return joined;
  };
  std::set<std::string> patterns;
  for (const PreTokenizerName& entry : pre_tokenizer_names()) {
    if (reference.at("ends").contains(std::string(entry.name))) patterns.insert(key(*entry.pattern));
  }
  for (const PreTokenizerName& entry : pre_tokenizer_names()) {
    EXPECT_TRUE(patterns.contains(key(*entry.pattern))) << entry.name;
  }
}

TEST(SmolLm2Tokenizer, GivesTheIdsThatHuggingFaceGives) {
  if (smollm2_path().empty()) GTEST_SKIP() << "SmolLM2 is not in ~/.cache/twostroke; deploy/quickstart puts it there";
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(smollm2_path());
  ASSERT_NE(tokenizer, nullptr);
  const nlohmann::json reference = read_fixture("smollm2.json");
  ASSERT_EQ(reference.size(), 300u);
  for (const auto& entry : reference) {
    EXPECT_EQ(tokenizer->encode(entry.at("text").get<std::string>(), {}), entry.at("ids").get<std::vector<TokenId>>())
        << entry.at("text");
  }
}

}  // namespace
}  // namespace twostroke
