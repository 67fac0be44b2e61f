// The pre-tokenizers of byte-level BPE models: which pattern a name in `tokenizer.ggml.pre` stands for.
//
// A pre-tokenizer is a chain of regular expressions. Each one splits every piece that the one before it left: matches
// become pieces, and so does the text between them. The expressions are those of the models' own tokenizer.json
// (pre_tokenizer: Split with behaviour Isolated, Digits, ByteLevel); the names are llama.cpp's
// (https://github.com/ggml-org/llama.cpp, src/llama-vocab.cpp), which writes them into the files.
#pragma once

#include <span>
#include <string_view>

namespace twostroke {

struct PreTokenizerPattern {
  std::span<const std::string_view> stages;  // PCRE2 syntax; \s and \S are Unicode's White_Space
  bool ignore_merges = false;                // a piece that is a token as a whole is not built from merges
  bool add_bos = false;                      // the default when the file does not say
};

struct PreTokenizerName {
  std::string_view name;
  const PreTokenizerPattern* pattern;
};

// All that are supported, sorted by family.
std::span<const PreTokenizerName> pre_tokenizer_names();

}  // namespace twostroke
