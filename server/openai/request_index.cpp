#include "server/openai/request_index.h"

#include <algorithm>
#include <unordered_map>

namespace twostroke::openai {

void RequestIndex::add(RequestId request, std::shared_ptr<const CallName> name) {
  const std::lock_guard lock(mutex_);
  live_.emplace(request, std::move(name));
}

void RequestIndex::refused(RequestId request) {
  const std::lock_guard lock(mutex_);
  live_.erase(request);
}

void RequestIndex::observe(std::span<const Event> events) {
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kEnded) continue;
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(event.request);
    if (found == live_.end()) continue;
    if (ended_.size() == kEndedMax) ended_.pop_front();
    ended_.push_back({.request = event.request,
                      .name = std::move(found->second),
                      .end = {.outcome = event.outcome, .error = event.error, .summary = event.summary}});
    live_.erase(found);
  }
}

std::optional<RequestIndex::Call> RequestIndex::find(std::string_view name) const {
  const auto matches = [&](const CallName& call) { return call.id == name || call.request_id == name; };
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const CallName> latest;
  RequestId latest_request = 0;
  const auto consider = [&](RequestId request, const std::shared_ptr<const CallName>& call) {
    if (request < latest_request || name.empty() || !matches(*call)) return;
    latest = call;
    latest_request = request;
  };
  for (const auto& [request, call] : live_) consider(request, call);
  for (const Ended& ended : ended_) consider(ended.request, ended.name);
  if (latest == nullptr) return std::nullopt;

  Call call{.name = *latest, .parts = {}};
  for (const Ended& ended : ended_) {
    if (ended.name == latest) call.parts.push_back({.request = ended.request, .end = ended.end});
  }
  for (const auto& [request, owner] : live_) {
    if (owner == latest) call.parts.push_back({.request = request, .end = {}});
  }
  std::ranges::sort(call.parts, {}, &Part::request);
  return call;
}

std::vector<RequestIndex::Call> RequestIndex::live(size_t calls_max) const {
  const std::lock_guard lock(mutex_);
  std::vector<Call> calls;
  std::unordered_map<const CallName*, size_t> places;
  for (const auto& [request, name] : live_) {
    auto place = places.find(name.get());
    if (place == places.end()) {
      if (calls.size() == calls_max) continue;
      place = places.emplace(name.get(), calls.size()).first;
      calls.push_back({.name = *name, .parts = {}});
    }
    calls[place->second].parts.push_back({.request = request, .end = {}});
  }
  return calls;
}

size_t RequestIndex::live_requests() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

}  // namespace twostroke::openai
