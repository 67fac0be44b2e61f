#include "scheduler/drafts/drafter.h"

#include <algorithm>
#include <bit>

#include "kernels/check.h"

namespace twostroke {

size_t Drafter::class_of(uint32_t length) {
  if (length < 4) return length;
  if (length < 8) return 4;
  return length < kLengthMax ? 5 : 6;
}

uint32_t Drafter::follow(std::span<const TokenId> tokens, uint32_t prompt_count, uint32_t length_max, uint32_t limit) {
  CHECK(followed_ <= tokens.size() && tokens.size() <= length_max);
  if (table_.empty()) table_.resize(std::min(std::bit_ceil(length_max), kTableMax / 4) * 4);
  const uint32_t begin = followed_;
  const uint32_t end = begin + std::min(limit, static_cast<uint32_t>(tokens.size()) - begin);
  for (; followed_ < end; ++followed_) {
    // What the prompt repeats of itself says little about the output.
    const bool output = followed_ >= prompt_count;
    if (output && place_ > 0) check_guess(tokens[followed_], tokens[place_]);
    const Slots slots = slots_behind(tokens.first(followed_ + 1));
    if (followed_ + 1 >= prompt_count && length_ == 0) look_up(tokens.first(followed_ + 1), slots);
    for (uint32_t n = kShortest; n <= kLongest && n <= followed_ + 1; ++n) table_[slots[n]] = followed_ + 1;
  }
  return end - begin;
}

void Drafter::check_guess(TokenId token, TokenId guessed) {
  float& chance = chance_[class_of(length_)];
  const bool right = token == guessed;
  chance += kRate * ((right ? 1.0F : 0.0F) - chance);
  ++place_;
  length_ = right ? std::min(length_ + 1, kLengthMax) : 0;
  misses_ = right ? 0 : misses_ + 1;
  if (misses_ > kMissesMax) place_ = misses_ = 0;
}

// Of the last n tokens, for each n: an entry of the table. The number of tokens is part of the hash.
Drafter::Slots Drafter::slots_behind(std::span<const TokenId> tokens) const {
  Slots slots{};
  uint64_t hash = 0;
  for (uint32_t n = 1; n <= kLongest && n <= tokens.size(); ++n) {
    // The finaliser of MurmurHash3, cut short: good enough where entries are compared anyway.
    hash = (hash + static_cast<uint32_t>(tokens[tokens.size() - n]) + 1) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 33;
    slots[n] = static_cast<uint32_t>(hash) & static_cast<uint32_t>(table_.size() - 1);
  }
  return slots;
}

// Finds the most recent earlier occurrence of the longest end of `tokens` that has one, among those that are looked up.
// Leaves the match as it is where there is none.
void Drafter::look_up(std::span<const TokenId> tokens, const Slots& slots) {
  const auto size = static_cast<uint32_t>(tokens.size());
  for (uint32_t n = std::min(kLongest, size); n >= kShortest; --n) {
    const uint32_t place = table_[slots[n]];
    if (place < n) continue;
    uint32_t length = 0;
    while (length < std::min(place, kLengthMax) && tokens[place - 1 - length] == tokens[size - 1 - length]) ++length;
    if (length < n) continue;
    place_ = place;
    length_ = length;
    misses_ = 0;
    return;
  }
}

bool Drafter::chances(std::span<float> chances) const {
  float chance = place_ > 0 ? 1.0F : 0.0F;
  for (size_t i = 0; i < chances.size(); ++i) {
    chance *= chance_[class_of(std::min(length_ + static_cast<uint32_t>(i), kLengthMax))];
    chances[i] = chance;
  }
  return place_ > 0;
}

// Where the match reaches the sequence's end, the guess goes on with itself: a text that repeats with that period.
void Drafter::guess(std::span<const TokenId> tokens, std::span<TokenId> guess) const {
  CHECK(place_ > 0 && followed_ == tokens.size());
  for (size_t i = 0; i < guess.size(); ++i) {
    const size_t place = place_ + i;
    guess[i] = place < tokens.size() ? tokens[place] : guess[place - tokens.size()];
  }
}

}  // namespace twostroke
