#include "server/openai/completions/completion_request.h"

#include <algorithm>

#include "server/openai/token_list.h"

namespace twostroke::openai {
namespace {

bool read_token_ids(FieldReader& fields, const Json& array, int32_t vocab_size, std::vector<TokenId>& ids) {
  auto read = read_token_list(fields, "prompt", array, vocab_size);
  if (!read) return false;
  ids = std::move(*read);
  return true;
}

void read_prompts(FieldReader& fields, int32_t vocab_size, CompletionRequest& request) {
  const Json* prompt = fields.find("prompt");
  const char* shape =
      "'prompt' must be a string, an array of strings, an array of token ids or an array of such arrays.";
  if (prompt == nullptr) {
    fields.fail("prompt", std::string("'prompt' is missing. ") + shape);
  } else if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->get<std::string>());
  } else if (!prompt->is_array() || prompt->empty()) {
    fields.fail("prompt", shape);
  } else if (prompt->front().is_number()) {
    std::vector<TokenId> ids;
    if (read_token_ids(fields, *prompt, vocab_size, ids)) request.prompts.emplace_back(std::move(ids));
  } else {
    if (prompt->size() > kPromptsMax) {
      fields.fail("prompt", "'prompt' may hold at most " + std::to_string(kPromptsMax) + " prompts, not " +
                                std::to_string(prompt->size()) + ": send several requests.");
      return;
    }
    for (const Json& item : *prompt) {
      if (item.is_string()) {
        request.prompts.emplace_back(item.get<std::string>());
      } else if (item.is_array()) {
        std::vector<TokenId> ids;
        if (!read_token_ids(fields, item, vocab_size, ids)) return;
        request.prompts.emplace_back(std::move(ids));
      } else {
        fields.fail("prompt", shape);
        return;
      }
    }
  }
}

}  // namespace

std::variant<CompletionRequest, ApiError> parse_completion_request(const Json& body, int32_t vocab_size) {
  FieldReader fields(body);
  CompletionRequest request;
  request.model = fields.string("model").value_or("");
  read_prompts(fields, vocab_size, request);
  request.options = read_generation_options(fields, vocab_size);
  GenerationOptions& options = request.options;
  if (const auto logprobs = fields.integer("logprobs", 0, kCompletionLogprobsMax)) {
    options.sampling.logprobs = static_cast<int32_t>(*logprobs);
  }
  if (request.prompts.size() * options.n > kTotalChoicesMax) {
    fields.fail("n", "The request asks for " + std::to_string(request.prompts.size() * options.n) +
                         " choices (prompts times n): at most " + std::to_string(kTotalChoicesMax) + " are allowed.");
  }
  request.echo = fields.boolean("echo", false);
  // The prompt's log-probabilities are among those of the text.
  if (request.echo) options.prompt_logprobs = std::max(options.prompt_logprobs, options.sampling.logprobs);
  const uint32_t max_tokens = options.max_tokens.value_or(kCompletionTokensDefault);
  if (max_tokens == 0 && !request.echo) {
    fields.fail("max_tokens", "'max_tokens' must be at least 1, unless 'echo' is true.");
  }
  if (options.min_tokens > max_tokens) {
    fields.fail("min_tokens",
                "'min_tokens' must not be greater than 'max_tokens' (" + std::to_string(max_tokens) + ").");
  }
  if (const auto suffix = fields.string("suffix"); suffix && !suffix->empty()) {
    fields.fail("suffix", "'suffix' is not supported by this server: leave it out.");
  }
  refuse_unsupported(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace twostroke::openai
