// Looks a filter up in the table of one file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "server/text/jinja/registry.h"

namespace twostroke::jinja {

template <std::size_t count>
FilterFunction find_in_table(const FilterEntry (&table)[count], std::string_view name) {
  const auto* const end = std::end(table);
  const auto* const found =
      std::find_if(std::begin(table), end, [&](const FilterEntry& entry) { return entry.name == name; });
  return found == end ? nullptr : found->function;
}

}  // namespace twostroke::jinja
