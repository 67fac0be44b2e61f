// ResponseStore: the responses that clients may come back to, in memory, bounded in number and bytes.
//
// A finished response stays until it is deleted or is the least recently used one when room is needed. One that runs in
// the background stays until it ends. Responses are found by the tenant that made them and by nobody else.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace twostroke::openai {

struct StoredResponse {
  std::string id;
  uint64_t tenant = 0;
  std::string body;         // the response object
  std::string input_items;  // JSON array
  std::string messages;     // JSON array: the conversation up to this answer as chat messages, without instructions
  bool background = false;
  std::string cancelled_body;  // `body` after a cancel, while it runs in the background; else ""

  bool running() const { return !cancelled_body.empty(); }
  size_t bytes() const;
};

class ResponseStore {
 public:
  struct Limits {
    size_t responses_max = 10'000;
    size_t bytes_max = size_t{64} << 20;
    size_t running_max = 256;  // in the background
  };
  ResponseStore() : ResponseStore(Limits()) {}
  explicit ResponseStore(const Limits& limits) : limits_(limits) {}

  // Takes a finished response; others go if they must. One that is beyond the bounds alone is not kept.
  void put(StoredResponse response);
  // nullptr: there is none (any more). A use, for the order in which they go.
  std::shared_ptr<const StoredResponse> find(uint64_t tenant, std::string_view id);
  // Forgets it, cancelling what runs. False: there is none.
  bool erase(uint64_t tenant, std::string_view id);

  // A response begins to run in the background. `cancel` ends it; called at most once, on the caller's thread of
  // cancel() or erase(), under no lock. False: too many run, or their bytes are too many.
  bool begin(StoredResponse running, std::function<void()> cancel);
  // It ended by itself. Nothing happens when it was cancelled or erased before.
  void end(StoredResponse finished);
  // Cancels it if it runs; then as find().
  std::shared_ptr<const StoredResponse> cancel(uint64_t tenant, std::string_view id);

  size_t size() const;   // finished and running
  size_t bytes() const;  // of both

 private:
  struct Entry {
    std::shared_ptr<const StoredResponse> response;
    std::function<void()> cancel;               // set while it runs
    std::list<std::string>::iterator use = {};  // in order_, once it is finished
  };
  using Entries = std::unordered_map<std::string, Entry>;

  Entries::iterator find_entry(uint64_t tenant, std::string_view id);
  void remove(Entries::iterator entry);
  void insert_finished(StoredResponse&& response);

  const Limits limits_;
  mutable std::mutex mutex_;
  Entries entries_;               // guarded by mutex_, like the rest
  std::list<std::string> order_;  // ids of the finished ones, least recently used first
  size_t bytes_ = 0;
  size_t running_ = 0;
  size_t running_bytes_ = 0;
};

}  // namespace twostroke::openai
