// GrammarCache: grammars that requests have brought, compiled once. Clients send the same schema with every request.
//
// Bounded: the least recently used leave when there are too many, or their sources are too long together. A grammar
// that is in use stays alive as long as somebody uses it. Failures are not kept. Two requests that bring the same new
// source at the same time may both compile it.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "kernels/status.h"
#include "server/text/grammar/grammar.h"

namespace twostroke::openai {

struct GrammarCacheLimits {
  size_t entries_max = 128;
  size_t source_bytes_max = size_t{4} << 20;  // of all keys; a longer one alone is compiled and not kept
};

class GrammarCache {
 public:
  using Compiled = Result<std::shared_ptr<const grammar::Grammar>>;

  GrammarCache() = default;
  explicit GrammarCache(const GrammarCacheLimits& limits) : limits_(limits) {}

  // The grammar for `key`, which says what it is made of and how; `compile` makes it where it is not there, on the
  // caller's thread and without a lock.
  Compiled get(const std::string& key, const std::function<Compiled()>& compile);

  size_t size() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const grammar::Grammar> grammar;
  };
  void keep(const std::string& key, const std::shared_ptr<const grammar::Grammar>& grammar);

  const GrammarCacheLimits limits_ = {};
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // guarded by mutex_; the last used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator>
      index_;                // guarded by mutex_; views of entries_' keys
  size_t source_bytes_ = 0;  // guarded by mutex_
};

}  // namespace twostroke::openai
