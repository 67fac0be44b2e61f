// SequenceOutput: the tokens of one sequence become the text and the log-probabilities that a client sees.
//
// One pipeline for every protocol, streaming or not: detokenize, apply stop strings, release what is certain. The
// non-streaming answer is the concatenation of the same deltas.
//
// Log-probability entries keep step with the text: an entry is released when the text up to its token's first byte is,
// and entries of tokens whose text a stop string cut away are dropped, so that there are as many entries as tokens of
// the text.
//
// Thread-safety: one user at a time. The tokenizer must outlive it.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "kernels/token.h"
#include "server/text/detokenizer.h"
#include "server/text/stop_strings.h"
#include "server/text/tokenizer.h"

namespace twostroke {

struct TokenEntry {
  TokenId token = -1;
  float logprob = 0;
  std::vector<TokenLogprob> top;
  size_t text_begin = 0;  // bytes of this sequence's text before the token's own
};

struct OutputDelta {
  std::string text;
  std::vector<TokenEntry> entries;  // empty unless log-probabilities are kept
  bool stopped = false;             // a stop string was found: the sequence ends here
  std::string stop;                 // which one
};

class SequenceOutput {
 public:
  struct Options {
    std::vector<std::string> stop;
    bool include_stop = false;  // a stop string that was found stays at the end of the text
    bool at_start = false;      // these three: see Detokenizer
    bool skip_special = true;
    std::span<const TokenId> shown;  // control tokens whose text whoever reads this needs, and takes out
    bool keep_entries = false;       // collect log-probability entries
    uint32_t min_tokens = 0;         // stop strings are looked for behind so many tokens only
  };
  SequenceOutput(const Tokenizer& tokenizer, Options options);

  // The next token. Requires that the sequence is not finished and no earlier delta had `stopped`.
  OutputDelta push(TokenId token, float logprob, std::vector<TokenLogprob> top);
  // A stop token (end of generation): counted, but no part of the text.
  void push_stop_token() { ++token_count_; }
  // The end: what was held back.
  OutputDelta finish();

  uint32_t token_count() const { return token_count_; }  // all tokens made, stop tokens too

 private:
  OutputDelta release(StopStrings::Output output, bool at_end);

  Detokenizer detokenizer_;
  StopStrings stops_;
  bool keep_entries_;
  uint32_t min_tokens_;
  uint32_t token_count_ = 0;
  size_t decoded_bytes_ = 0;   // handed to stops_
  size_t released_bytes_ = 0;  // handed out
  std::deque<TokenEntry> held_;
};

}  // namespace twostroke
