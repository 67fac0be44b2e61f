#include "server/text/jinja/strings.h"

#include <algorithm>
#include <string>

#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

bool in_set(std::string_view characters, std::string_view character) {
  // A character is found only at a character's first byte, since both are valid UTF-8.
  return characters.find(character) != std::string_view::npos;
}

// Python's "σ at the end of a word is ς": after a letter, and not before one.
bool is_final_sigma(std::string_view view, std::size_t begin, std::size_t end) {
  const bool after_letter = begin > 0 && utf8::is_alpha(utf8::decode(view, utf8::start_of_last(view, begin)));
  return after_letter && (end == view.size() || !utf8::is_alpha(utf8::decode(view, end)));
}

bool is_line_end(char32_t character) {
  return (character >= '\n' && character <= '\r') || (character >= 0x1C && character <= 0x1E) || character == 0x85 ||
         character == 0x2028 || character == 0x2029;
}

std::vector<Text> split_at_space(const Text& text, std::int64_t splits_max) {
  const std::string_view view = text.view();
  std::vector<Text> parts;
  std::size_t offset = 0;
  const auto skip_while = [&](bool space) {
    while (offset < view.size() && utf8::is_space(utf8::decode(view, offset)) == space) {
      offset += utf8::width(view[offset]);
    }
  };
  for (;;) {
    skip_while(true);
    if (offset == view.size()) return parts;
    if (static_cast<std::int64_t>(parts.size()) == splits_max) {
      parts.push_back(text.slice(offset, view.size()));
      return parts;
    }
    const std::size_t begin = offset;
    skip_while(false);
    parts.push_back(text.slice(begin, offset));
  }
}

std::vector<Text> rsplit_at_space(const Text& text, std::int64_t splits_max) {
  const std::string_view view = text.view();
  std::vector<Text> parts;
  std::size_t end = view.size();
  const auto skip_while = [&](bool space) {
    while (end > 0) {
      const std::size_t begin = utf8::start_of_last(view, end);
      if (utf8::is_space(utf8::decode(view, begin)) != space) break;
      end = begin;
    }
  };
  for (;;) {
    skip_while(true);
    if (end == 0) break;
    if (static_cast<std::int64_t>(parts.size()) == splits_max) {
      parts.push_back(text.slice(0, end));
      break;
    }
    const std::size_t part_end = end;
    skip_while(false);
    parts.push_back(text.slice(end, part_end));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_at(Runtime& runtime, const Text& text, std::string_view separator, std::int64_t splits_max,
                           Side from) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = utf8::find(text.view(), separator); at != std::string_view::npos;
       at = utf8::find(text.view(), separator, at + separator.size())) {
    if (from == Side::kLeft && static_cast<std::int64_t>(cuts.size()) == splits_max) break;
    runtime.budget().step();
    cuts.push_back(at);
  }
  if (from == Side::kRight && splits_max >= 0) {
    // Occurrences are found from the right, which differs where they overlap ("aaa" at "aa").
    cuts.clear();
    std::string_view rest = text.view();
    while (static_cast<std::int64_t>(cuts.size()) < splits_max) {
      runtime.budget().step_bytes(rest.size());
      const std::size_t at = utf8::rfind(rest, separator);
      if (at == std::string_view::npos) break;
      cuts.push_back(at);
      rest = rest.substr(0, at);
    }
    std::reverse(cuts.begin(), cuts.end());
  }
  std::vector<Text> parts;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    parts.push_back(text.slice(begin, cut));
    begin = cut + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

}  // namespace

void append_lower_at(std::string& out, std::string_view view, std::size_t begin, std::size_t end) {
  const char32_t character = utf8::decode(view, begin);
  if (character == 0x03A3 && is_final_sigma(view, begin, end)) {
    utf8::append(out, 0x03C2);
  } else {
    utf8::append_lower(out, character);
  }
}

Text strip(Runtime& runtime, const Text& text, Side side, std::optional<std::string_view> characters) {
  const std::string_view view = text.view();
  const auto goes = [&](std::size_t begin, std::size_t end) {
    if (characters) return in_set(*characters, view.substr(begin, end - begin));
    return utf8::is_space(utf8::decode(view, begin));
  };
  std::size_t begin = 0;
  std::size_t end = view.size();
  while (side != Side::kRight && begin < end && goes(begin, begin + utf8::width(view[begin]))) {
    begin += utf8::width(view[begin]);
  }
  while (side != Side::kLeft && begin < end && goes(utf8::start_of_last(view, end), end))
    end = utf8::start_of_last(view, end);
  runtime.budget().step_bytes(view.size() * (characters ? characters->size() / 16 + 1 : 1));
  return text.slice(begin, end);
}

