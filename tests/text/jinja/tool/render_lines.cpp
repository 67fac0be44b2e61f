// Reads one JSON object a line, {"template": ..., "context": {...}, "mutable": bool}, and writes one a line:
// {"output": ...} or {"error": ...}. The time is 2026-07-01T12:00, as in the golden renders.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "server/text/jinja/template.h"

int main() {
  using Json = nlohmann::ordered_json;
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line);
    const auto parsed = twostroke::jinja::Template::parse(request.at("template").get<std::string>());
    twostroke::jinja::RenderOptions options;
    options.now = {2026, 7, 1, 12, 0, 0};
    options.mutable_containers = request.value("mutable", false);
    const auto output = parsed.ok() ? parsed->render(request.at("context"), options) : parsed.status();
    const Json answer = output.ok() ? Json{{"output", *output}} : Json{{"error", output.status().message()}};
    std::cout << answer.dump() << '\n';
  }
  return 0;
}
