#include "server/model_files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace twostroke {
Result<std::string> read_file(const std::string& path, size_t bytes_max) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return not_found("cannot open '" + path + "': " + std::strerror(errno));
  std::string text;
  text.resize(bytes_max + 1);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return invalid_argument("cannot read '" + path + "': is it a file?");
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > bytes_max)
    return invalid_argument("'" + path + "' is larger than " + std::to_string(bytes_max) + " bytes");
  return text;
}

Result<ModelText> load_model_text(const std::string& model_path, const std::string& template_path) {
  ModelText text;
  Result<std::unique_ptr<GgufFile>> file = GgufFile::open(model_path);
  if (!file.ok()) return file.status();
  text.file = std::move(*file);
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::from_gguf(*text.file);
  if (!tokenizer.ok()) return tokenizer.status();
  text.tokenizer = std::move(*tokenizer);

  std::string source;
  if (!template_path.empty()) {
    Result<std::string> read = read_file(template_path, kTemplateBytesMax);
    if (!read.ok()) return read.status();
    source = std::move(*read);
  } else {
    Result<std::string_view> own = text.file->get_string_or("tokenizer.chat_template", "");
    if (!own.ok()) return own.status();
    source = *own;
  }
  text.reply_syntax = reply::ReplySyntax::detect(source, *text.tokenizer);
  if (source.empty()) return text;
  Result<jinja::Template> parsed = jinja::Template::parse(source);
  if (!parsed.ok()) {
    return invalid_argument("the chat template" +
                            (template_path.empty() ? " of the model" : " '" + template_path + "'") +
                            " does not parse: " + parsed.status().message() +
                            (template_path.empty() ? "; give another with --chat-template FILE" : ""));
  }
  text.template_knows_developer = source.find("developer") != std::string::npos;
  text.chat_template.emplace(std::move(*parsed));
  return text;
}

}  // namespace twostroke
