#include "server/text/reply/reply_syntax.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/text/reply/call_grammar.h"
#include "server/text/reply/format_parser.h"
#include "server/text/reply/reply_format.h"
#include "server/text/reply/template_probe.h"

namespace twostroke::reply {
namespace {

// Every text of the format that the parser looks for.
std::vector<std::string> format_texts(const ReplyFormat& format) {
  std::vector<std::string> texts = {format.reasoning.open, format.reasoning.close, format.headers.close};
  const auto add = [&](const std::vector<std::string>& more) { texts.insert(texts.end(), more.begin(), more.end()); };
  add(format.dropped);
  add(format.extra_stops);
  add(format.headers.open);
  add(format.headers.end);
  for (const CallShape& shape : format.shapes) {
    add({shape.section_open, shape.section_close, shape.separator, shape.call_open, shape.call_close, shape.name_close,
         shape.id_open, shape.tags.key_open, shape.tags.key_close, shape.tags.value_close});
    if (shape.arguments == ArgumentsStyle::kBare) texts.emplace_back("<|\"|>");
  }
  if (format.headers.style == HeaderStyle::kHarmony) texts.emplace_back("<|constrain|>");
  return texts;
}

std::vector<TokenId> control_tokens(const ReplyFormat& format, const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  for (const std::string& text : format_texts(format)) {
    for (const MarkedPiece& piece : split_control_tokens(text, tokenizer)) {
      if (piece.token >= 0) tokens.push_back(piece.token);
    }
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

class FormatSyntax : public ReplySyntax {
 public:
  FormatSyntax(ReplyFormat format, bool uses_tools, size_t call_id_bytes, const Tokenizer& tokenizer)
      : format_(std::make_shared<const ReplyFormat>(std::move(format))),
        uses_tools_(uses_tools),
        call_id_bytes_(call_id_bytes),
        tokenizer_(tokenizer),
        markers_(control_tokens(*format_, tokenizer)) {
    const std::span<const TokenId> ends = tokenizer.end_of_generation();
    for (const std::string& text : format_->extra_stops) {
      const TokenId token = tokenizer.find(text);
      if (token >= 0 && !std::binary_search(ends.begin(), ends.end(), token)) extra_stops_.push_back(token);
    }
    std::sort(extra_stops_.begin(), extra_stops_.end());
  }

  std::string_view name() const override { return format_->name; }
  std::span<const TokenId> marker_tokens() const override { return markers_; }
  std::span<const TokenId> extra_stop_tokens() const override { return extra_stops_; }
  bool template_uses_tools() const override { return uses_tools_; }
  size_t call_id_bytes() const override { return call_id_bytes_; }

  std::unique_ptr<ReplyParser> parser(const ParseOptions& options) const override {
    FormatParserOptions made;
    made.tool_calls = options.tool_calls;
    made.reasoning = options.reasoning;
    made.prompt_end = options.prompt_end;
    for (size_t i = 0; i < options.tool_names.size(); ++i) {
      made.tools.add(options.tool_names[i], i < options.tool_parameters.size() ? options.tool_parameters[i] : nullptr);
    }
    return std::make_unique<FormatParser>(format_, std::move(made));
  }

  Result<std::shared_ptr<const grammar::Grammar>> demand_grammar(const ToolDemand& demand) const override {
    return make_call_grammar(*format_, demand, tokenizer_);
  }

 private:
  const std::shared_ptr<const ReplyFormat> format_;
  const bool uses_tools_;
  const size_t call_id_bytes_;
  const Tokenizer& tokenizer_;
  const std::vector<TokenId> markers_;
  std::vector<TokenId> extra_stops_;
};

}  // namespace

std::unique_ptr<ReplySyntax> ReplySyntax::detect(std::string_view template_source, const Tokenizer& tokenizer) {
  TemplateProbe probe;
  if (!template_source.empty()) probe = probe_template(template_source);
  ReplyFormat format = detect_format(template_source, probe);
  // A model that has tokens for it thinks, whatever its template knows of it.
  const bool headers = format.headers.style != HeaderStyle::kNone;
  if (format.reasoning.close.empty() && !headers && tokenizer.find("<think>") >= 0 && tokenizer.find("</think>") >= 0) {
    format.reasoning = {"<think>", "</think>"};
  }
  return std::make_unique<FormatSyntax>(std::move(format), probe.uses_tools, probe.call_id_bytes, tokenizer);
}

std::string tools_prompt(const nlohmann::ordered_json& tools) {
  std::string text = "You can call functions. They are listed here, one JSON object a line:\n<tools>\n";
  for (const nlohmann::ordered_json& tool : tools) {
    text += tool.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  text +=
      "</tools>\n\n"
      "To call a function, write its name and its arguments as one JSON object between these tags, once for each "
      "call:\n"
      "<tool_call>\n{\"name\": <name of the function>, \"arguments\": <object of its arguments>}\n</tool_call>\n"
      "Where no function helps, answer as usual.";
  return text;
}

}  // namespace twostroke::reply
