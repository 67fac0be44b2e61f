"""/v1/embeddings with the openai client."""

import base64
import json
import math
import pathlib
import struct

import openai
import pytest

from test_access import ask

REFERENCE = pathlib.Path(__file__).resolve().parents[1] / "reference"
TEXTS = ["The cat sat on the mat.", "A kitten is sitting on a rug.", "Interest rates rose by a quarter of a percent."]


def embed(server, expected=200, **body):
    status, _, text = ask(server, "/v1/embeddings", "POST", body)
    assert status == expected, text
    return json.loads(text)


def close(a, b, tolerance=2e-3):
    return len(a) == len(b) and all(abs(x - y) < tolerance for x, y in zip(a, b))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_the_client_gets_an_embedding_of_length_one_for_each_input(client):
    answer = client.embeddings.create(model="smollm2", input=TEXTS)
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 10
    assert answer.pooling == "mean"
    for item in answer.data:
        assert len(item.embedding) == 576
        assert math.isclose(dot(item.embedding, item.embedding), 1, rel_tol=1e-5)


def test_related_texts_are_nearer(client):
    cat, kitten, rates = [item.embedding for item in client.embeddings.create(model="smollm2", input=TEXTS).data]
    assert dot(cat, kitten) > max(dot(cat, rates), dot(kitten, rates))


def test_base64_holds_the_same_numbers(server):
    numbers = embed(server, input=TEXTS[0])["data"][0]["embedding"]
    text = embed(server, input=TEXTS[0], encoding_format="base64")["data"][0]["embedding"]
    assert close(struct.unpack("<576f", base64.b64decode(text)), numbers, 1e-6)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_an_input_does_not_depend_on_its_neighbours_nor_on_its_form(server, pooling):
    together = embed(server, input=TEXTS, pooling=pooling)
    assert together["pooling"] == pooling
    for text, item in zip(TEXTS, together["data"]):
        assert close(embed(server, input=text, pooling=pooling)["data"][0]["embedding"], item["embedding"])
    status, _, tokens = ask(server, "/tokenize", "POST", {"prompt": TEXTS[0]})
    ids = json.loads(tokens)["tokens"]
    assert close(embed(server, input=ids, pooling=pooling)["data"][0]["embedding"], together["data"][0]["embedding"])
    assert embed(server, input=[ids, ids])["usage"]["prompt_tokens"] == 2 * len(ids)


def test_mean_and_last_are_the_same_for_one_token_and_differ_for_more(server):
    one = [embed(server, input=[500], pooling=pooling)["data"][0]["embedding"] for pooling in ("mean", "last")]
    assert close(*one, 1e-5)
    more = [embed(server, input=[500, 600], pooling=pooling)["data"][0]["embedding"] for pooling in ("mean", "last")]
    assert not close(*more, 1e-2)


def test_refusals_name_the_field(client, server):
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="smollm2", input=TEXTS[0], dimensions=64)
    assert caught.value.param == "dimensions" and "576" in caught.value.message
    assert client.embeddings.create(model="smollm2", input=TEXTS[0], dimensions=576).data
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="text-embedding-3-small", input=TEXTS[0])
    assert embed(server, 400, input=[1] * 9000)["error"]["code"] == "context_length_exceeded"
    assert embed(server, 400, input=[[1] * 8000] * 40)["error"]["param"] == "input"


def test_two_thousand_inputs_pass_a_queue_of_eight(start_server):
    server = start_server("--backend", "sim", "--max-waiting-requests", "8", "--max-running", "4")
    answer = embed(server, input=[[i + 1] for i in range(2048)])
    assert [item["index"] for item in answer["data"]] == list(range(2048))
    assert answer["usage"]["prompt_tokens"] == 2048


@pytest.mark.parametrize("activations, least", [("f32", 0.9999), ("int8", 0.998)])
def test_embeddings_are_those_of_transformers_in_float32(start_server, activations, least):
    # tests/reference/README.md says how the values were made: [text][mean, last][576] of little-endian floats.
    texts = json.loads((REFERENCE / "smollm2_texts.json").read_text(encoding="utf-8"))
    expected = list(struct.iter_unpack("<576f", (REFERENCE / "smollm2" / "embeddings.f32").read_bytes()))
    assert len(expected) == 2 * len(texts)
    server = start_server("--activations", activations)
    for pooling in ("mean", "last"):
        answer = embed(server, input=texts, pooling=pooling)
        cosines = [dot(item["embedding"], expected[2 * i + (pooling == "last")]) for i, item in enumerate(answer["data"])]
        assert min(cosines) > least, dict(zip(texts, cosines))