Text map_case(Runtime& runtime, const Text& text, CaseMapping mapping) {
  const std::string_view view = text.view();
  Builder out(runtime);
  bool inside_word = false;  // the character before this one has a case (kTitle), or there is one (kCapitalize)
  std::size_t offset = 0;
  for (const Text::Run& run : text.runs()) {
    std::string mapped;
    while (offset < run.end) {
      const std::size_t end = offset + utf8::width(view[offset]);
      const char32_t character = utf8::decode(view, offset);
      const bool starts = (mapping == CaseMapping::kCapitalize || mapping == CaseMapping::kTitle) && !inside_word;
      if (starts) {
        utf8::append_title(mapped, character);
      } else if (mapping == CaseMapping::kUpper || (mapping == CaseMapping::kSwap && utf8::is_lower(character))) {
        utf8::append_upper(mapped, character);
      } else if (mapping == CaseMapping::kSwap && !utf8::is_upper(character)) {
        mapped += view.substr(offset, end - offset);
      } else {
        append_lower_at(mapped, view, offset, end);
      }
      inside_word = mapping == CaseMapping::kCapitalize || utf8::is_cased(character);
      offset = end;
    }
    out.append(mapped, run.trusted);
  }
  return out.take();
}

std::vector<Text> split(Runtime& runtime, const Text& text, const Text* separator, std::int64_t splits_max, Side from) {
  runtime.budget().step_bytes(text.size());
  std::vector<Text> parts;
  if (separator != nullptr) {
    if (separator->empty()) fail("empty separator");
    parts = split_at(runtime, text, separator->view(), splits_max, from);
  } else {
    parts = from == Side::kLeft ? split_at_space(text, splits_max) : rsplit_at_space(text, splits_max);
  }
  runtime.budget().step(static_cast<std::int64_t>(parts.size()));
  return parts;
}

std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends) {
  const std::string_view view = text.view();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t offset = 0; offset < view.size();) {
    const std::size_t end = offset + utf8::width(view[offset]);
    if (!is_line_end(utf8::decode(view, offset))) {
      offset = end;
      continue;
    }
    const bool crlf = view.substr(offset, 2) == "\r\n";
    const std::size_t next = crlf ? offset + 2 : end;
    lines.push_back(text.slice(begin, keep_ends ? next : offset));
    begin = offset = next;
  }
  if (begin < view.size()) lines.push_back(text.slice(begin, view.size()));
  runtime.budget().step_bytes(view.size());
  runtime.budget().step(static_cast<std::int64_t>(lines.size()));
  return lines;
}

Text replace(Runtime& runtime, const Text& text, const Text& old, const Text& replacement, std::int64_t count) {
  const std::string_view view = text.view();
  Builder out(runtime);
  std::size_t begin = 0;
  std::size_t search = 0;
  for (std::int64_t done = 0; done != count; ++done) {
    const std::size_t at = utf8::find(view, old.view(), search);
    if (at == std::string_view::npos) break;
    runtime.budget().step();
    out.append(text, begin, at);
    out.append(replacement);
    begin = at + old.size();
    if (!old.empty()) {
      search = begin;
    } else if (begin == view.size()) {
      break;
    } else {
      search = begin + utf8::width(view[begin]);
    }
  }
  out.append(text, begin, view.size());
  return out.take();
}

Text justify(Runtime& runtime, const Text& text, std::int64_t width, Side side, const Text& fill) {
  if (utf8::length(fill.view()) != 1) fail("The fill character must be exactly one character long");
  const auto length = static_cast<std::int64_t>(utf8::length(text.view()));
  const std::int64_t padding = std::max<std::int64_t>(width - length, 0);
  // Where the padding is odd, Python puts the extra one before the text in a field of odd width.
  const std::int64_t before = side == Side::kLeft    ? 0
                              : side == Side::kRight ? padding
                                                     : padding / 2 + (padding & width & 1);
  Builder out(runtime);
  out.repeat(fill, before);
  out.append(text);
  out.repeat(fill, padding - before);
  return out.take();
}

bool is_one_case(Runtime& runtime, const Text& text, bool upper) {
  const std::string_view view = text.view();
  runtime.budget().step_bytes(view.size());
  bool found = false;
  for (std::size_t offset = 0; offset < view.size(); offset += utf8::width(view[offset])) {
    const char32_t character = utf8::decode(view, offset);
    if (!utf8::is_cased(character)) continue;
    if (upper ? !utf8::is_upper(character) : !utf8::is_lower(character)) return false;
    found = true;
  }
  return found;
}

void append_escaped(Builder& out, const Text& text) {
  const std::string_view view = text.view();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const char* entity = nullptr;
    switch (view[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text, begin, i);
    out.append(entity, text.trusted_at(i));
    begin = i + 1;
  }
  out.append(text, begin, view.size());
}

}  // namespace twostroke::jinja
