#include "server/text/sequence_output.h"

namespace twostroke {

SequenceOutput::SequenceOutput(const Tokenizer& tokenizer, Options options)
    : detokenizer_(tokenizer, options.at_start, options.skip_special, options.shown),
      stops_(options.stop, options.include_stop),
      keep_entries_(options.keep_entries),
      min_tokens_(options.min_tokens) {}

OutputDelta SequenceOutput::push(TokenId token, float logprob, std::vector<TokenLogprob> top) {
  ++token_count_;
  if (keep_entries_) held_.push_back({token, logprob, std::move(top), decoded_bytes_});
  std::string text = detokenizer_.push(token);
  decoded_bytes_ += text.size();
  if (token_count_ <= min_tokens_) return release({.text = std::move(text)}, /*at_end=*/false);
  return release(stops_.push(text), /*at_end=*/false);
}

OutputDelta SequenceOutput::finish() {
  const std::string rest = detokenizer_.finish();
  decoded_bytes_ += rest.size();
  StopStrings::Output output = stops_.push(rest);
  if (!output.stopped) output.text += stops_.finish();
  return release(std::move(output), /*at_end=*/true);
}

OutputDelta SequenceOutput::release(StopStrings::Output output, bool at_end) {
  OutputDelta delta;
  delta.text = std::move(output.text);
  delta.stopped = output.stopped;
  delta.stop = std::move(output.stop);
  released_bytes_ += delta.text.size();
  // Before the end, a token goes out with the first byte that follows its beginning, so that an entry is never sent for
  // text that a stop string may still cut away. A whole text takes along the tokens without text at its end.
  while (!held_.empty()) {
    const size_t begin = held_.front().text_begin;
    const bool certain = begin < released_bytes_ || (at_end && !output.stopped);
    if (!certain) break;
    delta.entries.push_back(std::move(held_.front()));
    held_.pop_front();
  }
  return delta;
}

}  // namespace twostroke
