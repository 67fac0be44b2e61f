// What a template may cost. A limit that is reached ends the render with an error that names it; the process and the
// next render are unaffected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twostroke::jinja {

struct Limits {
  // Checked by Template::parse.
  std::size_t template_bytes_max = std::size_t{1} << 20;
  int nesting_max = 200;  // blocks in blocks, brackets in brackets, terms chained in one expression

  // Checked by each render.
  std::int64_t steps_max = 10'000'000;  // nodes evaluated, items visited, and one for every 64 bytes worked on
  int depth_max = 1'000;                // evaluations inside evaluations, macro calls and nested values included; 1,000
                                        // of them fit into 2 MiB of stack in an optimised build
  std::size_t output_bytes_max = std::size_t{16} << 20;
  std::size_t string_bytes_max = std::size_t{16} << 20;   // any one intermediate string
  std::size_t memory_bytes_max = std::size_t{256} << 20;  // all values alive at once, the context's included
  std::int64_t range_items_max = 100'000;                 // as Jinja2's sandbox has it
};

}  // namespace twostroke::jinja
