#include "server/openai/completion_request.h"

namespace twostroke::openai {
namespace {

bool read_token_ids(FieldReader& fields, const Json& array, int32_t vocab_size, std::vector<TokenId>& ids) {
  if (array.empty()) {
    fields.fail("prompt", "'prompt' holds an empty list of tokens: give at least one token.");
    return false;
  }
  ids.reserve(array.size());
  for (const Json& item : array) {
    if (!item.is_number_integer() || item < 0 || item >= vocab_size) {
      fields.fail("prompt", "'prompt' holds " + to_text(item).substr(0, 40) +
                                " where a token id is needed: ids are integers from 0 to " +
                                std::to_string(vocab_size - 1) + ".");
      return false;
    }
    ids.push_back(item.get<TokenId>());
  }
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
  if (const auto logprobs = fields.integer("logprobs", 0, kCompletionLogprobsMax)) {
    request.options.sampling.logprobs = static_cast<int32_t>(*logprobs);
  }
  if (request.prompts.size() * request.options.n > kTotalChoicesMax) {
    fields.fail("n", "The request asks for " + std::to_string(request.prompts.size() * request.options.n) +
                         " choices (prompts times n): at most " + std::to_string(kTotalChoicesMax) + " are allowed.");
  }
  if (fields.boolean("echo", false)) fields.fail("echo", "'echo' is not supported by this server: leave it out.");
  if (const auto suffix = fields.string("suffix"); suffix && !suffix->empty()) {
    fields.fail("suffix", "'suffix' is not supported by this server: leave it out.");
  }
  refuse_unsupported(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace twostroke::openai
