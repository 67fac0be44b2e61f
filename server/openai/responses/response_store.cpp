#include "server/openai/responses/response_store.h"

namespace twostroke::openai {

namespace {
constexpr size_t kEntryOverheadBytes = 512;  // about what the maps and strings take beside the text
}

size_t StoredResponse::bytes() const {
  return id.size() + body.size() + input_items.size() + messages.size() + cancelled_body.size() + kEntryOverheadBytes;
}

ResponseStore::Entries::iterator ResponseStore::find_entry(uint64_t tenant, std::string_view id) {
  const auto found = entries_.find(std::string(id));
  return found != entries_.end() && found->second.response->tenant == tenant ? found : entries_.end();
}

void ResponseStore::remove(Entries::iterator entry) {
  const size_t bytes = entry->second.response->bytes();
  bytes_ -= bytes;
  if (entry->second.cancel) {
    --running_;
    running_bytes_ -= bytes;
  } else {
    order_.erase(entry->second.use);
  }
  entries_.erase(entry);
}

void ResponseStore::insert_finished(StoredResponse&& response) {
  const size_t bytes = response.bytes();
  if (bytes > limits_.bytes_max || limits_.responses_max == 0) return;
  while (!order_.empty() && (order_.size() >= limits_.responses_max || bytes_ + bytes > limits_.bytes_max)) {
    remove(entries_.find(order_.front()));
  }
  if (bytes_ + bytes > limits_.bytes_max) return;  // what runs leaves no room
  bytes_ += bytes;
  order_.push_back(response.id);
  Entry entry{.response = std::make_shared<const StoredResponse>(std::move(response)), .use = std::prev(order_.end())};
  entries_.emplace(order_.back(), std::move(entry));
}

void ResponseStore::put(StoredResponse response) {
  const std::lock_guard lock(mutex_);
  insert_finished(std::move(response));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(uint64_t tenant, std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = find_entry(tenant, id);
  if (found == entries_.end()) return nullptr;
  if (!found->second.cancel) order_.splice(order_.end(), order_, found->second.use);
  return found->second.response;
}

bool ResponseStore::erase(uint64_t tenant, std::string_view id) {
  std::function<void()> cancel;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find_entry(tenant, id);
    if (found == entries_.end()) return false;
    cancel = found->second.cancel;
    remove(found);
  }
  if (cancel) cancel();
  return true;
}

bool ResponseStore::begin(StoredResponse running, std::function<void()> cancel) {
  const std::lock_guard lock(mutex_);
  const size_t bytes = running.bytes();
  if (running_ >= limits_.running_max || running_bytes_ + bytes > limits_.bytes_max) return false;
  while (!order_.empty() && bytes_ + bytes > limits_.bytes_max) remove(entries_.find(order_.front()));
  ++running_;
  running_bytes_ += bytes;
  bytes_ += bytes;
  std::string id = running.id;
  entries_.emplace(std::move(id), Entry{.response = std::make_shared<const StoredResponse>(std::move(running)),
                                        .cancel = std::move(cancel)});
  return true;
}

void ResponseStore::end(StoredResponse finished) {
  const std::lock_guard lock(mutex_);
  const auto found = find_entry(finished.tenant, finished.id);
  if (found == entries_.end() || !found->second.cancel) return;
  remove(found);
  insert_finished(std::move(finished));
}

std::shared_ptr<const StoredResponse> ResponseStore::cancel(uint64_t tenant, std::string_view id) {
  std::function<void()> cancel;
  std::shared_ptr<const StoredResponse> response;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find_entry(tenant, id);
    if (found == entries_.end()) return nullptr;
    response = found->second.response;
    if (!found->second.cancel) return response;
    cancel = found->second.cancel;
    StoredResponse cancelled = *response;
    cancelled.body = std::move(cancelled.cancelled_body);
    cancelled.cancelled_body.clear();
    remove(found);
    response = std::make_shared<const StoredResponse>(cancelled);
    insert_finished(std::move(cancelled));
  }
  cancel();
  return response;
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace twostroke::openai
