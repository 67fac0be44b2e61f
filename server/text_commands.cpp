#include "server/text_commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "server/model_files.h"
#include "server/openai/answer.h"
#include "server/openai/json.h"
#include "server/text/grammar/gbnf.h"
#include "server/text/grammar/json_schema.h"
#include "server/text/grammar/matcher.h"
#include "server/text/grammar/regex.h"
#include "server/text/jinja/json_guard.h"
#include "server/text/utf8.h"

namespace twostroke {
namespace {

constexpr size_t kTextBytesMax = size_t{256} << 20;
constexpr size_t kContextBytesMax = size_t{64} << 20;
constexpr size_t kGrammarBytesMax = size_t{16} << 20;

// Parses, or prints help or the error; then holds the exit code.
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments, std::ostream& out, std::ostream& err) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector from its end
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

int fail(std::ostream& err, const std::string& message, int code = 1) {
  err << message << "\n";
  return code;
}

// All of `in`, unless that is more than kTextBytesMax.
std::optional<std::string> read_text(std::istream& in, std::ostream& err) {
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof(buffer)) || in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kTextBytesMax) {
      fail(err, "the text is larger than " + std::to_string(kTextBytesMax) + " bytes");
      return std::nullopt;
    }
  }
  return text;
}

// What strftime_now sees: TWOSTROKE_NOW, or the clock's UTC.
Result<jinja::CivilTime> render_time() {
  const char* text = std::getenv("TWOSTROKE_NOW");
  if (text == nullptr) return jinja::civil_from_seconds(openai::unix_seconds());
  Result<jinja::CivilTime> time = jinja::parse_iso8601(text);
  if (!time.ok()) return invalid_argument("TWOSTROKE_NOW: " + time.status().message());
  return time;
}

using GrammarResult = Result<std::shared_ptr<const grammar::Grammar>>;

Result<openai::Json> parse_json(const std::string& text, const std::string& what) {
  JsonGuard guard(openai::kJsonDepthMax);
  if (const Status cost = guard.check(text); !cost.ok()) return invalid_argument(what + " " + cost.message());
  openai::Json value = openai::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return invalid_argument(what + " is not valid JSON");
  return value;
}

// Where the text can be one of a schema's, without the white space that JSON allows around it: [begin, end).
std::pair<size_t, size_t> json_text(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return {begin, std::max(begin, text.find_last_not_of(kSpace) + 1)};
}

// No grammar sees that two items are equal. Exit code of a text that the schema's grammar has accepted.
int check_unique_items(const openai::Json& schema, const std::string& text, std::ostream& err) {
  if (schema.dump().find("\"uniqueItems\"") == std::string::npos) return 0;
  const Result<openai::Json> value = parse_json(text, "the text");
  if (!value.ok()) return fail(err, value.status().message(), 2);
  const Result<bool> satisfied = grammar::satisfies_json_schema(schema, *value);
  if (!satisfied.ok()) return fail(err, satisfied.status().message(), 2);
  return *satisfied ? 0 : fail(err, "rejected: items that 'uniqueItems' wants different are equal");
}

// The bytes of `text` that can be read, up to the first that cannot follow.
size_t read_as_far_as_possible(grammar::Matcher& matcher, std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const std::string_view rest = text.substr(position);
    const size_t size = utf8_first_unit(rest).size;
    if (matcher.accept(rest.substr(0, size))) {
      position += size;
      continue;
    }
    size_t possible = size - 1;  // of the character's bytes
    while (possible > 0 && !grammar::Matcher(matcher).accept(rest.substr(0, possible))) --possible;
    return position + possible;
  }
  return position;
}

}  // namespace

int tokenize_command(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out,
                     std::ostream& err) {
  CLI::App app("Reads text on standard input, exactly as it is, and prints its token ids on one line.",
               "twostroke tokenize");
  std::string model;
  EncodeOptions options;
  app.add_option("--model", model, "GGUF file with the vocabulary")->required();
  app.add_flag("--add-special", options.add_special, "Add BOS and EOS as the model asks");
  app.add_flag("--parse-special", options.parse_special, "Recognise special tokens written in the text");
  if (const auto code = parse(app, arguments, out, err)) return *code;

  Result<std::unique_ptr<GgufFile>> file = GgufFile::open(model);
  if (!file.ok()) return fail(err, file.status().message());
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::from_gguf(**file);
  if (!tokenizer.ok()) return fail(err, tokenizer.status().message());
  const std::optional<std::string> text = read_text(in, err);
  if (!text) return 1;
  const char* separator = "";
  for (const TokenId token : (*tokenizer)->encode(*text, options)) {
    out << separator << token;
    separator = " ";
  }
  out << "\n";
  return 0;
}

