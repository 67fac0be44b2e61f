// read_small_file: a whole regular file of at most kSmallFileBytesMax bytes. Errors name the path. Thread-safe.
#pragma once

#include <string>

#include "kernels/status.h"

namespace twostroke::simulate {

constexpr size_t kSmallFileBytesMax = size_t{1} << 20;  // of a profile, a model's config.json, a calibration

Result<std::string> read_small_file(const std::string& path);

// Of a pipe one may wait for ever, and a device never ends: neither is read. Errors: kNotFound, kInvalidArgument.
Status check_regular_file(const std::string& path);

}  // namespace twostroke::simulate
