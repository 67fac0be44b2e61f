"""POST /v1/responses with the real `openai` client against the real binary and SmolLM2."""

import json
import time

import openai
import pytest
from openai.types.responses import Response

OPTIONS = dict(model="smollm2", temperature=0, max_output_tokens=12)
QUESTION = "Name three colours of the rainbow."


def strict(response):
    """The response, validated as the types of the client say (the client itself does not insist)."""
    Response.model_validate(response.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False))
    return response


def test_a_response_has_a_message_and_usage(client):
    response = strict(client.responses.create(input=QUESTION, **OPTIONS, metadata={"a": "b"}))
    assert response.id.startswith("resp_") and response.object == "response"
    assert response.output[0].id.startswith("msg_") and response.output[0].role == "assistant"
    assert response.output_text
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == 12
    assert response.usage.total_tokens == response.usage.input_tokens + 12
    assert response.metadata == {"a": "b"} and response.max_output_tokens == 12 and response.temperature == 0


def test_the_events_add_up_to_the_whole_answer(client):
    options = dict(input=QUESTION, model="smollm2", temperature=0, max_output_tokens=60)
    whole = strict(client.responses.create(**options))
    events = list(client.responses.create(**options, stream=True))
    types = [event.type for event in events]
    assert types[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert types[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed" if whole.status == "completed" else "response.incomplete",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    final = strict(events[-1].response)
    assert text == whole.output_text == final.output_text != ""
    assert final.status == whole.status and final.usage.output_tokens == whole.usage.output_tokens
    assert final.id == events[0].response.id


def test_the_stream_helper_gives_the_final_response(client):
    with client.responses.stream(input="Say hi.", model="smollm2", temperature=0) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert final.status == "completed" and final.output_text == snapshots[-1]


def test_every_event_has_its_event_line(server):
    raw = server.client().responses.with_raw_response.create(input="Hi", **OPTIONS, stream=True)
    frames = raw.http_response.read().decode().strip().split("\n\n")
    for frame in frames:
        event, data = frame.split("\n")
        assert event == "event: " + json.loads(data.removeprefix("data: "))["type"]


def test_instructions_and_items_are_the_chat_that_they_mean(client):
    def answer(**options):
        return client.responses.create(**OPTIONS, **options)

    chat = client.chat.completions.create(
        model="smollm2",
        temperature=0,
        max_tokens=12,
        messages=[
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Ahoy!"},
            {"role": "user", "content": "Who are you?"},
        ],
    )
    items = [
        {"role": "user", "content": "Hello."},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ahoy!"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Who are you?"}]},
    ]
    response = answer(instructions="You are a pirate.", input=items)
    assert response.output_text == chat.choices[0].message.content
    assert response.usage.input_tokens == chat.usage.prompt_tokens


def test_a_response_goes_on_from_an_earlier_one(client):
    first = client.responses.create(input=QUESTION, instructions="Be short.", **OPTIONS)
    second = client.responses.create(input="And three more?", previous_response_id=first.id, **OPTIONS)
    third = client.responses.create(input="Thanks.", previous_response_id=second.id, **OPTIONS)
    explicit = client.responses.create(
        input=[
            {"role": "user", "content": QUESTION},
            *[item.model_dump() for item in first.output],
            {"role": "user", "content": "And three more?"},
            *[item.model_dump() for item in second.output],
            {"role": "user", "content": "Thanks."},
        ],
        **OPTIONS,
    )
    assert third.output_text == explicit.output_text
    assert third.usage.input_tokens == explicit.usage.input_tokens, "instructions do not carry over"
    assert third.previous_response_id == second.id


def test_a_streamed_response_can_be_gone_on_from_at_once(client):
    events = list(client.responses.create(input=QUESTION, **OPTIONS, stream=True))
    client.responses.create(input="More.", previous_response_id=events[-1].response.id, **OPTIONS)


