// Drafter: guesses how a sequence goes on, from its own earlier tokens (prompt look-up).
//
// Who edits, quotes, summarises or writes code repeats what is there already. So where a sequence's last few tokens
// have occurred before, in its prompt or its output, the guess is what followed them then. (Prompt lookup decoding,
// Saxena 2023; the "match model" of data compressors is the same idea.)
//
// The match. `place` is the position whose token is guessed to come next; `length` counts how many tokens before it
// agree with the sequence's last ones. While guesses come true the match goes on. When one does not, the match moves to
// the most recent earlier occurrence of the last 4 tokens, or else of 3, or of 2. Where there is none it stays in step,
// one token further, for a few tokens: behind a word that was replaced, the text often goes on as before.
//
// Chances. For matches of each class of length it keeps the share of guesses that came true of late. Every token of the
// output is compared with what was guessed for it, whether or not a draft was sent: a guess costs nothing, only its
// verification does. So the chances are never out of date: they fall where the text does not repeat, until nothing is
// worth sending, and rise again as soon as it does.
//
// Memory: one table of 4 bytes an entry, four entries for each token that the sequence can have, at most kTableMax: 256
// KiB. A newer entry overwrites an older one that falls on the same place; entries are compared with the tokens before
// they are believed. Taken by the first follow(), never again.
// Cost: a few table accesses for each new token. Deterministic. Thread-safety: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/token.h"

namespace twostroke {

class Drafter {
 public:
  static constexpr uint32_t kTableMax = 1 << 16;  // entries

  // Takes note of what was appended since it was called last: `tokens` is the whole sequence, prompt first, of at most
  // length_max tokens in the end. Looks at no more than `limit` of the new ones, and returns at how many it did.
  uint32_t follow(std::span<const TokenId> tokens, uint32_t prompt_count, uint32_t length_max, uint32_t limit);

  // Tokens it has taken note of.
  uint32_t followed() const { return followed_; }

  // The chance that the next chances.size() tokens are those of guess(), for each number of them: chances[i] for the
  // first i + 1. They fall. False, with all of them 0, when it has no guess. Requires all tokens to be followed.
  bool chances(std::span<float> chances) const;

  // Its guess at the next guess.size() tokens. Requires chances() to have been true for these `tokens`.
  void guess(std::span<const TokenId> tokens, std::span<TokenId> guess) const;

 private:
  static constexpr uint32_t kShortest = 2;  // tokens that must agree for a match to begin
  static constexpr uint32_t kLongest = 4;   // tokens that are looked up
  static constexpr uint32_t kLengthMax = 16;
  static constexpr uint32_t kMissesMax = 3;  // in step with a match that has failed
  static constexpr size_t kClasses = 7;
  static constexpr float kRate = 0.07F;  // of forgetting: the chances are those of the last fifteen guesses or so

  using Slots = std::array<uint32_t, kLongest + 1>;  // by the number of tokens looked up

  static size_t class_of(uint32_t length);
  void check_guess(TokenId token, TokenId guessed);
  Slots slots_behind(std::span<const TokenId> tokens) const;
  void look_up(std::span<const TokenId> tokens, const Slots& slots);

  std::vector<uint32_t> table_;  // hash of the last n tokens -> position behind their most recent occurrence; 0: none
  uint32_t followed_ = 0;
  uint32_t place_ = 0;   // 0: no match
  uint32_t length_ = 0;  // at most kLengthMax
  uint32_t misses_ = 0;  // in a row, in step
  // By class of length: 0, 1, 2, 3, 4 to 7, 8 to 15, more. What a sequence begins with is about what editing tasks came
  // to (tests/bench/speculation).
  std::array<float, kClasses> chance_ = {0.15F, 0.5F, 0.45F, 0.6F, 0.75F, 0.85F, 0.95F};
};

}  // namespace twostroke
