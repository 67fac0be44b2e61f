"""Tools, as real clients use them, over the real model."""

import json

import jsonschema
import openai
import pytest
from questions import PROMPTS, Person, ask, at_once

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 16},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {
            "type": "object",
            "properties": {"hours_from_now": {"type": "integer", "minimum": -24, "maximum": 24}},
            "required": ["hours_from_now"],
            "additionalProperties": False,
        },
    },
}


def test_a_hundred_of_a_hundred_required_calls_are_valid(server):
    client = server.client()
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in (WEATHER, TIME)}

    def answer(item):
        seed, prompt = item
        return ask(
            client,
            prompt,
            seed=seed,
            max_tokens=300,
            tools=[WEATHER, TIME],
            tool_choice="required",
            parallel_tool_calls=False,
        ).choices[0]

    for choice in at_once(answer, enumerate(PROMPTS)):
        assert choice.finish_reason == "tool_calls", choice
        (call,) = choice.message.tool_calls
        assert call.type == "function" and call.id
        jsonschema.validate(json.loads(call.function.arguments), schemas[call.function.name])


def strict(tool):
    return {"type": "function", "function": {**tool["function"], "strict": True}}


# The model has called before, so that it likes to again. Its template writes no calls: they stand in the text.
def history(prompt):
    messages = []
    for city, degrees in ("Paris", 21), ("Berlin", 17), ("Madrid", 30):
        call = {"name": "get_weather", "arguments": {"city": city, "unit": "celsius"}}
        messages += [
            {"role": "user", "content": f"What is the weather in {city}?"},
            {"role": "assistant", "content": f"<tool_call>\n{json.dumps(call)}\n</tool_call>"},
            {"role": "tool", "content": f"{degrees} degrees", "tool_call_id": "call_1"},
            {"role": "assistant", "content": f"It has {degrees} degrees."},
        ]
    return [*messages, {"role": "user", "content": prompt}]


def test_calls_of_strict_functions_are_valid_where_the_model_makes_them(server):
    client = server.client()
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in (WEATHER, TIME)}
    cities = ["Rome", "Oslo", "Lima", "Kyoto", "Cairo", "Quito", "Perth", "Sofia"]

    def answer(item):
        seed, city = item
        return client.chat.completions.create(
            model="smollm2",
            messages=history(f"What is the weather in {city}?"),
            seed=seed,
            temperature=1,
            max_tokens=200,
            tools=[strict(WEATHER), strict(TIME)],
            stream=seed % 2 == 0 or None,
        )

    calls = 0
    for result in at_once(answer, enumerate(cities * 3)):
        arguments, names, finish = {}, {}, None
        choices = [result.choices[0]] if hasattr(result, "choices") else [c for chunk in result for c in chunk.choices]
        for choice in choices:
            finish = choice.finish_reason or finish
            for i, call in enumerate((getattr(choice, "delta", None) or choice.message).tool_calls or []):
                index = getattr(call, "index", i)
                names[index] = names.get(index) or call.function.name
                arguments[index] = arguments.get(index, "") + (call.function.arguments or "")
        calls += len(names)
        for index, name in names.items():
            if finish == "length" and index == max(names):
                continue  # not whole
            jsonschema.validate(json.loads(arguments[index]), schemas[name])
    assert calls > 0, "the model made no call: other prompts are needed"


def test_an_answer_of_a_format_leaves_room_for_calls(server):
    client = server.client()
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
    for seed in range(8):
        choice = client.chat.completions.create(
            model="smollm2",
            messages=history("Which city has the best weather?"),
            seed=seed,
            temperature=1,
            max_tokens=200,
            tools=[WEATHER],
            response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
        ).choices[0]
        if choice.finish_reason == "tool_calls":
            for call in choice.message.tool_calls:
                json.loads(call.function.arguments)
        elif choice.finish_reason == "stop":
            jsonschema.validate(json.loads(choice.message.content), schema)
        else:
            assert choice.finish_reason == "length", choice


def test_what_a_strict_function_cannot_be_held_to_is_refused(server):
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "array", "contains": {"type": "null"}}}}}}  # fmt: skip
    options = {"model": "smollm2", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    with pytest.raises(openai.BadRequestError, match="contains"):
        server.client().chat.completions.create(**options, tools=[tool])
    tool["function"]["strict"] = False
    server.client().chat.completions.create(**options, tools=[tool])


def test_the_streaming_helper_gathers_the_calls(server):
    with server.client().chat.completions.stream(
        model="smollm2",
        messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
        tools=[openai.pydantic_function_tool(Person, name="describe")],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=200,
        stream_options={"include_usage": True},
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    (call,) = final.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Person)
    assert final.choices[0].finish_reason == "tool_calls" and final.usage.completion_tokens > 0


def test_a_named_function_is_called_and_streamed_as_it_is_made(server):
    chunks = list(
        ask(
            server.client(),
            "Hello!",
            max_tokens=200,
            seed=3,
            stream=True,
            tools=[WEATHER, TIME],
            tool_choice={"type": "function", "function": {"name": "get_time"}},
            parallel_tool_calls=False,
        )
    )
    deltas = [delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or []]
    assert [delta.function.name for delta in deltas if delta.function.name] == ["get_time"]
    assert sum(delta.id is not None for delta in deltas) == 1 and all(delta.index == 0 for delta in deltas)
    jsonschema.validate(
        json.loads("".join(delta.function.arguments for delta in deltas)), TIME["function"]["parameters"]
    )
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["tool_calls"]


def test_parameters_that_cannot_be_enforced_are_named(server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}
    with pytest.raises(openai.BadRequestError, match="nothing") as caught:
        ask(server.client(), "Hi", max_tokens=5, tools=[tool], tool_choice="required")
    assert caught.value.param == "tools"


def test_tools_that_may_be_called_need_no_schema_that_can_be_enforced(server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}
    assert ask(server.client(), "Hi", max_tokens=3, tools=[tool]).choices[0].finish_reason in ("stop", "length")
