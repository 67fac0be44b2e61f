#include "server/text/segment_tokenizer.h"

#include <algorithm>
#include <cctype>

#include "kernels/check.h"

namespace twostroke {
namespace {

// Texts by which models end a turn. Files often name only one of several in their metadata. The list is llama.cpp's
// (src/llama-vocab.cpp), which the files are made for.
constexpr std::string_view kEndOfTurnTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",  // <｜end▁of▁sentence｜>
    "[e~[",
};

bool looks_like_control(std::string_view text) {
  constexpr std::string_view kBar = "\xEF\xBD\x9C";  // ｜, as DeepSeek writes it
  const auto framed_by = [&](std::string_view bar) {
    return text.size() > 2 * bar.size() + 2 && text.front() == '<' && text.back() == '>' &&
           text.substr(1, bar.size()) == bar && text.substr(text.size() - 1 - bar.size(), bar.size()) == bar;
  };
  return framed_by("|") || framed_by(kBar) || text == "<start_of_turn>" || text == "<end_of_turn>";
}

std::string lowercase(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Of UTF-8: what one unknown token may stand for.
constexpr size_t kCharacterBytesMax = 4;

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Ranges that touch are joined, so that a token may lie across both.
std::vector<TextRange> join_touching(std::span<const TextRange> ranges, size_t text_size) {
  std::vector<TextRange> out;
  for (const TextRange& range : ranges) {
    CHECK(range.begin <= range.end && range.end <= text_size, "a trusted range lies within the text");
    CHECK(out.empty() || out.back().end <= range.begin, "trusted ranges are sorted and disjoint");
    if (range.begin == range.end) continue;
    if (!out.empty() && out.back().end == range.begin) {
      out.back().end = range.end;
    } else {
      out.push_back(range);
    }
  }
  return out;
}

}  // namespace

int byte_token_value(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  const int high = digit(text[3]);
  const int low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::vector<TokenId> SegmentTokenizer::encode_marked(std::string_view text, std::span<const TextRange> trusted,
                                                     bool add_special) const {
  const std::vector<TextRange> ranges = join_touching(trusted, text.size());
  std::vector<TokenId> out;
  size_t done = 0;
  const auto encode_until = [&](size_t end) {
    if (end > done) encode_segment(text.substr(done, end - done), out);
  };
  for (const SpecialTokens::Match& match : special_tokens_.find(text, ranges)) {
    if (match.begin < done) continue;  // within whitespace that a token to its left took
    encode_until(match.begin);
    out.push_back(match.token.id);
    done = match.end;
    while (match.token.rstrip && done < text.size() && is_ascii_space(text[done])) ++done;
  }
  encode_until(text.size());
  if (add_special && adds_bos() && (out.empty() || out.front() != bos())) out.insert(out.begin(), bos());
  if (add_special && adds_eos()) out.push_back(eos());
  return out;
}

std::string_view SegmentTokenizer::piece(TokenId token, bool special) const {
  CHECK(token >= 0 && token < vocab_size_, "a token of the vocabulary");
  const size_t index = static_cast<size_t>(token);
  return special && pieces_[index].empty() ? texts_[index] : pieces_[index];
}

TokenId SegmentTokenizer::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

bool SegmentTokenizer::is_text(TokenId token) const {
  return !is_control(token) && type(token) != TokenType::kUnknown && type(token) != TokenType::kByte;
}

Status SegmentTokenizer::load(const TokenizerSpec& spec, bool adds_bos, std::string (*decode)(std::string_view text)) {
  if (spec.tokens.empty()) return invalid_argument("tokenizer.ggml.tokens is empty");
  if (!spec.types.empty() && spec.types.size() != spec.tokens.size()) {
    return invalid_argument("tokenizer.ggml.token_type holds " + std::to_string(spec.types.size()) + " entries for " +
                            std::to_string(spec.tokens.size()) + " tokens");
  }
  texts_ = spec.tokens;
  types_ = spec.types;
  if (types_.empty()) types_.assign(texts_.size(), TokenType::kNormal);
  vocab_size_ = static_cast<int32_t>(texts_.size());
  control_.resize(texts_.size());
  ids_.reserve(texts_.size());
  for (TokenId token = 0; token < vocab_size_; ++token) {
    if (!text(token).empty()) ids_.emplace(text(token), token);
    control_[static_cast<size_t>(token)] = type(token) == TokenType::kControl;
  }

  bos_ = spec.bos.value_or(-1);
  eos_ = spec.eos.value_or(-1);
  adds_bos_ = spec.add_bos.value_or(adds_bos && bos_ >= 0);
  adds_eos_ = spec.add_eos.value_or(false);
  if (adds_bos_ && bos_ < 0) return invalid_argument("tokenizer.ggml.add_bos_token is set, but bos_token_id is not");
  if (adds_eos_ && eos_ < 0) return invalid_argument("tokenizer.ggml.add_eos_token is set, but eos_token_id is not");
  load_end_of_generation(spec);
  load_special_tokens(spec);

  pieces_.resize(texts_.size());
  for (TokenId token = 0; token < vocab_size_; ++token) {
    std::string& piece = pieces_[static_cast<size_t>(token)];
    if (is_control(token)) continue;
    switch (type(token)) {
      case TokenType::kNormal:
        piece = decode(text(token));
        break;
      case TokenType::kUserDefined:
        piece = text(token);
        break;
      case TokenType::kByte: {
        const int value = byte_token_value(text(token));
        if (value < 0) {
          return invalid_argument("token " + std::to_string(token) + " is a byte token, but its text \"" + text(token) +
                                  "\" is not of the form <0x00>");
        }
        piece = std::string(1, static_cast<char>(value));
        break;
      }
      case TokenType::kUnknown:
      case TokenType::kControl:
      case TokenType::kUnused:
        break;
    }
  }
  longest_token_bytes_ = kCharacterBytesMax;
  for (const auto* strings : {&texts_, &pieces_}) {
    for (const std::string& s : *strings) longest_token_bytes_ = std::max(longest_token_bytes_, s.size());
  }
  return {};
}

void SegmentTokenizer::load_end_of_generation(const TokenizerSpec& spec) {
  for (const std::optional<TokenId> id : {spec.eos, spec.eot, spec.eom}) {
    if (!id) continue;
    end_of_generation_.push_back(*id);
    // Some files call it user-defined: it would be text that ends a reply.
    if (type(*id) != TokenType::kNormal) control_[static_cast<size_t>(*id)] = true;
  }
  // Models that end a turn with <|return|> or <|call|> use <|end|> within it, between a message and the next.
  const auto has = [&](std::string_view name) { return find(name) >= 0; };
  const bool end_is_within = (has("<|call|>") && has("<|return|>")) || (has("<|calls|>") && has("<|flush|>"));
  for (const std::string_view name : kEndOfTurnTexts) {
    const TokenId id = find(name);
    if (id < 0 || type(id) == TokenType::kNormal || (name == "<|end|>" && end_is_within)) continue;
    end_of_generation_.push_back(id);
    control_[static_cast<size_t>(id)] = true;
  }
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
  end_of_generation_.erase(std::unique(end_of_generation_.begin(), end_of_generation_.end()), end_of_generation_.end());
}

void SegmentTokenizer::load_special_tokens(const TokenizerSpec& spec) {
  // Phi-3's tokenizer strips the whitespace behind most of its special tokens; no metadata key says so.
  const std::string name = lowercase(spec.model_name);
  const bool strips = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
  for (const auto& [token_text, id] : ids_) {
    const TokenType kind = type(id);
    if (!is_control(id) && kind != TokenType::kUserDefined && kind != TokenType::kUnknown) continue;
    const bool keeps_right = token_text == "<unk>" || token_text == "<s>" || token_text == "<|endoftext|>";
    special_tokens_.add(
        token_text, {.id = id,
                     .anywhere = kind == TokenType::kUserDefined && !is_control(id) && !looks_like_control(token_text),
                     .rstrip = strips && !keeps_right});
  }
}

}  // namespace twostroke
