// Metrics: what operators see. Prometheus families over prometheus-cpp, clean under `promtool check metrics`.
//
// Prefill and decode are reported apart everywhere. A step that holds both is a class of its own ("mixed"): wall time
// cannot split it. Names and meanings are in README.md of this directory.
//
// Thread-safety: every method may be called from any thread. Nothing here throws into its caller.
#pragma once

#include <memory>
#include <string>

#include "scheduler/engine.h"

namespace twostroke {

struct MetricsLabels {
  std::string version;
  std::string model;
  std::string backend;
  int32_t block_size = 0;
};

class Metrics {
 public:
  explicit Metrics(const MetricsLabels& labels);
  ~Metrics();

  // A step's output, before its events are handed on.
  void observe(const StepOutput& output);
  // A request that was refused before the engine took it, by HTTP status and reason.
  void observe_refusal(int http_status, std::string_view reason);
  void observe_http(const std::string& method, const std::string& route, int status, double seconds);
  // What runs the steps, once it is known: the machine's peaks, where it knows them.
  void set_backend(const BackendInfo& info);
  void set_connections(size_t open);
  void set_ready(bool ready);
  // Where there is a step journal: whether it is still written. Without a call there is no such metric.
  void set_journal(bool recording);

  // Classic Prometheus text, version 0.0.4.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke
