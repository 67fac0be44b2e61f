#include "server/text/tokenizer.h"

#include <utility>

#include "server/text/bpe_tokenizer.h"
#include "server/text/spm_tokenizer.h"

namespace twostroke {

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufFile& file) {
  const Result<TokenizerSpec> spec = read_tokenizer_spec(file);
  if (!spec.ok()) return spec.status();
  return create(*spec);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const TokenizerSpec& spec) {
  if (spec.model == "gpt2") return BpeTokenizer::create(spec);
  if (spec.model == "llama") return SpmTokenizer::create(spec);
  return unsupported(
      "tokenizer model \"" + spec.model +
      "\" (tokenizer.ggml.model) is not supported; supported: gpt2 (byte-level BPE), llama (SentencePiece)");
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const TextRange all{0, text.size()};
  return encode_marked(text, {&all, options.parse_special ? size_t{1} : size_t{0}}, options.add_special);
}

}  // namespace twostroke
