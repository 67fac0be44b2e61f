#include "server/openai/tool_options.h"

#include <algorithm>
#include <optional>

namespace twostroke::openai {
namespace {

bool is_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= kToolNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

const Json* member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return !object.is_object() || found == object.end() || found->is_null() ? nullptr : &*found;
}

// {"type": "function", "function": {...}}: the inner object, or nullptr with a failure.
const Json* function_of(FieldReader& fields, const std::string& where, const Json& tool) {
  const Json* type = member(tool, "type");
  if (!tool.is_object() || type == nullptr || *type != "function") {
    fields.fail(where, "'" + where + "' must be an object of the type \"function\": no other tools are supported.");
    return nullptr;
  }
  const Json* function = member(tool, "function");
  if (function == nullptr || !function->is_object()) {
    fields.fail(where + ".function", "'" + where + ".function' must be an object with the function's 'name'.");
    return nullptr;
  }
  const Json* name = member(*function, "name");
  if (name == nullptr || !name->is_string() || !is_tool_name(name->get_ref<const std::string&>())) {
    fields.fail(where + ".function.name", "'" + where + ".function.name' must be a string of 1 to " +
                                              std::to_string(kToolNameBytesMax) +
                                              " letters, digits, '_', '-' and '.'.");
    return nullptr;
  }
  return function;
}

void read_tools(FieldReader& fields, const Json& tools, ToolOptions& options) {
  if (!tools.is_array() || tools.size() > kToolsMax) {
    fields.fail("tools", "'tools' must be an array of at most " + std::to_string(kToolsMax) + " functions.");
    return;
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string where = "tools[" + std::to_string(i) + "]";
    const Json* function = function_of(fields, where, tools[i]);
    if (function == nullptr) return;
    const Json* parameters = member(*function, "parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      fields.fail(where + ".function.parameters", "'" + where + ".function.parameters' must be an object, a schema.");
      return;
    }
    if (const Json* description = member(*function, "description");
        description != nullptr && !description->is_string()) {
      fields.fail(where + ".function.description", "'" + where + ".function.description' must be a string.");
      return;
    }
    const Json* strict = member(*function, "strict");
    if (strict != nullptr && !strict->is_boolean()) {
      fields.fail(where + ".function.strict", "'" + where + ".function.strict' must be true or false.");
      return;
    }
    const std::string name = (*function)["name"].get<std::string>();
    const auto same = [&](const ToolOptions::Function& other) { return other.name == name; };
    if (std::any_of(options.callable.begin(), options.callable.end(), same)) {
      fields.fail("tools", "'tools' has two functions of the name '" + name + "'.");
      return;
    }
    options.callable.push_back(
        {name, parameters == nullptr ? Json() : *parameters, strict != nullptr && strict->get<bool>()});
  }
  options.tools = tools;
}

// Leaves only the functions of these names callable.
void allow_only(FieldReader& fields, const std::vector<std::string>& names, ToolOptions& options) {
  std::vector<ToolOptions::Function> allowed;
  for (const std::string& name : names) {
    const auto found = std::find_if(options.callable.begin(), options.callable.end(),
                                    [&](const ToolOptions::Function& function) { return function.name == name; });
    if (found == options.callable.end()) {
      fields.fail("tool_choice", "'tool_choice' names the function '" + name + "', which is not among the 'tools'.");
      return;
    }
    allowed.push_back(*found);
  }
  options.callable = std::move(allowed);
}

std::optional<ToolOptions::Choice> choice_named(const Json& choice) {
  if (choice == "none") return ToolOptions::Choice::kNone;
  if (choice == "auto") return ToolOptions::Choice::kAuto;
  if (choice == "required") return ToolOptions::Choice::kRequired;
  return std::nullopt;
}

// {"type": "allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": [...]}}
void read_allowed_tools(FieldReader& fields, const Json& choice, ToolOptions& options) {
  const Json* allowed = member(choice, "allowed_tools");
  const Json* mode = allowed == nullptr ? nullptr : member(*allowed, "mode");
  const Json* tools = allowed == nullptr ? nullptr : member(*allowed, "tools");
  const auto named = mode == nullptr ? std::nullopt : choice_named(*mode);
  if (!named || *named == ToolOptions::Choice::kNone || tools == nullptr || !tools->is_array() || tools->empty() ||
      tools->size() > kToolsMax) {
    fields.fail("tool_choice",
                "'tool_choice.allowed_tools' must be an object with a 'mode' (\"auto\" or \"required\") and an array "
                "of 'tools'.");
    return;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json* function =
        function_of(fields, "tool_choice.allowed_tools.tools[" + std::to_string(i) + "]", (*tools)[i]);
    if (function == nullptr) return;
    names.push_back((*function)["name"].get<std::string>());
  }
  options.choice = *named;
  allow_only(fields, names, options);
}

void read_choice(FieldReader& fields, const Json& choice, ToolOptions& options) {
  if (const auto named = choice_named(choice)) {
    options.choice = *named;
  } else if (const Json* type = member(choice, "type"); type != nullptr && *type == "allowed_tools") {
    read_allowed_tools(fields, choice, options);
  } else if (type != nullptr && *type == "function") {
    const Json* function = function_of(fields, "tool_choice", choice);
    if (function == nullptr) return;
    options.choice = ToolOptions::Choice::kRequired;
    allow_only(fields, {(*function)["name"].get<std::string>()}, options);
  } else {
    fields.fail("tool_choice",
                "'tool_choice' must be \"none\", \"auto\", \"required\", or an object that names a function: "
                "{\"type\": \"function\", \"function\": {\"name\": ...}}.");
  }
}

}  // namespace

ToolOptions read_tool_options(FieldReader& fields) {
  ToolOptions options;
  if (const Json* tools = fields.find("tools")) read_tools(fields, *tools, options);
  options.parallel = fields.boolean("parallel_tool_calls", true);
  const Json* choice = fields.find("tool_choice");
  if (options.tools.empty()) {
    if (choice != nullptr && *choice != "none") {
      fields.fail("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.");
    }
    return options;
  }
  options.choice = ToolOptions::Choice::kAuto;
  if (choice != nullptr) read_choice(fields, *choice, options);
  return options;
}

}  // namespace twostroke::openai
