// load_plugin: a Backend that lives in a shared object, behind the C ABI of plugin.h.
//
// A plug-in is code of this process and can do anything; but its mistakes in what it returns are found and named. Its
// version, sizes, functions and numbers are checked when it is loaded; the results of each step are checked before they
// are used, and a step with impossible results is lost (kInternal), as is one that the plug-in says it lost.
//
// Ownership: the Backend owns the plug-in's instance and keeps the shared object loaded. Both go when it is destroyed;
// the plug-in's threads must have ended when its destroy() returns.
// Thread-safety: as Backend. Plans are converted into memory that is reused from step to step.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/plugin_options.h"
#include "kernels/status.h"

namespace twostroke {

// Numbers beyond these are a plug-in's mistake (or an attempt to exhaust memory), and refused.
struct PluginLimits {
  static constexpr uint32_t kVocabMax = 1U << 24;
  static constexpr uint32_t kContextMax = 1U << 30;
  static constexpr uint32_t kBlockSizeMax = 1U << 16;
  static constexpr uint32_t kBlockCountMax = 1U << 26;
  static constexpr uint64_t kPositionsMax = (uint64_t{1} << 31) - 1;  // block_count * block_size
  static constexpr uint32_t kStepTokensMax = 1U << 20;
  static constexpr uint32_t kStepRowsMax = 1U << 16;
  static constexpr uint32_t kEmbeddingMax = 1U << 20;
  static constexpr size_t kMessageBytesMax = 1024;  // of a plug-in's name or message; longer ones are cut
};

// `path` is a file's: a name without a slash is looked for in the working directory, not in the linker's folders.
// Errors, all naming the path:
//   kNotFound         there is no such file
//   kUnsupported      it cannot be loaded, is no plug-in, or is one of another version of the interface
//   kInvalidArgument  it refused its options, with its own message
//   kInternal         it does not keep to the interface: null functions, a struct that is too small, impossible numbers
//   kUnavailable      it could not start for any other reason, with its own message
Result<std::unique_ptr<Backend>> load_plugin(const std::string& path, const PluginOptions& options);

}  // namespace twostroke
