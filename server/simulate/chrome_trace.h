// ChromeTrace: every step of every replica, and every request, as a file that Perfetto (ui.perfetto.dev) and
// chrome://tracing open: the Trace Event Format, JSON.
//
// A replica is a process with a track of steps (named by their phases, with their tokens) and counters of requests and
// KV blocks; a request is a span from its arrival to its first token, and one from there to its end. After
// kTraceEventsMax events nothing more is written, which full() says.
//
// Thread-safety: one thread.
#pragma once

#include <fstream>
#include <string>

#include "server/simulate/simulation.h"

namespace twostroke::simulate {

constexpr uint64_t kTraceEventsMax = 400'000;  // about 60 MB

class ChromeTrace final : public StepObserver {
 public:
  // Errors: kInvalidArgument (the file cannot be written).
  static Result<std::unique_ptr<ChromeTrace>> open(const std::string& path, const Fleet& fleet,
                                                   const std::vector<MachineSpec>& machines);
  void on_step(size_t replica, const StepRecord& step) override;
  void on_request(RequestId id, size_t replica, TimeNs arrived, TimeNs first_token, TimeNs ended,
                  uint32_t prompt_tokens, uint32_t output_tokens) override;
  bool full() const { return events_ >= kTraceEventsMax; }
  // Ends the file. Errors: kInvalidArgument when it could not be written in full.
  Status close();

 private:
  explicit ChromeTrace(const std::string& path) : path_(path), file_(path, std::ios::binary) {}
  void write(const std::string& event);
  void span(RequestId id, size_t replica, const char* name, TimeNs begin, TimeNs end, const std::string& arguments);

  const std::string path_;
  std::ofstream file_;
  uint64_t events_ = 0;
};

}  // namespace twostroke::simulate
