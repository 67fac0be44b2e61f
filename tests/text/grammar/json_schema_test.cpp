#include "server/text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/text/grammar/vocabularies.h"

namespace twostroke::grammar {
namespace {

using SchemaText = std::string_view;

std::shared_ptr<const Grammar> compiled(SchemaText schema, const JsonSchemaOptions& options = {}) {
  const auto grammar = compile_json_schema(nlohmann::ordered_json::parse(schema), options);
  EXPECT_TRUE(grammar.ok()) << schema << ": " << grammar.status().message();
  return grammar.ok() ? *grammar : nullptr;
}

void expect_texts(SchemaText schema, const std::vector<std::string>& pass, const std::vector<std::string>& fail) {
  SCOPED_TRACE(std::string(schema));
  const auto grammar = compiled(schema);
  if (!grammar) return;
  for (const auto& text : pass) EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const auto& text : fail) EXPECT_FALSE(accepts(grammar, text)) << text;
}

Status schema_refusal(SchemaText schema, const JsonSchemaOptions& options = {}) {
  const auto grammar = compile_json_schema(nlohmann::ordered_json::parse(schema), options);
  EXPECT_FALSE(grammar.ok()) << schema.substr(0, 200);
  return grammar.ok() ? Status() : grammar.status();
}

TEST(JsonSchema, ReadsTheSchemasOfLlamaCppAsItDoes) {
  const std::string path = std::string(TWOSTROKE_SHARED_DIR) + "/json_schema/llamacpp_grammar_integration.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  std::ifstream file(path);
  int schemas = 0;
  for (const auto& test : nlohmann::json::parse(file)) {
    if (test["kind"] != "schema") continue;
    ++schemas;
    expect_texts(test["schema"].get<std::string>(), test["pass"], test["fail"]);
  }
  EXPECT_EQ(schemas, 33);
}

TEST(JsonSchema, StringsAreValidJsonInEverySpelling) {
  expect_texts(
      R"({"type": "string"})",
      {R"("")", R"("\"\\\/\b\f\n\r\t")", R"("\u0000\u00e9\uFFFF")", R"("\ud83d\uDE00")", "\"\xF0\x9F\x98\x80\x7F\""},
      {"\"\n\"", "\"\x1F\"", R"("\x")", R"("\u12g4")", R"("\ud83d")", R"("\ud83d\n")", R"("\ude00")",
       R"("\ud83d\ud83d")", "\"\xC3\"", "\"\xED\xA0\x80\"", R"(")", R"("a"b")"});
}

TEST(JsonSchema, LengthsCountDecodedCharacters) {
  const std::vector<std::string> pass = {R"("ab")", R"("\n\u00e9")", R"("\ud83d\ude00a")",
                                         "\"\xE6\x97\xA5\xF0\x9F\x98\x80\"", R"("abc")"};
  const std::vector<std::string> fail = {R"("a")", R"("\u00e9")", R"("\ud83d\ude00")", R"("abcd")"};
  expect_texts(R"({"type": "string", "minLength": 2, "maxLength": 3})", pass, fail);
  expect_texts(R"({"type": "string", "minLength": 2, "maxLength": 3, "pattern": ""})", pass, fail);
  expect_texts(R"({"type": "string", "maxLength": 2147483647})", {R"("a")"}, {"1"});
}

TEST(JsonSchema, PatternsAreAboutDecodedText) {
  expect_texts(R"({"type": "string", "pattern": "^[é\"\\n]+$"})", {R"("\u00e9")", R"("é\"")", R"("\u000A\n\u0022")"},
               {R"("e")", "\"\n\"", R"("")"});
  expect_texts(R"({"type": "string", "pattern": "b"})", {R"("abc")", R"("\u0062")"}, {R"("ac")"});
  expect_texts(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}, {"not": {"pattern": "c"}}, {"type": "string"}]})",
               {R"("ab")", R"("ba")"}, {R"("a")", R"("abc")"});
}

