#include "server_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

extern char** environ;

#include "tests/bench/streaming/fail.h"

namespace twostroke {
ServerProcess::ServerProcess(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe(ends) != 0) fail("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  const int error = posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  log_ = ends[0];
  if (error != 0) fail("cannot start " + command[0]);

  std::string log;
  char byte = 0;
  while (log.find("/v1\n") == std::string::npos) {
    if (read(log_, &byte, 1) <= 0) fail("the server did not start:\n" + log);
    log += byte;
  }
  const size_t colon = log.rfind(':');
  port_ = static_cast<uint16_t>(std::atoi(log.c_str() + colon + 1));
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGINT);
  int status = 0;
  waitpid(pid_, &status, 0);
  close(log_);
}

// proc_pid_stat(5): behind the name in brackets, user and system time are fields 14 and 15.
double ServerProcess::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace twostroke
