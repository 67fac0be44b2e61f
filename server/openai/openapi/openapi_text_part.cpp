// The part of the OpenAPI document about endpoints that need no engine: tokens to text and back, and rendering.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_text_part() {
  return R"json({
"paths": {
  "/tokenize": {"post": {
    "operationId": "tokenize", "summary": "Token ids of a text, or of messages as a chat completion would see them", "tags": ["text"],
    "requestBody": {"required": true, "content": {"application/json": {"schema":
      {"anyOf": [{"$ref": "#/components/schemas/TokenizeTextRequest"}, {"$ref": "#/components/schemas/TokenizeChatRequest"}]}}}},
    "responses": {"200": {"description": "The tokens", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tokens"}}}}}}},
  "/detokenize": {"post": {
    "operationId": "detokenize", "summary": "The text of token ids; special tokens by their names", "tags": ["text"],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DetokenizeRequest"}}}},
    "responses": {"200": {"description": "The text", "content": {"application/json": {"schema":
      {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}}}}}}}},
  "/v1/chat/completions/render": {"post": {
    "operationId": "renderChatCompletion", "summary": "The prompt that a chat completion would have", "tags": ["text"],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}}},
    "responses": {"200": {"description": "The prompt", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RenderedPrompt"}}}}}}},
  "/v1/completions/render": {"post": {
    "operationId": "renderCompletion", "summary": "The prompts that a completion would have", "tags": ["text"],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CompletionRequest"}}}},
    "responses": {"200": {"description": "The prompts, in the request's order", "content": {"application/json": {"schema":
      {"type": "array", "minItems": 1, "maxItems": "$prompts_max", "items": {"$ref": "#/components/schemas/RenderedPrompt"}}}}}}}}
},
"schemas": {
  "TokenizeTextRequest": {
    "type": "object", "required": ["prompt"],
    "properties": {
      "model": {"type": "string"},
      "prompt": {"type": "string", "maxLength": "$tokenize_bytes_max", "description": "Special tokens written in it are recognised, as in a completion's prompt"},
      "messages": {"type": "null"},
      "add_special_tokens": {"type": "boolean", "default": true, "description": "BOS and EOS as the model's file asks"},
      "return_token_strs": {"type": "boolean", "default": false}}},
  "TokenizeChatRequest": {
    "allOf": [{"$ref": "#/components/schemas/ChatCompletionRequest"}, {
      "type": "object",
      "properties": {
        "prompt": {"type": "null"},
        "add_special_tokens": {"enum": [false, null], "description": "The template writes them itself"},
        "return_token_strs": {"type": ["boolean", "null"], "default": false}}}]},
  "DetokenizeRequest": {
    "type": "object", "required": ["tokens"],
    "properties": {
      "model": {"type": "string"},
      "tokens": {"type": "array", "maxItems": "$detokenize_tokens_max", "items": {"$ref": "#/components/schemas/TokenId"}}}},
  "Tokens": {
    "type": "object", "required": ["count", "max_model_len", "tokens", "token_strs"],
    "properties": {
      "count": {"type": "integer", "minimum": 0},
      "max_model_len": {"type": "integer", "minimum": 1},
      "tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TokenId"}},
      "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}}},
  "RenderedPrompt": {
    "type": "object", "required": ["model", "prompt", "token_ids"],
    "properties": {
      "model": {"type": "string"},
      "prompt": {"type": "string", "description": "What the tokens stand for, special tokens by their names"},
      "token_ids": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}}}},
  "TokenId": {"type": "integer", "minimum": 0, "maximum": "$token_id_max"}
}
})json";
}

}  // namespace twostroke::openai
