#include "server/simulate/synthetic.h"

#include <charconv>

#include "server/simulate/random.h"
#include "server/simulate/simulated_time.h"

namespace twostroke::simulate {
namespace {

class SyntheticWorkload final : public Workload {
 public:
  explicit SyntheticWorkload(const SyntheticOptions& options)
      : options_(options), times_(derive_seed(options.seed, 1)), shapes_(derive_seed(options.seed, 2)) {
    for (const RequestKind& kind : options_.kinds) weight_sum_ += kind.weight;
  }

  Result<bool> next(Arrival& arrival) override {
    if (given_ == options_.requests) return false;
    now_seconds_ += times_.exponential(1 / options_.rate);
    arrival.time = simulated_time(now_seconds_ * 1e9);
    const RequestKind& kind = draw_kind();
    const uint32_t own = kind.prompt.draw(shapes_);
    arrival.output_tokens = kind.output.draw(shapes_);
    arrival.prompt.clear();
    if (options_.prefix_tokens > 0) {
      const auto group = static_cast<uint64_t>(shapes_.unit() * options_.prefix_groups);
      arrival.prompt.push_back({derive_seed(options_.seed ^ 0x70726566, group), options_.prefix_tokens});
    }
    arrival.prompt.push_back({derive_seed(options_.seed ^ 0x6f776e, given_), own});
    arrival.prompt_tokens = options_.prefix_tokens + own;
    ++given_;
    return true;
  }

  double progress() const override { return static_cast<double>(given_) / static_cast<double>(options_.requests); }

 private:
  const RequestKind& draw_kind() {
    double left = shapes_.unit() * weight_sum_;
    for (const RequestKind& kind : options_.kinds) {
      left -= kind.weight;
      if (left < 0) return kind;
    }
    return options_.kinds.back();
  }

  const SyntheticOptions options_;
  Random times_;
  Random shapes_;
  double weight_sum_ = 0;
  double now_seconds_ = 0;
  uint64_t given_ = 0;
};

}  // namespace

Result<RequestKind> parse_kind(const std::string& text) {
  const size_t first = text.find('/');
  const size_t second = first == std::string::npos ? first : text.find('/', first + 1);
  RequestKind kind;
  if (second != std::string::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + first, kind.weight);
    if (error == std::errc() && end == text.data() + first && kind.weight >= kKindWeightMin &&
        kind.weight <= kKindWeightMax) {
      const Result<Lengths> prompt = parse_lengths(text.substr(first + 1, second - first - 1));
      const Result<Lengths> output = parse_lengths(text.substr(second + 1));
      if (!prompt.ok()) return prompt.status();
      if (!output.ok()) return output.status();
      kind.prompt = *prompt;
      kind.output = *output;
      return kind;
    }
  }
  return invalid_argument("'" + text +
                          "' is no kind of request: write WEIGHT/PROMPT/OUTPUT, for example 0.8/60/200, with a weight "
                          "from 0.000001 to 1000000");
}

std::unique_ptr<Workload> make_synthetic(const SyntheticOptions& options) {
  return std::make_unique<SyntheticWorkload>(options);
}

}  // namespace twostroke::simulate
