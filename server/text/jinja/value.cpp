#include "server/text/jinja/value.h"

#include "server/text/jinja/compare.h"
#include "server/text/jinja/runtime.h"

namespace twostroke::jinja {
namespace {

// Below this many entries a look-up compares them one after the other.
constexpr std::size_t kIndexedFrom = 16;

}  // namespace

const std::vector<Value>* Value::items() const {
  if (is_list()) return &list()->items;
  return is_tuple() ? &tuple()->items : nullptr;
}

bool Value::is_same(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_none()) return true;
  if (is_undefined()) return undefined().message == other.undefined().message;
  if (is_string()) return &string() == &other.string() || text().view() == other.text().view();
  return std::visit(
      [&](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, None> || std::is_same_v<T, Undefined> ||
                      std::is_same_v<T, std::shared_ptr<const String>>) {
          return true;
        } else {
          return mine == std::get<T>(other.data_);
        }
      },
      data_);
}

std::size_t Dict::index_of(Runtime& runtime, const Value& key) const {
  const std::size_t hash = hash_value(runtime, key);
  if (entries_.size() < kIndexedFrom) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (equal(runtime, entries_[i].first, key)) return i;
    }
    return entries_.size();
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    runtime.budget().step();
    if (equal(runtime, entries_[found->second].first, key)) return found->second;
  }
  return entries_.size();
}

const Value* Dict::find(Runtime& runtime, const Value& key) const {
  if (key.is_string()) return find(key.view());
  const std::size_t index = index_of(runtime, key);
  return index == entries_.size() ? nullptr : &entries_[index].second;
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() < kIndexedFrom) {
    for (const Entry& entry : entries_) {
      if (entry.first.is_string() && entry.first.view() == key) return &entry.second;
    }
    return nullptr;
  }
  const auto [begin, end] = index_.equal_range(std::hash<std::string_view>{}(key));
  for (auto found = begin; found != end; ++found) {
    const Entry& entry = entries_[found->second];
    if (entry.first.is_string() && entry.first.view() == key) return &entry.second;
  }
  return nullptr;
}

void Dict::set(Runtime& runtime, Value key, Value value) {
  const std::size_t index = index_of(runtime, key);
  if (index < entries_.size()) {
    entries_[index].second = std::move(value);
    return;
  }
  runtime.budget().allocate(sizeof(Entry) + 4 * sizeof(void*));
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() == kIndexedFrom) {
    for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(hash_value(runtime, entries_[i].first), i);
  } else if (entries_.size() > kIndexedFrom) {
    index_.emplace(hash_value(runtime, entries_.back().first), entries_.size() - 1);
  }
}

void Dict::erase(Runtime& runtime, std::size_t index) {
  runtime.budget().step(static_cast<std::int64_t>(entries_.size()));
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  index_.clear();
  if (entries_.size() < kIndexedFrom) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(hash_value(runtime, entries_[i].first), i);
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
}

Value Object::call(Runtime&, Arguments) { fail("'" + std::string(type_name()) + "' object is not callable"); }

std::string_view type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_undefined()) return "Undefined";
  if (value.is_bool()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_markup()) return "Markup";
  if (value.is_string()) return "str";
  if (value.is_list()) return "list";
  if (value.is_tuple()) return "tuple";
  if (value.is_dict()) return "dict";
  return value.object()->type_name();
}

}  // namespace twostroke::jinja
