// The OpenAPI 3.1 document of GET /openapi.json: every route of the server with its parameters, bounds, answers and
// errors.
//
// It is written in parts beside the code that it describes (openapi_*.cpp): JSON in which `"$name"` stands for one of
// the program's own bounds, so that a bound has one place. What is the same everywhere is added here: the errors that
// every route may answer, the headers that are read, null for optional fields of requests, the security schemes. A test
// holds it against the router, and schemathesis against the running server (tests/e2e/test_openapi.py).
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "server/openai/json.h"

namespace twostroke::openai {

struct OpenApiFacts {
  std::string version;
  int32_t vocab_size = 0;
  int32_t context_max = 0;
  int32_t embedding_size = 0;
};

Json openapi_document(const OpenApiFacts& facts);

// A part: {"paths": {...}, "schemas": {...}}.
const char* openapi_completions_part();
const char* openapi_responses_part();
const char* openapi_messages_part();
const char* openapi_text_part();
const char* openapi_embeddings_part();
const char* openapi_service_part();
const char* openapi_debug_part();

}  // namespace twostroke::openai
