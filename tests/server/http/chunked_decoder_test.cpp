#include "server/http/chunked_decoder.h"

#include <gtest/gtest.h>

#include <tuple>

namespace twostroke::http {
namespace {

struct Outcome {
  ChunkedDecoder::Result result = ChunkedDecoder::Result::kMore;
  std::string body;
  size_t consumed = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Feeds the bytes in pieces of `piece` bytes until the decoder has a result or there are no more.
Outcome decode(std::string_view bytes, size_t piece, size_t body_bytes_max = 1000) {
  ChunkedDecoder decoder(body_bytes_max);
  Outcome outcome;
  while (outcome.result == ChunkedDecoder::Result::kMore && outcome.consumed < bytes.size()) {
    size_t consumed = 0;
    outcome.result = decoder.feed(bytes.substr(outcome.consumed, piece), outcome.body, consumed);
    outcome.consumed += consumed;
  }
  return outcome;
}

Outcome decode_whole(std::string_view bytes, size_t body_bytes_max = 1000) {
  return decode(bytes, bytes.size(), body_bytes_max);
}

TEST(ChunkedDecoder, JoinsChunksAndStopsAtTheEnd) {
  const std::string bytes = "5\r\nhello\r\n00A;x=\"y\"\r\n, 89012345\r\n0;z\r\nTrailer: 1\r\nX:\r\n\r\nGET /next";
  const Outcome outcome = decode_whole(bytes);
  EXPECT_EQ(outcome.result, ChunkedDecoder::Result::kComplete);
  EXPECT_EQ(outcome.body, "hello, 89012345");
  EXPECT_EQ(bytes.substr(outcome.consumed), "GET /next");
}

TEST(ChunkedDecoder, PiecesDoNotMatter) {
  const std::string long_extension = "1;" + std::string(ChunkedDecoder::kFramingBytesMax, 'x');
  for (const std::string& bytes :
       {std::string("5\r\nhello\r\n0\r\nT: 1\r\n\r\n"), std::string("0\r\n\r\n"), std::string("3\r\nabcX"),
        std::string("-2\r\n"), std::string("3e9\r\n"), std::string("3\r\nab"), long_extension}) {
    const Outcome whole = decode_whole(bytes);
    for (size_t piece = 1; piece < std::min<size_t>(bytes.size(), 32); ++piece) {
      EXPECT_EQ(decode(bytes, piece), whole) << bytes.substr(0, 40) << " in pieces of " << piece;
    }
  }
}

TEST(ChunkedDecoder, RefusesWhatTwoReadersCouldReadDifferently) {
  for (const char* bytes : {"-2\r\n",          "+2\r\nab",
                            " 2\r\n",          "2 \r\nab",
                            "0x2\r\n",         "\r\n",
                            ";x\r\n",          "g\r\n",
                            "2\nab",           "2\r\nab0\r\n",
                            "2\r\nabc\r\n",    "2;\nab\r\n",
                            "2;\x01\r\n",      "2\rab",
                            "2\r\nab\n",       "0\r\n\n",
                            "0\r\nT: 1\n\r\n", "0\r\n T: 1\r\n\r\n",
                            "0\r\n\rx",        "0\r\nT\x01: 1\r\n\r\n"}) {
    EXPECT_EQ(decode_whole(bytes).result, ChunkedDecoder::Result::kMalformed) << bytes;
  }
}

TEST(ChunkedDecoder, TheLimitIsOnTheWholeBody) {
  EXPECT_EQ(decode_whole("5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", 10).result, ChunkedDecoder::Result::kComplete);
  EXPECT_EQ(decode_whole("5\r\nhello\r\n6\r\nworld!\r\n0\r\n\r\n", 10).result, ChunkedDecoder::Result::kBodyTooLarge);
  EXPECT_EQ(decode_whole("b\r\n", 10).result, ChunkedDecoder::Result::kBodyTooLarge);
  EXPECT_EQ(decode_whole("0\r\n\r\n", 0).result, ChunkedDecoder::Result::kComplete);
  EXPECT_EQ(decode_whole("1\r\n", 0).result, ChunkedDecoder::Result::kBodyTooLarge);
}

TEST(ChunkedDecoder, HugeSizesDoNotOverflow) {
  EXPECT_EQ(decode_whole("10000000000000005\r\nhello\r\n0\r\n\r\n", SIZE_MAX).result,
            ChunkedDecoder::Result::kBodyTooLarge);
  EXPECT_EQ(decode_whole("ffffffffffffffff\r\n", SIZE_MAX).result, ChunkedDecoder::Result::kMore);
  EXPECT_EQ(decode_whole("ffffffffffffffff\r\n", SIZE_MAX - 1).result, ChunkedDecoder::Result::kBodyTooLarge);
}

TEST(ChunkedDecoder, ExtensionsAndTrailersAreBounded) {
  const std::string text(ChunkedDecoder::kFramingBytesMax, 'x');
  EXPECT_EQ(decode_whole("1;" + text).result, ChunkedDecoder::Result::kFramingTooLarge);
  EXPECT_EQ(decode_whole("0\r\nT: " + text).result, ChunkedDecoder::Result::kFramingTooLarge);
  EXPECT_EQ(decode_whole(std::string(ChunkedDecoder::kFramingBytesMax + 1, '0')).result,
            ChunkedDecoder::Result::kFramingTooLarge);
  const std::string half(ChunkedDecoder::kFramingBytesMax / 2, 'x');
  EXPECT_EQ(decode_whole("0\r\nT: " + half + "\r\nU: " + half + "\r\n\r\n").result,
            ChunkedDecoder::Result::kFramingTooLarge);
  EXPECT_EQ(decode_whole("1;" + half + "\r\na\r\n1;" + half + "\r\nb\r\n0\r\n\r\n").body, "ab");
}

}  // namespace
}  // namespace twostroke::http
