#include "scheduler/journal/journal.h"

#include "kernels/check.h"
#include "scheduler/journal/plan_digest.h"

namespace twostroke {
namespace {

// The kind of a record is the place of its type in JournalRecord.
template <typename T, size_t I = 0>
constexpr size_t kind_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, JournalRecord>, T>) {
    return I;
  } else {
    return kind_of<T, I + 1>();
  }
}

// IEEE 802.3's CRC-32, reflected.
constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320U : 0U);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

uint32_t crc32(std::string_view bytes) {
  uint32_t value = ~0U;
  for (const char c : bytes) value = (value >> 8) ^ kCrcTable[(value ^ static_cast<uint8_t>(c)) & 0xff];
  return ~value;
}

// What a row's result holds besides its token; most have nothing to say, and then it is not written.
constexpr uint8_t kNotFiniteFlag = 1;
constexpr uint8_t kTargetsFlag = 2;
constexpr uint8_t kHiddenFlag = 4;
constexpr uint8_t kFollowingFlag = 8;
constexpr int kMaskShift = 4;

uint8_t flags_of(const RecordedResult& result, bool followed) {
  return static_cast<uint8_t>((followed ? kFollowingFlag : 0) | (result.finite ? 0 : kNotFiniteFlag) |
                              (result.targets_fit ? 0 : kTargetsFlag) | (result.hidden_fits ? 0 : kHiddenFlag) |
                              (static_cast<int>(result.mask) << kMaskShift));
}

// The row that goes on where `row` ends.
RecordedRow decode_after(const RecordedRow& row) {
  return {.sequence = row.sequence, .position = row.position + row.token_count, .token_count = 1, .samples = true};
}

}  // namespace

std::string journal_head() {
  std::string head(kJournalMagic);
  ByteWriter(head).put_raw(kJournalFormatVersion);
  return head;
}

void append_journal_frame(std::string_view records, std::string& out) {
  CHECK(records.size() <= kJournalFrameBytesMax, "a frame of the journal is too large");
  const size_t begin = out.size();
  ByteWriter writer(out);
  writer.put_raw(static_cast<uint32_t>(records.size()));
  writer.put_raw(crc32(records));
  writer.put_raw(crc32(std::string_view(out).substr(begin, 8)));
  out.append(records);
}

std::string journal_program_record(const RecordedProgram& program) {
  std::string record;
  ByteWriter writer(record);
  writer(static_cast<uint8_t>(kind_of<RecordedProgram>()), program.version, program.unix_seconds);
  return record;
}

std::string journal_end_record(const std::string& reason) {
  std::string record;
  ByteWriter writer(record);
  writer(static_cast<uint8_t>(kind_of<RecordedEnd>()), reason);
  return record;
}

// ---- Writing

ByteWriter JournalWriter::begin(size_t kind) {
  buffer_.clear();
  ByteWriter writer(buffer_);
  writer.put(static_cast<uint8_t>(kind));
  return writer;
}

void JournalWriter::time(ByteWriter& writer, TimeNs now) {
  writer.put(now - last_time_);
  last_time_ = now;
}

void JournalWriter::end() { output_.append(buffer_); }

void JournalWriter::scheduler(const SchedulerLimits& limits, const BackendInfo& info) {
  ByteWriter writer = begin(kind_of<RecordedScheduler>());
  limits_fields(writer, limits);
  info_fields(writer, info);
  end();
}

void JournalWriter::submit(const Request& request, TimeNs now) {
  ByteWriter writer = begin(kind_of<RecordedSubmit>());
  request_fields(writer, request);
  writer.put(request.constraints.size());
  time(writer, now);
}

void JournalWriter::submitted(StatusCode outcome) {
  ByteWriter(buffer_).put(outcome);
  end();
}

void JournalWriter::cancel(RequestId request, TimeNs now) {
  ByteWriter writer = begin(kind_of<RecordedCancel>());
  writer.put(request);
  time(writer, now);
  end();
}

void JournalWriter::finish_sequence(RequestId request, uint32_t sequence, TimeNs now) {
  ByteWriter writer = begin(kind_of<RecordedFinish>());
  writer(request, sequence);
  time(writer, now);
  end();
}

void JournalWriter::fail_all(StatusCode code, TimeNs now) {
  ByteWriter writer = begin(kind_of<RecordedFailAll>());
  writer.put(code);
  time(writer, now);
  end();
}

// Rows in turn: how many go on from the last plan's, at the same place, then one that does not, and so on.
void JournalWriter::schedule(TimeNs now, const StepPlan& plan, const StepCounts& counts, const StepBudget& budget) {
  ByteWriter writer = begin(kind_of<RecordedSchedule>());
  time(writer, now);
  writer.put_raw(digest_of(plan, counts, budget));
  writer(counts.preemptions, budget.prefill_tokens, budget.reason, plan.rows.size());
  const size_t before = rows_.size();
  rows_.resize(plan.rows.size());
  size_t going_on = 0;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& planned = plan.rows[i];
    const RecordedRow row{.sequence = planned.sequence,
                          .position = planned.position,
                          .token_count = planned.token_count,
                          .draft_count = planned.draft_count,
                          .samples = planned.samples};
    if (i < before && rows_[i] == row) {
      ++going_on;
    } else {
      writer(going_on, row.sequence, row.position, row.token_count, row.draft_count, row.samples);
      going_on = 0;
    }
    rows_[i] = decode_after(row);
  }
  if (going_on > 0) writer.put(going_on);
  shape_ = counts.shape;
  end();
}

