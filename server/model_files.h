// What the text side needs of a model file: tokenizer and chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/gguf.h"
#include "kernels/status.h"
#include "server/text/jinja/template.h"
#include "server/text/reply/reply_syntax.h"
#include "server/text/tokenizer.h"

namespace twostroke {

constexpr size_t kTemplateBytesMax = size_t{1} << 20;  // of a file with a chat template

struct ModelText {
  std::unique_ptr<GgufFile> file;  // kept open: it owns the vocabulary's strings
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<jinja::Template> chat_template;      // none: the model has none
  std::unique_ptr<reply::ReplySyntax> reply_syntax;  // how answers are written, by the template
  bool template_knows_developer = false;             // its source mentions the role
};

// Opens the file and reads both. `template_path`: a file with a template that replaces the model's own; "" for none.
// A model's own template that does not parse is an error, which says how to replace it.
Result<ModelText> load_model_text(const std::string& model_path, const std::string& template_path);

// A whole file of at most `bytes_max` bytes. Errors name the path.
Result<std::string> read_file(const std::string& path, size_t bytes_max);

}  // namespace twostroke
