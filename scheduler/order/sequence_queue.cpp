#include "scheduler/order/sequence_queue.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "kernels/check.h"

namespace twostroke {

bool SequenceQueue::ByOrder::operator()(const Sequence& a, const Sequence& b) const {
  return std::tie(a.length_key, a.request->arrival, a.index) < std::tie(b.length_key, b.request->arrival, b.index);
}

bool SequenceQueue::ByArrival::operator()(const Sequence& a, const Sequence& b) const {
  return std::tie(a.request->arrival, a.index) < std::tie(b.request->arrival, b.index);
}

bool SequenceQueue::LineOrder::operator()(const Line& a, const Line& b) const {
  return std::tie(a.level, a.service, a.arrival, a.index) < std::tie(b.level, b.service, b.arrival, b.index);
}

std::pair<uint64_t, Level> SequenceQueue::key_of(const Sequence& sequence) const {
  const LiveRequest& live = *sequence.request;
  return {order_ == Order::kFair ? live.tenant->id : 0, live.level};
}

// Puts the line where it belongs now.
void SequenceQueue::place(Line& line) {
  if (line.hook.is_linked()) line_order_.erase(line_order_.iterator_to(line));
  const Sequence& first = *line.sequences.begin();
  line.service = line.tenant != nullptr ? line.tenant->service : 0;
  line.arrival = first.request->arrival;
  line.index = first.index;
  line_order_.insert(line);
}

void SequenceQueue::insert(Sequence& sequence) {
  CHECK(sequence.line == nullptr, "a sequence is in the queue once");
  enter(sequence);
  ages_.push_back(sequence);
}

void SequenceQueue::remove(Sequence& sequence) {
  CHECK(sequence.line != nullptr, "a sequence leaves the queue once");
  leave(sequence);
  ages_.erase(ages_.iterator_to(sequence));
}

void SequenceQueue::enter(Sequence& sequence) {
  Line& line = lines_[key_of(sequence)];
  if (line.sequences.empty()) {
    line.level = sequence.level();
    line.tenant = order_ == Order::kFair ? sequence.request->tenant : nullptr;
  }
  sequence.line = &line;
  line.sequences.insert(sequence);
  if (order_ == Order::kShortest) line.arrivals.insert(sequence);
  if (order_ == Order::kFair) ++sequence.request->tenant->waiting;
  if (&*line.sequences.begin() == &sequence) place(line);
}

void SequenceQueue::leave(Sequence& sequence) {
  Line& line = line_of(sequence);
  const bool was_first = &*line.sequences.begin() == &sequence;
  line.sequences.erase(line.sequences.iterator_to(sequence));
  if (order_ == Order::kShortest) line.arrivals.erase(line.arrivals.iterator_to(sequence));
  if (order_ == Order::kFair) {
    last_service_ = sequence.request->tenant->service;
    --sequence.request->tenant->waiting;
  }
  sequence.line = nullptr;
  if (line.sequences.empty()) {
    line_order_.erase(line_order_.iterator_to(line));
    lines_.erase(key_of(sequence));
  } else if (was_first) {
    place(line);
  }
}

// `line`, or the one that stands there once all before it stand where they belong.
SequenceQueue::LineSet::iterator SequenceQueue::settled(LineSet::iterator line) {
  while (line != line_order_.end() && is_stale(*line)) {
    Line& stale = *line;
    ++line;
    place(stale);  // behind where it was: perhaps still before `line`
    auto moved = line_order_.iterator_to(stale);
    if (++moved == line) line = line_order_.iterator_to(stale);
  }
  return line;
}

Sequence* SequenceQueue::first_at(Level level) {
  const auto line = settled(line_order_.lower_bound(level, LineOrder{}));
  return line == line_order_.end() ? nullptr : &*line->sequences.begin();
}

Sequence* SequenceQueue::first_in_line(Level level, const Tenant* tenant) {
  const auto found = lines_.find({tenant != nullptr ? tenant->id : 0, level});
  return found == lines_.end() ? nullptr : &*found->second.sequences.begin();
}

Sequence* SequenceQueue::next_in_line(const Sequence& sequence) {
  Line& line = line_of(sequence);
  auto behind = line.sequences.iterator_to(sequence);
  return ++behind != line.sequences.end() ? const_cast<Sequence*>(&*behind) : nullptr;
}

bool SequenceQueue::has_other_lines(const Sequence& sequence) const {
  const auto [first, last] = line_order_.equal_range(sequence.level(), LineOrder{});
  return first != last && std::next(first) != last;
}

Sequence* SequenceQueue::next(const Sequence& sequence) {
  Sequence* behind = next_in_line(sequence);
  return behind != nullptr ? behind : next_line(sequence);
}

Sequence* SequenceQueue::next_line(const Sequence& sequence) {
  auto line = line_order_.iterator_to(line_of(sequence));
  line = settled(++line);
  return line == line_order_.end() ? nullptr : &*line->sequences.begin();
}

Sequence* SequenceQueue::eldest_at(Level level) {
  CHECK(order_ == Order::kShortest);
  const auto found = lines_.find({0, level});
  return found == lines_.end() ? nullptr : &*found->second.arrivals.begin();
}

void SequenceQueue::start_waiting_anew(Sequence& sequence, TimeNs now) {
  sequence.waiting_since = now;
  ages_.splice(ages_.end(), ages_, ages_.iterator_to(sequence));
}

double SequenceQueue::least_service(Level level) {
  const auto line = settled(line_order_.lower_bound(level, LineOrder{}));
  return line == line_order_.end() || line->level != level ? last_service_ : line->service;
}

void SequenceQueue::service_fell(uint64_t tenant) {
  for (auto line = lines_.lower_bound({tenant, kAgedLevel}); line != lines_.end() && line->first.first == tenant;
       ++line) {
    place(line->second);
  }
}

std::vector<const Sequence*> SequenceQueue::listed() const {
  std::vector<const Line*> lines;
  for (const auto& [key, line] : lines_) lines.push_back(&line);
  std::ranges::sort(lines, [](const Line* a, const Line* b) {
    const double service_a = a->tenant != nullptr ? a->tenant->service : 0;
    const double service_b = b->tenant != nullptr ? b->tenant->service : 0;
    return std::tie(a->level, service_a, a->arrival, a->index) < std::tie(b->level, service_b, b->arrival, b->index);
  });
  std::vector<const Sequence*> sequences;
  sequences.reserve(size());
  for (const Line* line : lines) {
    for (const Sequence& sequence : line->sequences) sequences.push_back(&sequence);
  }
  return sequences;
}

std::string SequenceQueue::check_invariants(std::vector<const Sequence*> waiting) const {
  std::vector<const Sequence*> found;
  size_t lines = 0;
  for (const auto& [key, line] : lines_) {
    ++lines;
    if (line.sequences.empty() || !line.hook.is_linked()) return "the queue has a line of nobody";
    const Sequence& first = *line.sequences.begin();
    if (line.arrival != first.request->arrival || line.index != first.index) return "a line stands at another's place";
    if (line.tenant != nullptr && line.service > line.tenant->service) return "a line counts more than its tenant got";
    const Sequence* before = nullptr;
    for (const Sequence& sequence : line.sequences) {
      if (sequence.line != &line || key_of(sequence) != key) return "the queue does not hold what waits, in order";
      if (before != nullptr && !ByOrder{}(*before, sequence)) return "the queue does not hold what waits, in order";
      before = &sequence;
      found.push_back(before);
    }
    if (line.arrivals.size() != (order_ == Order::kShortest ? line.sequences.size() : 0)) {
      return "a line has lost who arrived first";
    }
  }
  if (line_order_.size() != lines || !std::ranges::is_sorted(line_order_, LineOrder{})) return "lines are out of order";
  if (ages_.size() != found.size()) return "the queue has lost who waits longest";
  TimeNs since = ages_.empty() ? 0 : ages_.front().waiting_since;
  for (const Sequence& sequence : ages_) {
    if (sequence.waiting_since < since) return "those who wait longest do not come first";
    since = sequence.waiting_since;
  }
  std::ranges::sort(waiting);
  std::ranges::sort(found);
  return waiting == found ? "" : "the queue does not hold what waits, in order";
}

}  // namespace twostroke
