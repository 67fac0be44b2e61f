#include "server/openai/openapi/openapi.h"

#include <algorithm>
#include <map>

#include "kernels/check.h"
#include "server/openai/completions/completion_request.h"
#include "server/openai/embeddings/embedding_request.h"
#include "server/openai/endpoint.h"
#include "server/openai/objectives.h"
#include "server/openai/responses/responses_request.h"
#include "server/openai/tokenize_request.h"

namespace twostroke::openai {
namespace {

using Bounds = std::map<std::string, int64_t>;

Bounds bounds_of(const OpenApiFacts& facts) {
  return {
      {"$token_id_max", facts.vocab_size - 1},
      {"$context_max", facts.context_max},
      {"$embedding_size", facts.embedding_size},
      {"$int32_max", INT32_MAX},
      {"$choices_max", kChoicesMax},
      {"$stop_strings_max", kStopStringsMax},
      {"$stop_string_bytes_max", kStopStringBytesMax},
      {"$top_logprobs_max", kTopLogprobsMax},
      {"$completion_logprobs_max", kCompletionLogprobsMax},
      {"$logit_bias_max", kLogitBiasMax},
      {"$messages_max", kMessagesMax},
      {"$prompts_max", kPromptsMax},
      {"$tokenize_bytes_max", kTokenizeBytesMax},
      {"$detokenize_tokens_max", kDetokenizeTokensMax},
      {"$stop_tokens_max", kStopTokensMax},
      {"$allowed_tokens_max", kMaxAllowedTokens},
      {"$bad_words_max", kBadWordsMax},
      {"$bad_word_bytes_max", kBadWordBytesMax},
      {"$prompt_logprobs_max", kMaxPromptLogprobs},
      {"$grammar_bytes_max", kGrammarBytesMax},
      {"$choice_strings_max", kChoiceStringsMax},
      {"$embedding_inputs_max", kEmbeddingInputsMax},
      {"$cache_salt_bytes_max", kCacheSaltBytesMax},
      {"$tools_max", kToolsMax},
      {"$tool_name_bytes_max", kToolNameBytesMax},
      {"$debug_calls_max", kDebugCallsMax},
      {"$debug_steps_max", kStepHistoryMax},
      {"$metadata_pairs_max", kMetadataPairsMax},
      {"$metadata_key_bytes_max", kMetadataKeyBytesMax},
      {"$metadata_value_bytes_max", kMetadataValueBytesMax},
      {"$objective_ms_max", static_cast<int64_t>(kObjectiveMsMax)},
  };
}

// Puts the numbers in the place of their names.
void fill_bounds(Json& json, const Bounds& bounds) {
  if (json.is_string() && json.get_ref<const std::string&>().starts_with('$')) {
    const auto found = bounds.find(json.get<std::string>());
    CHECK(found != bounds.end(), "a bound of the document that has a number");
    json = found->second;
  } else if (json.is_structured()) {
    for (Json& item : json) fill_bounds(item, bounds);
  }
}

// A schema that takes null as well.
Json or_null(Json schema) {
  if (schema.contains("type") && schema["type"].is_string() && !schema.contains("const") && !schema.contains("enum")) {
    schema["type"] = Json::array({schema["type"], "null"});
    return schema;
  }
  if (schema.empty()) return schema;  // anything
  if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
    schema.erase("type");
    return schema;
  }
  Json result;
  if (schema.contains("description")) {
    result["description"] = schema["description"];
    schema.erase("description");
  }
  if (schema.size() == 1 && schema.contains("anyOf")) {
    result["anyOf"] = schema["anyOf"];
  } else {
    result["anyOf"] = Json::array({schema});
  }
  result["anyOf"].push_back({{"type", "null"}});
  return result;
}

bool requires_field(const Json& schema, const std::string& name) {
  if (!schema.contains("required")) return false;
  for (const Json& required : schema["required"]) {
    if (required == name) return true;
  }
  return false;
}

// In a request null is as good as leaving a field out.
void allow_null(Json& request) {
  if (!request.contains("properties")) return;
  for (const auto& [name, schema] : request["properties"].items()) {
    if (!requires_field(request, name)) request["properties"][name] = or_null(schema);
  }
}

Json error_answer(const char* description, const Json& schema) {
  return {{"description", description}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

// What goes wrong below the endpoints is answered in the same way everywhere.
Json error_schema(const std::string& path) {
  const Json openai_shape = {{"$ref", "#/components/schemas/Error"}};
  if (!path.starts_with("/v1/messages")) return openai_shape;
  const Json own_shape = {{"$ref", "#/components/schemas/AnthropicError"}};
  Json either;
  either["anyOf"] = Json::array({own_shape, openai_shape});
  return either;
}

bool takes_objectives(const Json& operation) {
  if (!operation.contains("parameters")) return false;
  return std::ranges::any_of(operation["parameters"], [](const Json& parameter) {
    return parameter.value("$ref", "") == "#/components/parameters/SloTtftMs";
  });
}

constexpr const char* kTooMany = "Too many requests at once: Retry-After says when to try again.";
constexpr const char* kTooManyOrTooLate =
    "Too many requests at once: Retry-After says when to try again. Or the first token would come later than its "
    "objective (code `objective_unreachable`; errors of /v1/messages have no code): with Retry-After too, but with "
    "`x-should-retry: false` in its place where it would be late with the machine to itself.";

// Which errors a route may answer, beside its own.
void add_errors(const std::string& path, Json& operation, bool post, bool keyed) {
  const Json schema = error_schema(path);
  Json& responses = operation["responses"];
  const auto add = [&](const char* status, const char* description) {
    if (!responses.contains(status)) responses[status] = error_answer(description, schema);
  };
  add("400", "The request is malformed, or a field of it is wrong: `param` names it.");
  if (keyed) add("401", "No valid API key.");
  if (post) {
    add("404", "There is no such model here.");
    add("429", takes_objectives(operation) ? kTooManyOrTooLate : kTooMany);
  }
  const Json retry_after = {{"description", "Seconds after which to try again."},
                            {"schema", {{"type", "integer"}, {"minimum", 1}}}};
  if (responses.contains("429")) responses["429"]["headers"]["Retry-After"] = retry_after;
  if (takes_objectives(operation)) {
    responses["429"]["headers"]["x-should-retry"] = {
        {"description", "In the place of Retry-After: to try again does not help."}, {"schema", {{"const", "false"}}}};
  }
  add("408", "The request did not arrive in time.");
  add("413", "The body is larger than the server takes.");
  add("417", "An expectation other than 100-continue.");
  add("431", "The header is larger than the server takes.");
  add("500", "The server failed; not the request's fault.");
  add("501", "A transfer coding other than chunked.");
  if (!responses.contains("503")) {
    add("503", "The server is loading, overloaded or ending: Retry-After says when to try again.");
    responses["503"]["headers"]["Retry-After"] = retry_after;
  }
  add("505", "Not HTTP/1.1 or HTTP/1.0.");
}

// The headers that endpoints read. The server takes every X-Request-Id, so its schema says nothing of its form.
constexpr const char* kHeaderParameters = R"json({
  "RequestId": {"name": "X-Request-Id", "in": "header", "schema": {"type": "string"},
    "description": "The request's name, for logs and /debug/requests; the answer has it again. One that is longer than 128 bytes, or not all printable ASCII without spaces, quotes and backslashes, gives way to one of the server's own."},
  "SloTtftMs": {"name": "x-slo-ttft-ms", "in": "header", "schema": {"type": "number", "minimum": 0.001, "maximum": "$objective_ms_max"},
    "description": "Milliseconds within which the first token is asked for. The body's `slo.ttft_ms` counts where both are there. Refused at once, with 429, where it cannot be met."},
  "SloTpotMs": {"name": "x-slo-tpot-ms", "in": "header", "schema": {"type": "number", "minimum": 0.001, "maximum": "$objective_ms_max"},
    "description": "Milliseconds between two tokens that are asked for. The body's `slo.tpot_ms` counts where both are there."}
})json";

bool needs_key(const Json& operation) { return !operation.contains("security"); }

}  // namespace

