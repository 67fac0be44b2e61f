#include "server/simulate/chrome_trace.h"

#include <nlohmann/json.hpp>

namespace twostroke::simulate {
namespace {

std::string microseconds(TimeNs time) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.3f", static_cast<double>(time) * 1e-3);
  return text;
}

std::string step_name(const StepShape& shape) {
  if (shape.prefill_rows == 0) return "decode " + std::to_string(shape.decode_tokens);
  if (shape.decode_rows == 0) return "prefill " + std::to_string(shape.prefill_tokens);
  return "decode " + std::to_string(shape.decode_tokens) + " + prefill " + std::to_string(shape.prefill_tokens);
}

std::string process(size_t replica) { return ",\"pid\":" + std::to_string(replica + 1); }

}  // namespace

Result<std::unique_ptr<ChromeTrace>> ChromeTrace::open(const std::string& path, const Fleet& fleet,
                                                       const std::vector<MachineSpec>& machines) {
  std::unique_ptr<ChromeTrace> trace(new ChromeTrace(path));
  if (!trace->file_) return invalid_argument("the trace '" + path + "' cannot be written; does its folder exist?");
  trace->file_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  size_t replica = 0;
  for (size_t g = 0; g < machines.size(); ++g) {
    const char* role = machines[g].role == Role::kPrefill  ? "prefill "
                       : machines[g].role == Role::kDecode ? "decode "
                                                           : "";
    for (uint32_t i = 0; i < fleet.groups[g].replicas; ++i, ++replica) {
      const nlohmann::json name =
          role + std::string("replica ") + std::to_string(replica) + " (" + machines[g].hardware + ")";
      trace->write("{\"ph\":\"M\",\"name\":\"process_name\"" + process(replica) +
                   ",\"args\":{\"name\":" + name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "}}");
    }
  }
  return trace;
}

void ChromeTrace::write(const std::string& event) {
  if (full()) return;
  file_ << (events_ == 0 ? "" : ",\n") << event;
  ++events_;
}

void ChromeTrace::on_step(size_t replica, const StepRecord& step) {
  const StepShape& shape = step.shape;
  write("{\"ph\":\"X\",\"name\":\"" + step_name(shape) + "\",\"cat\":\"step\",\"tid\":1" + process(replica) +
        ",\"ts\":" + microseconds(step.begin) + ",\"dur\":" + microseconds(step.end - step.begin) +
        ",\"args\":{\"prefill_tokens\":" + std::to_string(shape.prefill_tokens) +
        ",\"decode_rows\":" + std::to_string(shape.decode_rows) +
        ",\"context_read\":" + std::to_string(shape.prefill_positions + shape.decode_positions) + "}}");
  const SchedulerGauges& gauges = step.gauges;
  write("{\"ph\":\"C\",\"name\":\"requests\"" + process(replica) + ",\"ts\":" + microseconds(step.begin) +
        ",\"args\":{\"running\":" + std::to_string(gauges.requests_running) +
        ",\"waiting\":" + std::to_string(gauges.requests_waiting) + "}}");
  write("{\"ph\":\"C\",\"name\":\"KV blocks\"" + process(replica) + ",\"ts\":" + microseconds(step.begin) +
        ",\"args\":{\"used\":" + std::to_string(gauges.blocks_referenced) +
        ",\"cached\":" + std::to_string(gauges.blocks_cached) + "}}");
}

void ChromeTrace::span(RequestId id, size_t replica, const char* name, TimeNs begin, TimeNs end,
                       const std::string& arguments) {
  const std::string common = std::string(",\"cat\":\"request\",\"name\":\"") + name +
                             "\",\"id\":" + std::to_string(id) + ",\"tid\":2" + process(replica) + ",\"ts\":";
  write("{\"ph\":\"b\"" + common + microseconds(begin) + ",\"args\":{" + arguments + "}}");
  write("{\"ph\":\"e\"" + common + microseconds(end) + "}");
}

void ChromeTrace::on_request(RequestId id, size_t replica, TimeNs arrived, TimeNs first_token, TimeNs ended,
                             uint32_t prompt_tokens, uint32_t output_tokens) {
  span(id, replica, "to first token", arrived, first_token, "\"prompt_tokens\":" + std::to_string(prompt_tokens));
  span(id, replica, "answer", first_token, ended, "\"output_tokens\":" + std::to_string(output_tokens));
}

Status ChromeTrace::close() {
  file_ << "\n]}\n";
  file_.close();
  return file_ ? Status()
               : invalid_argument("the trace '" + path_ + "' could not be written in full: is the disk full?");
}

}  // namespace twostroke::simulate
