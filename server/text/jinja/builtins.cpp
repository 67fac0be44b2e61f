#include "server/text/jinja/builtins.h"

#include "server/text/jinja/iterators.h"
#include "server/text/jinja/methods.h"
#include "server/text/jinja/print.h"

namespace twostroke::jinja {
namespace {

std::int64_t require_integer(const Value& value) {
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_integer()) fail("'" + std::string(type_name(value)) + "' object cannot be interpreted as an integer");
  return value.integer();
}

Value make_range(Runtime& runtime, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    fail("range() takes one to three integers: stop, or start and stop, or start, stop and step");
  }
  const std::int64_t first = require_integer(given[0]);
  if (given.size() == 1) return static_cast<Object*>(Range::make(runtime, 0, first, 1));
  const std::int64_t step = given.size() == 3 ? require_integer(given[2]) : 1;
  return static_cast<Object*>(Range::make(runtime, first, require_integer(given[1]), step));
}

// dict(...) and namespace(...): from a dict or pairs, and from the names given.
Dict* collect(Runtime& runtime, const char* function, const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail(std::string(function) + "() takes at most 1 positional argument");
  Dict* const dict = runtime.dict();
  if (!arguments.positional.empty()) merge_into(runtime, *dict, arguments.positional.front());
  runtime.set_named(*dict, arguments);
  return dict;
}

Value make_dict(Runtime& runtime, const Arguments& arguments) { return collect(runtime, "dict", arguments); }

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  return static_cast<Object*>(runtime.heap().make<Namespace>(collect(runtime, "namespace", arguments)));
}

// cycler(a, b, ...): next() gives one after the other, round and round.
struct Cycler : Object {
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}

  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (name == "current") return items_[position_];
    if (name != "next" && name != "reset") return std::nullopt;
    const bool resets = name == "reset";
    return static_cast<Object*>(runtime.heap().make<Function>(name, [this, resets](Runtime&, const Arguments&) {
      const Value item = resets ? Value() : items_[position_];
      position_ = resets ? 0 : (position_ + 1) % items_.size();
      return item;
    }));
  }

 private:
  const std::vector<Value> items_;
  std::size_t position_ = 0;
};

Value make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail("cycler() takes the items to cycle through");
  return static_cast<Object*>(runtime.heap().make<Cycler>(arguments.positional));
}

// joiner(separator): nothing the first time it is called, then the separator.
Value make_joiner(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("joiner()", arguments, {"sep"});
  const Value separator = parameters.find(0) == nullptr ? Value::literal(", ") : *parameters.find(0);
  bool used = false;
  return static_cast<Object*>(
      runtime.heap().make<Function>("joiner", [separator, used](Runtime&, const Arguments&) mutable {
        return std::exchange(used, true) ? separator : Value::literal("");
      }));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("raise_exception()", arguments, {"message"});
  fail(to_text(runtime, parameters.require(0)).bytes());
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("strftime_now()", arguments, {"format"});
  const Value& format = parameters.require(0);
  if (format.is_undefined()) fail(*format.undefined().message);
  if (!format.is_string()) fail("strftime_now() needs a str, not " + std::string(type_name(format)));
  runtime.budget().step_bytes(format.text().size());
  return runtime.string(Text(format_time(format.view(), runtime.now()), format.text().all_trusted()));
}

}  // namespace

std::optional<Value> make_builtin(Runtime& runtime, std::string_view name) {
  static constexpr std::pair<std::string_view, Value (*)(Runtime&, const Arguments&)> kBuiltins[] = {
      {"cycler", make_cycler},
      {"dict", make_dict},
      {"joiner", make_joiner},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"range", make_range},
      {"strftime_now", strftime_now},
  };
  for (const auto& [builtin, function] : kBuiltins) {
    if (builtin == name) return static_cast<Object*>(runtime.heap().make<Function>(builtin, function));
  }
  return std::nullopt;
}

Text Namespace::description(Runtime& runtime) {
  Builder out(runtime);
  out.append("<Namespace ");
  append_repr(runtime, out, attributes_);
  out.append(">");
  return out.take();
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  const Value* const value = attributes_->find(name);
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

void Namespace::set(Runtime& runtime, const std::string& name, Value value) {
  attributes_->set(runtime, runtime.string(name), std::move(value));
}

}  // namespace twostroke::jinja
