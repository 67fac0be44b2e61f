// The part of the OpenAPI document about /v1/responses.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_responses_part() {
  return R"json({
"paths": {
  "/v1/responses": {"post": {
    "operationId": "createResponse", "summary": "Answers to a conversation, as items", "tags": ["responses"],
    "parameters": [{"$ref": "#/components/parameters/SloTtftMs"}, {"$ref": "#/components/parameters/SloTpotMs"}],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ResponsesRequest"}}}},
    "responses": {"200": {"description": "The whole response, or one in progress with `background`; with `stream`, events", "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/Response"}},
      "text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamEvent"}}}}}}},
  "/v1/responses/{id}": {
    "get": {
      "operationId": "getResponse", "summary": "A stored response, of the same API key", "tags": ["responses"],
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}},
                     {"name": "stream", "in": "query", "schema": {"enum": ["false"]}, "description": "A response can be streamed when it is created only"}],
      "responses": {
        "200": {"description": "The response", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Response"}}}},
        "404": {"description": "There is none (any more).", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}},
    "delete": {
      "operationId": "deleteResponse", "summary": "Forgets a stored response; cancels one that runs", "tags": ["responses"],
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}],
      "responses": {
        "200": {"description": "It is gone", "content": {"application/json": {"schema": {"type": "object", "required": ["id", "object", "deleted"],
          "properties": {"id": {"type": "string"}, "object": {"const": "response"}, "deleted": {"const": true}}}}}},
        "404": {"description": "There is none (any more).", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}}},
  "/v1/responses/{id}/cancel": {"post": {
    "operationId": "cancelResponse", "summary": "Ends a response that runs in the background", "tags": ["responses"],
    "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}],
    "responses": {
      "200": {"description": "The response as it is now", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Response"}}}},
      "404": {"description": "There is none (any more).", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}}},
  "/v1/responses/{id}/input_items": {"get": {
    "operationId": "listResponseInput", "summary": "The input of a stored response, in pages", "tags": ["responses"],
    "parameters": [
      {"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}},
      {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
      {"name": "order", "in": "query", "schema": {"enum": ["asc", "desc"], "default": "desc"}},
      {"name": "after", "in": "query", "schema": {"type": "string"}, "description": "The id of the item before the page"}],
    "responses": {
      "200": {"description": "A page", "content": {"application/json": {"schema": {
        "type": "object", "required": ["object", "data", "has_more", "first_id", "last_id"],
        "properties": {
          "object": {"const": "list"}, "has_more": {"type": "boolean"},
          "data": {"type": "array", "items": {"type": "object", "required": ["id", "type"]}},
          "first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]}}}}}},
      "404": {"description": "There is none (any more).", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}}}
},
"schemas": {
  "ResponsesRequest": {
    "type": "object", "required": ["input"],
    "allOf": [{"$ref": "#/components/schemas/SamplingRequest"}],
    "properties": {
      "input": {"anyOf": [
        {"type": "string"},
        {"type": "array", "minItems": 1, "maxItems": "$messages_max", "items": {"$ref": "#/components/schemas/InputItem"}}]},
      "instructions": {"type": "string", "description": "A system message before the input, not kept for later responses"},
      "previous_response_id": {"type": "string"},
      "store": {"type": "boolean", "default": true},
      "background": {"type": "boolean", "default": false, "description": "Answer with the response in progress; needs `store`, not with `stream`"},
      "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": "$int32_max"},
      "metadata": {"type": "object", "maxProperties": "$metadata_pairs_max", "propertyNames": {"maxLength": "$metadata_key_bytes_max"},
        "additionalProperties": {"type": "string", "maxLength": "$metadata_value_bytes_max"}},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": "$top_logprobs_max", "description": "With message.output_text.logprobs in `include`"},
      "include": {"type": "array", "items": {"enum": ["message.output_text.logprobs"]}},
      "truncation": {"enum": ["disabled"]},
      "service_tier": {"enum": ["auto", "default"]},
      "tools": {"type": "array", "maxItems": "$tools_max", "items": {"allOf": [{"$ref": "#/components/schemas/Function"}], "required": ["type"], "properties": {"type": {"const": "function"}}}},
      "tool_choice": {"anyOf": [
        {"enum": ["none", "auto", "required"]},
        {"type": "object", "required": ["type", "name"], "properties": {"type": {"const": "function"}, "name": {"type": "string", "minLength": 1}}},
        {"type": "object", "required": ["type", "mode", "tools"], "properties": {
          "type": {"const": "allowed_tools"}, "mode": {"enum": ["auto", "required"]},
          "tools": {"type": "array", "minItems": 1, "maxItems": "$tools_max", "items": {"type": "object", "required": ["name"]}}}}]},
      "parallel_tool_calls": {"type": "boolean", "default": true},
      "chat_template_kwargs": {"$ref": "#/components/schemas/TemplateArguments"},
      "text": {"type": "object", "properties": {
        "verbosity": {"enum": ["medium", null]},
        "format": {"anyOf": [
          {"type": "null"},
          {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object"]}}},
          {"type": "object", "required": ["type", "schema"], "properties": {"type": {"const": "json_schema"}, "schema": {"type": "object"}}}]}}},
      "reasoning": {"type": "object", "properties": {"summary": {"enum": ["auto", null]}, "generate_summary": {"enum": ["auto", null]}}},
      "context_management": {"type": "null"}, "conversation": {"type": "null"}, "max_tool_calls": {"type": "null"},
      "moderation": {"type": "null"}, "prompt": {"type": "null"}, "image": {"type": "null"}}},
  "InputItem": {
    "anyOf": [
      {"type": "object", "required": ["role", "content"], "properties": {
        "type": {"const": "message"},
        "role": {"enum": ["user", "assistant", "system", "developer"]},
        "content": {"$ref": "#/components/schemas/ItemContent"}}},
      {"type": "object", "required": ["type", "call_id", "name", "arguments"], "properties": {
        "type": {"const": "function_call"}, "call_id": {"type": "string"}, "name": {"type": "string"}, "arguments": {"type": "string"}}},
      {"type": "object", "required": ["type", "call_id", "output"], "properties": {
        "type": {"const": "function_call_output"}, "call_id": {"type": "string", "minLength": 1}, "output": {"$ref": "#/components/schemas/ItemContent"}}},
      {"type": "object", "required": ["type"], "properties": {"type": {"const": "reasoning"}}}]},
  "ItemContent": {
    "anyOf": [
      {"type": "string"},
      {"type": "array", "items": {"anyOf": [
        {"type": "object", "required": ["type", "text"], "properties": {"type": {"enum": ["input_text", "output_text", "text"]}, "text": {"type": "string"}}},
        {"type": "object", "required": ["type"], "properties": {"type": {"const": "refusal"}}}]}}]},
  "Response": {
    "type": "object",
    "required": ["id", "object", "created_at", "status", "error", "incomplete_details", "model", "output", "usage", "instructions", "metadata",
                 "parallel_tool_calls", "previous_response_id", "store", "temperature", "text", "tool_choice", "tools", "top_p", "truncation"],
    "properties": {
      "id": {"type": "string", "pattern": "^resp_"},
      "object": {"const": "response"},
      "created_at": {"type": "integer"},
      "completed_at": {"type": ["integer", "null"]},
      "status": {"enum": ["in_progress", "completed", "incomplete", "failed", "cancelled"]},
      "error": {"type": ["object", "null"], "required": ["code", "message"]},
      "incomplete_details": {"type": ["object", "null"], "required": ["reason"]},
      "model": {"type": "string"},
      "output": {"type": "array", "items": {"$ref": "#/components/schemas/OutputItem"}},
      "usage": {"type": ["object", "null"], "required": ["input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details"],
        "properties": {
          "input_tokens": {"type": "integer", "minimum": 1}, "output_tokens": {"type": "integer", "minimum": 0}, "total_tokens": {"type": "integer", "minimum": 1}}},
      "instructions": {"type": ["string", "null"]},
      "metadata": {"type": "object"},
      "previous_response_id": {"type": ["string", "null"]},
      "store": {"type": "boolean"},
      "temperature": {"type": "number"},
      "top_p": {"type": "number"},
      "tools": {"type": "array"},
      "truncation": {"const": "disabled"}}},
  "OutputItem": {
    "anyOf": [
      {"type": "object", "required": ["id", "type", "status", "role", "content"], "properties": {
        "id": {"type": "string", "pattern": "^msg_"}, "type": {"const": "message"}, "role": {"const": "assistant"},
        "content": {"type": "array", "items": {"type": "object", "required": ["type", "text", "annotations"],
          "properties": {"type": {"const": "output_text"}, "text": {"type": "string"}, "annotations": {"type": "array"}, "logprobs": {"type": "array"}}}}}},
      {"type": "object", "required": ["id", "type", "status", "summary", "content"], "properties": {
        "id": {"type": "string", "pattern": "^rs_"}, "type": {"const": "reasoning"}}},
      {"type": "object", "required": ["id", "type", "status", "call_id", "name", "arguments"], "properties": {
        "id": {"type": "string", "pattern": "^fc_"}, "type": {"const": "function_call"}, "call_id": {"type": "string"},
        "name": {"type": "string"}, "arguments": {"type": "string"}}}]}
}
})json";
}

}  // namespace twostroke::openai
