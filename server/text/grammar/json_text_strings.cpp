#include <array>
#include <unordered_map>
#include <utility>

#include "server/text/grammar/json_text.h"

namespace twostroke::grammar {

namespace {

constexpr std::string_view kEscapeBytes = "\"\\/bfnrtu0123456789abcdefABCDEF";

std::optional<unsigned> escape_digit(unsigned char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return std::nullopt;
}

// Reads a JSON string and runs the automaton of decoded texts beside it. \uXXXX is decoded digit by digit into the
// bytes of UTF-8 that are known so far; what is left of the digits is kept in the state.
class StringMachine {
 public:
  StringMachine(const Dfa& decoded, bool one_character) : decoded_(decoded), one_character_(one_character) {
    find_equals();
  }

  Result<Dfa> dfa() const {
    const uint64_t start = one_character_ ? pack({Phase::kText, 0, 0}) : pack({Phase::kBegin, 0, 0});
    return explore(
        start, joint_classes(classes_of(decoded_), json_classes()),
        [this](uint64_t s, unsigned char byte) { return step(unpack(s), byte); },
        [this](uint64_t s) { return accepts(unpack(s)); });
  }

 private:
  enum class Phase : uint64_t {
    kBegin,       // before the opening quote
    kText,        // between characters, or within one that is written as it is
    kEnd,         // behind the closing quote
    kEscape,      // behind '\'
    kUnicode,     // behind "\u"
    kZero,        // "\u0"
    kZeroZero,    // "\u00"
    kAscii,       // "\u00X" of U+0000 to U+007F; rest: X
    kTwoBytes,    // "\u0X" of U+0100 to U+07FF; rest: X
    kThree,       // "\uX" of U+1000 to U+FFFF without \uD; the first byte is decoded
    kSurrogate,   // "\uD"
    kThreeMore,   // two digits, the first byte is decoded; rest: the second digit
    kLast,        // one digit is to come, and its byte; rest: that byte's high two bits
    kHigh,        // "\uD8" to "\uDB"; rest: two bits
    kHighMore,    // three digits of a high surrogate, the first byte is decoded; rest: four bits
    kLow,         // behind a high surrogate, two bytes are decoded; rest: two bits
    kLowEscape,   // its '\'
    kLowUnicode,  // its 'u'
    kLowD,        // its 'D'
    kLowMore,     // "\uDC" to "\uDF"; rest: four bits
  };
  struct State {
    Phase phase;
    uint32_t decoded;  // a state of the automaton
    uint32_t rest;
  };
  static uint64_t pack(const State& s) {
    return static_cast<uint64_t>(s.phase) | static_cast<uint64_t>(s.rest) << 8 | static_cast<uint64_t>(s.decoded) << 16;
  }
  static State unpack(uint64_t s) {
    return {static_cast<Phase>(s & 0xFF), static_cast<uint32_t>(s >> 16), static_cast<uint32_t>(s >> 8 & 0xFF)};
  }

  // For each state, the first one that does the same with a part of the bytes: eight of 16 ASCII characters each, and
  // the first bytes of all longer ones. Where only these can follow, it stands for all of them: a large set of names
  // would become several times as large otherwise.
  static constexpr size_t kHighBytes = 8;
  void find_equals() {
    std::array<std::unordered_map<std::string, uint32_t>, kHighBytes + 1> rows;
    equal_.resize(decoded_.state_count());
    for (uint32_t s = 0; s < decoded_.state_count(); ++s) {
      for (size_t part = 0; part <= kHighBytes; ++part) {
        std::string row;
        for (unsigned byte = part == kHighBytes ? 0xC0U : static_cast<unsigned>(part) * 16;
             byte < (part == kHighBytes ? 0x100U : static_cast<unsigned>(part + 1) * 16); ++byte) {
          const uint32_t next = decoded_.step(s, static_cast<unsigned char>(byte));
          row.append(reinterpret_cast<const char*>(&next), sizeof(next));
        }
        equal_[s][part] = rows[part].try_emplace(std::move(row), s).first->second;
      }
    }
  }
  std::optional<uint64_t> keep_for(const State& s, size_t part, Phase phase, unsigned rest = 0) const {
    return pack({phase, equal_[s.decoded][part], rest});
  }

  static ByteClasses json_classes() {
    ByteClasses control;  // must not be written as they are
    control.representative = {0x00, 0x20};
    for (unsigned byte = 0x20; byte < 256; ++byte) control.of[byte] = 1;
    return joint_classes(control, separate_classes(kEscapeBytes));
  }

  // The state behind one more decoded byte; nothing where the automaton has none.
  std::optional<uint64_t> decode(const State& s, unsigned byte, Phase phase, unsigned rest = 0) const {
    const uint32_t next = decoded_.step(s.decoded, static_cast<unsigned char>(byte));
    return next == Dfa::kDead ? std::nullopt : std::optional(pack({phase, next, rest}));
  }
  static std::optional<uint64_t> keep(const State& s, Phase phase, unsigned rest = 0) {
    return pack({phase, s.decoded, rest});
  }

  bool accepts(const State& s) const {
    return one_character_ ? s.phase == Phase::kText && decoded_.accepting[s.decoded] : s.phase == Phase::kEnd;
  }

  std::optional<uint64_t> step(const State& s, unsigned char byte) const {
    switch (s.phase) {
      case Phase::kBegin:
        return byte == '"' ? keep(s, Phase::kText) : std::nullopt;
      case Phase::kText:
        return text(s, byte);
      case Phase::kEnd:
        return std::nullopt;
      case Phase::kEscape:
        return escape(s, byte);
      case Phase::kLow:
        return byte == '\\' ? keep(s, Phase::kLowEscape, s.rest) : std::nullopt;
      case Phase::kLowEscape:
        return byte == 'u' ? keep(s, Phase::kLowUnicode, s.rest) : std::nullopt;
      default:
        break;
    }
    const auto digit = escape_digit(byte);
    return digit ? hex(s, *digit) : std::nullopt;
  }

