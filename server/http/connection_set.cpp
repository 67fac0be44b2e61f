#include "server/http/connection_set.h"

#include <vector>

#include "server/http/connection.h"

namespace twostroke::http {

Admission ConnectionSet::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  if (draining_) return Admission::kTurnedAway;
  if (served_ < connections_max_) {
    ++served_;
    members_.emplace(connection.get(), Member{connection, Admission::kServed});
    return Admission::kServed;
  }
  if (refused_ < kRefusedMax) {
    ++refused_;
    members_.emplace(connection.get(), Member{connection, Admission::kRefused});
    return Admission::kRefused;
  }
  return Admission::kTurnedAway;
}

void ConnectionSet::remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto member = members_.find(connection);
  if (member == members_.end()) return;
  --(member->second.admission == Admission::kServed ? served_ : refused_);
  members_.erase(member);
}

void ConnectionSet::drain() { close_for_newcomers(&Connection::drain); }
void ConnectionSet::stop() { close_for_newcomers(&Connection::stop); }

void ConnectionSet::close_for_newcomers(void (Connection::*tell)()) {
  // Told outside the lock: the last reference to a connection may end here, and its destructor comes back for the lock.
  std::vector<std::shared_ptr<Connection>> connections;
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& [key, member] : members_) {
      if (auto connection = member.connection.lock()) connections.push_back(std::move(connection));
    }
  }
  for (const auto& connection : connections) (connection.get()->*tell)();
}

bool ConnectionSet::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

size_t ConnectionSet::served() const {
  const std::lock_guard lock(mutex_);
  return served_;
}

}  // namespace twostroke::http
