"""Structured output, as real clients use it, over the real model."""

import json
import re

import jsonschema
import openai
import pytest
from questions import PROMPTS, Person, ask, at_once

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "moods": {"type": "array", "items": {"enum": ["calm", "glad", "sad"]}, "maxItems": 2},
    },
    "required": ["name", "age", "moods"],
    "additionalProperties": False,
}


def test_a_hundred_of_a_hundred_answers_satisfy_the_schema(server):
    client = server.client()
    response_format = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}

    def answer(item):
        seed, prompt = item
        return ask(client, prompt, seed=seed, max_tokens=200, response_format=response_format).choices[0]

    for choice in at_once(answer, enumerate(PROMPTS)):
        assert choice.finish_reason == "stop", choice.message.content
        jsonschema.validate(json.loads(choice.message.content), PERSON)


def test_the_typed_parse_gives_the_model_class(server):
    completion = server.client().chat.completions.parse(
        model="smollm2", messages=[{"role": "user", "content": "Describe a sailor."}], response_format=Person, max_tokens=200
    )
    person = completion.choices[0].message.parsed
    assert isinstance(person, Person) and 0 <= person.age <= 120


@pytest.mark.parametrize(
    "structured, holds",
    [
        ({"regex": r"[A-Z][a-z]{2,8} [0-9]{1,3}"}, lambda text: re.fullmatch(r"[A-Z][a-z]{2,8} [0-9]{1,3}", text)),
        ({"choice": ["red", "green", "greenish"]}, lambda text: text in ("red", "green", "greenish")),
        ({"grammar": 'root ::= "<" [a-c]{1,5} ">"'}, lambda text: re.fullmatch("<[a-c]{1,5}>", text)),
        ({"json": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}}, json.loads),
        ({"json": '{"const": "only this"}'}, lambda text: json.loads(text) == "only this"),
    ],
)
def test_structured_outputs_hold_for_every_choice_of_every_prompt(server, structured, holds):
    completion = server.client().completions.create(
        model="smollm2",
        prompt=["The colour is", "Once"],
        n=2,
        max_tokens=60,
        temperature=1,
        extra_body={"structured_outputs": structured},
    )
    assert len(completion.choices) == 4
    for choice in completion.choices:
        assert choice.finish_reason == "stop" and holds(choice.text), choice.text


def test_json_object_gives_an_object_or_runs_out_of_tokens(server):
    choice = ask(
        server.client(), "A person as JSON.", max_tokens=100, seed=1, response_format={"type": "json_object"}
    ).choices[0]
    assert choice.finish_reason == "length" or isinstance(json.loads(choice.message.content), dict)


@pytest.mark.parametrize(
    "options, param, words",
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}},
            "response_format",
            "nothing",
        ),
        ({"extra_body": {"structured_outputs": {"regex": "(a"}}}, "structured_outputs", "enforced"),
        ({"extra_body": {"structured_outputs": {"grammar": 'x ::= "y"'}}}, "structured_outputs", "root"),
    ],
)
def test_what_cannot_be_enforced_is_named(server, options, param, words):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(server.client(), "Hi", max_tokens=5, **options)
    assert caught.value.param == param and words in str(caught.value)


