// serve(): wires the layers together and runs the server until it is told to stop.
#pragma once

#include "config/config.h"

namespace twostroke {

// Returns the process's exit code: 0 after a clean drain, 1 when the start failed (one clear message was logged).
int serve(const ServeConfig& config);

}  // namespace twostroke
