#include "tests/backend/transformer_driver.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace twostroke {

TransformerDriver::TransformerDriver(const std::string& model_path, Operators& operators, const Options& options)
    : options_(options), operators_(operators) {
  const std::unique_ptr<GgufFile> file = GgufFile::open(model_path).value();
  config_ = ModelConfig::from_gguf(*file).value();
  TransformerLimits limits;
  limits.block_size = options.block_size;
  limits.block_count = options.block_count;
  limits.kv_dtype = options.kv_dtype;
  limits.activations = options.activations;
  limits.context_max = std::min(options.context_max, config_.context_length);
  limits.step_tokens_max = options.step_tokens_max;
  limits.step_rows_max = options.step_rows_max;
  transformer_ = Transformer::load(*file, config_, operators, limits, 1, nullptr).value();
}

void TransformerDriver::run(std::span<Stream> streams, size_t chunk) {
  CHECK(streams.size() <= static_cast<size_t>(options_.step_rows_max));
  const size_t block_size = static_cast<size_t>(options_.block_size);
  std::vector<std::vector<BlockId>> tables(streams.size());
  std::vector<size_t> computed(streams.size(), 0);
  // Blocks are given out from the last to the first, so that no table is the identity.
  BlockId next_block = static_cast<BlockId>(options_.block_count);
  StepPlan plan;
  while (true) {
    plan.clear();
    std::vector<size_t> row_streams;
    for (size_t i = 0; i < streams.size(); ++i) {
      Stream& stream = streams[i];
      if (stream.greedy.size() == stream.output_count) continue;
      const size_t room = static_cast<size_t>(options_.step_tokens_max) - plan.tokens.size();
      const size_t count = std::min({stream.tokens.size() - computed[i], chunk, room});
      if (count == 0) continue;
      const size_t end = computed[i] + count;
      while (tables[i].size() * block_size < end) {
        CHECK(next_block > 0, "the test needs more blocks");
        tables[i].push_back(--next_block);
      }
      Row row;
      row.sequence = i;
      row.token_begin = static_cast<uint32_t>(plan.tokens.size());
      row.token_count = static_cast<uint32_t>(count);
      row.position = static_cast<uint32_t>(computed[i]);
      row.block_begin = static_cast<uint32_t>(plan.blocks.size());
      row.block_count = static_cast<uint32_t>(tables[i].size());
      row.samples = end == stream.tokens.size();
      const auto first = stream.tokens.begin() + static_cast<std::ptrdiff_t>(computed[i]);
      plan.tokens.insert(plan.tokens.end(), first, first + static_cast<std::ptrdiff_t>(count));
      plan.blocks.insert(plan.blocks.end(), tables[i].begin(), tables[i].end());
      plan.rows.push_back(row);
      row_streams.push_back(i);
      computed[i] = end;
    }
    if (plan.empty()) return;
    transformer_->enqueue(plan);
    CHECK(operators_.device().wait().ok());
    size_t sampling_row = 0;
    for (size_t r = 0; r < plan.rows.size(); ++r) {
      if (!plan.rows[r].samples) continue;
      Stream& stream = streams[row_streams[r]];
      const std::span<const float> logits = transformer_->logits(sampling_row++, 1);
      const auto greatest = std::max_element(logits.begin(), logits.end());
      stream.greedy.push_back(static_cast<TokenId>(greatest - logits.begin()));
      stream.logits.emplace_back(logits.begin(), logits.end());
      const size_t index = stream.greedy.size() - 1;
      stream.tokens.push_back(stream.forced.empty() ? stream.greedy.back() : stream.forced[index]);
    }
  }
}

}  // namespace twostroke