def test_responses_are_kept_until_they_are_deleted(client):
    response = client.responses.create(input=QUESTION, **OPTIONS)
    assert client.responses.retrieve(response.id).to_dict() == response.to_dict()
    page = client.responses.input_items.list(response.id)
    assert [(item.type, item.role, item.content[0].text) for item in page] == [("message", "user", QUESTION)]
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(input="x", previous_response_id=response.id, **OPTIONS)
    assert caught.value.param == "previous_response_id"


def test_the_input_is_listed_page_by_page(client, server):
    items = [{"role": "user", "content": f"item {i}"} for i in range(5)]
    response = client.responses.create(input=items, **OPTIONS)
    for order, expected in [("asc", range(5)), ("desc", reversed(range(5)))]:
        page = client.responses.input_items.list(response.id, order=order, limit=2)
        assert [item.content[0].text for item in page] == [f"item {i}" for i in expected]
    for query in ["after=msg_unknown", "order=up", "limit=0", "limit=x"]:
        status, text = server.get(f"/v1/responses/{response.id}/input_items?{query}")
        assert status == 400 and json.loads(text)["error"]["param"] == query.split("=")[0]


def test_how_many_responses_are_kept_is_a_setting(start_server):
    client = start_server("--backend", "sim", "--max-stored-responses", "1").client()
    first, second = (client.responses.create(input=QUESTION, **OPTIONS) for _ in range(2))
    assert client.responses.retrieve(second.id).id == second.id
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    none = start_server("--backend", "sim", "--max-background-responses", "0").client()
    with pytest.raises(openai.RateLimitError):
        none.responses.create(input=QUESTION, background=True, **OPTIONS)


def test_without_store_nothing_is_kept(client):
    response = client.responses.create(input=QUESTION, store=False, **OPTIONS)
    assert response.to_dict()["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_a_background_response_can_be_waited_for_and_cancelled(client):
    response = client.responses.create(input=QUESTION, background=True, **OPTIONS)
    assert response.status == "in_progress" and response.background
    deadline = time.monotonic() + 60
    while response.status == "in_progress":
        assert time.monotonic() < deadline
        response = client.responses.retrieve(response.id)
    assert response.status == "incomplete" and response.output_text
    assert client.responses.cancel(response.id).status == "incomplete", "it had ended"

    endless = client.responses.create(
        input=QUESTION, model="smollm2", max_output_tokens=4000, background=True, extra_body={"ignore_eos": True}
    )
    assert client.responses.cancel(endless.id).status == "cancelled"
    assert strict(client.responses.retrieve(endless.id)).status == "cancelled"
    foreground = client.responses.create(input=QUESTION, **OPTIONS)
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(foreground.id)


def test_a_background_response_does_not_outlive_the_server(start_server):
    server = start_server("--drain-timeout-ms", "300")
    response = server.client().responses.create(
        input=QUESTION, model="smollm2", max_output_tokens=4000, background=True, extra_body={"ignore_eos": True}
    )
    assert response.status == "in_progress"
    assert server.stop() == 0


def test_log_probabilities_are_included_when_asked_for(client):
    options = dict(input=QUESTION, include=["message.output_text.logprobs"], top_logprobs=2, **OPTIONS)
    part = strict(client.responses.create(**options)).output[0].content[0]
    assert "".join(entry.token for entry in part.logprobs) == part.text
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    events = client.responses.create(**options, stream=True)
    deltas = [e for event in events if event.type == "response.output_text.delta" for e in event.logprobs]
    assert [entry.token for entry in deltas] == [entry.token for entry in part.logprobs]


@pytest.mark.parametrize(
    "options, param",
    [
        ({"temperature": 9}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"truncation": "auto"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0]"),
        ({"input": []}, "input"),
        ({"input": "x " * 20_000}, None),
    ],
)
def test_what_is_refused_is_named(client, options, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**{**OPTIONS, "input": "x", **options})
    assert caught.value.param == param
    assert param is None or f"'{param}'" in str(caught.value)