TEST(JsonSchema, FormatsAreExact) {
  const auto expect_format = [](const std::string& format, const std::vector<std::string>& pass,
                                const std::vector<std::string>& fail) {
    std::vector<std::string> passing, failing;
    for (const auto& text : pass) passing.push_back('"' + text + '"');
    for (const auto& text : fail) failing.push_back('"' + text + '"');
    expect_texts(R"({"type": "string", "format": ")" + format + "\"}", passing, failing);
  };
  expect_format("date", {"2024-02-29", "2000-02-29", "2023-12-31"},
                {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-1-01"});
  expect_format("time", {"23:59:59Z", "00:00:00.123+05:30"}, {"24:00:00Z", "12:00:00", "12:60:00Z"});
  expect_format("date-time", {"2024-02-29T12:00:00Z"}, {"2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"});
  expect_format("duration", {"P1Y2M3D", "PT1H", "P2W", "P1DT12H30M5S"}, {"P", "PT", "P1Y2D3M", "1D", "P1W1D"});
  expect_format("email", {"a.b+c@example.org", "x@localhost"}, {"a@", "@b", "a..b@c", "a b@c"});
  expect_format("hostname", {"a", "a-b.example.org"}, {"-a", "a-", "a..b", "a_b", ""});
  expect_format("ipv4", {"0.0.0.0", "255.255.255.255"}, {"256.0.0.1", "1.2.3", "01.2.3.4"});
  expect_format("ipv6",
                {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8"},
                {"1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", ":::", "12345::", "1:2:3:4:5:6:7:8::"});
  expect_format("uri", {"https://example.org/a?b=c#d", "urn:isbn:1", "mailto:a@b"},
                {"/a", "a b:c", "http://a b", "1http://a"});
  expect_format("uuid", {"12345678-90ab-cdef-1234-567890ABCDEF"},
                {"12345678-90ab-cdef-1234-567890ABCDE", "123456789-0ab-cdef-1234-567890ABCDEF"});
}

TEST(JsonSchema, BoundsOfDecimalsAreExact) {
  expect_texts(R"({"type": "number", "minimum": -12.5, "exclusiveMaximum": 0.1})",
               {"-12.5", "-12.50", "-12.49", "0", "0.0", "0.09999999", "-0.5", "0.00"},
               {"-12.51", "-13", "0.1", "0.10", "0.11", "1", "-0", "-0.0", "1e-2", "00", "0.", ".5"});
  expect_texts(R"({"type": "number", "minimum": 1e20})", {"100000000000000000000"},
               {"99999999999999999999", "100000000000000000000.5"});
  expect_texts(R"({"type": "integer", "minimum": 1.5, "maximum": 3.5})", {"2", "3"}, {"1", "4", "2.0"});
  expect_texts(R"({"type": "number"})", {"-0.5e-10", "1E5", "0", "12.50"}, {"01", "+1", "1.", "1e1000", "--1"});
  expect_texts(R"({"minimum": 5, "exclusiveMinimum": true, "type": "integer"})", {"6"}, {"5"});
}

TEST(JsonSchema, MultiplesAreExact) {
  expect_texts(R"({"type": "integer", "multipleOf": 7, "minimum": -20})", {"0", "7", "-14", "49", "700"},
               {"1", "-21", "50"});
  expect_texts(R"({"type": "number", "multipleOf": 0.25})", {"0.5", "-1.75", "3", "2.50", "0.25000"}, {"0.3", "0.125"});
  expect_texts(R"({"type": "integer", "multipleOf": 2, "not": {"multipleOf": 3}})", {"2", "4"}, {"6", "3", "12"});
}

TEST(JsonSchema, ObjectsKeepTheOrderOfTheirProperties) {
  expect_texts(
      R"({"type": "object", "properties": {"a": {}, "b": {"type": "integer"}, "c": {}}, "required": ["b", "z"]})",
      {R"({"b": 1, "z": []})", R"({"a":null,"b":1,"c":{},"z":0})"},
      {R"({"b":1,"a":2,"z":0})", R"({"a":1,"z":0})", R"({"b":"","z":0})", R"({"b":1,"z":0,"y":0})", R"({"b":1})"});
}

TEST(JsonSchema, AdditionalPropertiesAreNoneOfTheListed) {
  const std::string_view schema = R"({"type": "object", "properties": {"ab": {"type": "integer"}},
      "patternProperties": {"^x": {"type": "string"}, "y$": {"maxLength": 1}}, "additionalProperties": {"type": "boolean"}})";
  expect_texts(
      schema,
      {R"({"ab":1,"xz":"abc","xy":"a","zy":"b","q":true})", R"({"a":true,"abc":false})", "{}", R"({"\u0061":true})"},
      {R"({"ab":true})", R"({"a\u0062":true})", R"({"\u0061b":true})", R"({"xz":true})", R"({"xy":"ab"})",
       R"({"q":1})"});
  expect_texts(R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "maxProperties": 2})",
               {R"({"a":1,"b":2})", "{}"}, {R"({"A":1})", R"({"a":1,"b":2,"c":3})"});
}

