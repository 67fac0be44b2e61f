// PluginOptions: what a plug-in backend is created with; the C++ side of twostroke_options (plugin.h).
#pragma once

#include <cstdint>
#include <string>

namespace twostroke {

struct PluginOptions {
  std::string model_path;          // the model file; empty when there is none
  std::string plugin_args;         // the operator's free text for the plug-in
  uint64_t kv_bytes = 0;           // memory to spend on KV blocks; 0: the plug-in decides
  uint32_t block_size = 16;        // positions in a KV block that the server would like; BackendInfo says what it is
  uint32_t context_max = 0;        // tokens of a sequence at most; 0: the model's own limit
  uint32_t step_tokens_max = 512;  // tokens that a step will carry at most
  uint32_t step_rows_max = 64;     // rows that a step will carry at most
};

}  // namespace twostroke
