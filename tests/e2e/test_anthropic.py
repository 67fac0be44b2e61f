"""POST /v1/messages with the real `anthropic` client against the real binary and SmolLM2."""

import json

import anthropic
import pydantic
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from test_access import ask

QUESTION = [{"role": "user", "content": "Name three colours of the rainbow."}]
# The client has no parameter for the temperature any more; the protocol has.
OPTIONS = dict(model="smollm2", max_tokens=12, extra_body={"temperature": 0})
CHAT_OPTIONS = dict(model="smollm2", max_tokens=12, temperature=0)
EVENT = TypeAdapter(RawMessageStreamEvent)


@pytest.fixture(scope="module")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=120)


def strict(message):
    """The message, validated as the types of the client say (the client itself does not insist)."""
    Message.model_validate(message.model_dump(mode="json", exclude_unset=True, warnings=False))
    return message


def test_a_message_has_content_a_stop_reason_and_usage(claude, client):
    message = strict(claude.messages.create(messages=QUESTION, **OPTIONS))
    assert message.id.startswith("msg_") and message.role == "assistant" and message.model == "smollm2"
    assert message.stop_reason == "max_tokens" and message.stop_sequence is None
    assert message.usage.output_tokens == 12
    chat = client.chat.completions.create(messages=QUESTION, **CHAT_OPTIONS)
    assert message.content[0].text == chat.choices[0].message.content
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens == chat.usage.prompt_tokens
    assert message._request_id


def test_the_stream_adds_up_to_the_whole_answer(claude):
    options = {**OPTIONS, "max_tokens": 60}
    whole = strict(claude.messages.create(messages=QUESTION, **options))
    with claude.messages.stream(messages=QUESTION, **options) as stream:
        text = "".join(stream.text_stream)
        final = strict(stream.get_final_message())
    assert text == whole.content[0].text == final.content[0].text != ""
    assert (final.stop_reason, final.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_the_events_come_in_order_with_their_event_lines(claude):
    raw = claude.messages.with_raw_response.create(messages=QUESTION, stream=True, **OPTIONS)
    frames = [frame.split("\n") for frame in raw.http_response.read().decode().strip().split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [line for line, _ in frames] == ["event: " + event["type"] for event in events]
    for event in events:
        if event["type"] != "ping":
            EVENT.validate_python(event)
    types = [event["type"] for event in events if event["type"] != "ping"]
    deltas = [kind for kind in types if kind == "content_block_delta"]
    assert types == ["message_start", "content_block_start", *deltas, "content_block_stop", "message_delta", "message_stop"]
    assert len(deltas) > 3
    assert events[0]["message"]["usage"]["input_tokens"] > 0


def test_a_stop_sequence_is_named(claude):
    full = claude.messages.create(messages=QUESTION, **OPTIONS).content[0].text
    stop = full[7:11]
    message = claude.messages.create(messages=QUESTION, stop_sequences=["@@@", stop], **OPTIONS)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == full[: full.index(stop)]


def test_system_and_blocks_are_the_chat_that_they_mean(claude, client):
    message = claude.messages.create(
        system=[{"type": "text", "text": "You are a pirate.", "cache_control": {"type": "ephemeral"}}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Ahoy!"}]},
            {"role": "user", "content": "Who are you?"},
        ],
        **OPTIONS,
    )
    chat = client.chat.completions.create(
        messages=[
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Ahoy!"},
            {"role": "user", "content": "Who are you?"},
        ],
        **CHAT_OPTIONS,
    )
    assert message.content[0].text == chat.choices[0].message.content


def test_a_final_message_of_the_assistant_is_continued(claude):
    messages = [*QUESTION, {"role": "assistant", "content": "The colours are red,"}]
    answer = claude.messages.create(messages=messages, **OPTIONS).content[0].text
    assert answer.startswith((" ", "\n", ","))


def test_tokens_are_counted_as_they_are_used(claude):
    counted = claude.messages.count_tokens(model="smollm2", messages=QUESTION, system="Be brief.")
    used = claude.messages.create(messages=QUESTION, system="Be brief.", **OPTIONS).usage
    assert counted.input_tokens == used.input_tokens + used.cache_read_input_tokens


@pytest.mark.parametrize(
    "options, named",
    [
        ({"extra_body": {"temperature": 1.5}}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x " * 20_000}]}, "maximum context length"),
    ],
)
def test_what_is_refused_is_named(claude, options, named):
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(**{**OPTIONS, "messages": QUESTION, **options})
    body = caught.value.body
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error" and body["request_id"]
    assert named in body["error"]["message"]


def test_an_unknown_model_is_not_found(claude):
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.messages.create(messages=QUESTION, **{**OPTIONS, "model": "claude-9"})
    assert caught.value.body["error"]["type"] == "not_found_error"


WEATHER = {
    "name": "weather",
    "description": "Tells the weather at a place.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


# Left to itself the small model goes on calling until its tokens are used up.
CHOICE = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)


def test_a_demanded_tool_is_used_and_its_result_goes_on(claude):
    question = {"role": "user", "content": "What is the weather in Paris?"}
    options = {**OPTIONS, "max_tokens": 80, "tools": [WEATHER], "tool_choice": CHOICE}
    message = strict(claude.messages.create(messages=[question], **options))
    assert message.stop_reason == "tool_use"
    (use,) = message.content
    assert use.type == "tool_use" and use.name == "weather" and list(use.input) == ["city"]
    with claude.messages.stream(messages=[question], **options) as stream:
        streamed = stream.get_final_message()
    assert [(block.name, block.input) for block in streamed.content] == [(use.name, use.input)]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "Sunny."}
    history = [question, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    assert claude.messages.create(messages=history, **OPTIONS).content[0].text


def test_an_output_format_holds(claude):
    message = claude.messages.parse(
        messages=[{"role": "user", "content": "Ada is 36."}], output_format=Person, **{**OPTIONS, "max_tokens": 80}
    )
    assert isinstance(message.parsed_output, Person)


def test_errors_below_the_endpoint_have_anthropics_shape(start_server):
    server = start_server("--backend", "sim", "--api-key", "secret", "--max-body-bytes", "2000")
    for key, path, body, status, type in [
        ("wrong", "/v1/messages", {}, 401, "authentication_error"),
        ("secret", "/v1/messages/nothing", {}, 404, "not_found_error"),
        ("secret", "/v1/messages", {"messages": "x" * 3000}, 413, "request_too_large"),
        ("secret", "/v1/messages/count_tokens", [], 400, "invalid_request_error"),
    ]:
        got, headers, text = ask(server, path, "POST", body, X_Api_Key=key)
        error = json.loads(text)
        assert got == status and error["type"] == "error", text
        assert error["error"]["type"] == type and error["error"]["message"]
        assert error["request_id"] == headers["request-id"] == headers["X-Request-Id"]
    assert "WWW-Authenticate" in ask(server, "/v1/messages", "POST", {})[1]
    with pytest.raises(anthropic.AuthenticationError) as caught:
        anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0).messages.create(messages=QUESTION, **OPTIONS)
    assert caught.value.type == "authentication_error" and caught.value.request_id


def test_the_clients_own_header_carries_the_key(start_server):
    server = start_server("--api-key", "secret")
    message = anthropic.Anthropic(base_url=server.url, api_key="secret").messages.create(messages=QUESTION, **OPTIONS)
    assert message.content
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0).messages.create(
            messages=QUESTION, **OPTIONS
        )
