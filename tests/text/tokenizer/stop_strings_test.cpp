#include "server/text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace twostroke {
namespace {

using Stops = std::vector<std::string>;

// What a client has of `text`, by the definition: the stop string that ends first, and of those the longest.
struct Expected {
  std::string sent;
  std::string held;
  bool stopped = false;
};

Expected by_definition(const Stops& stops, const std::string& text, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, include_stop ? end : end - longest), "", true};
  }
  size_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t size = 1; size < stop.size() && size <= text.size(); ++size) {
      if (text.ends_with(stop.substr(0, size))) held = std::max(held, size);
    }
  }
  return {text.substr(0, text.size() - held), text.substr(text.size() - held), false};
}

TEST(StopStrings, EndTheTextRightBeforeTheStop) {
  StopStrings stops(Stops{"END"});
  EXPECT_EQ(stops.push("some text").text, "some text");
  const StopStrings::Output out = stops.push(" and END of it");
  EXPECT_EQ(out.text, " and ");
  EXPECT_TRUE(out.stopped);
}

TEST(StopStrings, KeepTheStopWhenAskedTo) {
  StopStrings stops(Stops{"END"}, /*include_stop=*/true);
  const StopStrings::Output out = stops.push("text END of it");
  EXPECT_EQ(out.text, "text END");
  EXPECT_TRUE(out.stopped);
}

TEST(StopStrings, HoldBackAPartOfAStopUntilItIsDecided) {
  StopStrings stops(Stops{"\n\nUser:"});
  EXPECT_EQ(stops.push("hi\n").text, "hi");
  EXPECT_EQ(stops.push("\n").text, "");
  EXPECT_EQ(stops.push("\nUs").text, "\n");  // the first line end is free: the stop may begin at the second
  EXPECT_EQ(stops.push("ers").text, "\n\nUsers");
  EXPECT_EQ(stops.push("\n\nUse").text, "");
  EXPECT_EQ(stops.finish(), "\n\nUse");
}

TEST(StopStrings, WithoutStopsPassEverythingOn) {
  StopStrings stops(Stops{});
  EXPECT_EQ(stops.push("text").text, "text");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, SendAndHoldExactlyWhatTheDefinitionSaysHoweverTheTextIsSplit) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  const auto random_text = [&](size_t size_min, size_t size_max, unsigned letters) {
    std::string text(size_min + random() % (size_max - size_min + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % letters);
    return text;
  };
  int stopped = 0;
  int held = 0;
  for (int round = 0; round < 20000; ++round) {
    const unsigned letters = 2 + static_cast<unsigned>(random() % 3);
    Stops list(random() % 5);
    for (std::string& stop : list) stop = random_text(1, 8, letters);
    const std::string text = random_text(0, 30, letters);
    const bool include_stop = random() % 2 == 0;
    StopStrings stops(list, include_stop);
    std::string sent;
    bool done = false;
    for (size_t end = 0; end < text.size() && !done;) {
      const size_t begin = end;
      end += 1 + random() % (random() % 2 == 0 ? 3 : text.size() - end);
      end = std::min(end, text.size());
      const StopStrings::Output out = stops.push(std::string_view(text).substr(begin, end - begin));
      sent += out.text;
      done = out.stopped;
      const Expected expected = by_definition(list, text.substr(0, end), include_stop);
      ASSERT_EQ(sent, expected.sent) << "seed " << seed << ", round " << round;
      ASSERT_EQ(done, expected.stopped) << "seed " << seed << ", round " << round;
    }
    const Expected expected = by_definition(list, text, include_stop);
    if (!done) {
      ASSERT_EQ(stops.finish(), expected.held) << "seed " << seed << ", round " << round;
    }
    stopped += done;
    held += !expected.held.empty();
  }
  EXPECT_GT(stopped, 1000);  // the rounds are not all of one kind
  EXPECT_GT(held, 1000);
}

TEST(StopStrings, TakeLongRepetitiveTextInOnePass) {
  // Quadratic matching would need 10^11 comparisons here.
  StopStrings stops(Stops{std::string(100000, 'a') + "b"});
  size_t sent = 0;
  for (int i = 0; i < 1000; ++i) sent += stops.push(std::string(1000, 'a')).text.size();
  EXPECT_EQ(sent, 900000u);
  EXPECT_EQ(stops.push("b").text.size(), 0u);
}

}  // namespace
}  // namespace twostroke
