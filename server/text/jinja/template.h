// Chat templates: a Jinja2 interpreter with the environment of transformers' apply_chat_template.
//
// The environment: trim_blocks and lstrip_blocks, the loop controls, `generation` blocks, `raise_exception`,
// `strftime_now`, `tojson` without HTML escaping, and a sandbox with no host objects. Values behave and print as
// Python's. Integers have 64 bits. Not there, and refused by name: include, import and extends (a chat template has
// nothing to load), autoescape true, and the filters random, urlize, pprint and wordwrap.
//
// Thread-safety: a Template does not change after parse; render may be called from any number of threads at once.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/status.h"
#include "server/text/jinja/civil_time.h"
#include "server/text/jinja/limits.h"

namespace twostroke::jinja {

struct Program;

// A piece of a rendered prompt, never empty; neighbours differ in `from_template`. Control tokens may be recognised in
// the template's own pieces only. It is a mark, not a place to cut ordinary text: what follows each other without a
// control token between is one text to a tokenizer.
struct Span {
  std::string text;
  bool from_template = false;

  friend bool operator==(const Span&, const Span&) = default;
};

struct RenderOptions {
  CivilTime now;  // what strftime_now formats

  // Variables of the context whose strings count as the template's own, such as bos_token. Everything else in the
  // context is marked as not from the template, through all that a template does with it.
  std::vector<std::string> trusted_variables;

  // Whether a template may change lists and dicts (`append`, `pop`, `update`, ...). transformers' sandbox forbids it,
  // though some published templates do; here it is safe, since a render works on its own copy of the context.
  bool mutable_containers = false;

  // The filter from_json, which some published templates use and transformers does not have.
  bool from_json = false;
};

class Template {
 public:
  // kInvalidArgument with a message that begins "line N: " where the source is not a template, is not UTF-8 or is over
  // a limit; kUnsupported where it uses what is left out on purpose.
  static Result<Template> parse(std::string_view source, const Limits& limits = {});

  // The context is an object: its members are the template's variables. kInvalidArgument where the template raises an
  // exception, does what Python would fail at, or reaches a limit; the message begins "line N: ". A render needs about
  // 2 MiB of stack at most.
  Result<std::string> render(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;
  // The same in marked pieces, whose concatenation is what render gives.
  Result<std::vector<Span>> render_spans(const nlohmann::ordered_json& context,
                                         const RenderOptions& options = {}) const;

 private:
  Template(std::shared_ptr<const Program> program, const Limits& limits);

  std::shared_ptr<const Program> program_;
  Limits limits_;
};

}  // namespace twostroke::jinja
