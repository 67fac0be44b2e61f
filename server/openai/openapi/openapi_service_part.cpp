// The part of the OpenAPI document about models, probes, metrics and the document itself.
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

const char* openapi_service_part() {
  return R"json({
"paths": {
  "/v1/models": {"get": {
    "operationId": "listModels", "summary": "The model that is served", "tags": ["models"],
    "responses": {"200": {"description": "A list of one", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ModelList"}}}}}}},
  "/v1/models/{model}": {"get": {
    "operationId": "getModel", "summary": "The model of that name, which may hold slashes", "tags": ["models"],
    "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}],
    "responses": {
      "200": {"description": "The model", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Model"}}}},
      "404": {"description": "There is no such model here.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}}}},
  "/livez": {"get": {
    "operationId": "livez", "summary": "Whether the process answers", "tags": ["operation"], "security": [],
    "responses": {
      "200": {"description": "It does", "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}},
      "503": {"description": "It cannot recover: restart it", "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}}}}},
  "/readyz": {"get": {
    "operationId": "readyz", "summary": "Whether the server takes requests", "tags": ["operation"], "security": [],
    "responses": {
      "200": {"description": "It does", "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}},
      "503": {"description": "It does not, and why", "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}}}}},
  "/health": {"get": {
    "operationId": "health", "summary": "The same as /readyz", "tags": ["operation"], "security": [],
    "responses": {
      "200": {"description": "It takes requests", "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}},
      "503": {"description": "It does not, and why", "content": {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}}}}},
  "/version": {"get": {
    "operationId": "version", "summary": "The server's version", "tags": ["operation"],
    "responses": {"200": {"description": "It", "content": {"application/json": {"schema":
      {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}}}}}}}},
  "/metrics": {"get": {
    "operationId": "metrics", "summary": "Prometheus metrics, text format 0.0.4", "tags": ["operation"],
    "responses": {"200": {"description": "All samples", "content": {"text/plain; version=0.0.4; charset=utf-8": {"schema": {"type": "string"}}}}}}},
  "/openapi.json": {"get": {
    "operationId": "openapi", "summary": "This document", "tags": ["operation"],
    "responses": {"200": {"description": "OpenAPI 3.1", "content": {"application/json": {"schema":
      {"type": "object", "required": ["openapi", "info", "paths"]}}}}}}}
},
"schemas": {
  "Error": {
    "type": "object", "required": ["error"],
    "properties": {"error": {
      "type": "object", "required": ["message", "type", "param", "code"],
      "properties": {
        "message": {"type": "string", "minLength": 1},
        "type": {"type": "string"},
        "param": {"type": ["string", "null"], "description": "The field at fault"},
        "code": {"type": ["string", "null"]}}}}},
  "Model": {
    "type": "object", "required": ["id", "object", "created", "owned_by"],
    "properties": {
      "id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": {"type": "string"},
      "parent": {"type": "null"}, "max_model_len": {"type": "integer", "minimum": 1}}},
  "ModelList": {
    "type": "object", "required": ["object", "data"],
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}}
}
})json";
}

}  // namespace twostroke::openai
