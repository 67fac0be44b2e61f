#include "backend/plugin_backend.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "backend/gguf_quote.h"
#include "backend/plugin.h"
#include "backend/plugin_step.h"

namespace twostroke {
namespace {

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// A plug-in's text, bounded and made safe for a log line; "" for null.
std::string text_of(const char* text) {
  if (text == nullptr) return {};
  std::string out(text, strnlen(text, PluginLimits::kMessageBytesMax));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return out;
}

std::string with_message(std::string what, const std::string& message) {
  return what + ": " + (message.empty() ? "it gave no message" : message);
}

Result<Library> open_library(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) {
    return not_found("plug-in " + quote(path) + ": " + std::strerror(errno));
  }
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return unsupported("plug-in " + quote(path) + " cannot be loaded: " + text_of(dlerror()));
  return library;
}

Result<const twostroke_api*> find_api(void* library, const std::string& path) {
  const std::string plugin = "plug-in " + quote(path);
  void* symbol = dlsym(library, TWOSTROKE_PLUGIN_SYMBOL);
  if (symbol == nullptr) {
    return unsupported(quote(path) + " is not a twostroke plug-in: it does not export " TWOSTROKE_PLUGIN_SYMBOL "()");
  }
  const twostroke_api* api = reinterpret_cast<twostroke_plugin_function>(symbol)();
  if (api == nullptr) return internal_error(plugin + ": " TWOSTROKE_PLUGIN_SYMBOL "() returned null");
  if (api->abi_version != TWOSTROKE_ABI_VERSION) {
    return unsupported(plugin + " was built for version " + std::to_string(api->abi_version) +
                       " of the plug-in interface; this server has version " + std::to_string(TWOSTROKE_ABI_VERSION) +
                       ". Build the plug-in against this server's backend/plugin.h");
  }
  if (api->struct_size < sizeof(twostroke_api)) {
    return internal_error(plugin + ": twostroke_api has " + std::to_string(api->struct_size) + " bytes; version " +
                          std::to_string(TWOSTROKE_ABI_VERSION) + " has at least " +
                          std::to_string(sizeof(twostroke_api)));
  }
  if (api->create == nullptr || api->destroy == nullptr || api->info == nullptr || api->submit == nullptr ||
      api->wait == nullptr || api->last_error == nullptr) {
    return internal_error(plugin + ": a function of twostroke_api is null");
  }
  return api;
}

class Instance {
 public:
  Instance(const twostroke_api* api, twostroke_backend* backend) : api_(api), backend_(backend) {}
  Instance(Instance&& other) noexcept : api_(other.api_), backend_(std::exchange(other.backend_, nullptr)) {}
  Instance& operator=(Instance&&) = delete;
  ~Instance() {
    if (backend_ != nullptr) api_->destroy(backend_);
  }

  const twostroke_info* info() { return api_->info(backend_); }
  int submit(const twostroke_step& step) { return api_->submit(backend_, &step); }
  int wait(const twostroke_result** result) { return api_->wait(backend_, result); }
  std::string last_error() { return text_of(api_->last_error(backend_)); }

