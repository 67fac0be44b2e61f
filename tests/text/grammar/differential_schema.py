#!/usr/bin/env python3
"""Compares JSON Schema grammars with Python's jsonschema, over random schemas and values.

    python3 tests/text/grammar/differential_schema.py build/dev/grammar_schema_lines [--cases N] [--seed S] [--fixture]

Checked for each schema that is not refused:
- a value that the grammar accepts is valid;
- a valid value is accepted in one of the orders of its members (schemas here have types, and say whether they are open,
  so that no narrowing of json_schema.h applies);
- a random text of the grammar is JSON, and valid.
`--fixture` writes what was asked, with jsonschema's verdicts, to fixtures/schemas.json for the C++ tests.
"""
import argparse
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import jsonschema

NAMES = ["a", "b", "c", "d"]
OTHER_NAMES = ["pa", "xq", "pq", "e", "ab"]
STRINGS = ["", "a", "b", "ab", "abc", "é", "日本", "\nb", "\"", "\\", "aaaa", "2024-02-29", "0", "😀"]
INTEGERS = [-12, -3, -1, 0, 1, 2, 3, 5, 6, 9, 10, 12, 99, 100]
FRACTIONS = [-2.5, -0.5, 0.25, 0.5, 1.5, 2.75, 9.5, 10.25]
PATTERNS = ["^a", "b$", "^[ab]*$", "^.{2,3}$", "é|日", "^a?b+$", "[^a]", "\\n", "^(?:ab|c)*$"]