void JournalWriter::commit(TimeNs now, size_t rows) {
  ByteWriter writer = begin(kind_of<RecordedCommit>());
  time(writer, now);
  writer.put(rows);
}

// The token and whether anything else is to say, in one number.
void JournalWriter::row(const RecordedResult& result, std::span<const SampledToken> following) {
  ByteWriter writer(buffer_);
  const uint8_t flags = flags_of(result, !following.empty());
  writer.put((static_cast<int64_t>(result.token) * 2) | (flags != 0 ? 1 : 0));
  if (flags != 0) writer.put_raw(flags);
  if (following.empty()) return;
  writer.put(following.size());
  for (const SampledToken& sampled : following) writer.put(sampled.token);
}

void JournalWriter::fail(StatusCode code, TimeNs now) {
  ByteWriter writer = begin(kind_of<RecordedFail>());
  writer.put(code);
  time(writer, now);
}

void JournalWriter::ended_step(std::span<const Event> events) {
  ByteWriter(buffer_).put_raw(digest_of(events));
  end();
}

// Nearly always of the step that was decided last.
void JournalWriter::learn(const StepShape& shape, TimeNs duration_ns) {
  ByteWriter writer = begin(kind_of<RecordedLearn>());
  writer(shape == shape_, duration_ns);
  if (shape != shape_) shape_fields(writer, shape);
  end();
}

void JournalWriter::drain_events() {
  begin(kind_of<RecordedDrain>());
  end();
}

// ---- Reading

Status JournalReader::damaged(const std::string& how) const {
  return invalid_argument("the journal is damaged: " + how + " in the frame at byte " + std::to_string(frame_begin_));
}

bool JournalReader::read_bytes(char* to, size_t size) {
  in_.read(to, static_cast<std::streamsize>(size));
  const auto got = static_cast<size_t>(in_.gcount());
  bytes_read_ += got;
  torn_ = torn_ || (got > 0 && got < size);
  return got == size;
}

Status JournalReader::read_head() {
  char head[kJournalMagic.size() + sizeof(uint32_t)];
  if (!read_bytes(head, sizeof(head)) || std::string_view(head, kJournalMagic.size()) != kJournalMagic) {
    return invalid_argument("this is no step journal of twostroke (see --journal of twostroke serve)");
  }
  uint32_t version = 0;
  std::memcpy(&version, head + kJournalMagic.size(), sizeof(version));
  if (version != kJournalFormatVersion) {
    return invalid_argument("the journal has format " + std::to_string(version) + ", but this program reads format " +
                            std::to_string(kJournalFormatVersion) + " only: use the program that wrote it");
  }
  head_read_ = true;
  return {};
}

Status JournalReader::read_frame() {
  frame_begin_ = bytes_read_;
  frame_.clear();
  char header[kJournalFrameHeaderBytes];
  if (!read_bytes(header, sizeof(header))) return {};
  uint32_t numbers[3];
  std::memcpy(numbers, header, sizeof(numbers));
  const auto [length, records_crc, header_crc] = numbers;
  if (crc32(std::string_view(header, 8)) != header_crc || length > kJournalFrameBytesMax) {
    return damaged("a wrong checksum of the frame's length");
  }
  frame_.resize(length);
  if (!read_bytes(frame_.data(), length)) {
    torn_ = true;
    frame_.clear();
    return {};
  }
  if (crc32(frame_) != records_crc) return damaged("a wrong checksum of the records");
  return {};
}

Result<std::optional<JournalRecord>> JournalReader::next() {
  if (!head_read_) {
    if (Status status = read_head(); !status.ok()) return give_up(std::move(status));
  }
  while (!records_ || records_->at_end()) {
    if (torn_ || !in_.good()) return std::optional<JournalRecord>();
    if (Status status = read_frame(); !status.ok()) return give_up(std::move(status));
    if (frame_.empty() && !in_.good()) return std::optional<JournalRecord>();
    records_.emplace(frame_);
  }
  Result<std::optional<JournalRecord>> record = read_record();
  if (!record.ok()) return give_up(record.status());
  return record;
}

Status JournalReader::give_up(Status status) {
  head_read_ = true;
  records_.reset();
  in_.setstate(std::ios::failbit);
  return status;
}

TimeNs JournalReader::read_time(ByteReader& reader) {
  TimeNs delta = 0;
  reader.get(delta);
  if (__builtin_add_overflow(last_time_, delta, &last_time_)) reader.fail();
  return last_time_;
}