 private:
  const twostroke_api* api_;
  twostroke_backend* backend_;
};

Result<Instance> create_instance(const twostroke_api* api, const PluginOptions& from, const std::string& path) {
  twostroke_options options = {};
  options.struct_size = sizeof(options);
  options.model_path = from.model_path.c_str();
  options.plugin_args = from.plugin_args.c_str();
  options.kv_bytes = from.kv_bytes;
  options.block_size = from.block_size;
  options.context_max = from.context_max;
  options.step_tokens_max = from.step_tokens_max;
  options.step_rows_max = from.step_rows_max;
  twostroke_backend* backend = nullptr;
  char message[PluginLimits::kMessageBytesMax] = {};
  const int code = api->create(&options, &backend, message, sizeof(message));
  message[sizeof(message) - 1] = 0;
  const std::string plugin = "plug-in " + quote(path);
  switch (code) {
    case TWOSTROKE_OK:
      break;
    case TWOSTROKE_ERROR_OPTIONS:
      return invalid_argument(with_message(plugin + " refuses its options", text_of(message)));
    default:
      return unavailable(
          with_message(plugin + " could not start (code " + std::to_string(code) + ")", text_of(message)));
  }
  if (backend == nullptr) return internal_error(plugin + ": create() returned no backend, and no error");
  return Instance(api, backend);
}

struct InfoNumber {
  const char* name;
  uint32_t value;
  uint32_t max;
  int32_t BackendInfo::*target;
};

struct InfoCost {
  const char* name;
  double value;
  double BackendInfo::*target;
};

// Without what was added to the first version of the struct.
constexpr size_t kInfoBytesMin = offsetof(twostroke_info, features);

Result<BackendInfo> read_info(const twostroke_info* given, const PluginOptions& options, const std::string& path) {
  const auto bad = [&](const std::string& what) { return internal_error("plug-in " + quote(path) + ": " + what); };
  if (given == nullptr) return bad("info() returned null");
  if (given->struct_size < kInfoBytesMin) return bad("twostroke_info's struct_size is too small");
  twostroke_info known = {};
  std::memcpy(&known, given, std::min<size_t>(given->struct_size, sizeof(known)));
  const twostroke_info* from = &known;
  if (from->name == nullptr) return bad("info.name is null");
  const InfoNumber numbers[] = {
      {"vocab_size", from->vocab_size, PluginLimits::kVocabMax, &BackendInfo::vocab_size},
      {"context_max", from->context_max, PluginLimits::kContextMax, &BackendInfo::context_max},
      {"block_size", from->block_size, PluginLimits::kBlockSizeMax, &BackendInfo::block_size},
      {"block_count", from->block_count, PluginLimits::kBlockCountMax, &BackendInfo::block_count},
      {"step_tokens_max", from->step_tokens_max, PluginLimits::kStepTokensMax, &BackendInfo::step_tokens_max},
      {"step_rows_max", from->step_rows_max, PluginLimits::kStepRowsMax, &BackendInfo::step_rows_max},
  };
  BackendInfo info;
  info.name = text_of(from->name);
  for (const InfoNumber& number : numbers) {
    if (number.value == 0 || number.value > number.max) {
      return bad(std::string("info.") + number.name + " is " + std::to_string(number.value) +
                 "; it must be from 1 to " + std::to_string(number.max));
    }
    info.*number.target = static_cast<int32_t>(number.value);
  }
  if (uint64_t{from->block_count} * from->block_size > PluginLimits::kPositionsMax) {
    return bad("info.block_count * info.block_size is more than " + std::to_string(PluginLimits::kPositionsMax));
  }
  if (options.context_max != 0 && from->context_max > options.context_max) {
    return bad("info.context_max is greater than the option of that name");
  }
  const InfoCost costs[] = {
      {"flops_per_token", from->flops_per_token, &BackendInfo::flops_per_token},
      {"output_flops", from->output_flops, &BackendInfo::output_flops},
      {"attention_flops_per_position", from->attention_flops_per_position, &BackendInfo::attention_flops_per_position},
      {"weight_bytes", from->weight_bytes, &BackendInfo::weight_bytes},
      {"kv_bytes_per_token", from->kv_bytes_per_token, &BackendInfo::kv_bytes_per_token},
      {"peak_flops", from->peak_flops, &BackendInfo::peak_flops},
      {"peak_bytes_per_second", from->peak_bytes_per_second, &BackendInfo::peak_bytes_per_second},
  };
  for (const InfoCost& cost : costs) {
    if (!(std::isfinite(cost.value) && cost.value >= 0)) {
      return bad(std::string("info.") + cost.name + " must be finite and 0 or more");
    }
    info.*cost.target = cost.value;
  }
  if (from->embedding_size > PluginLimits::kEmbeddingMax) {
    return bad("info.embedding_size is " + std::to_string(from->embedding_size) + "; it must be at most " +
               std::to_string(PluginLimits::kEmbeddingMax));
  }
  if (from->step_drafts_max > PluginLimits::kStepTokensMax) {
    return bad("info.step_drafts_max is " + std::to_string(from->step_drafts_max) + "; it must be at most " +
               std::to_string(PluginLimits::kStepTokensMax));
  }
  info.step_drafts_max = static_cast<int32_t>(from->step_drafts_max);
  info.embedding_size = static_cast<int32_t>(from->embedding_size);
  info.scores_targets = (from->features & TWOSTROKE_SCORES_TARGETS) != 0;
  info.late_masks = (from->features & TWOSTROKE_LATE_MASKS) != 0;
  return info;
}

class PluginBackend final : public Backend {
 public:
  PluginBackend(Library library, Instance instance, BackendInfo info)
      : library_(std::move(library)), instance_(std::move(instance)), info_(std::move(info)) {}

  const BackendInfo& info() const override { return info_; }

  Status submit(const StepPlan& plan) override {
    CHECK(plan_ == nullptr, "submit() before the step in flight was waited for");
    if (!dead_.ok()) return dead_;
    const int code = instance_.submit(step_.convert(plan));
    if (code != TWOSTROKE_OK) return error_of(code);
    plan_ = &plan;
    return {};
  }

  Status wait(StepResult& result) override {
    CHECK(plan_ != nullptr, "wait() without a step in flight");
    const StepPlan& plan = *std::exchange(plan_, nullptr);
    const twostroke_result* returned = nullptr;
    const int code = instance_.wait(&returned);
    if (code != TWOSTROKE_OK) return error_of(code);
    const std::string fault = read_plugin_result(returned, plan, info_, result);
    if (!fault.empty())
      return internal_error(prefix() + "impossible result of step " + std::to_string(plan.step) + ": " + fault);
    return {};
  }

 private:
  std::string prefix() const { return "backend " + quote(info_.name) + ": "; }

  Status error_of(int code) {
    std::string message = prefix() + instance_.last_error();
    if (code == TWOSTROKE_ERROR_DEAD) return dead_ = unavailable(std::move(message));
    if (code != TWOSTROKE_ERROR_STEP) message += " (unknown code " + std::to_string(code) + ")";
    return internal_error(std::move(message));
  }

  Library library_;  // first, so that it is closed last
  Instance instance_;
  BackendInfo info_;
  PluginStep step_;
  const StepPlan* plan_ = nullptr;  // in flight
  Status dead_;
};

}  // namespace

Result<std::unique_ptr<Backend>> load_plugin(const std::string& path, const PluginOptions& options) {
  Result<Library> library = open_library(path);
  if (!library.ok()) return library.status();
  Result<const twostroke_api*> api = find_api(library->get(), path);
  if (!api.ok()) return api.status();
  Result<Instance> instance = create_instance(*api, options, path);
  if (!instance.ok()) return instance.status();
  Result<BackendInfo> info = read_info(instance->info(), options, path);
  if (!info.ok()) return info.status();
  return std::unique_ptr<Backend>(
      new PluginBackend(std::move(library).value(), std::move(instance).value(), std::move(info).value()));
}

}  // namespace twostroke
