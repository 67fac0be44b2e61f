// A chat template, and behind a zero byte the context that it is rendered with.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/check.h"
#include "server/text/jinja/json_guard.h"
#include "server/text/jinja/template.h"

namespace {

using Json = nlohmann::ordered_json;

Json usual_context() {
  return Json::parse(R"({"messages": [{"role": "system", "content": "Be <b>brief</b>."},
                                      {"role": "user", "content": "Hi, \u00dcber 7!"},
                                      {"role": "assistant", "content": null, "tool_calls": [
                                        {"function": {"name": "f", "arguments": {"x": 1.5, "y": [true]}}}]}],
                         "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "n": 3})");
}

Json context_of(std::string_view text) {
  twostroke::JsonGuard guard(32);
  if (!guard.check(text).ok()) return usual_context();
  Json context = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return context.is_object() ? context : usual_context();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke::jinja;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t zero = text.find('\0');
  // What a render may cost is small here, so that a run is many of them, and the stack of sanitized code is enough.
  const Limits limits{.nesting_max = 100,
                      .steps_max = 20'000,
                      .depth_max = 150,
                      .output_bytes_max = 64 << 10,
                      .string_bytes_max = 64 << 10,
                      .memory_bytes_max = 4 << 20,
                      .range_items_max = 1'000};
  const auto parsed = Template::parse(text.substr(0, zero), limits);
  if (!parsed.ok()) {
    CHECK(!parsed.status().message().empty());
    return 0;
  }
  const Json context = zero == std::string_view::npos ? usual_context() : context_of(text.substr(zero + 1));
  const RenderOptions options{
      .now = civil_from_seconds(0), .trusted_variables = {"bos_token"}, .mutable_containers = true, .from_json = true};
  const auto rendered = parsed->render(context, options);
  const auto spans = parsed->render_spans(context, options);
  CHECK(rendered.ok() == spans.ok(), "both do the same work");
  if (!rendered.ok()) {
    CHECK(rendered.status().message() == spans.status().message());
    return 0;
  }
  std::string joined;
  for (size_t i = 0; i < spans->size(); ++i) {
    CHECK(!(*spans)[i].text.empty());
    CHECK(i == 0 || (*spans)[i].from_template != (*spans)[i - 1].from_template);
    joined += (*spans)[i].text;
  }
  CHECK(joined == *rendered);
  // Valid UTF-8: dump() throws otherwise.
  CHECK(!Json(joined).dump().empty());
  return 0;
}