Json openapi_document(const OpenApiFacts& facts) {
  Json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "twostroke"},
        {"version", facts.version},
        {"description",
         "Serves a language model over the OpenAI API, Anthropic's Messages API, and further endpoints as vLLM has "
         "them. Fields that are not named here are ignored, but for those of other servers that would change the "
         "answer: "
         "they are refused by name. Null is as good as leaving an optional field out."}}},
      {"security", Json::array({{{"bearer", Json::array()}}, {{"api_key", Json::array()}}, Json::object()})},
      {"paths", Json::object()},
      {"components",
       {{"securitySchemes",
         {{"bearer", {{"type", "http"}, {"scheme", "bearer"}, {"description", "Needed when the server has API keys."}}},
          {"api_key",
           {{"type", "apiKey"},
            {"in", "header"},
            {"name", "X-Api-Key"},
            {"description", "Needed when the server has API keys."}}}}},
        {"parameters", Json::parse(kHeaderParameters)},
        {"schemas", Json::object()}}}};
  Json& paths = document["paths"];
  Json& schemas = document["components"]["schemas"];
  const Bounds bounds = bounds_of(facts);
  fill_bounds(document["components"]["parameters"], bounds);
  for (const char* text :
       {openapi_completions_part(), openapi_responses_part(), openapi_messages_part(), openapi_text_part(),
        openapi_embeddings_part(), openapi_service_part(), openapi_debug_part()}) {
    Json part = Json::parse(text);
    fill_bounds(part, bounds);
    for (const auto& [path, operations] : part["paths"].items()) paths[path] = operations;
    for (const auto& [name, schema] : part["schemas"].items()) schemas[name] = schema;
  }
  for (auto& [name, schema] : schemas.items()) {
    if (name.ends_with("Request")) allow_null(schema);
  }
  for (auto& [path, operations] : paths.items()) {
    for (auto& [method, operation] : operations.items()) {
      operation["parameters"].push_back({{"$ref", "#/components/parameters/RequestId"}});
      add_errors(path, operation, method == "post", needs_key(operation));
    }
  }
  return document;
}

}  // namespace twostroke::openai
