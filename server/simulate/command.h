// twostroke simulate: predicts how a fleet would serve a workload. server/simulate/README.md is its manual.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace twostroke::simulate {

// `arguments` are those behind the sub-command's name. Returns the exit code: 0; 1 with the reason on `err` (a file, a
// model or requests that do not fit, targets that every rate meets); 2 for wrong arguments. A progress bar goes to
// `err` when it is the terminal's (`show_progress`).
int simulate_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                     bool show_progress);

}  // namespace twostroke::simulate
