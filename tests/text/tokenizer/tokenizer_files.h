// Tokenizers that tests use: those of real model files, and small ones made up on the spot (tokenizer_specs.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/text/tokenizer.h"
#include "tests/text/tokenizer/tokenizer_specs.h"

namespace twostroke {

// The folder with real vocabularies, or "" where the shared data is absent.
std::string vocabulary_directory();

// The vocabularies in that folder: "gpt-2", "llama-spm", ...
const std::vector<std::string>& vocabulary_names();

// The tokenizer of a file; a test failure and nullptr where it cannot be loaded.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);
std::unique_ptr<Tokenizer> load_vocabulary(const std::string& name);

std::string read_file(const std::string& path);

// SmolLM2-135M-Instruct as deploy/quickstart keeps it, or "" where it is absent.
std::string smollm2_path();

// Makes the tokenizer; a test failure and nullptr where it is refused.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSpec& spec);

// All pieces of `ids`, joined, special tokens written out.
std::string join_pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);

}  // namespace twostroke
