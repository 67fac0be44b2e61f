"""`langchain-openai` against the real binary and SmolLM2."""

import openai
import pydantic
import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

QUESTION = "Name three colours of the rainbow."


class Weather(pydantic.BaseModel):
    """Tells the weather at a place."""

    city: str = pydantic.Field(max_length=12)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)


@pytest.fixture(scope="module")
def chat(server):
    def make(**options):
        options = {"temperature": 0, "max_tokens": 12, **options}
        return ChatOpenAI(
            base_url=server.url + "/v1", api_key="none", model="smollm2", max_retries=0, timeout=120, **options
        )

    return make


def test_a_chat_is_answered_and_streamed_alike(chat):
    answer = chat().invoke([("system", "You are brief."), ("human", QUESTION)])
    assert answer.content and answer.response_metadata["finish_reason"] == "length"
    assert answer.usage_metadata["output_tokens"] == 12
    chunks = list(chat(stream_usage=True).stream([("system", "You are brief."), ("human", QUESTION)]))
    assert "".join(chunk.content for chunk in chunks) == answer.content
    assert sum((chunk.usage_metadata or {}).get("output_tokens", 0) for chunk in chunks) == 12


def test_the_responses_api_gives_the_same_text(chat):
    answer = chat(use_responses_api=True).invoke(QUESTION)
    assert answer.text == chat().invoke(QUESTION).content
    chunks = list(chat(use_responses_api=True).stream(QUESTION))
    assert "".join(chunk.text for chunk in chunks) == answer.text


def test_a_required_tool_is_called_with_arguments_of_its_schema(chat):
    model = chat(max_tokens=80).bind_tools([Weather], tool_choice="required", parallel_tool_calls=False)
    answer = model.invoke("What is the weather in Paris?")
    (call,) = answer.tool_calls
    assert call["name"] == "Weather" and call["id"]
    Weather.model_validate(call["args"])
    whole = None
    for chunk in model.stream("What is the weather in Paris?"):
        whole = chunk if whole is None else whole + chunk
    assert [(c["name"], c["args"]) for c in whole.tool_calls] == [(call["name"], call["args"])]


def test_the_conversation_goes_on_behind_a_tools_result(chat):
    model = chat(max_tokens=80).bind_tools([Weather], tool_choice="required", parallel_tool_calls=False)
    call = model.invoke("What is the weather in Paris?")
    result = {"role": "tool", "tool_call_id": call.tool_calls[0]["id"], "content": "Sunny."}
    assert chat().invoke([("human", "What is the weather in Paris?"), call, result]).content


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_is_an_object_of_its_class(chat, method):
    person = chat(max_tokens=80).with_structured_output(Person, method=method).invoke("Ada is 36 years old.")
    assert isinstance(person, Person)


def test_texts_have_embeddings(server):
    embeddings = OpenAIEmbeddings(
        base_url=server.url + "/v1", api_key="none", model="smollm2", check_embedding_ctx_length=False
    )
    one, two = embeddings.embed_documents(["The sky is blue.", "Grass is green."])
    assert len(one) == len(two) > 100 and one != two
    assert embeddings.embed_query("The sky is blue.") == pytest.approx(one, abs=1e-4)


def test_errors_keep_their_classes(chat):
    with pytest.raises(openai.BadRequestError):
        chat(temperature=9).invoke(QUESTION)
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        chat().invoke("x " * 20_000)
