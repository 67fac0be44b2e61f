// Python's attribute and item access, slices, iteration and length, with Jinja's rules on top: `a.b` tries the
// attribute and then the item, `a['b']` the item and then the attribute, and what is not there is undefined.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// `object.name`. `name` is a string value.
Value get_attribute(Runtime& runtime, const Value& object, const Value& name);
// The attribute alone, as the filter `attr`: never the item.
Value get_attribute_only(Runtime& runtime, const Value& object, const Value& name);
// `object[key]`.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// `object[start:stop:step]`; each of the three is an integer or None.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

// The items that iterating over the value gives; an iterator is used up. Fails where it is not iterable.
std::vector<Value> iterate(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
// Python's len(); none where the type has no length.
std::optional<std::size_t> length_of(const Value& value);
std::size_t require_length(Runtime& runtime, const Value& value);

// Looks up a path such as "function.name" or "0.id" (digits are indices), or an integer, as filters do with their
// argument `attribute`. Where `fallback` is given it replaces what is undefined on the way.
Value get_path(Runtime& runtime, const Value& object, const Value& path, const Value* fallback = nullptr);

}  // namespace twostroke::jinja
