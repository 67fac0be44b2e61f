// Traces of real servers, read line by line.
//
//   *.csv    Azure LLM inference traces: the header TIMESTAMP,ContextTokens,GeneratedTokens, then lines such as
//            2023-11-16 18:15:46.6805900,374,44. Contents are not known: every prompt is its own.
//   *.jsonl  Mooncake traces: an object on each line with timestamp (ms), input_length, output_length and hash_ids, one
//            for each 512 tokens of the prompt. Equal ids are equal tokens, so prefixes are shared as in the trace.
//            (Answers are not among them: what a conversation's next turn repeats of an answer is computed again.)
//
// Requests must be in order of time. One that generated no tokens counts as making one. Time starts with the first.
// Damaged lines are errors that name the file and the line; lines end with or without a carriage return.
// Thread-safety: one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/simulate/workload.h"

namespace twostroke::simulate {

constexpr uint32_t kMooncakeBlockTokens = 512;
constexpr size_t kTraceLineBytesMax = size_t{1} << 20;

// `seed` makes the contents of prompts. Errors: kNotFound, kInvalidArgument (a name that ends in neither,
// no regular file).
Result<std::unique_ptr<Workload>> open_trace(const std::string& path, uint64_t seed);

// "2023-11-16 18:15:46.6805900" in nanoseconds since 1970-01-01; nullopt: it is none. Up to nine digits of a second.
std::optional<TimeNs> parse_timestamp(std::string_view text);

}  // namespace twostroke::simulate
