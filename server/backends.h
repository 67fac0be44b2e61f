// Which backend serves: cpu, sim, or a plug-in, made from the configuration.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/gguf.h"
#include "config/config.h"
#include "kernels/status.h"

namespace twostroke {

// Loads the backend that the configuration names, with progress in the log. `file` is the model's file, for what a
// simulation must know of it (its vocabulary and context).
Result<std::unique_ptr<Backend>> make_backend(const ServeConfig& config, const GgufFile& file, int32_t vocab_size);

}  // namespace twostroke
