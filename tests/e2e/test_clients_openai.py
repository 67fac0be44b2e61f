"""How the `openai` client handles what goes wrong: retries, timeouts, classes of errors; and its typed helpers."""

import threading
import time

import openai
import pydantic
import pytest

MESSAGES = [{"role": "user", "content": "Name three colours of the rainbow."}]
ENDLESS = dict(model="smollm2", prompt="Count:", max_tokens=4000, extra_body={"ignore_eos": True})


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)


class Weather(pydantic.BaseModel):
    """Tells the weather at a place."""

    city: str = pydantic.Field(max_length=12)


def test_a_full_queue_is_tried_again_after_the_time_that_it_names(start_server):
    server = start_server("--max-running", "1", "--max-waiting-requests", "1")
    client = server.client()
    running = client.completions.create(**ENDLESS, stream=True)
    next(iter(running))
    waiting = client.completions.create(**ENDLESS, stream=True)
    # Room is made while the third request waits for its second try.
    refused = threading.Event()
    patient = server.client(max_retries=2)
    send = patient._client.send

    def watched(*args, **kwargs):
        response = send(*args, **kwargs)
        if response.status_code == 429:
            refused.set()
        return response

    patient._client.send = watched
    answer = []
    third = threading.Thread(
        target=lambda: answer.append(patient.completions.create(model="smollm2", prompt="x", max_tokens=1))
    )
    begin = time.monotonic()
    third.start()
    assert refused.wait(60)
    running.close()
    waiting.close()
    third.join(60)
    assert answer and answer[0].usage.completion_tokens == 1
    assert time.monotonic() - begin >= 0.9, "it waited for as long as Retry-After said"


def test_a_client_that_gives_up_leaves_nothing_running(server):
    impatient = server.client(timeout=0.5)
    with pytest.raises(openai.APITimeoutError):
        impatient.completions.create(**ENDLESS)
    deadline = time.monotonic() + 60
    while server.metrics().get("twostroke_sequences_running", 0) > 0:
        assert time.monotonic() < deadline, "its tokens are still being made"


def test_a_wrong_key_is_an_authentication_error(start_server):
    server = start_server("--api-key", "secret")
    with pytest.raises(openai.AuthenticationError):
        server.client().models.list()
    assert server.client(api_key="secret").models.list().data


def test_a_response_belongs_to_the_key_that_made_it(start_server):
    server = start_server("--api-key", "one", "--api-key", "two")
    one, two = server.client(api_key="one"), server.client(api_key="two")
    response = one.responses.create(model="smollm2", input="Hi", max_output_tokens=1)
    assert one.responses.retrieve(response.id).id == response.id
    with pytest.raises(openai.NotFoundError):
        two.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        two.responses.create(model="smollm2", input="x", previous_response_id=response.id)


def test_answers_are_parsed_into_classes(client):
    chat = client.chat.completions.parse(
        model="smollm2", messages=MESSAGES, response_format=Person, max_tokens=80, temperature=0
    )
    assert isinstance(chat.choices[0].message.parsed, Person)
    response = client.responses.parse(
        model="smollm2", input="Ada is 36.", text_format=Person, max_output_tokens=80, temperature=0
    )
    assert isinstance(response.output_parsed, Person)
    with client.responses.stream(
        model="smollm2", input="Ada is 36.", text_format=Person, max_output_tokens=80, temperature=0
    ) as stream:
        assert stream.get_final_response().output_parsed == response.output_parsed


def test_a_required_tool_of_a_response_is_called_and_answered(client):
    tool = openai.pydantic_function_tool(Weather)["function"]
    options = dict(
        model="smollm2",
        tools=[{"type": "function", **tool}],
        tool_choice="required",
        parallel_tool_calls=False,
        max_output_tokens=80,
        temperature=0,
    )
    parsed = {**options, "tools": [openai.pydantic_function_tool(Weather)]}
    response = client.responses.parse(input="What is the weather in Paris?", **parsed)
    (call,) = response.output
    assert call.type == "function_call" and call.name == "Weather" and isinstance(call.parsed_arguments, Weather)
    events = list(client.responses.create(input="What is the weather in Paris?", **options, stream=True))
    arguments = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert arguments == call.arguments
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}
    last = client.responses.create(
        model="smollm2", input=[output], previous_response_id=response.id, max_output_tokens=8, temperature=0
    )
    assert last.output_text
