// FakeReplySyntax: a way to mark reasoning and calls that a test can write by hand: capital letters are reasoning, '#'
// begins a call of the function "f", whose arguments are what follows up to the next '#', and the rest is content.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/text/reply/reply_syntax.h"

namespace twostroke {

class FakeReplyParser final : public reply::ReplyParser {
 public:
  explicit FakeReplyParser(const reply::ParseOptions& options) : options_(options) {}

  reply::ReplyDelta push(std::string_view text) override {
    reply::ReplyDelta delta;
    for (const char c : text) {
      if (c == '#' && options_.tool_calls) {
        delta.tool_calls.push_back({.index = calls_++, .begins = true, .name = "f"});
      } else if (calls_ > 0) {
        if (delta.tool_calls.empty()) delta.tool_calls.push_back({.index = calls_ - 1});
        delta.tool_calls.back().arguments += c;
      } else if (c >= 'A' && c <= 'Z' && options_.reasoning) {
        delta.reasoning += c;
      } else {
        delta.content += c;
      }
    }
    return delta;
  }
  reply::ReplyDelta finish() override { return {.content = "."}; }

 private:
  const reply::ParseOptions options_;
  uint32_t calls_ = 0;
};

class FakeReplySyntax final : public reply::ReplySyntax {
 public:
  FakeReplySyntax(std::vector<TokenId> markers, std::vector<TokenId> stops)
      : markers_(std::move(markers)), stops_(std::move(stops)) {}

  std::string_view name() const override { return "fake"; }
  std::span<const TokenId> marker_tokens() const override { return markers_; }
  std::span<const TokenId> extra_stop_tokens() const override { return stops_; }
  std::unique_ptr<reply::ReplyParser> parser(const reply::ParseOptions& options) const override {
    return std::make_unique<FakeReplyParser>(options);
  }
  bool template_uses_tools() const override { return template_uses_tools_; }
  void set_template_uses_tools(bool uses) { template_uses_tools_ = uses; }
  size_t call_id_bytes() const override { return call_id_bytes_; }
  void set_call_id_bytes(size_t bytes) { call_id_bytes_ = bytes; }
  Result<std::shared_ptr<const grammar::Grammar>> demand_grammar(const reply::ToolDemand&) const override {
    return unsupported("there is none");
  }

 private:
  std::vector<TokenId> markers_;
  std::vector<TokenId> stops_;
  size_t call_id_bytes_ = 0;
  bool template_uses_tools_ = true;
};

}  // namespace twostroke
