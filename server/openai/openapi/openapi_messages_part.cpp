// The part of the OpenAPI document about /v1/messages, Anthropic's protocol.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_messages_part() {
  return R"json({
"paths": {
  "/v1/messages": {"post": {
    "operationId": "createMessage", "summary": "Answers to a conversation, in Anthropic's protocol", "tags": ["messages"],
    "parameters": [{"$ref": "#/components/parameters/SloTtftMs"}, {"$ref": "#/components/parameters/SloTpotMs"}],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/MessagesRequest"}}}},
    "responses": {"200": {"description": "The whole message; with `stream`, events", "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/AnthropicMessage"}},
      "text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamEvent"}}}}}}},
  "/v1/messages/count_tokens": {"post": {
    "operationId": "countMessageTokens", "summary": "How many tokens the prompt of such a message has", "tags": ["messages"],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CountTokensRequest"}}}},
    "responses": {"200": {"description": "The count", "content": {"application/json": {"schema":
      {"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": {"type": "integer", "minimum": 1}}}}}}}}}
},
"schemas": {
  "CountTokensRequest": {
    "type": "object", "required": ["messages"],
    "allOf": [{"$ref": "#/components/schemas/SamplingRequest"}],
    "properties": {
      "messages": {"type": "array", "minItems": 1, "maxItems": "$messages_max", "items": {"$ref": "#/components/schemas/AnthropicInput"}},
      "system": {"$ref": "#/components/schemas/AnthropicText"},
      "max_tokens": {"type": "integer", "minimum": 1, "maximum": "$int32_max"},
      "temperature": {"type": "number", "minimum": 0, "maximum": 1, "default": 1},
      "stop_sequences": {"type": "array", "maxItems": "$stop_strings_max", "items": {"type": "string", "minLength": 1, "maxLength": "$stop_string_bytes_max"}},
      "tools": {"type": "array", "maxItems": "$tools_max", "items": {
        "type": "object", "required": ["name", "input_schema"],
        "properties": {
          "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]+$", "minLength": 1, "maxLength": "$tool_name_bytes_max"},
          "description": {"type": ["string", "null"]},
          "input_schema": {"type": "object", "description": "JSON Schema"}}}},
      "tool_choice": {"type": "object", "description": "With `tools` only", "required": ["type"], "properties": {
        "type": {"enum": ["auto", "any", "tool", "none"]},
        "name": {"type": "string", "minLength": 1},
        "disable_parallel_tool_use": {"type": ["boolean", "null"]}}},
      "thinking": {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["enabled", "adaptive", "disabled"]}}},
      "chat_template_kwargs": {"$ref": "#/components/schemas/TemplateArguments"},
      "output_config": {"type": "object", "properties": {
        "effort": {"type": ["string", "null"]},
        "format": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["type", "schema"], "properties": {"type": {"const": "json_schema"}, "schema": {"type": "object"}}}]}}},
      "container": {"type": "array", "maxItems": 0},
      "context_management": {"type": "array", "maxItems": 0},
      "mcp_servers": {"type": "array", "maxItems": 0},
      "speed": {"enum": ["standard"]}}},
  "MessagesRequest": {
    "allOf": [{"$ref": "#/components/schemas/CountTokensRequest"}],
    "type": "object", "required": ["max_tokens"],
    "properties": {"max_tokens": {"type": "integer", "minimum": 1, "maximum": "$int32_max"}}},
  "AnthropicInput": {
    "anyOf": [
      {"type": "object", "required": ["role", "content"], "properties": {
        "role": {"enum": ["user", "assistant", "system"]}, "content": {"type": "string"}}},
      {"type": "object", "required": ["role", "content"], "properties": {
        "role": {"const": "system"}, "content": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/AnthropicTextBlock"}}}},
      {"type": "object", "required": ["role", "content"], "properties": {
        "role": {"const": "user"}, "content": {"type": "array", "minItems": 1, "items": {"anyOf": [
          {"$ref": "#/components/schemas/AnthropicTextBlock"},
          {"type": "object", "required": ["type", "tool_use_id"], "properties": {
            "type": {"const": "tool_result"}, "tool_use_id": {"type": "string", "minLength": 1},
            "content": {"anyOf": [{"$ref": "#/components/schemas/AnthropicText"}, {"type": "null"}]}}}]}}}},
      {"type": "object", "required": ["role", "content"], "properties": {
        "role": {"const": "assistant"}, "content": {"type": "array", "items": {"anyOf": [
          {"$ref": "#/components/schemas/AnthropicTextBlock"},
          {"type": "object", "required": ["type"], "properties": {"type": {"const": "thinking"}}},
          {"type": "object", "required": ["type", "id", "name", "input"], "properties": {
            "type": {"const": "tool_use"}, "id": {"type": "string", "minLength": 1}, "name": {"type": "string", "minLength": 1}, "input": {"type": "object"}}}]}}}}]},
  "AnthropicTextBlock": {
    "type": "object", "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
  "AnthropicText": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/AnthropicTextBlock"}}]},
  "AnthropicMessage": {
    "type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
    "properties": {
      "id": {"type": "string", "pattern": "^msg_"},
      "type": {"const": "message"},
      "role": {"const": "assistant"},
      "model": {"type": "string"},
      "content": {"type": "array", "items": {"anyOf": [
        {"$ref": "#/components/schemas/AnthropicTextBlock"},
        {"type": "object", "required": ["type", "thinking", "signature"], "properties": {"type": {"const": "thinking"}, "thinking": {"type": "string"}}},
        {"type": "object", "required": ["type", "id", "name", "input"], "properties": {
          "type": {"const": "tool_use"}, "id": {"type": "string"}, "name": {"type": "string"}, "input": {"type": "object"}}}]}},
      "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"]},
      "stop_sequence": {"type": ["string", "null"]},
      "usage": {"type": "object", "required": ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"], "properties": {
        "input_tokens": {"type": "integer", "minimum": 0}, "output_tokens": {"type": "integer", "minimum": 0},
        "cache_creation_input_tokens": {"const": 0}, "cache_read_input_tokens": {"type": "integer", "minimum": 0}}}}},
  "AnthropicError": {
    "type": "object", "required": ["type", "error", "request_id"],
    "properties": {
      "type": {"const": "error"},
      "error": {"type": "object", "required": ["type", "message"], "properties": {"type": {"type": "string"}, "message": {"type": "string", "minLength": 1}}},
      "request_id": {"type": "string"}}}
}
})json";
}

}  // namespace twostroke::openai
