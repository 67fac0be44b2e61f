// What a kernel asks memory for while it multiplies panels (panel_format.h).
//
// Few rows are multiplied in one pass over the panels, which waits for memory: it asks for the same panels a little
// ahead. More rows take several passes, of which all but the first find the panels in the cache and memory would idle:
// each pass asks for its part of the panels behind them instead, so that these are there when it is their turn.
//
// Static, so that each instruction set compiles a copy of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/panel_format.h"

namespace twostroke {

enum : size_t { kLineBytes = 64 };

struct LookAhead {
  const uint8_t* at;   // from here on
  const uint8_t* end;  // to here
  size_t bytes;        // more with each group; a multiple of a line
  size_t stride;       // from a panel to the next, where several are multiplied at once
};

// For pass `pass` of `passes` over `panels` panels that begin at `panel` and have so many groups.
static inline LookAhead look_ahead(const PanelFormat& format, const uint8_t* panel, size_t panels, int64_t groups,
                                   int64_t pass, int64_t passes) {
  const size_t all_groups = static_cast<size_t>(groups);
  if (passes == 1) {
    const uint8_t* at = panel + kPrefetchAhead;
    const size_t step = (format.step_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    return {at, at + all_groups * step, step, format.panel_bytes};
  }
  const size_t parts = static_cast<size_t>(passes);
  const size_t lines = (format.panel_bytes / kLineBytes + parts - 1) / parts;
  const uint8_t* at = panel + panels * format.panel_bytes + static_cast<size_t>(pass) * lines * kLineBytes;
  return {at, at + lines * kLineBytes, (lines + all_groups - 1) / all_groups * kLineBytes, format.panel_bytes};
}

}  // namespace twostroke
