// Override: sets a variable for as long as it lives, and gives it its value back.
#pragma once

#include <utility>

namespace twostroke::jinja {

template <typename T>
class Override {
 public:
  Override(T& variable, T value) : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~Override() { variable_ = std::move(before_); }
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace twostroke::jinja
