#include "tests/bench/grammar/grammar_cases.h"

namespace twostroke {
namespace {

constexpr const char* kPerson = R"json({
  "type": "object",
  "properties": {
    "name": {"type": "string"},
    "email": {"type": "string", "pattern": "^[a-z0-9._]+@[a-z0-9.]+$"},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "city": {"type": "string", "maxLength": 40},
    "bio": {"type": "string", "minLength": 10, "maxLength": 400},
    "role": {"enum": ["admin", "editor", "viewer", "guest"]},
    "tags": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 20}, "maxItems": 8},
    "score": {"type": "number"},
    "active": {"type": "boolean"}
  },
  "required": ["name", "email", "age", "city", "bio", "role", "tags", "score", "active"],
  "additionalProperties": false
})json";

constexpr const char* kOrder = R"json({
  "type": "object",
  "properties": {
    "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{6}$"},
    "customer": {
      "type": "object",
      "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 80},
        "address": {
          "type": "object",
          "properties": {
            "street": {"type": "string"},
            "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
            "country": {"type": "string", "pattern": "^[A-Z]{2}$"}
          },
          "required": ["street", "zip", "country"],
          "additionalProperties": false
        }
      },
      "required": ["name", "address"],
      "additionalProperties": false
    },
    "items": {
      "type": "array",
      "minItems": 1,
      "maxItems": 100,
      "items": {
        "type": "object",
        "properties": {
          "sku": {"type": "string", "pattern": "^[A-Z0-9-]{4,16}$"},
          "title": {"type": "string", "maxLength": 120},
          "quantity": {"type": "integer", "minimum": 1},
          "price": {"type": "number"},
          "options": {"type": "array", "items": {"type": "string"}, "minItems": 1}
        },
        "required": ["sku", "title", "quantity", "price"],
        "additionalProperties": false
      }
    },
    "total": {"type": "number"},
    "note": {"type": ["string", "null"]}
  },
  "required": ["id", "customer", "items", "total", "note"],
  "additionalProperties": false
})json";

constexpr const char* kAnyJson = R"gbnf(
root ::= value
value ::= object | array | string | number | boolean | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= string ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]" ws
ws ::= [ \t\n\r]{0,20}
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?
boolean ::= "true" | "false"
)gbnf";

std::vector<std::string> persons() {
  return {
      R"json({"name": "Ada Lovelace", "email": "ada.lovelace@analytical.engine.org", "age": 36, "city": "London", "bio": "Mathematician and writer, chiefly known for her work on Charles Babbage's proposed mechanical general-purpose computer.", "role": "editor", "tags": ["mathematics", "computing", "poetry"], "score": 98.75, "active": true})json",
      R"json({"name": "Søren Kierkegaard", "email": "soren@philosophy.dk", "age": 42, "city": "København", "bio": "Philosopher, theologian, poet, social critic, and religious author; widely considered to be the first existentialist.\nBorn in 1813.", "role": "viewer", "tags": [], "score": -1.5e10, "active": false})json",
      R"json({"name": "李白", "email": "libai@tang.cn", "age": 61, "city": "碎叶城", "bio": "唐代伟大的浪漫主义诗人，被后人誉为“诗仙”，与杜甫并称为“李杜”。", "role": "guest", "tags": ["诗", "酒", "月"], "score": 100, "active": true})json",
      R"json({"name": "J. \"Jay\" O'Neil", "email": "jay_oneil99@mail.example.com", "age": 28, "city": "San Francisco", "bio": "Runs, cooks, codes. Likes C++ and long walks; dislikes \"quotes\" within strings.", "role": "admin", "tags": ["running", "cooking", "c++", "walks"], "score": 7.25, "active": true})json",
  };
}

std::vector<std::string> orders() {
  return {
      R"json({"id": "ABC-123456", "customer": {"name": "Grace Hopper", "address": {"street": "1 Navy Yard, Building 200", "zip": "20374", "country": "US"}}, "items": [{"sku": "COBOL-59", "title": "Compiler manual, second edition, paperback", "quantity": 3, "price": 19.99, "options": ["gift wrap", "express"]}, {"sku": "BUG-0001", "title": "Moth in a glass case", "quantity": 1, "price": 1250.00}, {"sku": "WIRE-30CM", "title": "A nanosecond of wire (11.8 inches)", "quantity": 100, "price": 0.25, "options": ["red"]}], "total": 1334.97, "note": "Please leave the parcel with the neighbour at number 3."})json",
      R"json({"id": "XYZ-000042", "customer": {"name": "Konrad Zuse", "address": {"street": "Methfesselstraße 7", "zip": "10965", "country": "DE"}}, "items": [{"sku": "Z3-RELAY", "title": "Telefonrelais, gebraucht, geprüft", "quantity": 600, "price": 2.5}, {"sku": "FILM-35MM", "title": "Gelochter Kinofilm für Programme", "quantity": 12, "price": 8}], "total": 1596, "note": null})json",
  };
}

std::vector<std::string> any_json() {
  std::vector<std::string> texts = persons();
  for (std::string& text : orders()) texts.push_back(std::move(text));
  texts.push_back(R"json({
  "openapi": "3.1.0",
  "info": {"title": "Pets", "version": "1.0.0"},
  "paths": {
    "/pets/{id}": {
      "get": {
        "summary": "Finds a pet by its number.",
        "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}}],
        "responses": {"200": {"description": "The pet."}, "404": {"description": "There is none."}}
      }
    }
  },
  "x-matrix": [[1, 0, 0.5], [-1.25e-3, 2, 3], [[], [[]], {}]]
})json");
  return texts;
}

}  // namespace

std::vector<GrammarCase> grammar_cases() {
  return {
      {"schema of a person", kPerson, "", persons()},
      {"schema of an order", kOrder, "", orders()},
      {"any JSON, in GBNF", "", kAnyJson, any_json()},
  };
}

}  // namespace twostroke
