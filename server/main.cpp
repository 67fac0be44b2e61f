// twostroke: the sub-commands.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "config/config.h"
#include "server/replay_command.h"
#include "server/serve.h"
#include "server/simulate/command.h"
#include "server/text_commands.h"
#include "server/version.h"

namespace {

constexpr const char* kUsage =
    "Serves language models over the OpenAI API, prefill and decode in every step.\n"
    "\n"
    "Usage: twostroke COMMAND [OPTIONS]\n"
    "\n"
    "Commands:\n"
    "  serve      Serve a model:          twostroke serve --model model.gguf --port 8000\n"
    "  simulate   Predict a fleet:        twostroke simulate --fleet 4xL40S --fleet 2xH100 --rate 5\n"
    "  replay     Repeat its decisions:   twostroke replay journal\n"
    "  tokenize   Print token ids:        twostroke tokenize --model model.gguf < text\n"
    "  render     Render a chat template: twostroke render --template t.jinja --context c.json\n"
    "  grammar    Check a text:           twostroke grammar --schema schema.json < text\n"
    "\n"
    "twostroke COMMAND --help explains each; twostroke --version prints the version.\n";

int run(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
  if (command == "serve") {
    const twostroke::ServeCommand parsed = twostroke::parse_serve_command(arguments, std::cout, std::cerr);
    return parsed.run ? twostroke::serve(parsed.config) : parsed.exit_code;
  }
  if (command == "simulate") {
    return twostroke::simulate::simulate_command(arguments, std::cout, std::cerr, isatty(STDERR_FILENO) != 0);
  }
  if (command == "replay") return twostroke::replay_command(arguments, std::cout, std::cerr);
  if (command == "tokenize") return twostroke::tokenize_command(arguments, std::cin, std::cout, std::cerr);
  if (command == "render") return twostroke::render_command(arguments, std::cout, std::cerr);
  if (command == "grammar") return twostroke::grammar_command(arguments, std::cin, std::cout, std::cerr);
  if (command == "--version") {
    std::cout << "twostroke " << twostroke::kVersion << "\n";
    return 0;
  }
  if (command == "--help" || command == "-h") {
    std::cout << kUsage;
    return 0;
  }
  if (command.empty()) {
    std::cerr << kUsage;
  } else {
    std::cerr << "twostroke: there is no command '" << command
              << "'. Commands: serve, simulate, replay, tokenize, render, grammar; see twostroke --help.\n";
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // A file beyond the limit of its size (ulimit -f) is an error of write(), like a full disk, and no reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run(argc, argv);
  std::cout.flush();
  if (std::cout.good()) return code;
  std::cerr << "twostroke: the output could not be written: is the disk full?\n";
  return code == 0 ? 1 : code;  // replay has a code of its own for this
}
