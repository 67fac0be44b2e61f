// bench_streaming: tokens per second that one server process streams, with a backend that makes them at no cost.
//
//   build/release/bench_streaming --model FILE
//
// Starts `twostroke serve --backend sim`, keeps --connections streams open, and reads them all on one thread. Tokens
// are counted by the usage at the end of each answer; events may hold several tokens where they waited together.
// Processor time is that of the server and of this client; on a machine that others use too, it is the figure to
// compare.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "server_process.h"
#include "stream_client.h"

namespace {

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  std::string model;
  std::string binary = std::string(argv[0]).substr(0, std::string(argv[0]).rfind('/') + 1) + "twostroke";
  size_t connections = 256;
  uint64_t answers = 4;
  uint32_t tokens = 1000;
  bool chat = false;
  CLI::App app("Tokens per second that one server process streams. What follows -- goes to `twostroke serve`.");
  app.add_option("--model", model, "GGUF file whose tokenizer and chat template are used")->required();
  app.add_option("--binary", binary, "The server")->capture_default_str();
  app.add_option("--connections", connections, "Streams at once")->capture_default_str();
  app.add_option("--answers", answers, "Answers on each connection, one after another")->capture_default_str();
  app.add_option("--tokens", tokens, "Tokens of an answer")->capture_default_str();
  app.add_flag("--chat", chat, "/v1/chat/completions instead of /v1/completions");
  app.prefix_command();
  CLI11_PARSE(app, argc, argv);

  std::vector<std::string> command = {binary,
                                      "serve",
                                      "--model",
                                      model,
                                      "--backend",
                                      "sim",
                                      "--port",
                                      "0",
                                      "--max-running",
                                      std::to_string(connections),
                                      "--max-step-tokens",
                                      std::to_string(connections + 256)};
  for (const std::string& argument : app.remaining()) {
    if (argument != "--") command.push_back(argument);
  }
  const std::string input =
      chat ? R"("messages": [{"role": "user", "content": "Hello there"}])" : R"("prompt": "Hello")";
  const std::string body = "{" + input + R"(, "max_tokens": )" + std::to_string(tokens) +
                           R"(, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}})";

  const twostroke::ServerProcess server(command);
  twostroke::StreamClient client(server.port(), chat ? "/v1/chat/completions" : "/v1/completions", body, connections);
  client.run(1);  // connections, memory and code are warm from here on
  const double server_before = server.cpu_seconds();
  const double client_before = own_cpu_seconds();
  const twostroke::StreamCounts counts = client.run(answers);
  const double server_cpu = server.cpu_seconds() - server_before;
  const double client_cpu = own_cpu_seconds() - client_before;
  const auto made = static_cast<double>(counts.tokens);
  if (counts.tokens != counts.answers * tokens) {
    std::fprintf(stderr, "bench_streaming: %llu tokens came, not %u for each answer\n",
                 static_cast<unsigned long long>(counts.tokens), tokens);
    return 1;
  }
  std::printf("%zu connections, %llu answers of %u tokens, %s\n", connections,
              static_cast<unsigned long long>(counts.answers), tokens, chat ? "chat" : "completions");
  std::printf("%12.0f tokens/s\n", made / counts.seconds);
  std::printf("%12.2f us of processor per token: server %.2f, client %.2f\n", (server_cpu + client_cpu) / made * 1e6,
              server_cpu / made * 1e6, client_cpu / made * 1e6);
  std::printf("%12.2f tokens per event, %.0f bytes per token\n", made / static_cast<double>(counts.frames),
              static_cast<double>(counts.bytes) / made);
}
