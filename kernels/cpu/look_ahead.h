// What a kernel asks memory for while it multiplies panels (panel_format.h).
//
// Few rows are multiplied in one pass over the panels, which waits for memory: it asks for the same panels a little
// ahead. More rows take several passes, of which all but the first find the panels in the cache and memory would idle:
// each pass asks for its part of the panels behind them instead, so that these are there when it is their turn.
//
// It asks for them in the second-level cache: asked for in the first, each line would hold one of its few fill buffers
// until memory answers (AVX2 read a fifth less from memory so).
//
// Static, so that each instruction set compiles a copy of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/panel_format.h"

namespace twostroke {

enum : size_t { kLineBytes = 64 };

struct LookAhead {
  const uint8_t* at;    // the next line
  const uint8_t* turn;  // where a panel ends that others follow which were asked for beside it: go on behind those
  size_t skip;
  size_t lines;    // to ask for yet
  size_t at_once;  // of them, with each group
  size_t stride;   // from a panel to the next, where several are multiplied at once
};

static inline size_t whole_lines(size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes; }

// For pass `pass` of `passes` over `panels` panels that begin at `panel` and have so many groups.
static inline LookAhead look_ahead(const PanelFormat& format, const uint8_t* panel, size_t panels, int64_t groups,
                                   int64_t pass, int64_t passes) {
  const size_t stride = format.panel_bytes;
  const size_t skip = (panels - 1) * stride;
  if (passes == 1) {
    const size_t ahead = kPrefetchAhead / panels;
    const uint8_t* first = panel + ahead / stride * panels * stride;
    return {first + ahead % stride, first + stride, skip, whole_lines(stride), whole_lines(format.step_bytes), stride};
  }
  const size_t lines = whole_lines(stride / static_cast<size_t>(passes));
  const uint8_t* at = panel + panels * stride + static_cast<size_t>(pass) * lines * kLineBytes;
  return {at,    at + stride, skip, lines, (lines + static_cast<size_t>(groups) - 1) / static_cast<size_t>(groups),
          stride};
}

// For a whole panel at `panel`, asked for in as many steps.
static inline LookAhead look_ahead_at_panel(const PanelFormat& format, const uint8_t* panel, int64_t steps) {
  const size_t lines = whole_lines(format.panel_bytes);
  const size_t at_once = (lines + static_cast<size_t>(steps) - 1) / static_cast<size_t>(steps);
  return {panel, panel + format.panel_bytes, 0, lines, at_once, format.panel_bytes};
}

// What is due with a group.
static inline void ask_ahead(LookAhead& ahead, size_t panels) {
  for (size_t i = 0; i < ahead.at_once && ahead.lines > 0; ++i, --ahead.lines, ahead.at += kLineBytes) {
    if (ahead.at >= ahead.turn) {
      ahead.at += ahead.skip;
      ahead.turn += panels * ahead.stride;
    }
    for (size_t p = 0; p < panels; ++p) __builtin_prefetch(ahead.at + p * ahead.stride, 0, 2);
  }
}

}  // namespace twostroke
