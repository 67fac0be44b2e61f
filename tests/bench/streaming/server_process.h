// A `twostroke serve` that this program starts on a free port, watches and stops.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace twostroke {

class ServerProcess {
 public:
  // Starts `command` (the binary and its flags) and waits until its log says that it is ready. Ends this program with
  // a message when it does not start.
  explicit ServerProcess(const std::vector<std::string>& command);
  ~ServerProcess();  // SIGTERM, and waits
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  uint16_t port() const { return port_; }
  double cpu_seconds() const;  // user and system, of all its threads so far

 private:
  pid_t pid_ = -1;
  int log_ = -1;  // read end of its standard error; small enough never to fill up
  uint16_t port_ = 0;
};

}  // namespace twostroke
