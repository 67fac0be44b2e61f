// Python's sorted(): stable, by keys, with its errors where two keys have no order.
#pragma once

#include <vector>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// `items` in the order of `keys`, which has a key for each. Equal ones keep their order, reversed or not.
std::vector<Value> sorted_by_keys(Runtime& runtime, const std::vector<Value>& items, const std::vector<Value>& keys,
                                  bool reverse);

}  // namespace twostroke::jinja
