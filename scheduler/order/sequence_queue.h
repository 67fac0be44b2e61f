// SequenceQueue: the waiting sequences, in an order (order.h).
//
// Those of one level stand in lines: one for all, or, where tenants are served fairly, one for each tenant. A line is
// an ordered set of its sequences; the lines are an ordered set by level, service of their tenant, and arrival of their
// first. Both are intrusive trees: O(log n) in all that it does, and nothing is allocated but for a line that is new.
//
// A tenant's service rises while its line stands in the set. The set keeps what it was when last looked at; a line that
// comes to the front with more than that goes back to where it belongs, so that no step pays for tenants that nobody
// looks at. (Service that falls is told by service_fell().)
//
// Thread-safety: step thread only. The sequences are the caller's, and must stay where they are, with level, arrival
// and `length_key` unchanged, while they are here.
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/order/order.h"
#include "scheduler/sequence.h"

namespace twostroke {

class SequenceQueue {
 public:
  explicit SequenceQueue(Order order) : order_(order) {}

  // Its place follows from its request's level, tenant and arrival, and from `length_key`.
  void insert(Sequence& sequence);
  void remove(Sequence& sequence);
  // To another place, for one that is here: leave(), change what its place follows from, enter(). It has waited as long
  // as before.
  void leave(Sequence& sequence);
  void enter(Sequence& sequence);

  // The first of this level or a worse one; null when there is none.
  Sequence* first_at(Level level);
  Sequence* first() { return first_at(kAgedLevel); }
  // The one behind it, also in another line or of a worse level. Null at the end.
  Sequence* next(const Sequence& sequence);
  // The first of the line behind that of `sequence`.
  Sequence* next_line(const Sequence& sequence);

  // By line; `tenant` is null where lines are everybody's. Null when there is none.
  Sequence* first_in_line(Level level, const Tenant* tenant);
  Sequence* next_in_line(const Sequence& sequence);
  bool has_other_lines(const Sequence& sequence) const;  // at its level

  // The one that arrived first, of this very level. With Order::kShortest only: everywhere else lines stand in order
  // of arrival. Null when there is none.
  Sequence* eldest_at(Level level);
  // Who has been here longest. Null when empty.
  Sequence* longest_waiting() { return ages_.empty() ? nullptr : &ages_.front(); }
  // As if it had just come.
  void start_waiting_anew(Sequence& sequence, TimeNs now);

  // The least service of those that wait at this level; where none does, that of the one that was first last.
  double least_service(Level level);
  // A tenant has been given something back.
  void service_fell(uint64_t tenant);

  // All of it, in order, as of now. For explanations: this takes as long as the queue is.
  std::vector<const Sequence*> listed() const;
  uint32_t size() const { return static_cast<uint32_t>(ages_.size()); }

  // Empty when it holds exactly these, each in its place; otherwise what is broken. For tests.
  std::string check_invariants(std::vector<const Sequence*> waiting) const;

 private:
  struct ByOrder {
    bool operator()(const Sequence& a, const Sequence& b) const;
  };
  struct ByArrival {
    bool operator()(const Sequence& a, const Sequence& b) const;
  };
  using Hook = boost::intrusive::set_member_hook<>;
  using OrderedSet = boost::intrusive::set<Sequence, boost::intrusive::compare<ByOrder>,
                                           boost::intrusive::member_hook<Sequence, Hook, &Sequence::in_line>>;
  using ArrivalSet = boost::intrusive::set<Sequence, boost::intrusive::compare<ByArrival>,
                                           boost::intrusive::member_hook<Sequence, Hook, &Sequence::in_arrivals>>;
  using AgeList = boost::intrusive::list<
      Sequence, boost::intrusive::member_hook<Sequence, boost::intrusive::list_member_hook<>, &Sequence::in_ages>>;

  struct Line : QueueLine {
    Level level = 0;
    const Tenant* tenant = nullptr;  // null: everybody's
    // Where it stands; as of when it was put there.
    double service = 0;
    uint64_t arrival = 0;  // of its first sequence
    uint32_t index = 0;
    OrderedSet sequences;
    ArrivalSet arrivals;  // Order::kShortest only
    Hook hook;
  };
  struct LineOrder {
    bool operator()(const Line& a, const Line& b) const;
    bool operator()(const Line& a, Level level) const { return a.level < level; }
    bool operator()(Level level, const Line& b) const { return level < b.level; }
  };
  using LineSet = boost::intrusive::set<Line, boost::intrusive::compare<LineOrder>,
                                        boost::intrusive::member_hook<Line, Hook, &Line::hook>>;

  static Line& line_of(const Sequence& sequence) { return static_cast<Line&>(*sequence.line); }
  std::pair<uint64_t, Level> key_of(const Sequence& sequence) const;
  void place(Line& line);
  bool is_stale(const Line& line) const { return line.tenant != nullptr && line.service != line.tenant->service; }
  LineSet::iterator settled(LineSet::iterator line);

  const Order order_;
  std::map<std::pair<uint64_t, Level>, Line> lines_;  // by tenant (0 where lines are everybody's) and level
  LineSet line_order_;
  AgeList ages_;
  double last_service_ = 0;
};

}  // namespace twostroke
