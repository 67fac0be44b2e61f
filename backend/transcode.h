// Transcoding: from the tensor formats of model files to the few internal weight layouts (kernels/weights.h).
//
// The formats are those of GGML (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md names them; a block's bytes
// are described where transcode.cpp unpacks it). What comes out is exact: every scale and minimum is a product of
// numbers short enough for f32 to hold, so evaluating scale * code + min in f32, with one rounding for each of the two
// operations, gives the very number that the format defines.
//
// Thread-safety: free functions over their arguments; rows of one tensor may be transcoded by several threads at once,
// each with a buffer of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/gguf.h"
#include "kernels/weights.h"

namespace twostroke {

// Memory for the rows that transcode_rows() returns; kept by the caller so that it is reused from call to call.
struct TranscodeBuffer {
  std::vector<int8_t> q8;
  std::vector<uint8_t> q4;
  std::vector<float> scales;
  std::vector<float> mins;
  std::vector<int8_t> factors;
  std::vector<int8_t> min_factors;
};

// The internal layout that a tensor takes. dims {k, n}; a vector has n = 1. Requires at most two dimensions.
WeightShape transcoded_shape(const GgufTensor& tensor);

// Rows [row_begin, row_begin + row_count) of `tensor` in the layout of transcoded_shape(). The result borrows from
// `buffer`, until its next use, or (plain types) from the tensor itself. Requires a range within the tensor.
HostWeightRows transcode_rows(const GgufTensor& tensor, int64_t row_begin, int64_t row_count, TranscodeBuffer& buffer);

// All elements of `tensor` in f32, in the file's order. `out` has tensor.elements() elements.
// For small tensors (norms) and as the reference for kernels.
void dequantise(const GgufTensor& tensor, std::span<float> out);

}  // namespace twostroke
