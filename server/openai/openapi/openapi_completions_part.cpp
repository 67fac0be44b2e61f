// The part of the OpenAPI document about chat and text completions.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_completions_part() {
  return R"json({
"paths": {
  "/v1/chat/completions": {"post": {
    "operationId": "createChatCompletion", "summary": "Answers to a conversation", "tags": ["completions"],
    "parameters": [{"$ref": "#/components/parameters/SloTtftMs"}, {"$ref": "#/components/parameters/SloTpotMs"}],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}}},
    "responses": {"200": {"description": "The whole answer; with `stream`, chunks as server-sent events and `data: [DONE]`", "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletion"}},
      "text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamEvent"}}}}}}},
  "/v1/completions": {"post": {
    "operationId": "createCompletion", "summary": "Continuations of texts or token ids", "tags": ["completions"],
    "parameters": [{"$ref": "#/components/parameters/SloTtftMs"}, {"$ref": "#/components/parameters/SloTpotMs"}],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CompletionRequest"}}}},
    "responses": {"200": {"description": "The whole answer; with `stream`, chunks as server-sent events and `data: [DONE]`", "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/Completion"}},
      "text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamEvent"}}}}}}}
},
"schemas": {
  "StreamEvent": {
    "type": "object", "required": ["data"], "description": "One server-sent event",
    "properties": {"data": {"type": "string", "description": "A chunk in JSON, or [DONE]"}}},
  "SamplingRequest": {
    "type": "object",
    "properties": {
      "model": {"type": "string", "description": "The served model's name, or left out"},
      "temperature": {"type": "number", "minimum": 0, "maximum": 2, "default": 1},
      "top_p": {"type": "number", "minimum": 0, "maximum": 1, "default": 1},
      "top_k": {"type": "integer", "minimum": -1, "maximum": "$int32_max", "default": 0, "description": "-1 and 0: off"},
      "min_p": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
      "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2, "default": 0},
      "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2, "default": 0},
      "repetition_penalty": {"type": "number", "minimum": 0.01, "maximum": 100, "default": 1},
      "seed": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807},
      "logit_bias": {"type": "object", "maxProperties": "$logit_bias_max", "propertyNames": {"pattern": "^[0-9]+$"},
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}, "description": "Token ids to what is added to their logits"},
      "ignore_eos": {"type": "boolean", "default": false},
      "min_tokens": {"type": "integer", "minimum": 0, "maximum": "$int32_max", "default": 0},
      "stop_token_ids": {"type": "array", "maxItems": "$stop_tokens_max", "items": {"$ref": "#/components/schemas/TokenId"}},
      "include_stop_str_in_output": {"type": "boolean", "default": false},
      "allowed_token_ids": {"type": "array", "minItems": 1, "maxItems": "$allowed_tokens_max", "items": {"$ref": "#/components/schemas/TokenId"}},
      "bad_words": {"anyOf": [
        {"type": "string", "minLength": 1, "maxLength": "$bad_word_bytes_max"},
        {"type": "array", "maxItems": "$bad_words_max", "items": {"type": "string", "minLength": 1, "maxLength": "$bad_word_bytes_max"}}]},
      "structured_outputs": {"$ref": "#/components/schemas/StructuredOutputs"},
      "skip_special_tokens": {"type": "boolean", "default": true},
      "priority": {"type": "integer", "minimum": -2147483648, "maximum": "$int32_max", "default": 0, "description": "The lower goes first"},
      "slo": {"type": "object", "additionalProperties": false, "description": "Aims in milliseconds; a first token that would come later is refused with 429 and the code objective_unreachable", "properties": {
        "ttft_ms": {"type": "number", "minimum": 0.001, "maximum": 86400000},
        "tpot_ms": {"type": "number", "minimum": 0.001, "maximum": 86400000}}},
      "cache_salt": {"type": "string", "minLength": 1, "maxLength": "$cache_salt_bytes_max", "description": "The prefix cache is shared only between requests of equal salt and API key"},
      "user": {"type": "string", "description": "Tells tenants apart where the server has no API keys and shares its service fairly"},
      "stream": {"type": "boolean", "default": false}}},
  "ChoicesRequest": {
    "type": "object",
    "allOf": [{"$ref": "#/components/schemas/SamplingRequest"}],
    "properties": {
      "n": {"type": "integer", "minimum": 1, "maximum": "$choices_max", "default": 1},
      "max_tokens": {"type": "integer", "minimum": 0, "maximum": "$int32_max", "description": "0 in a completion with `echo` only"},
      "stop": {"anyOf": [
        {"type": "string", "minLength": 1, "maxLength": "$stop_string_bytes_max"},
        {"type": "array", "maxItems": "$stop_strings_max", "items": {"type": "string", "minLength": 1, "maxLength": "$stop_string_bytes_max"}}]},
      "response_format": {"$ref": "#/components/schemas/ResponseFormat"},
      "return_token_ids": {"type": "boolean", "default": false},
      "include_reasoning": {"type": "boolean", "default": true},
      "prompt_logprobs": {"type": "integer", "minimum": 0, "maximum": "$prompt_logprobs_max", "description": "Without `stream` only"},
      "truncate_prompt_tokens": {"type": "integer", "minimum": -1, "maximum": "$int32_max", "description": "The prompt's last so many tokens; -1: what fits the context; not 0"},
      "best_of": {"type": "integer", "minimum": 1, "description": "1 or n only"},
      "stream_options": {"type": "object", "description": "With `stream` only", "properties": {
        "include_usage": {"type": ["boolean", "null"], "default": false},
        "continuous_usage_stats": {"type": ["boolean", "null"], "default": false}}}}},
  "ResponseFormat": {
    "anyOf": [
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object"]}}},
      {"type": "object", "required": ["type", "json_schema"], "properties": {
        "type": {"const": "json_schema"},
        "json_schema": {"type": "object", "required": ["schema"], "properties": {"schema": {"type": "object"}}}}}]},
  "StructuredOutputs": {
    "type": "object", "minProperties": 1, "additionalProperties": false, "description": "Exactly one of json, regex, choice and grammar",
    "properties": {
      "json": {"type": ["object", "boolean", "string", "null"], "description": "JSON Schema, or its text"},
      "regex": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": "$grammar_bytes_max"}, {"enum": [false, null]}]},
      "grammar": {"description": "GBNF", "anyOf": [{"type": "string", "minLength": 1, "maxLength": "$grammar_bytes_max"}, {"enum": [false, null]}]},
      "choice": {"anyOf": [
        {"type": "array", "minItems": 1, "maxItems": "$choice_strings_max", "items": {"type": "string", "minLength": 1, "maxLength": "$grammar_bytes_max"}},
        {"enum": [false, null]}]},
      "disable_any_whitespace": {}}},
  "ChatCompletionRequest": {
    "type": "object", "required": ["messages"],
    "allOf": [{"$ref": "#/components/schemas/ChoicesRequest"}],
    "properties": {
      "messages": {"type": "array", "minItems": 1, "maxItems": "$messages_max", "items": {"$ref": "#/components/schemas/Message"}},
      "max_completion_tokens": {"type": "integer", "minimum": 1, "maximum": "$int32_max", "description": "The newer name of max_tokens; wins over it"},
      "logprobs": {"type": "boolean", "default": false},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": "$top_logprobs_max", "description": "With `logprobs` only"},
      "chat_template_kwargs": {"$ref": "#/components/schemas/TemplateArguments"},
      "documents": {"type": "array", "items": {"type": "object"}, "description": "A variable of the chat template"},
      "reasoning_effort": {"type": "string", "description": "A variable of the chat template"},
      "tools": {"type": "array", "maxItems": "$tools_max", "items": {"$ref": "#/components/schemas/Tool"}},
      "tool_choice": {"$ref": "#/components/schemas/ToolChoice"},
      "parallel_tool_calls": {"type": "boolean", "default": true},
      "add_generation_prompt": {"type": "boolean", "description": "The prompt ends with the beginning of an answer; true unless continue_final_message is"},
      "continue_final_message": {"type": "boolean", "default": false, "description": "The prompt ends within the last message"},
      "echo": {"type": "boolean", "default": false, "description": "The answer begins with the last message's content"},
      "modalities": {"enum": [["text"]]},
      "chat_template": {"type": "null"},
      "functions": {"type": "null"},
      "function_call": {"type": "null"}}},
  "TemplateArguments": {
    "type": "object", "description": "Further variables of the chat template; the server's own cannot be replaced",
    "properties": {"messages": false, "add_generation_prompt": false, "bos_token": false, "eos_token": false, "tools": false}},
  "Tool": {
    "type": "object", "required": ["type", "function"],
    "properties": {"type": {"const": "function"}, "function": {"$ref": "#/components/schemas/Function"}}},
  "Function": {
    "type": "object", "required": ["name"],
    "properties": {
      "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]+$", "minLength": 1, "maxLength": "$tool_name_bytes_max"},
      "description": {"type": ["string", "null"]},
      "parameters": {"type": ["object", "null"], "description": "JSON Schema"},
      "strict": {"type": ["boolean", "null"], "description": "Arguments are held to `parameters` with `tool_choice` auto, too"}}},
  "ToolChoice": {
    "description": "With `tools` only", "anyOf": [
      {"enum": ["none", "auto", "required"]},
      {"type": "object", "required": ["type", "function"], "properties": {
        "type": {"const": "function"},
        "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}}}},
      {"type": "object", "required": ["type", "allowed_tools"], "properties": {
        "type": {"const": "allowed_tools"},
        "allowed_tools": {"type": "object", "required": ["mode", "tools"], "properties": {
          "mode": {"enum": ["auto", "required"]},
          "tools": {"type": "array", "minItems": 1, "maxItems": "$tools_max", "items": {"$ref": "#/components/schemas/Tool"}}}}}}]},
  "Message": {
    "anyOf": [
      {"type": "object", "required": ["role", "content"], "properties": {
        "role": {"enum": ["system", "developer", "user", "tool", "function"]},
        "content": {"$ref": "#/components/schemas/Content"}}},
      {"type": "object", "required": ["role"], "properties": {
        "role": {"const": "assistant"},
        "content": {"anyOf": [{"$ref": "#/components/schemas/Content"}, {"type": "null"}]}}}]},
  "Content": {
    "anyOf": [
      {"type": "string"},
      {"type": "array", "items": {"type": "object", "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}]},
  "CompletionRequest": {
    "type": "object", "required": ["prompt"],
    "allOf": [{"$ref": "#/components/schemas/ChoicesRequest"}],
    "properties": {
      "prompt": {"description": "A text, texts, token ids, or lists of token ids; at most 128 choices in all, prompts times n", "anyOf": [
        {"type": "string"},
        {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}},
        {"type": "array", "minItems": 1, "maxItems": "$prompts_max", "items": {"anyOf": [
          {"type": "string"},
          {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}}]}}]},
      "logprobs": {"type": "integer", "minimum": 0, "maximum": "$completion_logprobs_max"},
      "echo": {"type": "boolean", "default": false, "description": "The text begins with the prompt"},
      "suffix": {"enum": [""], "description": "Not supported"}}},
  "Usage": {
    "type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"],
    "properties": {
      "prompt_tokens": {"type": "integer", "minimum": 1},
      "completion_tokens": {"type": "integer", "minimum": 0},
      "total_tokens": {"type": "integer", "minimum": 1},
      "prompt_tokens_details": {"type": "object", "required": ["cached_tokens"], "properties": {"cached_tokens": {"type": "integer", "minimum": 0}}}}},
  "ChatCompletion": {
    "type": "object", "required": ["id", "object", "created", "model", "choices", "usage"],
    "properties": {
      "id": {"type": "string", "pattern": "^chatcmpl-"},
      "object": {"const": "chat.completion"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "choices": {"type": "array", "minItems": 1, "maxItems": "$choices_max", "items": {
        "type": "object", "required": ["index", "message", "logprobs", "finish_reason"],
        "properties": {
          "index": {"type": "integer", "minimum": 0},
          "message": {"type": "object", "required": ["role", "content", "refusal"], "properties": {
            "role": {"const": "assistant"},
            "content": {"type": ["string", "null"]},
            "refusal": {"type": "null"},
            "reasoning_content": {"type": ["string", "null"]},
            "tool_calls": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ToolCall"}}}},
          "logprobs": {"anyOf": [{"$ref": "#/components/schemas/ChatLogprobs"}, {"type": "null"}]},
          "finish_reason": {"enum": ["stop", "length", "tool_calls"]},
          "stop_reason": {"$ref": "#/components/schemas/StopReason"},
          "token_ids": {"$ref": "#/components/schemas/TokenIds"}}}},
      "usage": {"$ref": "#/components/schemas/Usage"},
      "prompt_token_ids": {"$ref": "#/components/schemas/TokenIds"},
      "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"}}},
  "PromptLogprobs": {"type": ["array", "null"], "items": {"type": ["object", "null"]}, "description": "For each prompt token; null for the first"},
  "StopReason": {"type": ["string", "integer", "null"], "description": "The stop string or stop token that ended the text"},
  "TokenIds": {"type": "array", "items": {"$ref": "#/components/schemas/TokenId"}},
  "ToolCall": {
    "type": "object", "required": ["id", "type", "function"],
    "properties": {
      "id": {"type": "string", "minLength": 1},
      "type": {"const": "function"},
      "function": {"type": "object", "required": ["name", "arguments"], "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}}}}},
  "ChatLogprobs": {
    "type": "object", "required": ["content"],
    "properties": {"content": {"type": "array", "items": {
      "allOf": [{"$ref": "#/components/schemas/TokenLogprob"}],
      "required": ["top_logprobs"],
      "properties": {"top_logprobs": {"type": "array", "maxItems": "$top_logprobs_max", "items": {"$ref": "#/components/schemas/TokenLogprob"}}}}}}},
  "TokenLogprob": {
    "type": "object", "required": ["token", "logprob", "bytes"],
    "properties": {
      "token": {"type": "string"},
      "logprob": {"type": "number", "maximum": 0},
      "bytes": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": 255}}}},
  "Completion": {
    "type": "object", "required": ["id", "object", "created", "model", "choices", "usage"],
    "properties": {
      "id": {"type": "string", "pattern": "^cmpl-"},
      "object": {"const": "text_completion"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "choices": {"type": "array", "minItems": 1, "maxItems": "$choices_max", "items": {
        "type": "object", "required": ["index", "text", "logprobs", "finish_reason"],
        "properties": {
          "index": {"type": "integer", "minimum": 0},
          "text": {"type": "string"},
          "logprobs": {"anyOf": [{"$ref": "#/components/schemas/CompletionLogprobs"}, {"type": "null"}]},
          "finish_reason": {"enum": ["stop", "length"]},
          "stop_reason": {"$ref": "#/components/schemas/StopReason"},
          "token_ids": {"$ref": "#/components/schemas/TokenIds"},
          "prompt_token_ids": {"$ref": "#/components/schemas/TokenIds"},
          "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"}}}},
      "usage": {"$ref": "#/components/schemas/Usage"}}},
  "CompletionLogprobs": {
    "type": "object", "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"],
    "properties": {
      "tokens": {"type": "array", "items": {"type": "string"}},
      "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
      "top_logprobs": {"type": ["array", "null"], "items": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}},
      "text_offset": {"type": "array", "items": {"type": "integer", "minimum": 0}}}}
}
})json";
}

}  // namespace twostroke::openai