int render_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app(
      "Renders a chat template (Jinja) with a context (a JSON object) and prints the prompt.\n"
      "TWOSTROKE_NOW (ISO 8601) in the environment fixes what strftime_now sees.",
      "twostroke render");
  std::string template_path, context_path;
  app.add_option("--template", template_path, "File with the template")->required();
  app.add_option("--context", context_path, "File with the context")->required();
  if (const auto code = parse(app, arguments, out, err)) return *code;

  const Result<std::string> source = read_file(template_path, kTemplateBytesMax);
  if (!source.ok()) return fail(err, source.status().message());
  const Result<std::string> context_text = read_file(context_path, kContextBytesMax);
  if (!context_text.ok()) return fail(err, context_text.status().message());
  const auto context = openai::parse_object(*context_text, "The context");
  if (const auto* error = std::get_if<openai::ApiError>(&context))
    return fail(err, context_path + ": " + error->message);
  const Result<jinja::CivilTime> now = render_time();
  if (!now.ok()) return fail(err, now.status().message());

  const Result<jinja::Template> parsed = jinja::Template::parse(*source);
  if (!parsed.ok()) return fail(err, parsed.status().message());
  jinja::RenderOptions options;
  options.now = *now;
  const Result<std::string> text = parsed->render(std::get<openai::Json>(context), options);
  if (!text.ok()) return fail(err, text.status().message());
  out << *text;
  out.flush();
  return 0;
}

int grammar_command(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err) {
  CLI::App app(
      "Says whether the text on standard input, exactly as it is, is one of a grammar's: exit code 0 when it is,\n"
      "1 when it is not, 2 when the grammar cannot be used. White space around a JSON text counts for nothing.",
      "twostroke grammar");
  std::string schema_path, gbnf_path, regex;
  CLI::Option_group* grammars = app.add_option_group("grammar");
  grammars->add_option("--schema", schema_path, "File with a JSON Schema");
  grammars->add_option("--gbnf", gbnf_path, "File with a grammar in GBNF");
  const CLI::Option* regex_option = grammars->add_option("--regex", regex, "Regular expression for the whole text");
  grammars->require_option(1);
  if (const auto code = parse(app, arguments, out, err)) return *code;

  GrammarResult compiled = invalid_argument("");
  openai::Json schema;
  if (regex_option->count() > 0) {
    compiled = grammar::compile_regex_grammar(regex);
  } else {
    const Result<std::string> file = read_file(schema_path.empty() ? gbnf_path : schema_path, kGrammarBytesMax);
    if (!file.ok()) return fail(err, file.status().message(), 2);
    if (schema_path.empty()) {
      compiled = grammar::compile_gbnf(*file);
    } else {
      Result<openai::Json> parsed = parse_json(*file, "the schema");
      if (!parsed.ok()) return fail(err, parsed.status().message(), 2);
      schema = *std::move(parsed);
      compiled = grammar::compile_json_schema(schema);
    }
  }
  if (!compiled.ok()) return fail(err, compiled.status().message(), 2);
  const std::optional<std::string> text = read_text(in, err);
  if (!text) return 2;
  const auto [begin, end] = schema_path.empty() ? std::pair<size_t, size_t>(0, text->size()) : json_text(*text);
  grammar::Matcher matcher(*compiled);
  const size_t read = begin + read_as_far_as_possible(matcher, std::string_view(*text).substr(begin, end - begin));
  if (read < end && matcher.at_limit()) {
    return fail(err,
                "this grammar can be read in too many ways, or too deep, to tell whether the byte at offset " +
                    std::to_string(read) + " can follow",
                2);
  }
  if (read < end) return fail(err, "rejected: the byte at offset " + std::to_string(read) + " cannot follow");
  if (!matcher.may_end())
    return fail(err, "rejected: the text ends at byte " + std::to_string(read) + ", where it must go on");
  return schema_path.empty() ? 0 : check_unique_items(schema, *text, err);
}

}  // namespace twostroke
