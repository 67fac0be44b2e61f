"""Objectives: read on every endpoint, refused when they cannot be met, and what the scheduler makes of them."""

import json
import re
import urllib.error
import urllib.request

import pytest

ENDPOINTS = {
    "/v1/completions": {"prompt": "Once upon a time", "max_tokens": 4},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 4},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4},
}


def post(server, path, headers=None, **more):
    """Status, headers and body."""
    body = json.dumps({"model": "smollm2", **ENDPOINTS[path], **more}).encode()
    request = urllib.request.Request(server.url + path, body, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read())


@pytest.mark.parametrize("path", ENDPOINTS)
def test_an_objective_that_cannot_be_met_is_refused_at_once(server, path):
    post(server, path)  # after a rest of ten seconds one is let through, to be measured
    for asks in ({"slo": {"ttft_ms": 0.001}}, {"headers": {"x-slo-ttft-ms": "0.001"}}):
        status, headers, body = post(server, path, **asks)
        assert status == 429, body
        assert int(headers["Retry-After"] or 1) >= 1
        assert headers["x-should-retry"] == ("false" if headers["Retry-After"] is None else None)
        assert "objective" in body["error"]["message"] and "predicted" in body["error"]["message"]


def test_a_prompt_that_is_cached_counts_with_what_is_not(start_server):
    server = start_server()
    prompt = "A story that only this test tells. " + "The cat sat on the mat and looked at the dog. " * 60
    status, _, body = post(server, "/v1/completions", max_tokens=60, ignore_eos=True)  # so that it knows its steps
    assert status == 200, body

    def ask(**slo):
        return post(server, "/v1/completions", prompt=prompt, **({"slo": slo} if slo else {}))

    status, headers, body = ask(ttft_ms=0.001)
    assert status == 429 and body["error"]["code"] == "objective_unreachable", body
    assert body["error"]["param"] == "slo.ttft_ms"
    assert headers["x-should-retry"] == "false" and headers["Retry-After"] is None, "it is alone already"
    number, unit = re.search(r"predicted to take ([0-9.e+]+) (ms|s) ", body["error"]["message"]).groups()
    half_ms = float(number) * (1000 if unit == "s" else 1) / 2
    assert ask(ttft_ms=half_ms)[0] == 429
    assert ask()[0] == 200
    status, _, body = ask(ttft_ms=half_ms)
    assert status == 200, body
    assert server.metrics()['twostroke_refusals_total{code="429",reason="unattainable"}'] == 2


@pytest.mark.parametrize("path", ENDPOINTS)
def test_what_can_be_met_is_served(server, path):
    status, _, body = post(server, path, {"x-slo-ttft-ms": "86400000", "x-slo-tpot-ms": "1000.5"})
    assert status == 200, body
    status, _, body = post(server, path, slo={"ttft_ms": 86400000, "tpot_ms": 1})
    assert status == 200, body


@pytest.mark.parametrize("path", ENDPOINTS)
def test_what_is_no_objective_is_refused_by_its_name(server, path):
    status, _, body = post(server, path, {"x-slo-tpot-ms": "fast"})
    assert status == 400 and "x-slo-tpot-ms" in body["error"]["message"]
    status, _, body = post(server, path, slo={"tpot_ms": -1})
    assert status == 400 and "slo.tpot_ms" in body["error"]["message"]
    status, _, body = post(server, path, slo={"speed": 1})
    assert status == 400 and "'slo' knows" in body["error"]["message"]


@pytest.mark.parametrize("name", ["x-slo-ttft-ms", "x-slo-tpot-ms"])
def test_embeddings_have_no_objectives_and_say_so(server, name):
    for value in ("500", "abc"):
        body = json.dumps({"input": "Hello"}).encode()
        headers = {"Content-Type": "application/json", name: value}
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(server.url + "/v1/embeddings", body, headers), timeout=120)
        error = json.loads(refused.value.read())["error"]
        assert refused.value.code == 400 and error["param"] == name
        assert error["message"] == f"The header '{name}' is not supported by this endpoint: leave it out."


def test_the_chunk_its_reason_and_the_models_error_are_metrics(start_server):
    server = start_server("--itl-target-ms", "0.01")
    status, _, body = post(server, "/v1/completions", max_tokens=40, ignore_eos=True)
    assert status == 200, body
    metrics = server.metrics()
    # Nothing decodes beside the prompt; then every step misses so tight an aim, and prefill would go on slowly.
    assert metrics['twostroke_step_budgets_total{reason="nothing_decodes"}'] == 1
    assert metrics['twostroke_step_budgets_total{reason="floor"}'] == 39
    assert metrics['twostroke_prefill_chunk_tokens{reason="floor"}'] > 0
    assert metrics['twostroke_prefill_chunk_tokens{reason="objective"}'] == 0
    assert metrics["twostroke_ridge_tokens"] >= 1
    assert metrics["twostroke_cost_model_error_ratio"] > 0
    assert metrics["twostroke_step_predicted_seconds_total"] > 0
