#include "server/http/connection_set.h"

#include <vector>

#include "server/http/connection.h"

namespace twostroke::http {

Admission ConnectionSet::add(const std::shared_ptr<Connection>& connection) {
  Admission admission = Admission::kTurnedAway;
  // Told outside the lock: the last reference to it may end here, and its destructor comes back for the lock.
  std::shared_ptr<Connection> leaving;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return Admission::kTurnedAway;
    if (served_ >= connections_max_) leaving = make_room();
    if (served_ < connections_max_) {
      ++served_;
      admission = Admission::kServed;
    } else if (refused_ < kRefusedMax) {
      ++refused_;
      admission = Admission::kRefused;
    }
    if (admission != Admission::kTurnedAway) members_.emplace(connection.get(), Member{connection, admission});
  }
  if (leaving) leaving->leave();
  return admission;
}

// The connection that has to leave, if there is one.
std::shared_ptr<Connection> ConnectionSet::make_room() {
  if (idle_.empty() || Clock::now() - idle_.front().since < idle_grace_) return nullptr;
  Member& member = members_.at(idle_.front().connection);
  end_idle(member);
  auto connection = member.connection.lock();
  if (!connection) return nullptr;  // it is ending anyway
  member.leaving = true;
  --served_;
  return connection;
}

void ConnectionSet::end_idle(Member& member) {
  if (member.idle) idle_.erase(*member.idle);
  member.idle.reset();
}

void ConnectionSet::remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto member = members_.find(connection);
  if (member == members_.end()) return;
  end_idle(member->second);
  if (!member->second.leaving) --(member->second.admission == Admission::kServed ? served_ : refused_);
  members_.erase(member);
}

void ConnectionSet::set_idle(const Connection* connection, bool idle) {
  const std::lock_guard lock(mutex_);
  const auto member = members_.find(connection);
  if (member == members_.end() || member->second.leaving) return;
  end_idle(member->second);
  if (!idle) return;
  idle_.push_back({connection, Clock::now()});
  member->second.idle = std::prev(idle_.end());
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
