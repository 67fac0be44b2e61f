// The sub-command that makes a server's decisions again: replay.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace twostroke {

// twostroke replay FILE [--steps A-B]: replays a file of serve --journal, and prints what is in it to `out`, and the
// decisions of the steps asked for. `arguments` are those behind the sub-command's name. Returns the process's exit
// code: 0 when every decision is the recorded one; 1 when one is not, with both; 2 when the file cannot be read, or is
// damaged, or the arguments are wrong, with the reason on `err`, or when `out` has failed, of which its owner is to
// tell. Progress of a long file goes to `err` when that is a terminal.
int replay_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace twostroke
