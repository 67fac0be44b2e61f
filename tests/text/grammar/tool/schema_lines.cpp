// Reads one JSON object a line, {"schema": ..., "texts": [...], "samples": n, "seed": s, "any_whitespace": bool}, or
// {"regex": ..., "anchored": bool, "texts": [...]}, and writes one a line: {"accepted": [bool, ...], "samples": [...]}
// or
// {"error": ..., "code": ...}. Samples are texts found by walking through the grammar at random; one that has not ended
// after 4,000 bytes is left out.
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/grammar/json_schema.h"
#include "server/text/grammar/matcher.h"
#include "server/text/grammar/regex.h"
#include "server/text/grammar/token_trie.h"

namespace {

using namespace twostroke;           // NOLINT: a program of one file
using namespace twostroke::grammar;  // NOLINT
using Json = nlohmann::ordered_json;

constexpr size_t kSampleBytesMax = 4'000;
constexpr size_t kSampleBytesWanted = 60;  // what ends the text is preferred from here on

TokenTrie single_bytes() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  return TokenTrie(pieces);
}

std::optional<std::string> sample(const std::shared_ptr<const Grammar>& grammar, const TokenTrie& bytes,
                                  std::mt19937_64& random) {
  Matcher matcher(grammar);
  std::string text;
  while (!matcher.must_end()) {
    const bool is_long = text.size() >= kSampleBytesWanted;
    if (matcher.may_end() && (is_long || random() % 4 == 0)) break;
    std::array<uint32_t, 8> mask{};
    matcher.fill_mask(bytes, mask);
    std::string allowed;
    std::string ending;
    for (unsigned b = 0; b < 256; ++b) {
      if ((mask[b / 32] >> (b % 32) & 1) == 0) continue;
      allowed += static_cast<char>(b);
      if (std::string_view("\"]}").find(static_cast<char>(b)) != std::string_view::npos) ending += static_cast<char>(b);
    }
    if (text.size() > kSampleBytesMax) return std::nullopt;
    if (allowed.empty()) return text + " <- stuck";
    // A quote ends a string, but begins an additional property as well: not always.
    const std::string& from = !ending.empty() && is_long && random() % 8 != 0 ? ending : allowed;
    const char next = from[random() % from.size()];
    if (!matcher.accept(std::string_view(&next, 1))) return text + " <- refused";
    text += next;
  }
  return matcher.may_end() ? text : text + " <- not whole";
}

Json answer_schema(const Json& request, const TokenTrie& bytes) {
  JsonSchemaOptions options;
  options.any_whitespace = request.value("any_whitespace", true);
  const auto grammar = compile_json_schema(request.at("schema"), options);
  if (!grammar.ok())
    return {{"error", grammar.status().message()}, {"code", status_code_name(grammar.status().code())}};
  Json answer = {{"accepted", Json::array()}, {"samples", Json::array()}};
  for (const auto& text : request.value("texts", Json::array())) {
    Matcher matcher(*grammar);
    answer["accepted"].push_back(matcher.accept(text.get<std::string>()) && matcher.may_end());
  }
  std::mt19937_64 random(request.value("seed", 0));
  for (int i = 0; i < request.value("samples", 0); ++i)
    if (const auto text = sample(*grammar, bytes, random)) answer["samples"].push_back(*text);
  return answer;
}

Json answer_regex(const Json& request) {
  const auto dfa = compile_regex(request.at("regex").get<std::string>(), request.value("anchored", false));
  if (!dfa.ok()) return {{"error", dfa.status().message()}, {"code", status_code_name(dfa.status().code())}};
  Json answer = {{"accepted", Json::array()}};
  for (const auto& text : request.at("texts")) answer["accepted"].push_back(dfa->matches(text.get<std::string>()));
  return answer;
}

}  // namespace

int main() {
  const TokenTrie bytes = single_bytes();
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line);
    const Json answer = request.contains("regex") ? answer_regex(request) : answer_schema(request, bytes);
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
