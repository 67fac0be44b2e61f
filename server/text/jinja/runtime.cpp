#include "server/text/jinja/runtime.h"

#include <algorithm>

#include "server/text/jinja/compare.h"
#include "server/text/jinja/iterators.h"

namespace twostroke::jinja {

Value Runtime::string(Text text, bool markup) {
  budget_.check_string(text.size());
  const std::size_t cost_bytes = text.size() + sizeof(String);
  budget_.allocate(cost_bytes);
  auto string = std::make_shared<String>(std::move(text), markup);
  string->budget = &budget_;
  string->cost_bytes = cost_bytes;
  return std::shared_ptr<const String>(std::move(string));
}

void Runtime::set_named(Dict& dict, const Arguments& arguments) {
  for (const auto& [name, value] : arguments.named) {
    dict.set(*this, string(Text(name, arguments.names_trusted)), value);
  }
}

Value Runtime::list(std::vector<Value> items) {
  budget_.allocate(items.size() * sizeof(Value));
  List* const list = heap_.make<List>();
  list->items = std::move(items);
  return list;
}

Value Runtime::tuple(std::vector<Value> items) {
  budget_.allocate(items.size() * sizeof(Value));
  Tuple* const tuple = heap_.make<Tuple>();
  tuple->items = std::move(items);
  return tuple;
}

Value Runtime::iterator(std::string_view name, std::vector<Value> items) {
  budget_.allocate(items.size() * sizeof(Value));
  return static_cast<Object*>(heap_.make<Iterator>(name, std::move(items)));
}

void Builder::charge(std::size_t bytes) {
  budget_.step_bytes(bytes);
  if (bytes_max_ == 0) {
    budget_.check_string(text_.size() + bytes);
  } else if (text_.size() + bytes > bytes_max_) {
    fail("the template's output is over " + std::to_string(bytes_max_) + " bytes");
  }
  budget_.allocate(bytes);
  charged_bytes_ += bytes;
}

void Builder::repeat(const Text& other, std::int64_t count) {
  if (count <= 0 || other.empty()) return;
  const std::size_t room = std::max(budget_.limits().string_bytes_max, bytes_max_);
  if (static_cast<std::uint64_t>(count) > room / other.size()) budget_.check_string(room + 1);
  for (std::int64_t i = 0; i < count; ++i) append(other);
}

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    fail(function_ + " takes at most " + std::to_string(names_.size()) + " arguments (" +
         std::to_string(arguments.positional.size()) + " given)");
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) fail(function_ + " got an unexpected keyword argument '" + name + "'");
    const Value*& slot = values_[static_cast<std::size_t>(found - names_.begin())];
    if (slot != nullptr) fail(function_ + " got multiple values for argument '" + name + "'");
    slot = &value;
  }
}

const Value& Parameters::require(std::size_t index) const {
  if (values_[index] == nullptr) {
    fail(function_ + " needs the argument '" + std::string(names_[index]) + "'");
  }
  return *values_[index];
}

std::int64_t Parameters::integer(std::size_t index, std::int64_t fallback) const {
  const Value* const value = values_[index];
  if (value == nullptr) return fallback;
  if (value->is_undefined()) fail(*value->undefined().message);
  if (!value->is_integer()) {
    fail(function_ + ": '" + std::string(names_[index]) + "' must be an integer, not " +
         std::string(type_name(*value)));
  }
  return value->integer();
}

bool Parameters::truth(std::size_t index, bool fallback) const {
  const Value* const value = values_[index];
  return value == nullptr ? fallback : is_true(*value);
}

}  // namespace twostroke::jinja
