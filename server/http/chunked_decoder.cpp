#include "server/http/chunked_decoder.h"

#include <algorithm>

#include "kernels/check.h"
#include "server/http/ascii.h"

namespace twostroke::http {
namespace {

bool is_line_text(char c) { return c == '\t' || !is_control(c); }

}  // namespace

ChunkedDecoder::Result ChunkedDecoder::feed(std::string_view bytes, std::string& body, size_t& consumed) {
  consumed = 0;
  while (consumed < bytes.size()) {
    if (state_ == State::kData) {
      const size_t count = std::min(chunk_bytes_, bytes.size() - consumed);
      body.append(bytes.substr(consumed, count));
      consumed += count;
      chunk_bytes_ -= count;
      if (chunk_bytes_ == 0) state_ = State::kDataCr;
      continue;
    }
    const Result result = step(bytes[consumed++]);
    if (result != Result::kMore) return result;
  }
  return Result::kMore;
}

ChunkedDecoder::Result ChunkedDecoder::step(char c) {
  if (++framing_bytes_ > kFramingBytesMax) return Result::kFramingTooLarge;
  switch (state_) {
    case State::kSizeStart:
      return add_digit(c);
    case State::kSize:
      if (c == '\r') return state_ = State::kSizeLf, Result::kMore;
      if (c == ';') return state_ = State::kExtension, Result::kMore;
      return add_digit(c);
    case State::kExtension:
      if (c == '\r') return state_ = State::kSizeLf, Result::kMore;
      return is_line_text(c) ? Result::kMore : Result::kMalformed;
    case State::kSizeLf:
      framing_bytes_ = 0;
      body_bytes_ += chunk_bytes_;
      return expect(c, '\n', chunk_bytes_ > 0 ? State::kData : State::kTrailerStart);
    case State::kDataCr:
      return expect(c, '\r', State::kDataLf);
    case State::kDataLf:
      framing_bytes_ = 0;
      return expect(c, '\n', State::kSizeStart);
    case State::kTrailerStart:
      if (c == '\r') return state_ = State::kEndLf, Result::kMore;
      state_ = State::kTrailer;
      return is_token_char(c) ? Result::kMore : Result::kMalformed;
    case State::kTrailer:
      if (c == '\r') return state_ = State::kTrailerLf, Result::kMore;
      return is_line_text(c) ? Result::kMore : Result::kMalformed;
    case State::kTrailerLf:
      return expect(c, '\n', State::kTrailerStart);
    case State::kEndLf:
      state_ = State::kEnd;
      return c == '\n' ? Result::kComplete : Result::kMalformed;
    case State::kData:
    case State::kEnd:
      break;
  }
  CHECK(false, "a chunked body is not read beyond its end");
  return Result::kMalformed;
}

ChunkedDecoder::Result ChunkedDecoder::add_digit(char c) {
  const int digit = hex_value(c);
  if (digit < 0) return Result::kMalformed;
  state_ = State::kSize;
  // What is left of the limit bounds the size before each digit, so nothing can overflow.
  const size_t left = body_bytes_max_ - body_bytes_;
  if (chunk_bytes_ > left / 16) return Result::kBodyTooLarge;
  chunk_bytes_ = chunk_bytes_ * 16 + static_cast<size_t>(digit);
  return chunk_bytes_ > left ? Result::kBodyTooLarge : Result::kMore;
}

ChunkedDecoder::Result ChunkedDecoder::expect(char c, char expected, State next) {
  state_ = next;
  return c == expected ? Result::kMore : Result::kMalformed;
}

}  // namespace twostroke::http
