#include "server/openai/embeddings/embedding_request.h"

#include "server/openai/generation_options.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {
namespace {

constexpr const char* kInputShape =
    "'input' must be a string, an array of strings, an array of token ids or an array of such arrays.";

void read_input(FieldReader& fields, const Json& item, int32_t vocab_size, EmbeddingRequest& request) {
  if (item.is_string()) {
    if (item.get_ref<const std::string&>().empty()) {
      fields.fail("input", "'input' holds an empty string: there is nothing to embed.");
    }
    request.inputs.emplace_back(item.get<std::string>());
  } else if (item.is_array()) {
    if (auto tokens = read_token_list(fields, "input", item, vocab_size)) request.inputs.emplace_back(*tokens);
  } else {
    fields.fail("input", kInputShape);
  }
}

void read_inputs(FieldReader& fields, int32_t vocab_size, EmbeddingRequest& request) {
  const Json* input = fields.find("input");
  if (input == nullptr) {
    fields.fail("input", std::string("'input' is missing. ") + kInputShape);
  } else if (!input->is_array() || (!input->empty() && input->front().is_number())) {
    read_input(fields, *input, vocab_size, request);
  } else if (input->empty() || input->size() > kEmbeddingInputsMax) {
    fields.fail("input", "'input' may hold 1 to " + std::to_string(kEmbeddingInputsMax) + " inputs, not " +
                             std::to_string(input->size()) + ".");
  } else {
    for (const Json& item : *input) {
      read_input(fields, item, vocab_size, request);
      if (fields.error()) return;
    }
  }
}

}  // namespace

std::variant<EmbeddingRequest, ApiError> parse_embedding_request(const Json& body, int32_t vocab_size) {
  FieldReader fields(body);
  EmbeddingRequest request;
  request.model = fields.string("model").value_or("");
  read_inputs(fields, vocab_size, request);
  const std::string format = fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    fields.fail("encoding_format", "'encoding_format' must be \"float\" or \"base64\".");
  }
  request.base64 = format == "base64";
  const std::string pooling = fields.string("pooling").value_or("mean");
  if (pooling != "mean" && pooling != "last") fields.fail("pooling", "'pooling' must be \"mean\" or \"last\".");
  request.pooling = pooling == "last" ? Pooling::kLast : Pooling::kMean;
  request.dimensions = fields.integer("dimensions", 1, INT32_MAX);
  request.cache_salt = read_cache_salt(fields);
  request.user = fields.string("user").value_or("");
  // What vLLM's service takes beyond this, and would change the answer.
  if (fields.find("messages") != nullptr) {
    fields.fail("messages", "'messages' is not supported by this endpoint: send the text as 'input'.");
  }
  if (!fields.boolean("add_special_tokens", true)) {
    fields.fail("add_special_tokens", "'add_special_tokens' is not supported by this endpoint, except true.");
  }
  if (!fields.boolean("normalize", true)) {
    fields.fail("normalize", "'normalize' is not supported by this endpoint, except true.");
  }
  for (const char* name : {"truncate_prompt_tokens", "embed_dtype", "endianness", "priority", "slo"}) {
    if (fields.find(name) != nullptr) {
      fields.fail(name, std::string("'") + name + "' is not supported by this endpoint: leave it out.");
    }
  }
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace twostroke::openai
