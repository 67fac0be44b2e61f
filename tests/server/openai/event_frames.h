// The frames of a stream whose events have names.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/openai/json.h"

namespace twostroke::openai {

// The data of each frame; that its `type` is the name in its event line is checked.
inline std::vector<Json> event_frames(const std::string& stream) {
  std::vector<Json> frames;
  size_t begin = 0;
  for (size_t end = 0; (end = stream.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const std::string frame = stream.substr(begin, end - begin);
    const size_t line = frame.find('\n');
    EXPECT_EQ(frame.substr(0, 7), "event: ");
    EXPECT_EQ(frame.substr(line + 1, 6), "data: ");
    frames.push_back(Json::parse(frame.substr(line + 7)));
    EXPECT_EQ(frames.back()["type"], frame.substr(7, line - 7));
  }
  EXPECT_EQ(begin, stream.size());
  return frames;
}

}  // namespace twostroke::openai
