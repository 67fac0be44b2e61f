// StopStrings: finds the first stop string in text that arrives in pieces.
//
// Holds back exactly the longest suffix that is a proper prefix of some stop string, so that no part of a stop string
// ever reaches a client and nothing is held longer than it must be.
//
// Thread-safety: one user at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twostroke {

class StopStrings {
 public:
  // `stops` are non-empty. With `include_stop`, a match is kept at the end of the text.
  explicit StopStrings(std::vector<std::string> stops, bool include_stop = false);

  struct Output {
    std::string text;      // may be sent now
    bool stopped = false;  // a stop string was found; text ends right before it (or behind it), nothing follows
  };
  Output push(std::string_view text);  // requires that no earlier call returned stopped
  std::string finish();                // what was held back, when the text ends without a stop string

 private:
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;
};

}  // namespace twostroke
