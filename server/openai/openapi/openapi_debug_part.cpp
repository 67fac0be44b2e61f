// The part of the OpenAPI document about what the engine does with its requests, for operators.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_debug_part() {
  return R"json({
"paths": {
  "/debug/requests": {"get": {
    "operationId": "debugRequests", "summary": "Requests that have not ended, oldest first, in short", "tags": ["operation"],
    "description": "Shows all of them to whoever has one of the server's API keys; numbers only, no text.",
    "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": "$debug_calls_max", "default": 100}}],
    "responses": {
      "200": {"description": "They", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DebugCallList"}}}},
      "429": {"description": "Too many such questions wait for an answer.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
      "504": {"description": "The engine has been in one step for too long to answer.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}}},
  "/debug/requests/{id}": {"get": {
    "operationId": "debugRequest", "summary": "Where a request is, and why it waits", "tags": ["operation"],
    "description": "Shows any of them to whoever has one of the server's API keys; numbers only, no text. Of those that have ended the last 1000 are known.",
    "parameters": [{"name": "id", "in": "path", "required": true, "description": "The id of the answer (chatcmpl-..., cmpl-..., resp_..., msg_...), or the X-Request-Id. The latest of that name.", "schema": {"type": "string", "minLength": 1}}],
    "responses": {
      "200": {"description": "It", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DebugCall"}}}},
      "404": {"description": "There is no such request.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
      "429": {"description": "Too many such questions wait for an answer.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
      "504": {"description": "The engine has been in one step for too long to answer.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}}},
  "/debug/steps": {"get": {
    "operationId": "debugSteps", "summary": "The last steps of the engine, oldest first", "tags": ["operation"],
    "parameters": [{"name": "last", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": "$debug_steps_max", "default": 100}}],
    "responses": {"200": {"description": "They", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DebugStepList"}}}}}}}
},
"schemas": {
  "DebugWait": {
    "description": "What a sequence waits for; null: nothing. inbox: no step has seen it yet. no_slot: max-running sequences run. no_blocks: blocks_short KV blocks are missing. step_full: the step's tokens went to others. behind_overtake_bound: one before it was passed over max-overtakes times and goes first. leader_prompt: its sibling computes their prompt. prefix: another request computes the beginning that both have. gave_way: in the last step sequences gave way, and it goes before none of them.",
    "enum": [null, "inbox", "no_slot", "no_blocks", "step_full", "behind_overtake_bound", "leader_prompt", "prefix", "gave_way"]},
  "DebugSequence": {
    "type": "object", "required": ["index", "state", "wait", "blocks_short", "tokens", "computed_tokens", "output_tokens", "blocks", "overtakes", "queue_position", "queue_tokens_before", "predicted_start_seconds"],
    "properties": {
      "index": {"type": "integer", "minimum": 0},
      "state": {"enum": ["following", "waiting", "preempted", "prefill", "decode", "finished"]},
      "wait": {"$ref": "#/components/schemas/DebugWait"},
      "blocks_short": {"type": "integer", "minimum": 0},
      "tokens": {"type": "integer", "minimum": 0, "description": "Prompt and output so far"},
      "computed_tokens": {"type": "integer", "minimum": 0, "description": "Of them, with keys and values in its blocks"},
      "output_tokens": {"type": "integer", "minimum": 0},
      "blocks": {"type": "integer", "minimum": 0},
      "overtakes": {"type": "integer", "minimum": 0},
      "queue_position": {"type": ["integer", "null"], "minimum": 0, "description": "How many stand before it in the queue"},
      "queue_tokens_before": {"type": ["integer", "null"], "minimum": 0, "description": "How many tokens those have to compute"},
      "predicted_start_seconds": {"type": ["number", "null"], "minimum": 0, "description": "From now; null: not waiting, or step times are not known yet"}}},
  "DebugPrompt": {
    "type": "object", "required": ["engine_request", "state"],
    "description": "One prompt of the call. The members behind the tokens' counts are there as its state has them.",
    "properties": {
      "engine_request": {"type": "integer", "minimum": 1},
      "state": {"enum": ["waiting", "running", "ending", "ended"]},
      "prompt_tokens": {"type": "integer", "minimum": 0},
      "cached_tokens": {"type": "integer", "minimum": 0},
      "output_tokens": {"type": "integer", "minimum": 0},
      "recomputed_tokens": {"type": "integer", "minimum": 0},
      "preemptions": {"type": "integer", "minimum": 0},
      "first_scheduled_seconds": {"type": ["number", "null"], "description": "From its arrival"},
      "first_token_seconds": {"type": ["number", "null"], "description": "From its arrival"},
      "age_seconds": {"type": "number"},
      "step": {"type": "integer", "minimum": 0, "description": "The engine's last step"},
      "priority": {"type": "integer"},
      "tenant": {"type": "string"},
      "max_tokens": {"type": "integer", "minimum": 0},
      "objectives": {"type": "object", "description": "What it was promised; null: nothing", "properties": {
        "ttft_seconds": {"type": ["number", "null"]}, "tpot_seconds": {"type": ["number", "null"]}}},
      "sequences": {"type": "array", "items": {"$ref": "#/components/schemas/DebugSequence"}},
      "outcome": {"enum": ["finished", "cancelled", "failed"]},
      "error": {"type": ["string", "null"]},
      "ended_seconds_ago": {"type": "number"},
      "duration_seconds": {"type": "number"}}},
  "DebugCall": {
    "type": "object", "required": ["id", "request_id", "endpoint", "state", "prompts"],
    "properties": {
      "id": {"type": ["string", "null"]}, "request_id": {"type": "string"}, "endpoint": {"type": "string"},
      "state": {"enum": ["waiting", "running", "ended"]},
      "prompts": {"type": "array", "items": {"$ref": "#/components/schemas/DebugPrompt"}}}},
  "DebugCallList": {
    "type": "object", "required": ["data", "engine_requests"],
    "properties": {
      "engine_requests": {"type": "integer", "minimum": 0, "description": "That have not ended: one for each prompt"},
      "data": {"type": "array", "items": {
        "type": "object", "required": ["id", "request_id", "endpoint", "state", "age_seconds", "prompts", "prompt_tokens", "output_tokens", "sequences", "wait", "queue_position"],
        "properties": {
          "id": {"type": ["string", "null"]}, "request_id": {"type": "string"}, "endpoint": {"type": "string"},
          "state": {"enum": ["waiting", "running"]},
          "age_seconds": {"type": "number"},
          "prompts": {"type": "integer", "minimum": 0},
          "prompt_tokens": {"type": "integer", "minimum": 0},
          "output_tokens": {"type": "integer", "minimum": 0},
          "sequences": {"type": "object", "description": "How many are in each state", "additionalProperties": {"type": "integer", "minimum": 0}},
          "wait": {"$ref": "#/components/schemas/DebugWait"},
          "queue_position": {"type": ["integer", "null"], "minimum": 0}}}}}},
  "DebugPhase": {
    "type": "object", "required": ["rows", "tokens", "context"],
    "properties": {
      "rows": {"type": "integer", "minimum": 0}, "tokens": {"type": "integer", "minimum": 0},
      "context": {"type": "integer", "minimum": 0, "description": "Positions that attention reads, summed over tokens"}}},
  "DebugStepList": {
    "type": "object", "required": ["data"],
    "properties": {"data": {"type": "array", "items": {
      "type": "object", "required": ["step", "seconds_ago", "class", "duration_seconds", "predicted_seconds", "chunk", "prefill", "decode", "preemptions", "sequences_running", "sequences_waiting", "blocks"],
      "properties": {
        "step": {"type": "integer", "minimum": 1},
        "seconds_ago": {"type": "number", "description": "Since it began"},
        "class": {"enum": ["prefill", "decode", "mixed"]},
        "duration_seconds": {"type": "number"},
        "predicted_seconds": {"type": "number", "description": "By the cost model, before it ran"},
        "mask_seconds": {"type": "number", "description": "Of it, for grammars"},
        "prefill": {"$ref": "#/components/schemas/DebugPhase"},
        "decode": {"$ref": "#/components/schemas/DebugPhase"},
        "chunk": {"type": "object", "required": ["tokens", "reason"], "properties": {
          "tokens": {"type": "integer", "minimum": 0, "description": "What prefill might take of the step"},
          "reason": {"type": "string", "description": "Why no more: nothing_decodes, step_tokens, objective, floor, ridge or fixed"}}},
        "computed_tokens": {"type": "integer", "minimum": 0},
        "cached_tokens": {"type": "integer", "minimum": 0},
        "recomputed_tokens": {"type": "integer", "minimum": 0},
        "sampled_tokens": {"type": "integer", "minimum": 0},
        "draft_tokens": {"type": "integer", "minimum": 0},
        "accepted_draft_tokens": {"type": "integer", "minimum": 0},
        "preemptions": {"type": "integer", "minimum": 0},
        "sequences_running": {"type": "integer", "minimum": 0},
        "sequences_waiting": {"type": "integer", "minimum": 0},
        "blocks": {"type": "object", "required": ["free", "cached", "referenced"], "additionalProperties": {"type": "integer", "minimum": 0}}}}}}}
}
})json";
}

}  // namespace twostroke::openai
