#include <algorithm>

#include "kernels/check.h"
#include "server/http/server.h"

namespace twostroke::http {
namespace {

bool is_placeholder(std::string_view segment) { return segment.starts_with('{') && segment.ends_with('}'); }
bool is_rest(std::string_view segment) { return is_placeholder(segment) && segment.ends_with("...}"); }

// Takes the text up to the next '/' off `path`, which starts with one.
std::string_view take_segment(std::string_view& path) {
  const size_t end = std::min(path.find('/', 1), path.size());
  const std::string_view segment = path.substr(1, end - 1);
  path.remove_prefix(end);
  return segment;
}

bool matches(std::string_view pattern, std::string_view path, std::vector<std::string>& args) {
  while (!pattern.empty() && path.starts_with('/')) {
    const std::string_view expected = take_segment(pattern);
    if (is_rest(expected)) {
      args.emplace_back(path.substr(1));
      return path.size() > 1;
    }
    const std::string_view segment = take_segment(path);
    if (is_placeholder(expected)) {
      if (segment.empty()) return false;
      args.emplace_back(segment);
    } else if (segment != expected) {
      return false;
    }
  }
  return pattern.empty() && path.empty();
}

}  // namespace

void Router::add(std::string method, std::string pattern, Handler handler, RouteAccess access) {
  CHECK(pattern.starts_with('/'), "a route's pattern starts with '/'");
  CHECK(pattern.find("...}") == std::string::npos || pattern.find("...}") + 4 == pattern.size(),
        "{name...} is the last segment of a pattern");
  CHECK(handler != nullptr, "a route has a handler");
  routes_.push_back({std::move(method), std::move(pattern), std::move(handler), access});
}

void Router::shape_errors(std::string path, ErrorShape shape) {
  CHECK(path.starts_with('/') && !path.ends_with('/'), "errors are shaped by path");
  shapes_.emplace_back(std::move(path), std::move(shape));
}

HttpResponse Router::error_answer(std::string_view path, const HttpError& error, const std::string& request_id) const {
  for (const auto& [own, shape] : shapes_) {
    const bool under = path.starts_with(own) && (path.size() == own.size() || path[own.size()] == '/');
    if (under) return shape(error, request_id);
  }
  return error_response(error);
}

std::vector<std::string> Router::names() const {
  std::vector<std::string> names;
  for (const Route& route : routes_) names.push_back(route.method + " " + route.pattern);
  return names;
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  std::vector<std::string> allowed;
  const auto allow = [&](std::string_view name) {
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) allowed.emplace_back(name);
  };
  for (const Route& route : routes_) {
    Match match;
    if (!matches(route.pattern, path, match.path_args)) continue;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) {
      match.handler = &route.handler;
      match.pattern = route.pattern;
      match.access = route.access;
      return match;
    }
    allow(route.method);
    if (route.method == "GET") allow("HEAD");
  }
  Match match;
  for (const std::string& name : allowed) {
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += name;
  }
  return match;
}

}  // namespace twostroke::http
