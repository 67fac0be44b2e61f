// ChunkedDecoder: a chunked body (RFC 9112, section 7.1) back to the bytes it carries.
//
// Strict, because two readers who disagree about where a body ends are how requests are smuggled: sizes are hexadecimal
// digits and nothing else, every line ends in CR LF. Extensions and trailers are bounded, read and dropped. (Beast's
// parser puts no bound on extensions and adds trailers to the header.) The outcome does not depend on how the bytes are
// cut into pieces. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twostroke::http {

class ChunkedDecoder {
 public:
  enum class Result { kMore, kComplete, kMalformed, kBodyTooLarge, kFramingTooLarge };

  static constexpr size_t kFramingBytesMax = 16 * 1024;  // of one chunk's size line; of all trailers

  explicit ChunkedDecoder(size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  // Reads from the start of `bytes`, appends what they carry to `body` and sets `consumed`: all of them for kMore, up
  // to the end of the body for kComplete. Not called again after another result than kMore.
  Result feed(std::string_view bytes, std::string& body, size_t& consumed);

 private:
  // What the next byte is part of.
  enum class State {
    kSizeStart,
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailer,
    kTrailerLf,
    kEndLf,
    kEnd,
  };

  Result step(char c);  // for every state but kData
  Result add_digit(char c);
  Result expect(char c, char expected, State next);

  const size_t body_bytes_max_;
  State state_ = State::kSizeStart;
  size_t body_bytes_ = 0;     // of the chunks whose size line is complete
  size_t chunk_bytes_ = 0;    // of the current chunk, not read yet
  size_t framing_bytes_ = 0;  // of the current size line, or of the trailers so far
};

}  // namespace twostroke::http
