#include "server/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "server/text/pre_tokenizer_patterns.h"
#include "server/text/utf8.h"

namespace twostroke {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatch>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeContext>;

// \s of PCRE2 also holds U+180E, which is no White_Space since Unicode 6.3 and which Mongolian text uses.
std::string with_unicode_spaces(std::string_view pattern) {
  constexpr std::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out.append(in_class ? "" : "[").append(kSpaces).append(in_class ? "" : "]");
      } else if (escaped == 'S') {
        CHECK(!in_class, "\\S in a class is not needed by any pattern");
        out.append("[^").append(kSpaces).append("]");
      } else {
        out += '\\';
        out += escaped;
      }
      continue;
    }
    if (pattern[i] == '[') in_class = true;
    if (pattern[i] == ']') in_class = false;
    out += pattern[i];
  }
  return out;
}

// The patterns are part of the program, so one that does not compile is a broken invariant.
Code compile(std::string_view pattern) {
  const std::string source = with_unicode_spaces(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr));
  CHECK(code != nullptr,
        "pre-tokenizer pattern: " + source + ": error " + std::to_string(error) + " at " + std::to_string(offset));
  // Where JIT is not to be had, pcre2_match interprets the same pattern.
  (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

bool has_jit(const pcre2_code* code) {
  size_t size = 0;
  return pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &size) == 0 && size > 0;
}

}  // namespace

struct PreTokenizer::Impl {
  struct Stage {
    Code code;
    decltype(&pcre2_match) match;  // pcre2_jit_match, which skips checks that hold here, where there is JIT
  };
  const PreTokenizerPattern* pattern;
  std::vector<Stage> stages;  // one at least
  MatchContext context;

  void split_piece(const Stage& stage, pcre2_match_data* match, std::string_view piece,
                   std::vector<std::string_view>& out) const;
};

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::create(std::string_view name) {
  const auto names = pre_tokenizer_names();
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.name == name; });
  if (found == names.end()) {
    std::string known;
    for (const auto& entry : names) known.append(known.empty() ? "" : ", ").append(entry.name);
    return unsupported("pre-tokenizer \"" + std::string(name) +
                       "\" (tokenizer.ggml.pre) is not supported; supported: " + known);
  }
  auto impl = std::make_unique<Impl>();
  impl->pattern = found->pattern;
  for (const std::string_view stage : found->pattern->stages) {
    Code code = compile(stage);
    const auto match = has_jit(code.get()) ? &pcre2_jit_match : &pcre2_match;
    impl->stages.push_back({std::move(code), match});
  }
  impl->context.reset(pcre2_match_context_create(nullptr));
  CHECK(impl->context != nullptr, "out of memory");
  // Steps are bounded by the patterns themselves (see the header): a limit could only lose a long text.
  pcre2_set_match_limit(impl->context.get(), UINT32_MAX);
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

bool PreTokenizer::ignores_merges() const { return impl_->pattern->ignore_merges; }
bool PreTokenizer::adds_bos() const { return impl_->pattern->add_bos; }

namespace {

// The size of the longest prefix of `text` that is ASCII.
size_t ascii_prefix(std::string_view text) {
  size_t size = 0;
  for (uint64_t bytes = 0; size + sizeof(bytes) <= text.size(); size += sizeof(bytes)) {
    std::memcpy(&bytes, text.data() + size, sizeof(bytes));
    if ((bytes & 0x8080808080808080) != 0) break;
  }
  while (size < text.size() && static_cast<uint8_t>(text[size]) < 0x80) ++size;
  return size;
}

// The longest prefix of `text` that is valid UTF-8, or else the longest one without a valid character.
std::pair<std::string_view, bool> uniform_prefix(std::string_view text) {
  const bool valid = utf8_first_unit(text).kind == Utf8Kind::kCharacter;
  size_t size = 0;
  while (size < text.size()) {
    if (valid) size += ascii_prefix(text.substr(size));
    if (size == text.size()) break;
    const Utf8Unit unit = utf8_first_unit(text.substr(size));
    if ((unit.kind == Utf8Kind::kCharacter) != valid) break;
    size += unit.size;
  }
  return {text.substr(0, size), valid};
}

}  // namespace

// Appends the matches of a stage in `piece`, which is valid UTF-8, and what lies between them.
void PreTokenizer::Impl::split_piece(const Stage& stage, pcre2_match_data* match, std::string_view piece,
                                     std::vector<std::string_view>& out) const {
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
  size_t done = 0;
  while (done < piece.size()) {
    const int rc = stage.match(stage.code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), done,
                               PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, context.get());
    if (rc < 0) break;  // no match: the rest is a piece, so that no failure of any kind loses text
    if (ends[0] > done) out.push_back(piece.substr(done, ends[0] - done));
    out.push_back(piece.substr(ends[0], ends[1] - ends[0]));
    done = ends[1];
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  pieces.clear();
  std::vector<std::string_view> before;
  std::vector<std::string_view> after;
  const MatchData match(pcre2_match_data_create(1, nullptr));
  CHECK(match != nullptr, "out of memory");
  while (!text.empty()) {
    const auto [prefix, valid] = uniform_prefix(text);
    text.remove_prefix(prefix.size());
    if (!valid) {
      pieces.push_back(prefix);
      continue;
    }
    before.assign(1, prefix);
    for (const Impl::Stage& stage : impl_->stages) {
      const bool last = &stage == &impl_->stages.back();
      std::vector<std::string_view>& out = last ? pieces : after;
      for (const std::string_view piece : before) impl_->split_piece(stage, match.get(), piece, out);
      if (last) break;
      before.swap(after);
      after.clear();
    }
  }
}

}  // namespace twostroke
