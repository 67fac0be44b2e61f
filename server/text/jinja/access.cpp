#include "server/text/jinja/access.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "server/text/jinja/methods.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

// How messages name an object: the type, quoted, except that None is itself.
std::string described(const Value& object) {
  return object.is_none() ? "None" : std::string(type_name(object)) + " object";
}

Value missing_attribute(const Value& object, std::string_view name) {
  return Value::undefined("'" + described(object) + "' has no attribute '" + std::string(name) + "'");
}

Value missing_item(Runtime& runtime, const Value& object, const Value& key) {
  if (key.is_string()) return missing_attribute(object, key.view());
  return Value::undefined(described(object) + " has no element " + to_repr(runtime, key).bytes());
}

// The attribute of the type itself: a method, or a field of an object. None where the type has no such attribute.
std::optional<Value> own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (name.starts_with("_")) {
    // Names of Python's internals exist on every value, and the sandbox hides them.
    if (!name.starts_with("__") || !name.ends_with("__")) return std::nullopt;
    return Value::undefined("access to attribute '" + std::string(name) + "' of '" + std::string(type_name(object)) +
                            "' object is unsafe.");
  }
  if (object.is_object()) return object.object()->attribute(runtime, name);
  if (object.is_tuple() && object.tuple()->is_group) {
    if (name == "grouper") return object.tuple()->items[0];
    if (name == "list") return object.tuple()->items[1];
  }
  return find_method(runtime, object, name);
}

// The item, where the object has one under this key. Fails where `object` is undefined.
std::optional<Value> own_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) fail(*object.undefined().message);
  if (object.is_dict()) {
    if (key.is_list() || key.is_dict()) return std::nullopt;  // not hashable
    const Value* const found = object.dict()->find(runtime, key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (object.is_object()) return object.object()->item(runtime, key);
  if (!key.is_integer()) return std::nullopt;
  std::int64_t index = key.integer();
  if (const std::vector<Value>* items = object.items()) {
    const auto count = static_cast<std::int64_t>(items->size());
    if (index < 0) index += count;
    if (index < 0 || index >= count) return std::nullopt;
    return (*items)[static_cast<std::size_t>(index)];
  }
  if (!object.is_string()) return std::nullopt;
  const Text& text = object.text();
  runtime.budget().step_bytes(text.size());
  const auto count = static_cast<std::int64_t>(utf8::length(text.view()));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  const std::size_t begin = utf8::offset_of(text.view(), static_cast<std::size_t>(index));
  return runtime.string(text.slice(begin, begin + utf8::width(text.view()[begin])), object.is_markup());
}

// What a slice takes of a sequence of `count` items: the first index, how many, and the distance between them.
struct Cut {
  std::int64_t first;
  std::int64_t count;
  std::int64_t step;
};

std::optional<std::int64_t> slice_bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_integer()) fail("slice indices must be integers or None, not " + std::string(type_name(value)));
  return value.integer();
}

// Python's PySlice_AdjustIndices.
Cut cut_of(std::int64_t count, const Value& start, const Value& stop, const Value& step_value) {
  // A step beyond the length takes the first item only, whatever it is; the clamp keeps the arithmetic small.
  const std::int64_t step = std::clamp(slice_bound(step_value).value_or(1), -count - 1, count + 1);
  if (step == 0) fail("slice step cannot be zero");
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? count - 1 : count;
  const auto clamped = [&](const Value& bound, std::int64_t fallback) {
    const std::optional<std::int64_t> index = slice_bound(bound);
    if (!index) return fallback;
    return std::clamp(*index < 0 ? *index + count : *index, lowest, highest);
  };
  const std::int64_t first = clamped(start, step < 0 ? highest : lowest);
  const std::int64_t end = clamped(stop, step < 0 ? lowest : highest);
  if (step < 0 ? end >= first : first >= end) return {first, 0, step};
  return {first, step < 0 ? (first - end - 1) / -step + 1 : (end - first - 1) / step + 1, step};
}

Value slice_string(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  const Text& text = object.text();
  runtime.budget().step_bytes(text.size());
  const std::string_view view = text.view();
  const Cut cut = cut_of(static_cast<std::int64_t>(utf8::length(view)), start, stop, step);
  if (cut.count == 0) return runtime.string(Text(), object.is_markup());
  if (cut.step == 1) {
    const std::size_t begin = utf8::offset_of(view, static_cast<std::size_t>(cut.first));
    const std::size_t end = begin + utf8::offset_of(view.substr(begin), static_cast<std::size_t>(cut.count));
    return runtime.string(text.slice(begin, end), object.is_markup());
  }
  std::vector<std::size_t> offsets;
  for (std::size_t offset = 0; offset < view.size(); offset += utf8::width(view[offset])) offsets.push_back(offset);
  runtime.budget().step(static_cast<std::int64_t>(offsets.size()));
  Builder out(runtime);
  for (std::int64_t i = 0; i < cut.count; ++i) {
    const std::size_t begin = offsets[static_cast<std::size_t>(cut.first + i * cut.step)];
    out.append(text, begin, begin + utf8::width(view[begin]));
  }
  return runtime.string(out.take(), object.is_markup());
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, const Value& name) {
  if (object.is_undefined()) fail(*object.undefined().message);
  if (std::optional<Value> attribute = own_attribute(runtime, object, name.view())) return *std::move(attribute);
  if (std::optional<Value> item = own_item(runtime, object, name)) return *std::move(item);
  return missing_attribute(object, name.view());
}