TEST(JsonSchema, CountsProperties) {
  expect_texts(
      R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "minProperties": 2, "maxProperties": 3})",
      {R"({"a":1,"d":1})", R"({"b":1,"c":1,"d":1})"}, {"{}", R"({"c":1})", R"({"a":1,"b":1,"c":1,"d":1})"});
  expect_texts(R"({"type": "object", "properties": {"a": {}}, "additionalProperties": true, "minProperties": 2})",
               {R"({"a":1,"d":1})", R"({"a":1,"d":1,"e":1})"}, {R"({"a":1})", R"({"d":1})"});
  expect_texts(R"({"type": "object", "minProperties": 1})", {R"({"a":1})", R"({"a":1,"b":1})"}, {"{}"});
  EXPECT_EQ(schema_refusal(R"({"type": "object", "minProperties": 2})").code(), StatusCode::kUnsupported);
}

TEST(JsonSchema, ArraysHavePrefixesAndBounds) {
  expect_texts(
      R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}, {"const": 3}], "items": {"type": "string"}, "minItems": 2, "maxItems": 5})",
      {"[1,2]", "[1, 2, 3]", R"([1,2,3,"a","b"])"},
      {"[1]", "[2,1]", R"([1,2,"a"])", R"([1,2,3,"a","b","c"])", "[1,2,]"});
  expect_texts(R"({"type": "array", "prefixItems": [{"const": 1}], "items": false})", {"[]", "[1]"}, {"[1,1]"});
  expect_texts(R"({"items": [{"const": 1}], "additionalItems": {"const": 2}})", {"[]", "[1]", "[1,2,2]"},
               {"[2]", "[1,1]"});
  expect_texts(R"({"type": "array", "minItems": 2})", {"[1,[]]"}, {"[1]"});
  expect_texts(R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[1]", "[]"}, {"[1,2]"});
}

TEST(JsonSchema, ValuesAreKeptWhereTheRestHolds) {
  expect_texts(
      R"({"type": ["string", "array"], "enum": ["a", "bb", 1, null, ["x", {"k": [1.5, true]}]], "minLength": 2})",
      {R"("bb")", R"(["x", {"k": [1.5, true]}])", R"(["x",{"k":[1.5,true]}])"}, {R"("a")", "1", "null", R"(["x"])"});
  expect_texts(R"({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3.0, 2, 4]}]})", {"2", "3.0"}, {"1", "4"});
  expect_texts(R"({"const": {"a": 1, "b": []}})", {R"({"a": 1, "b": []})"}, {R"({"b":[],"a":1})", "{}"});
}

TEST(JsonSchema, AlternativesAreMergedWithWhatStandsBesideThem) {
  expect_texts(
      R"({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
      {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"}, {"{}"});
  expect_texts(
      R"({"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
      {R"({"a":1})", R"({"b":1})"}, {R"({"a":1,"b":1})", "{}"});
  expect_texts(R"({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]})", {"1", "2.5"},
               {"2", "3", "1.5"});
  expect_texts(R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "list"}, "items": {"type": "array", "items": {"type": "integer"}}}, "required": ["kind", "items"]},
      {"type": "object", "properties": {"kind": {"enum": ["one", "two"]}, "item": {}}, "required": ["kind"]}]})",
               {R"({"kind":"list","items":[1]})", R"({"kind":"two"})", R"({"kind":"one","item":[]})"},
               {R"({"kind":"list"})", R"({"kind":"one","items":[1]})"});
  expect_texts(
      R"({"allOf": [{"type": "object", "properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}]})",
      {R"({"a":1,"b":2})", R"({"a":5})"}, {R"({"a":0})", R"({"b":2})", R"({"a":1.5})"});
}

