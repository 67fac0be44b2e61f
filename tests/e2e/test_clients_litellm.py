"""`litellm` against the real binary and SmolLM2, over three protocols."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its import must not look for a table in the network

import litellm
import pydantic
import pytest

MESSAGES = [{"role": "user", "content": "Name three colours of the rainbow."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather at a place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)


@pytest.fixture(scope="module")
def complete(server):
    def call(url=server.url, **options):
        return litellm.completion(
            **{
                "model": "openai/smollm2",
                "api_base": url + "/v1",
                "api_key": "none",
                "messages": MESSAGES,
                "max_tokens": 12,
                "temperature": 0,
                "num_retries": 0,
                "max_retries": 0,
                "timeout": 120,
                **options,
            }
        )

    return call


def test_a_chat_is_answered_and_streamed_alike(complete):
    answer = complete()
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 12
    chunks = list(complete(stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == answer.choices[0].message.content
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content == answer.choices[0].message.content


def test_anthropics_protocol_gives_the_same_text(complete, server):
    options = dict(model="anthropic/smollm2", api_base=server.url)
    assert complete(**options).choices[0].message.content == complete().choices[0].message.content
    streamed = complete(**options, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert text == complete().choices[0].message.content


def test_responses_give_the_same_text(complete, server):
    response = litellm.responses(
        model="openai/smollm2",
        input=MESSAGES,
        api_base=server.url + "/v1",
        api_key="none",
        max_output_tokens=16,  # it sends no less
        temperature=0,
    )
    text = response.output[0].content[0].text
    assert text == complete(max_tokens=16).choices[0].message.content


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_required_tool_is_called(complete, server, protocol):
    options = dict(model=protocol + "/smollm2", tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=80)
    if protocol == "anthropic":
        options["api_base"] = server.url
    (call,) = complete(**options).choices[0].message.tool_calls
    assert call.function.name == "weather"
    assert list(pydantic.TypeAdapter(dict[str, str]).validate_json(call.function.arguments)) == ["city"]


def test_a_schema_holds(complete):
    answer = complete(response_format=Person, max_tokens=80)
    Person.model_validate_json(answer.choices[0].message.content)


def test_errors_have_its_classes(complete, start_server):
    with pytest.raises(litellm.ContextWindowExceededError):
        complete(messages=[{"role": "user", "content": "x " * 20_000}])
    with pytest.raises(litellm.BadRequestError):
        complete(temperature=9)
    with pytest.raises(litellm.NotFoundError):
        complete(model="openai/gpt-9")
    with pytest.raises(litellm.Timeout):
        complete(timeout=0.3, max_tokens=4000, extra_body={"ignore_eos": True})
    guarded = start_server("--api-key", "secret")
    with pytest.raises(litellm.AuthenticationError):
        complete(url=guarded.url)
    assert complete(url=guarded.url, api_key="secret", max_tokens=1).choices


def test_a_full_queue_is_a_rate_limit(complete, start_server):
    server = start_server("--max-running", "1", "--max-waiting-requests", "1")
    client = server.client()
    endless = dict(model="smollm2", prompt="Count:", max_tokens=4000, extra_body={"ignore_eos": True}, stream=True)
    running = client.completions.create(**endless)
    next(iter(running))
    waiting = client.completions.create(**endless)
    with pytest.raises(litellm.RateLimitError):
        complete(url=server.url)
    running.close()
    waiting.close()
