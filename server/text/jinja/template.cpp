#include "server/text/jinja/template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "server/text/jinja/builtins.h"
#include "server/text/jinja/interpreter.h"
#include "server/text/jinja/json_value.h"
#include "server/text/jinja/parser.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

Status to_status(const Failure& failure) {
  if (failure.line == 0) return {failure.code, failure.message};
  return {failure.code, "line " + std::to_string(failure.line) + ": " + failure.message};
}

// The value of each name that the template uses: the context's variable, else the function of that name.
std::vector<std::optional<Value>> globals_of(const Program& program, Runtime& runtime,
                                             const nlohmann::ordered_json& context, const RenderOptions& options) {
  std::vector<std::optional<Value>> globals;
  globals.reserve(program.names.size());
  const auto& trusted = options.trusted_variables;
  for (const std::string& name : program.names) {
    const auto variable = context.find(name);
    if (variable == context.end()) {
      globals.push_back(make_builtin(runtime, name));
    } else {
      globals.emplace_back(
          to_value(runtime, *variable, std::find(trusted.begin(), trusted.end(), name) != trusted.end()));
    }
  }
  return globals;
}

Result<Text> render_text(const Program& program, const Limits& limits, const nlohmann::ordered_json& context,
                         const RenderOptions& options) {
  if (!context.is_object()) return invalid_argument("the context of a template must be a JSON object");
  Runtime runtime(limits, {options.mutable_containers, options.from_json}, options.now);
  try {
    return Interpreter(program, runtime, globals_of(program, runtime, context, options)).run();
  } catch (const Failure& failure) {
    return to_status(failure);
  }
}

}  // namespace

Template::Template(std::shared_ptr<const Program> program, const Limits& limits)
    : program_(std::move(program)), limits_(limits) {}

Result<Template> Template::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes_max) {
    return invalid_argument("the template has " + std::to_string(source.size()) + " bytes, and the limit is " +
                            std::to_string(limits.template_bytes_max));
  }
  if (!utf8::is_valid(source)) return invalid_argument("the template is not valid UTF-8");
  try {
    return Template(std::make_shared<const Program>(parse_program(source, limits)), limits);
  } catch (const Failure& failure) {
    return to_status(failure);
  }
}

Result<std::string> Template::render(const nlohmann::ordered_json& context, const RenderOptions& options) const {
  Result<Text> text = render_text(*program_, limits_, context, options);
  if (!text.ok()) return text.status();
  return text->bytes();
}

Result<std::vector<Span>> Template::render_spans(const nlohmann::ordered_json& context,
                                                 const RenderOptions& options) const {
  Result<Text> text = render_text(*program_, limits_, context, options);
  if (!text.ok()) return text.status();
  std::vector<Span> spans;
  std::size_t begin = 0;
  for (const Text::Run& run : text->runs()) {
    spans.push_back({text->bytes().substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return spans;
}

}  // namespace twostroke::jinja