TEST(JsonSchema, AlternativesOfArraysAreToldByTheirItems) {
  expect_texts(
      R"({"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}]})",
      {R"(["a","b"])", "[1]"}, {"[]", R"(["a",1])"});
  expect_texts(R"({"type": "array", "not": {"prefixItems": [{"const": 1}, {"type": "string"}]}})",
               {"[2]", "[1,2]", R"([2,"a"])"}, {"[]", "[1]", R"([1,"a"])"});
}

TEST(JsonSchema, ConditionsAndNegations) {
  expect_texts(R"({"type": "object", "properties": {"k": {"enum": ["x", "y"]}, "v": {}}, "required": ["k", "v"],
      "if": {"properties": {"k": {"const": "x"}}}, "then": {"properties": {"v": {"type": "integer"}}}, "else": {"properties": {"v": {"type": "string"}}}})",
               {R"({"k":"x","v":1})", R"({"k":"y","v":"s"})"}, {R"({"k":"x","v":"s"})", R"({"k":"y","v":1})"});
  expect_texts(R"({"type": "string", "not": {"enum": ["a", "b"]}})", {R"("c")", R"("ab")"}, {R"("a")", R"("\u0062")"});
  expect_texts(R"({"not": {"type": ["string", "object"]}})", {"1", "[]", "null", "true"}, {R"("")", "{}"});
  expect_texts(R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}})",
               {"{}", R"({"b":1})", R"({"a":1,"b":1})"}, {R"({"a":1})"});
  expect_texts(
      R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}})",
      {R"({"b":1})", R"({"a":1,"b":null})"}, {R"({"a":1,"b":1})"});
  expect_texts(
      R"({"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": {"const": 1}})",
      {R"({"a":0,"b":0,"c":1})"}, {R"({"c":2})"});
}

TEST(JsonSchema, ReferencesMayRecurse) {
  expect_texts(
      R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"})",
      {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})", R"({"v":1,"next":{}})"});
  expect_texts(
      R"({"definitions": {"a/b~c": {"const": 1}, "named": {"$anchor": "here", "const": 2}}, "anyOf": [{"$ref": "#/definitions/a~1b~0c"}, {"$ref": "#here"}, {"type": "array", "items": {"$ref": "#"}}]})",
      {"1", "2", "[1,[2,[]]]"}, {"3", "[3]"});
  expect_texts(
      R"({"$id": "https://example.org/s", "$defs": {"a": {"const": 1}}, "$ref": "https://example.org/s#/$defs/a"})",
      {"1"}, {"2"});
}