class Generator:
    def __init__(self, rng):
        self.rng = rng

    def maybe(self, p):
        return self.rng.random() < p

    def number(self):
        return self.rng.choice(INTEGERS + FRACTIONS)

    def integer_schema(self):
        schema = {"type": "integer"}
        self.bounds(schema)
        if self.maybe(0.2):
            schema["multipleOf"] = self.rng.choice([1, 2, 3, 5, 7])
        return schema

    def number_schema(self):
        schema = {"type": "number"}
        self.bounds(schema)
        if self.maybe(0.2):
            schema["multipleOf"] = self.rng.choice([0.25, 0.5, 1, 1.5, 3])
        return schema

    def bounds(self, schema):
        for name in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]:
            if self.maybe(0.2):
                schema[name] = self.number()

    def string_schema(self):
        schema = {"type": "string"}
        if self.maybe(0.3):
            schema["minLength"] = self.rng.randint(0, 3)
        if self.maybe(0.3):
            schema["maxLength"] = self.rng.randint(0, 4)
        if self.maybe(0.4):
            schema["pattern"] = self.rng.choice(PATTERNS)
        return schema

    def array_schema(self, depth):
        schema = {"type": "array"}
        if self.maybe(0.7):
            schema["items"] = self.schema(depth - 1) if self.maybe(0.8) else self.maybe(0.5)
        if self.maybe(0.3):
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(self.rng.randint(1, 3))]
        if self.maybe(0.3):
            schema["minItems"] = self.rng.randint(0, 3)
        if self.maybe(0.3):
            schema["maxItems"] = self.rng.randint(0, 4)
        return schema

    def object_schema(self, depth):
        schema = {"type": "object"}
        names = [n for n in NAMES if self.maybe(0.5)]
        if names or self.maybe(0.5):
            schema["properties"] = {n: self.schema(depth - 1) for n in names}
        if self.maybe(0.5):
            schema["required"] = [n for n in NAMES if self.maybe(0.3)]
        if self.maybe(0.25):
            schema["patternProperties"] = {self.rng.choice(["^p", "q$", "a"]): self.schema(depth - 1)}
        schema["additionalProperties"] = self.schema(depth - 1) if self.maybe(0.4) else self.maybe(0.5)
        if self.maybe(0.1):
            schema["minProperties"] = self.rng.randint(0, 3)
        if self.maybe(0.1):
            schema["maxProperties"] = self.rng.randint(0, 4)
        if self.maybe(0.1):
            schema["propertyNames"] = self.rng.choice([{"maxLength": 1}, {"pattern": "^[abcp]"}, {"enum": ["a", "c", "pa"]}])
        if self.maybe(0.1):
            schema["dependentRequired"] = {self.rng.choice(NAMES): [self.rng.choice(NAMES)]}
        if self.maybe(0.05):
            schema["dependentSchemas"] = {self.rng.choice(NAMES): self.branch()}
        return schema

    def values_schema(self):
        values = [self.value(1) for _ in range(self.rng.randint(1, 4))]
        return {"enum": values} if self.maybe(0.6) else {"const": values[0]}

    def branch(self):
        """A schema that stands beside others: it may have no type, and is open."""
        kind = self.rng.randrange(6)
        if kind == 0:
            return {"required": [self.rng.choice(NAMES)]}
        if kind == 1:
            return {"properties": {self.rng.choice(NAMES): self.schema(0)}, "additionalProperties": True}
        if kind == 2:
            return self.bounds_only()
        if kind == 3:
            return {"type": self.rng.choice(["integer", "string", "object", "array", "null", ["number", "string"]])}
        if kind == 4:
            return self.values_schema()
        return {"minLength": self.rng.randint(0, 3)} if self.maybe(0.5) else {"pattern": self.rng.choice(PATTERNS)}

    def bounds_only(self):
        schema = {self.rng.choice(["minimum", "maximum"]): self.number()}
        return schema

    def schema(self, depth):
        kind = self.rng.random()
        if depth <= 0 or kind < 0.25:
            leaf = self.rng.randrange(7)
            if leaf == 0:
                return {"type": "null"} if self.maybe(0.5) else {"type": "boolean"}
            if leaf == 1:
                return self.values_schema()
            if leaf == 2:
                return self.number_schema()
            if leaf == 3:
                return self.string_schema()
            if leaf == 4:
                return {"$ref": "#/$defs/" + self.rng.choice(["int", "short", "tree"])}
            return self.integer_schema()
        if kind < 0.45:
            return self.array_schema(depth)
        if kind < 0.7:
            return self.object_schema(depth)
        base = {}
        if self.maybe(0.7):
            base = self.rng.choice([self.object_schema, self.array_schema])(depth) if self.maybe(0.6) else self.rng.choice(
                [self.integer_schema, self.string_schema, self.number_schema])()
        else:
            base["type"] = [t for t in ["null", "boolean", "number", "string", "array", "object"] if self.maybe(0.6)] or ["null"]
        word = self.rng.choice(["anyOf", "oneOf", "allOf", "not", "if"])
        if word == "not":
            base["not"] = self.branch()
        elif word == "if":
            base["if"] = self.branch()
            if self.maybe(0.8):
                base["then"] = self.branch()
            if self.maybe(0.8):
                base["else"] = self.branch()
        else:
            base[word] = [self.branch() if self.maybe(0.6) else self.schema(depth - 1) for _ in range(self.rng.randint(1, 3))]
        return base

    def root(self):
        schema = self.schema(3)
        schema = dict(schema) if isinstance(schema, dict) else {"allOf": [schema]}
        schema["$defs"] = {
            "int": {"type": "integer", "minimum": 0},
            "short": {"type": "string", "maxLength": 2},
            "tree": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/tree"}},
                     "required": ["a"], "additionalProperties": False},
        }
        return schema

    def value(self, depth):
        kind = self.rng.randrange(8 if depth > 0 else 6)
        if kind == 0:
            return self.rng.choice([None, True, False])
        if kind <= 2:
            return self.rng.choice(INTEGERS)
        if kind == 3:
            return self.rng.choice(FRACTIONS)
        if kind <= 5:
            return self.rng.choice(STRINGS)
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self.rng.randint(0, 4))]
        names = [n for n in NAMES + OTHER_NAMES if self.maybe(0.3)][:4]
        return {n: self.value(depth - 1) for n in names}

    def fitting(self, schema, root, depth=4):
        """A value that is likely to satisfy the schema."""
        if not isinstance(schema, dict) or depth < 0 or self.maybe(0.08):
            return self.value(2)
        if "$ref" in schema:
            return self.fitting(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, depth - 1)
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        for word in ["anyOf", "oneOf", "allOf"]:
            if word in schema and self.maybe(0.4):
                return self.fitting(self.rng.choice(schema[word]), root, depth - 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.rng.choice(kind)
        if kind == "object":
            properties = schema.get("properties", {})
            names = [n for n in NAMES if n in schema.get("required", []) or (n in properties and self.maybe(0.5))]
            names += [n for n in OTHER_NAMES if self.maybe(0.15)]
            other = schema.get("additionalProperties", True)
            return {n: self.fitting(properties.get(n, other), root, depth - 1) for n in names[:5]}
        if kind == "array":
            prefix = schema.get("prefixItems", [])
            rest = schema.get("items", True)
            size = self.rng.randint(schema.get("minItems", 0), max(schema.get("minItems", 0), schema.get("maxItems", 3)))
            return [self.fitting(prefix[i] if i < len(prefix) else rest, root, depth - 1) for i in range(size)]
        if kind == "string":
            return self.rng.choice(STRINGS)
        if kind == "integer":
            return self.rng.choice(INTEGERS)
        if kind == "number":
            return self.number()
        if kind == "null":
            return None
        if kind == "boolean":
            return self.maybe(0.5)
        return self.value(2)


ORDERS_MAX = 300


def orders(value):
    """The value with its members in every order, up to ORDERS_MAX."""
    if isinstance(value, list):
        choices = [list(orders(v)) for v in value]
        for items in itertools.islice(itertools.product(*choices), ORDERS_MAX):
            yield list(items)
    elif isinstance(value, dict):
        inner = {k: list(orders(v)) for k, v in value.items()}
        count = 0
        for keys in itertools.permutations(value):
            for items in itertools.product(*(inner[k] for k in keys)):
                yield dict(zip(keys, items))
                count += 1
                if count >= ORDERS_MAX:
                    return
    else:
        yield value


def has_key(schema, key):
    if isinstance(schema, dict):
        return key in schema or any(has_key(v, key) for v in schema.values())
    return isinstance(schema, list) and any(has_key(v, key) for v in schema)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fixture", action="store_true")
    options = parser.parse_args()

    generator = Generator(random.Random(options.seed))
    process = subprocess.Popen([options.tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts = {"schemas": 0, "refused": 0, "without a value": 0, "values": 0, "valid values": 0, "samples": 0,
              "left out": 0, "faults": 0}
    refusals = {}
    fixture = []

    def fault(what, schema, text):
        counts["faults"] += 1
        print(f"{what}: {text}\n    {json.dumps(schema, ensure_ascii=False)}")

    for number in range(options.cases):
        schema = generator.root()
        validator = jsonschema.Draft202012Validator(schema)
        values = [generator.fitting(schema, schema) for _ in range(10)]
        texts, owner = [], []
        for i, value in enumerate(values):
            for order in orders(value):
                texts.append(json.dumps(order, ensure_ascii=False))
                owner.append(i)
        request = {"schema": schema, "texts": texts, "samples": 8, "seed": number}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            sys.exit(f"the tool ended at {json.dumps(request)}")
        answer = json.loads(line)
        counts["schemas"] += 1
        valid = [validator.is_valid(value) for value in values]
        if answer.get("code") == "unsupported":
            counts["refused"] += 1
            word = answer["error"].split(": ", 1)[-1]
            refusals[word] = refusals.get(word, 0) + 1
            continue
        if "error" in answer:
            counts["without a value"] += 1
            for value, ok in zip(values, valid):
                if ok:
                    fault("refused as without a value, but valid", schema, f"{json.dumps(value)}: {answer['error']}")
            continue
        accepted = [False] * len(values)
        for i, ok in zip(owner, answer["accepted"]):
            accepted[i] = accepted[i] or ok
        for i, (value, ours, theirs) in enumerate(zip(values, accepted, valid)):
            counts["values"] += 1
            counts["valid values"] += theirs
            if theirs and not ours and owner.count(i) >= ORDERS_MAX:
                pass  # the right order may not have been among them
            elif theirs and not ours and (has_key(schema, "oneOf") or has_key(schema, "minProperties")):
                counts["left out"] += 1  # as json_schema.h says
            elif ours != theirs:
                fault("accepted, but not valid" if ours else "valid, but not accepted", schema, json.dumps(value, ensure_ascii=False))
        for text in answer["samples"]:
            counts["samples"] += 1
            try:
                value = json.loads(text)
            except ValueError:
                fault("a text that is not JSON", schema, text)
                continue
            if not validator.is_valid(value):
                fault("a text that is not valid", schema, text)
        if options.fixture and any(valid) and not all(valid):
            # The first order that is accepted stands for a valid value.
            cases = []
            for i in range(len(values)):
                if accepted[i] != valid[i]:
                    continue  # left out
                at = next((k for k, o in enumerate(owner) if o == i and answer["accepted"][k]), owner.index(i))
                cases.append([texts[at], valid[i]])
            fixture.append({"schema": schema, "texts": cases})

    print(json.dumps(counts))
    for word, count in sorted(refusals.items(), key=lambda item: -item[1]):
        print(f"    refused {count}: {word}")
    if options.fixture:
        path = Path(__file__).parent / "fixtures" / "schemas.json"
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in fixture)
        path.write_text(f'{{"seed": {options.seed}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    return 1 if counts["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
