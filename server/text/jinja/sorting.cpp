#include "server/text/jinja/sorting.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "server/text/jinja/compare.h"

namespace twostroke::jinja {

std::vector<Value> sorted_by_keys(Runtime& runtime, const std::vector<Value>& items, const std::vector<Value>& keys,
                                  bool reverse) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return reverse ? less(runtime, keys[right], keys[left]) : less(runtime, keys[left], keys[right]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

}  // namespace twostroke::jinja
