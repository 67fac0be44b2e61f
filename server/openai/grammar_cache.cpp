#include "server/openai/grammar_cache.h"

namespace twostroke::openai {

GrammarCache::Compiled GrammarCache::get(const std::string& key, const std::function<Compiled()>& compile) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->grammar;
    }
  }
  Compiled compiled = compile();
  if (compiled.ok()) keep(key, *compiled);
  return compiled;
}

size_t GrammarCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void GrammarCache::keep(const std::string& key, const std::shared_ptr<const grammar::Grammar>& grammar) {
  const std::lock_guard lock(mutex_);
  if (key.size() > limits_.source_bytes_max || index_.contains(key)) return;
  entries_.push_front({key, grammar});
  index_.emplace(entries_.front().key, entries_.begin());
  source_bytes_ += key.size();
  while (entries_.size() > limits_.entries_max || source_bytes_ > limits_.source_bytes_max) {
    const Entry& oldest = entries_.back();
    source_bytes_ -= oldest.key.size();
    index_.erase(oldest.key);
    entries_.pop_back();
  }
}

}  // namespace twostroke::openai
