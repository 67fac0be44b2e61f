// EvenConstraint: only even tokens may come. Checks its caller: each mask is followed by one accept, of a token in it.
#pragma once

#include <vector>

#include "kernels/check.h"
#include "scheduler/token_constraint.h"

namespace twostroke::test {

class EvenConstraint final : public TokenConstraint {
 public:
  explicit EvenConstraint(std::vector<TokenId>* accepted = nullptr, bool ends_whole = true)
      : accepted_(accepted), ends_whole_(ends_whole) {}

  void fill_mask(std::span<uint32_t> mask) override {
    CHECK(!asked_, "asked twice without an answer");
    asked_ = true;
    for (uint32_t& word : mask) {
      CHECK(word == 0, "the mask comes empty");
      word = 0x55555555;
    }
  }
  void accept(TokenId token) override {
    CHECK(asked_ && token % 2 == 0, "a token that the mask did not allow");
    asked_ = false;
    if (accepted_ != nullptr) accepted_->push_back(token);
  }

  bool ended_whole() const override { return ends_whole_; }

 private:
  bool asked_ = false;
  std::vector<TokenId>* accepted_;
  bool ends_whole_;
};

}  // namespace twostroke::test
