// The part of the OpenAPI document about embeddings.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_embeddings_part() {
  return R"json({
"paths": {
  "/v1/embeddings": {"post": {
    "operationId": "createEmbeddings", "summary": "Pooled hidden states of the model, scaled to length 1", "tags": ["embeddings"],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/EmbeddingRequest"}}}},
    "responses": {"200": {"description": "One embedding for each input, in the request's order", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/EmbeddingList"}}}}}}}
},
"schemas": {
  "EmbeddingRequest": {
    "type": "object", "required": ["input"],
    "properties": {
      "model": {"type": "string"},
      "input": {"description": "A text, texts, token ids, or lists of token ids; 300,000 tokens in all at most, each input within the context", "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}},
        {"type": "array", "minItems": 1, "maxItems": "$embedding_inputs_max", "items": {"anyOf": [
          {"type": "string", "minLength": 1},
          {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}}]}}]},
      "encoding_format": {"enum": ["float", "base64"], "default": "float", "description": "base64: of little-endian 32-bit floats"},
      "dimensions": {"type": "integer", "minimum": "$embedding_size", "maximum": "$embedding_size", "description": "The model's own size only"},
      "pooling": {"enum": ["mean", "last"], "default": "mean", "description": "Over all positions, or the last one's state"},
      "cache_salt": {"type": "string", "minLength": 1, "maxLength": "$cache_salt_bytes_max"},
      "user": {"type": "string"},
      "messages": {"type": "null"},
      "add_special_tokens": {"enum": [true]},
      "normalize": {"enum": [true]},
      "truncate_prompt_tokens": {"type": "null"},
      "embed_dtype": {"type": "null"},
      "endianness": {"type": "null"},
      "priority": {"type": "null"},
      "slo": {"type": "null"}}},
  "EmbeddingList": {
    "type": "object", "required": ["object", "data", "model", "pooling", "usage"],
    "properties": {
      "object": {"const": "list"},
      "data": {"type": "array", "items": {
        "type": "object", "required": ["object", "index", "embedding"],
        "properties": {
          "object": {"const": "embedding"},
          "index": {"type": "integer", "minimum": 0},
          "embedding": {"anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": "$embedding_size", "maxItems": "$embedding_size"}, {"type": "string"}]}}}},
      "model": {"type": "string"},
      "pooling": {"enum": ["mean", "last"]},
      "usage": {
        "type": "object", "required": ["prompt_tokens", "total_tokens"],
        "properties": {"prompt_tokens": {"type": "integer", "minimum": 1}, "total_tokens": {"type": "integer", "minimum": 1}}}}}
}
})json";
}

}  // namespace twostroke::openai