TEST(JsonSchema, AlternativesThatOverlapMayRecurse) {
  expect_texts(
      R"({"$defs": {"tree": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/tree"}}, "required": ["a"]}},
      "oneOf": [{"properties": {"b": {"$ref": "#/$defs/tree"}}, "additionalProperties": true}, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]})",
      {R"({"b":{"a":1}})", "{}"}, {R"({"b":{"a":1},"a":""})"});
  // Each schema leads to the next.
  std::string chain = R"({"oneOf": [{"$ref": "#/$defs/0"}, {"type": "object"}], "$defs": {)";
  for (int i = 0; i < 3'000; ++i)
    chain += "\"" + std::to_string(i) + R"(":{"type":"object","properties":{"p":{"$ref":"#/$defs/)" +
             std::to_string(i + 1) + "\"}}},";
  const auto grammar = compile_json_schema(nlohmann::ordered_json::parse(chain + R"("3000": {"type": "integer"}}})"));
  EXPECT_TRUE(grammar.ok() || !grammar.status().message().empty());
}

TEST(JsonSchema, AgreesWithPythonsJsonschema) {
  std::ifstream file(std::string(TWOSTROKE_TESTS_DIR) + "/text/grammar/fixtures/schemas.json");
  const auto reference = nlohmann::ordered_json::parse(file);
  ASSERT_GT(reference["cases"].size(), 50U);
  for (const auto& test : reference["cases"]) {
    SCOPED_TRACE(test["schema"].dump());
    const auto grammar = compile_json_schema(test["schema"]);
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    for (const auto& text : test["texts"])
      EXPECT_EQ(accepts(*grammar, text[0].get<std::string>()), text[1].get<bool>()) << text[0];
  }
}

TEST(JsonSchema, AnnotationsAndUnknownWordsSayNothing) {
  expect_texts(
      R"({"type": "integer", "title": "enum", "description": "must be \"a\" | [0-9]", "default": "x", "examples": [1], "x-own": {"type": "string"}, "nullable": true, "$comment": "", "deprecated": true, "readOnly": true})",
      {"1"}, {"null", R"("a")"});
}

// What is known of an alternative ends with the error in it; a sanitizer sees a use of it afterwards.
TEST(JsonSchema, RefusesAlternativesThatAreNoSchemas) {
  for (const std::string wrong : {R"({"format": 2})", R"({"type": 2})", R"({"required": 2})", R"({"enum": 2})"}) {
    EXPECT_EQ(schema_refusal(R"({"oneOf": [{}, )" + wrong + "]}").code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(schema_refusal(R"({"oneOf": [)" + wrong + ", {}]}").code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(schema_refusal(R"({"type": "object", "propertyNames": )" + wrong + "}").code(),
              StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(JsonSchema, RefusesByNameAndPlace) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"type": "object", "properties": {"age": {"type": "array", "contains": {}}}})",
       "properties.age: 'contains' is not supported"},
      {R"({"$ref": "https://example.org/x"})",
       "the schema: '$ref' \"https://example.org/x\" to another document is not supported"},
      {R"({"items": {"format": "color"}})", "items: 'format' \"color\" is not supported"},
      {R"({"anyOf": [{"$dynamicRef": "#a"}]})", "anyOf.0: '$dynamicRef' is not supported"},
      {R"({"not": {"type": "array", "items": {"type": "string"}}})", "not: the negation of 'items' is not supported"},
      {R"-({"type": "string", "pattern": "a(?=b)"})-", "the schema: 'pattern' at 4: look-ahead is not supported"},
  };
  for (const auto& [schema, message] : cases) {
    const Status status = schema_refusal(schema);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << schema;
    EXPECT_EQ(status.message(), message);
  }
  JsonSchemaOptions strict;
  strict.ignore_unique_items = false;
  EXPECT_EQ(schema_refusal(R"({"type": "array", "uniqueItems": true})", strict).code(), StatusCode::kUnsupported);
}

TEST(JsonSchema, SaysWhatIsNoSchema) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"type": "strin"})", "type"},
      {R"({"properties": []})", "'properties'"},
      {R"({"required": true})", "'required'"},
      {R"({"minLength": -1})", "'minLength'"},
      {R"({"$ref": "#/$defs/x"})", "leads nowhere"},
      {R"({"anyOf": []})", "'anyOf'"},
      {R"({"multipleOf": 0})", "'multipleOf'"},
      {R"([1])", "an object or a boolean"},
      {R"({"$ref": "#"})", "leads back to itself"},
      {R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", "no value"},
      {R"({"type": "integer", "minimum": 2, "maximum": 1})", "no value"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", ""},
      {R"({"pattern": "("})", "'pattern' at 2"},
  };
  for (const auto& [schema, part] : cases) {
    const Status status = schema_refusal(schema);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << schema << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(JsonSchema, EndsAtItsLimits) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += R"({"type":"array","items":)";
    return text + "true" + std::string(depth, '}');
  };
  EXPECT_TRUE(compiled(nested(199)));
  EXPECT_NE(schema_refusal(nested(3000)).message().find("nests more than 200"), std::string::npos);

  // Every level doubles the alternatives.
  std::string doubling = R"({"$ref": "#/$defs/0", "$defs": {)";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "{\"$ref\":\"#/$defs/" + std::to_string(i + 1) + "\"}";
    doubling += "\"" + std::to_string(i) + "\":{\"anyOf\":[" + next + "," + next + "]},";
  }
  EXPECT_NE(schema_refusal(doubling + R"("40": {"type": "integer"}}})").message().find("alternatives"),
            std::string::npos);
  // A chain of references of any length is no recursion; only what applies to one value is bounded.
  std::string chain = R"({"$ref": "#/$defs/0", "$defs": {)";
  for (int i = 0; i < 5'000; ++i)
    chain +=
        "\"" + std::to_string(i) + R"(":{"type":"array","items":{"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"}},";
  EXPECT_TRUE(compiled(chain + R"("5000": {"type": "integer"}}})"));
}

TEST(JsonSchema, ManyPropertiesAndValuesStaySmall) {
  nlohmann::ordered_json schema = {{"type", "object"}};
  for (int i = 0; i < 500; ++i) schema["properties"]["property_" + std::to_string(i)] = {{"type", "integer"}};
  schema["additionalProperties"] = true;
  const auto grammar = compile_json_schema(schema);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(accepts(*grammar, R"({"property_3":1,"property_44":2,"property_499":3,"property_500":null})"));
  EXPECT_FALSE(accepts(*grammar, R"({"property_44":1,"property_3":2})"));
  EXPECT_FALSE(accepts(*grammar, R"({"property_500":1,"property_3":2})"));

  nlohmann::ordered_json values;
  for (int i = 0; i < 10'000; ++i) values["enum"].push_back("value " + std::to_string(i * 7));
  const auto choice = compile_json_schema(values);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_TRUE(accepts(*choice, R"("value 63")"));
  EXPECT_FALSE(accepts(*choice, R"("value 64")"));
}

TEST(JsonSchema, HasOneWayToPrintWithoutAnyWhitespace) {
  JsonSchemaOptions options;
  options.any_whitespace = false;
  const auto grammar = compiled(
      R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"const": {"k": [1, 2]}}}})",
      options);
  EXPECT_TRUE(accepts(grammar, R"({"a": [1, 2], "b": {"k": [1, 2]}})"));
  for (const std::string_view text : {R"({"a":[1, 2]})", R"({"a": [1,2]})", R"({ "a": []})", R"({"a": [] })"})
    EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(JsonSchema, WhitespaceIsJsonsAndNeverAround) {
  expect_texts(
      R"({"type": "array", "items": {"type": "integer"}})",
      {"[ 1 , 2 ]", "[\n  1,\n  2\n]", "[\r\n\t1]", "[  1]", "[\n\n1\t ,\r2]", "[" + std::string(500, ' ') + "1]"},
      {" [1]", "[1] ", "[\v1]",
       "[\xC2\xA0"
       "1]"});
}

TEST(JsonSchema, FormatsOfLibrariesAreKnown) {
  const auto expect_format = [](const std::string& name, std::vector<std::string> accepted,
                                std::vector<std::string> rejected) {
    for (std::string& text : accepted) text = "\"" + text + "\"";
    for (std::string& text : rejected) text = "\"" + text + "\"";
    expect_texts(R"({"type": "string", "format": ")" + name + R"("})", accepted, rejected);
  };
  expect_format("byte", {"", "YQ==", "YWI=", "YWJj", "+/+/"}, {"YQ", "YQ=", "YWJj=", "Y_-j"});
  expect_format("base64url", {"", "YQ", "YWI", "YWJj", "_-_-", "YQ=="}, {"Y", "+/+/", "YWJjY"});
  expect_format("uuid4", {"f81d4fae-7dec-41d0-a765-00a0c91e6bf6"},
                {"f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "f81d4fae"});
  expect_format("password", {"", "any thing"}, {});
  expect_format("decimal", {"0", "-1.50", "12"}, {"", "01", "1.", "1e5"});
  expect_format("cidrv4", {"10.0.0.0/8", "1.2.3.4/32"}, {"10.0.0.0", "10.0.0.0/33"});
  expect_format("ipv6network", {"::/0", "2001:db8::/128"}, {"::", "::/129"});
  expect_format("ulid", {"01ARZ3NDEKTSV4RRFFQ69G5FAV"}, {"81ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAU"});
  expect_format("e164", {"+14155552671"}, {"14155552671", "+0", "+1234567890123456"});
  expect_format("time", {"23:59:60Z", "23:59:60.5z", "12:00:00+01:30"}, {"12:00:60Z", "23:59:61Z", "24:00:00Z"});
  expect_texts(R"({"type": "integer", "format": "uint8"})", {"0", "255"}, {"-1", "256"});
  expect_texts(R"({"type": "integer", "format": "uint64"})", {"18446744073709551615"}, {"18446744073709551616", "-1"});
}

TEST(JsonSchema, LongTextsOfAPatternAreCountedAsFarAsCanBe) {
  // As Pydantic writes HttpUrl.
  expect_texts(R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})",
               {R"("https://example.org/a?b=c#d")", "\"https://a.b/" + std::string(150, 'x') + '"'},
               {R"("example.org")", "\"https://a.b/" + std::string(2100, 'x') + '"'});
  expect_texts(R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 100000})",
               {R"("abc")", '"' + std::string(1000, 'x') + '"'}, {R"("")", R"("A")"});
  expect_texts(R"({"type": "string", "format": "email", "maxLength": 60})",
               {R"("a@b.co")", R"("some.body+tag@mail.example.org")"},
               {R"("a@b@c")", R"("a@-b.co")", '"' + std::string(60, 'a') + R"(@b.co")"});
  // Only long ones are there.
  expect_texts(R"({"type": "string", "pattern": "^(?:a{5}|a{20}|b{7000})$", "minLength": 21, "maxLength": 8000})",
               {'"' + std::string(7000, 'b') + '"'}, {R"("aaaaa")", '"' + std::string(20, 'a') + '"'});
}

TEST(JsonSchema, ManyNumbersMayBeExcluded) {
  std::string values;
  for (int i = 0; i < 3'000; ++i) values += (i == 0 ? "" : ",") + std::to_string(7 * i);
  expect_texts(R"({"type": "integer", "not": {"enum": [)" + values + "]}}", {"1", "20999", "-7", "6"},
               {"0", "7", "20993"});
}

// Found by the comparison with jsonschema: what cannot be read says nothing about its neighbours.
TEST(JsonSchema, AnAlternativeThatIsNotSupportedIsNotTakenToExcludeOthers) {
  EXPECT_NE(schema_refusal(
                R"({"type": "string", "oneOf": [{"not": {"enum": [[1]]}}, {"required": ["c"]}, {"required": ["d"]}]})")
                .code(),
            StatusCode::kOk);
}

TEST(JsonSchema, WhatIsWithinANotEvaluatesNothing) {
  const Status properties =
      schema_refusal(R"({"properties": {"foo": {"type": "string"}}, "unevaluatedProperties": false,
      "not": {"not": {"properties": {"bar": {"const": "bar"}}, "required": ["bar"]}}})");
  EXPECT_EQ(properties.code(), StatusCode::kUnsupported) << properties.message();
  const Status items = schema_refusal(R"({"prefixItems": [{"const": "foo"}], "unevaluatedItems": false,
      "not": {"not": {"prefixItems": [true, {"const": "bar"}]}}})");
  EXPECT_EQ(items.code(), StatusCode::kUnsupported) << items.message();
}

TEST(JsonSchema, UniqueItemsAreSeenInValues) {
  const auto schema = nlohmann::ordered_json::parse(R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})");
  const auto satisfied = [&](std::string_view value) {
    return satisfies_json_schema(schema, nlohmann::ordered_json::parse(value)).value();
  };
  EXPECT_TRUE(satisfied(R"({"a": [1, 2, "1", [1], {"x": 1, "y": 2}]})"));
  EXPECT_FALSE(satisfied(R"({"a": [1, 2, 1.0]})"));
  EXPECT_FALSE(satisfied(R"({"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]})"));
}

TEST(JsonObject, IsAnyObject) {
  const auto grammar = compile_json_object();
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  for (const std::string_view text : {"{}", R"({"a": [1, {"b": null}, "c", -1.5e3, true]})", "{\n  \"a\": 1\n}"})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const std::string_view text : {"[]", "1", R"({"a"})", R"({"a":1,})", R"({a:1})", ""})
    EXPECT_FALSE(accepts(*grammar, text)) << text;
}

}  // namespace
}  // namespace twostroke::grammar
