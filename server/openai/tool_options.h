// ToolOptions: `tools`, `tool_choice` and `parallel_tool_calls` of a chat, read and checked.
#pragma once

#include <string>
#include <vector>

#include "server/openai/field_reader.h"

namespace twostroke::openai {

constexpr size_t kToolsMax = 128;
constexpr size_t kToolNameBytesMax = 128;

struct ToolOptions {
  enum class Choice : uint8_t {
    kNone,      // the model is not told of tools, and nothing is taken for a call
    kAuto,      // it may call; where it calls a `strict` function, with arguments valid against its parameters
    kRequired,  // it must call one of `callable` at least, with arguments valid against its parameters
  };
  struct Function {
    std::string name;
    Json parameters;      // a schema; null: it takes none
    bool strict = false;  // with kAuto too, its arguments are held to the schema
  };

  Choice choice = Choice::kNone;
  Json tools = Json::array();      // as the client sent them
  std::vector<Function> callable;  // those that tool_choice allows: a named one alone, for example
  bool parallel = true;            // more than one call in a turn
};

// Fails on tools that are not well-formed functions, two of one name, and a choice that does not fit the tools. The
// parameters are not looked at: they need not be a schema that this server can enforce unless it has to.
ToolOptions read_tool_options(FieldReader& fields);

}  // namespace twostroke::openai