Value get_attribute_only(Runtime& runtime, const Value& object, const Value& name) {
  if (object.is_undefined()) fail(*object.undefined().message);
  if (std::optional<Value> attribute = own_attribute(runtime, object, name.view())) return *std::move(attribute);
  return missing_attribute(object, name.view());
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (std::optional<Value> item = own_item(runtime, object, key)) return *std::move(item);
  if (key.is_string()) {
    if (std::optional<Value> attribute = own_attribute(runtime, object, key.view())) return *std::move(attribute);
  }
  return missing_item(runtime, object, key);
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail(*object.undefined().message);
  if (object.is_string()) return slice_string(runtime, object, start, stop, step);
  std::vector<Value> from_range;
  const std::vector<Value>* items = object.items();
  if (items == nullptr && type_name(object) == "range") {
    from_range = iterate(runtime, object);
    items = &from_range;
  }
  if (items == nullptr) fail("'" + std::string(type_name(object)) + "' object cannot be sliced");
  const Cut cut = cut_of(static_cast<std::int64_t>(items->size()), start, stop, step);
  runtime.budget().step(cut.count);
  std::vector<Value> part;
  part.reserve(static_cast<std::size_t>(cut.count));
  for (std::int64_t i = 0; i < cut.count; ++i) {
    part.push_back((*items)[static_cast<std::size_t>(cut.first + i * cut.step)]);
  }
  return object.is_tuple() ? runtime.tuple(std::move(part)) : runtime.list(std::move(part));
}

bool is_iterable(const Value& value) {
  if (value.is_object()) return value.object()->is_iterable();
  return value.is_string() || value.is_undefined() || value.is_dict() || value.items() != nullptr;
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  if (!is_iterable(value)) fail("'" + std::string(type_name(value)) + "' object is not iterable");
  if (value.is_undefined()) return {};
  if (value.is_object()) return value.object()->iterate(runtime);
  if (const std::vector<Value>* items = value.items()) {
    runtime.budget().step(static_cast<std::int64_t>(items->size()));
    return *items;
  }
  std::vector<Value> items;
  if (value.is_dict()) {
    runtime.budget().step(static_cast<std::int64_t>(value.dict()->size()));
    for (const auto& entry : value.dict()->entries()) items.push_back(entry.first);
    return items;
  }
  const std::string_view view = value.view();
  for (std::size_t offset = 0; offset < view.size();) {
    const std::size_t end = offset + utf8::width(view[offset]);
    runtime.budget().step();
    items.push_back(runtime.string(value.text().slice(offset, end), value.is_markup()));
    offset = end;
  }
  return items;
}

std::optional<std::size_t> length_of(const Value& value) {
  if (value.is_string()) return utf8::length(value.view());
  if (value.is_undefined()) return 0;
  if (value.is_dict()) return value.dict()->size();
  if (const std::vector<Value>* items = value.items()) return items->size();
  return value.is_object() ? value.object()->length() : std::nullopt;
}

std::size_t require_length(Runtime& runtime, const Value& value) {
  if (value.is_string()) runtime.budget().step_bytes(value.text().size());
  const std::optional<std::size_t> length = length_of(value);
  if (!length) fail("object of type '" + std::string(type_name(value)) + "' has no len()");
  return *length;
}

Value get_path(Runtime& runtime, const Value& object, const Value& path, const Value* fallback) {
  const auto step_into = [&](const Value& from, const Value& key) {
    Value found = get_item(runtime, from, key);
    return found.is_undefined() && fallback != nullptr && !fallback->is_none() ? *fallback : found;
  };
  if (path.is_none()) return object;
  if (!path.is_string()) return step_into(object, path);
  Value value = object;
  const std::string_view names = path.view();
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    std::int64_t index = 0;
    if (all_digits(name) && std::from_chars(name.data(), name.data() + name.size(), index).ec == std::errc()) {
      value = step_into(value, index);
    } else {
      value = step_into(value, runtime.string(path.text().slice(begin, end)));
    }
    begin = end + 1;
  }
  return value;
}

}  // namespace twostroke::jinja
