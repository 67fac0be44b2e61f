#include "server/text_commands.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <optional>

#include "server/model_files.h"
#include "server/openai/answer.h"
#include "server/openai/json.h"

namespace twostroke {
namespace {

constexpr size_t kTextBytesMax = size_t{256} << 20;
constexpr size_t kContextBytesMax = size_t{64} << 20;

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

int fail(std::ostream& err, const std::string& message) {
  err << message << "\n";
  return 1;
}

// What strftime_now sees: TWOSTROKE_NOW, or the clock's UTC.
Result<jinja::CivilTime> render_time() {
  const char* text = std::getenv("TWOSTROKE_NOW");
  if (text == nullptr) return jinja::civil_from_seconds(openai::unix_seconds());
  Result<jinja::CivilTime> time = jinja::parse_iso8601(text);
  if (!time.ok()) return invalid_argument("TWOSTROKE_NOW: " + time.status().message());
  return time;
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
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof(buffer)) || in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kTextBytesMax)
      return fail(err, "the text is larger than " + std::to_string(kTextBytesMax) + " bytes");
  }
  const char* separator = "";
  for (const TokenId token : (*tokenizer)->encode(text, options)) {
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
  const auto context = openai::parse_object(*context_text);
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

}  // namespace twostroke