RecordedSubmit JournalReader::read_submit(ByteReader& reader) {
  RecordedSubmit record;
  request_fields(reader, record.request);
  reader.get(record.constraints);
  record.now = read_time(reader);
  reader.get(record.outcome);
  return record;
}

RecordedSchedule JournalReader::read_schedule(ByteReader& reader) {
  RecordedSchedule record;
  record.now = read_time(reader);
  reader.get_raw(record.digest);
  uint64_t count = 0;
  reader(record.preemptions, record.budget.prefill_tokens, record.budget.reason, count);
  if (count > 0) record.step = ++step_;
  // As the writer does it. A row costs no byte where it goes on, so the count is checked against the rows before.
  std::vector<RecordedRow> next;
  while (next.size() < count && !reader.failed()) {
    uint64_t going_on = 0;
    reader.get(going_on);
    if (going_on > std::min<uint64_t>(count, rows_.size()) - std::min<uint64_t>(next.size(), rows_.size())) {
      reader.fail();
      break;
    }
    for (; going_on > 0; --going_on) next.push_back(rows_[next.size()]);
    if (next.size() == count) break;
    RecordedRow& row = next.emplace_back();
    reader(row.sequence, row.position, row.token_count, row.draft_count, row.samples);
  }
  if (reader.failed()) next.clear();
  record.rows = next;
  rows_.clear();
  for (const RecordedRow& row : next) rows_.push_back(decode_after(row));
  return record;
}

RecordedCommit JournalReader::read_commit(ByteReader& reader) {
  RecordedCommit record;
  record.now = read_time(reader);
  record.rows.resize(reader.get_length());
  for (RecordedResult& row : record.rows) {
    int64_t token = 0;
    reader.get(token);
    row.token = static_cast<TokenId>(token >> 1);
    if (row.token != token >> 1) reader.fail();
    if ((token & 1) == 0) continue;
    uint8_t flags = 0;
    reader.get_raw(flags);
    row.finite = (flags & kNotFiniteFlag) == 0;
    row.targets_fit = (flags & kTargetsFlag) == 0;
    row.hidden_fits = (flags & kHiddenFlag) == 0;
    row.mask = static_cast<MaskVerdict>(flags >> kMaskShift);
    if (row.mask > last_of(MaskVerdict{})) reader.fail();
    if ((flags & kFollowingFlag) != 0) reader.get(row.following);
  }
  reader.get_raw(record.events_digest);
  return record;
}

RecordedLearn JournalReader::read_learn(ByteReader& reader) {
  RecordedLearn record;
  bool of_last_plan = false;
  reader(of_last_plan, record.duration_ns);
  if (!of_last_plan) shape_fields(reader, record.shape.emplace());
  return record;
}

Result<std::optional<JournalRecord>> JournalReader::read_record() {
  ByteReader& reader = *records_;
  uint8_t kind = 0;
  reader.get_raw(kind);
  JournalRecord record;
  switch (kind) {
    case kind_of<RecordedProgram>(): {
      RecordedProgram program;
      reader(program.version, program.unix_seconds);
      record = program;
      break;
    }
    case kind_of<RecordedScheduler>(): {
      RecordedScheduler scheduler;
      limits_fields(reader, scheduler.limits);
      info_fields(reader, scheduler.info);
      record = scheduler;
      break;
    }
    case kind_of<RecordedSubmit>():
      record = read_submit(reader);
      break;
    case kind_of<RecordedCancel>(): {
      RecordedCancel cancel;
      reader.get(cancel.request);
      cancel.now = read_time(reader);
      record = cancel;
      break;
    }
    case kind_of<RecordedFinish>(): {
      RecordedFinish finish;
      reader(finish.request, finish.sequence);
      finish.now = read_time(reader);
      record = finish;
      break;
    }
    case kind_of<RecordedFailAll>(): {
      RecordedFailAll fail;
      reader.get(fail.code);
      fail.now = read_time(reader);
      record = fail;
      break;
    }
    case kind_of<RecordedSchedule>():
      record = read_schedule(reader);
      break;
    case kind_of<RecordedCommit>():
      record = read_commit(reader);
      break;
    case kind_of<RecordedFail>(): {
      RecordedFail fail;
      reader.get(fail.code);
      fail.now = read_time(reader);
      reader.get_raw(fail.events_digest);
      record = fail;
      break;
    }
    case kind_of<RecordedLearn>():
      record = read_learn(reader);
      break;
    case kind_of<RecordedDrain>():
      record = RecordedDrain{};
      break;
    case kind_of<RecordedEnd>(): {
      RecordedEnd last;
      reader.get(last.reason);
      record = last;
      break;
    }
    default:
      return damaged("a record of unknown kind " + std::to_string(kind));
  }
  if (reader.failed()) return damaged("a record that makes no sense");
  return std::optional<JournalRecord>(std::move(record));
}

}  // namespace twostroke