  std::optional<uint64_t> text(const State& s, unsigned char byte) const {
    if (byte == '"')
      return !one_character_ && decoded_.accepting[s.decoded] ? keep({s.phase, 0, 0}, Phase::kEnd) : std::nullopt;
    if (byte == '\\') return keep(s, Phase::kEscape);
    if (byte < 0x20) return std::nullopt;
    return decode(s, byte, Phase::kText);
  }

  std::optional<uint64_t> escape(const State& s, unsigned char byte) const {
    switch (byte) {
      case '"':
      case '\\':
      case '/':
        return decode(s, byte, Phase::kText);
      case 'b':
        return decode(s, '\b', Phase::kText);
      case 'f':
        return decode(s, '\f', Phase::kText);
      case 'n':
        return decode(s, '\n', Phase::kText);
      case 'r':
        return decode(s, '\r', Phase::kText);
      case 't':
        return decode(s, '\t', Phase::kText);
      case 'u':
        return keep(s, Phase::kUnicode);
      default:
        return std::nullopt;
    }
  }

  // UTF-8: 110aaaaa 10bbbbbb, 1110aaaa 10bbbbbb 10cccccc, 11110aaa 10bbbbbb 10cccccc 10dddddd. UTF-16, of the code
  // point less 0x10000: 110110aa aaaaaaaa 110111bb bbbbbbbb.
  std::optional<uint64_t> hex(const State& s, unsigned digit) const {
    switch (s.phase) {
      case Phase::kUnicode:
        if (digit == 0) return keep(s, Phase::kZero);
        if (digit == 0xD) return keep_for(s, kHighBytes, Phase::kSurrogate);
        return decode(s, 0xE0 | digit, Phase::kThree);
      case Phase::kZero:
        if (digit == 0) return keep(s, Phase::kZeroZero);
        if (digit < 8) return keep_for(s, kHighBytes, Phase::kTwoBytes, digit);
        return decode(s, 0xE0, Phase::kThreeMore, digit);
      case Phase::kZeroZero:
        if (digit < 8) return keep_for(s, digit, Phase::kAscii, digit);
        return decode(s, 0xC0 | digit >> 2, Phase::kLast, digit & 3);
      case Phase::kAscii:
        return decode(s, s.rest << 4 | digit, Phase::kText);
      case Phase::kTwoBytes:
        return decode(s, 0xC0 | s.rest << 2 | digit >> 2, Phase::kLast, digit & 3);
      case Phase::kThree:
        return keep(s, Phase::kThreeMore, digit);
      case Phase::kSurrogate:
        if (digit < 8) return decode(s, 0xED, Phase::kThreeMore, digit);
        return digit < 0xC ? keep(s, Phase::kHigh, digit & 3) : std::nullopt;
      case Phase::kThreeMore:
        return decode(s, 0x80 | s.rest << 2 | digit >> 2, Phase::kLast, digit & 3);
      case Phase::kLast:
        return decode(s, 0x80 | s.rest << 4 | digit, Phase::kText);
      case Phase::kHigh: {
        const unsigned plane = (s.rest << 2 | digit >> 2) + 1;  // the code point's bits above the low 16
        return decode(s, 0xF0 | plane >> 2, Phase::kHighMore, (plane & 3) << 2 | (digit & 3));
      }
      case Phase::kHighMore:
        return decode(s, 0x80 | s.rest << 2 | digit >> 2, Phase::kLow, digit & 3);
      case Phase::kLowUnicode:
        return digit == 0xD ? keep(s, Phase::kLowD, s.rest) : std::nullopt;
      case Phase::kLowD:
        return digit >= 0xC ? keep(s, Phase::kLowMore, s.rest << 2 | (digit & 3)) : std::nullopt;
      case Phase::kLowMore:
        return decode(s, 0x80 | s.rest << 2 | digit >> 2, Phase::kLast, digit & 3);
      default:
        return std::nullopt;
    }
  }

  const Dfa& decoded_;
  bool one_character_;
  std::vector<std::array<uint32_t, kHighBytes + 1>> equal_;
};

// The start of any language of texts that has one is a state between characters, so an escape may begin in any state
// whose next bytes are first bytes of characters; elsewhere what it decodes to leads nowhere.
Dfa one_code_point() {
  const Dfa text = utf8_text();
  constexpr uint64_t kDone = UINT32_MAX;
  const auto step = [&](uint64_t s, unsigned char byte) -> std::optional<uint64_t> {
    if (s == kDone) return std::nullopt;
    const uint32_t next = text.step(static_cast<uint32_t>(s), byte);
    if (next == Dfa::kDead) return std::nullopt;
    return text.accepting[next] ? kDone : next;
  };
  return minimize(*explore(0, classes_of(text), step, [](uint64_t s) { return s == kDone; }));
}

}  // namespace

Result<Dfa> string_texts(const Dfa& decoded) {
  if (decoded.empty()) return Dfa{};
  Result<Dfa> texts = StringMachine(decoded, false).dfa();
  constexpr uint32_t kMinimizeMax = 2'000;  // larger ones stem from large sets of names, which gain little
  if (texts.ok() && texts->state_count() <= kMinimizeMax) return minimize(*texts);
  return texts.ok() ? Result<Dfa>(trim(*texts)) : texts;
}

const Dfa& string_character() {
  static const Dfa kCharacter = minimize(*StringMachine(one_code_point(), true).dfa());
  return kCharacter;
}

}  // namespace twostroke::grammar
