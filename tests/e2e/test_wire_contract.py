"""What the clients of the wire contract depend on, looked at without a client between; and the effects of parameters
beyond OpenAI's own, over the real model."""

import json
import signal
import urllib.error
import urllib.request

import pytest

from eventually import eventually


def post(server, path, body, content_type="application/json"):
    """Status, headers, text."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def request_of(server, body, path="/v1/completions"):
    return urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})


def chat(server, **fields):
    body = {"messages": [{"role": "user", "content": "Count to five."}], "max_tokens": 12, "seed": 1, **fields}
    status, _, text = post(server, "/v1/chat/completions", body)
    assert status == 200, text
    return json.loads(text)


def complete(server, **fields):
    body = {"prompt": "One, two, three,", "max_tokens": 12, "temperature": 0, **fields}
    status, _, text = post(server, "/v1/completions", body)
    assert status == 200, text
    return json.loads(text)


def stream(server, path, body):
    """The chunks of a stream, which ends with [DONE]."""
    status, headers, text = post(server, path, {**body, "stream": True})
    assert status == 200, text
    assert "text/event-stream" in headers["Content-Type"] and headers["X-Accel-Buffering"] == "no"
    events = [event for event in text.split("\n\n") if event and event != ":"]
    assert all(event.startswith("data: ") for event in events)
    assert events.pop() == "data: [DONE]"
    return [json.loads(event[len("data: ") :]) for event in events]


CHAT = {"messages": [{"role": "user", "content": "Count to five."}], "max_tokens": 8, "seed": 1}


@pytest.mark.parametrize("include_usage", [False, True])
def test_a_stream_keeps_its_order(server, include_usage):
    body = {**CHAT, "n": 3, "ignore_eos": True, **({"stream_options": {"include_usage": True}} if include_usage else {})}
    chunks = stream(server, "/v1/chat/completions", body)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" and "error" not in chunk for chunk in chunks)
    if include_usage:
        last = chunks.pop()
        assert last["choices"] == [] and last["usage"]["completion_tokens"] == 24
        assert all(chunk["usage"] is None for chunk in chunks)
    else:
        assert all("usage" not in chunk and len(chunk["choices"]) == 1 for chunk in chunks)
    for index in range(3):
        mine = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert mine[0]["delta"] == {"role": "assistant", "content": ""}
        assert all("role" not in choice["delta"] for choice in mine[1:])
        assert [choice["finish_reason"] for choice in mine if choice["finish_reason"]] == ["length"]
        assert mine[-1]["finish_reason"] and all(choice["logprobs"] is None for choice in mine)


def test_a_whole_answer_has_every_key(server):
    status, headers, text = post(server, "/v1/chat/completions", CHAT)
    body = json.loads(text)
    assert status == 200 and headers["x-request-id"]
    assert {"id", "object", "created", "model", "choices", "usage"} <= set(body)
    choice = body["choices"][0]
    assert choice["message"]["refusal"] is None and choice["logprobs"] is None and choice["stop_reason"] is None
    assert "tool_calls" not in choice["message"] and "reasoning_content" not in choice["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_prompt_beyond_the_context_is_a_real_400_for_a_stream_too(server, path):
    prompt = "word " * 9000
    body = {"prompt": prompt, "messages": [{"role": "user", "content": prompt}], "stream": True}
    status, headers, text = post(server, path, body)
    assert status == 400 and headers["Content-Type"].startswith("application/json")
    error = json.loads(text)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["code"] == "context_length_exceeded"
    assert "This model's maximum context length is" in error["message"]


def test_a_fault_in_mid_stream_is_an_error_event_and_then_done(start_server):
    server = start_server("--drain-timeout-ms", "100")
    body = {"prompt": "Go:", "max_tokens": 8000, "ignore_eos": True, "stream": True}
    request = urllib.request.Request(
        server.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        first = answer.readline()
        server.process.send_signal(signal.SIGTERM)
        events = [event for event in (first + answer.read()).decode().split("\n\n") if event and event != ":"]
    assert events[-1] == "data: [DONE]"
    fault = json.loads(events[-2].removeprefix("data: "))
    assert set(fault) == {"error"} and set(fault["error"]) == {"message", "type", "param", "code"}
    assert all("error" not in json.loads(event.removeprefix("data: ")) for event in events[:-2])


# No token of the grammar is allowed: found when the first one is to be drawn.
NO_TOKEN = {"allowed_token_ids": [100], "structured_outputs": {"choice": ["red"]}}


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"prompt": "Go:"}),
        ("/v1/responses", {"input": "Go"}),
        ("/v1/messages", {"messages": CHAT["messages"], "max_tokens": 8}),
    ],
)
def test_a_fault_before_the_first_token_is_a_real_status_for_a_stream_too(server, path, body):
    whole = post(server, path, {**body, **NO_TOKEN})
    streamed = post(server, path, {**body, **NO_TOKEN, "stream": True})
    assert whole[0] == streamed[0] == 400
    assert json.loads(whole[2])["error"] == json.loads(streamed[2])["error"]
    assert streamed[1]["Content-Type"].startswith("application/json")


def test_a_stream_begins_with_the_first_news_or_in_silence(start_server):
    server = start_server("--max-running", "1", "--sse-keep-alive-ms", "50")
    first = {"prompt": "Go:", "max_tokens": 8000, "ignore_eos": True, "stream": True}
    with urllib.request.urlopen(request_of(server, first), timeout=120) as running:
        running.readline()
        # It waits behind the other, and says so.
        with urllib.request.urlopen(request_of(server, {**first, "max_tokens": 1}), timeout=120) as waiting:
            assert waiting.readline() == b":\n"
            running.close()
            text = waiting.read().decode()
    assert text.endswith("data: [DONE]\n\n")


def test_a_whole_answer_has_a_limit_and_a_stream_has_none(start_server):
    server = start_server("--backend", "sim", "--max-whole-answer-bytes", "20000")
    body = {**CHAT, "max_tokens": 1000, "ignore_eos": True, "logprobs": True, "top_logprobs": 20}
    status, _, text = post(server, "/v1/chat/completions", body)
    assert status == 400 and "'stream'" in json.loads(text)["error"]["message"]
    assert post(server, "/v1/chat/completions", {**body, "max_tokens": 5})[0] == 200
    assert len(stream(server, "/v1/chat/completions", body)) > 1000
    run = {"input": "Go", "background": True, "max_output_tokens": 8000, "ignore_eos": True}
    status, _, text = post(server, "/v1/responses", run)
    assert status == 200
    path = "/v1/responses/" + json.loads(text)["id"]
    eventually(lambda: json.loads(server.get(path)[1])["status"] != "in_progress")
    assert json.loads(server.get(path)[1])["status"] == "failed"


def test_a_full_queue_says_when_to_come_again(start_server):
    server = start_server("--max-waiting-requests", "1", "--max-running", "1", "--backend", "sim")
    status, headers, text = post(server, "/v1/completions", {"prompt": ["a"] * 64, "max_tokens": 100})
    assert status == 429 and int(headers["Retry-After"]) >= 1 and headers["x-request-id"]
    assert json.loads(text)["error"]["code"] == "rate_limit_exceeded"


def test_another_content_type_is_refused(server):
    assert post(server, "/v1/chat/completions", CHAT, "text/plain")[0] == 400


def test_chat_log_probabilities_are_as_many_as_tokens_behind_a_stop_too(server):
    body = chat(server, logprobs=True, top_logprobs=2, stop=["three", "3"], max_tokens=40, return_token_ids=True)
    choice = body["choices"][0]
    entries = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    assert all(len(entry["top_logprobs"]) == 2 and entry["bytes"] for entry in entries)


def test_a_hundred_and_twenty_eight_choices(server):
    body = complete(server, n=128, max_tokens=2, temperature=1)
    assert [choice["index"] for choice in body["choices"]] == list(range(128))
    assert body["usage"]["completion_tokens"] == sum(2 for _ in body["choices"])


def test_continuous_usage_counts_up_to_the_end(server):
    options = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    chunks = stream(server, "/v1/completions", {"prompt": "One, two,", "max_tokens": 6, "temperature": 0, **options})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts) and counts[0] >= 1 and counts[-1] == counts[-2] == 6
    assert all(chunk["usage"]["prompt_tokens"] == chunks[0]["usage"]["prompt_tokens"] > 0 for chunk in chunks)


def test_echo_scores_the_prompt_as_prompt_logprobs_do(server):
    body = complete(server, echo=True, max_tokens=0, logprobs=3, prompt_logprobs=3, return_token_ids=True)
    choice = body["choices"][0]
    logprobs, ids = choice["logprobs"], choice["prompt_token_ids"]
    assert choice["text"] == "One, two, three," == "".join(logprobs["tokens"])
    assert body["usage"]["completion_tokens"] == 0 and choice["finish_reason"] == "length"
    assert logprobs["token_logprobs"][0] is None and len(logprobs["tokens"]) == len(ids)
    assert choice["prompt_logprobs"][0] is None
    for position in range(1, len(ids)):
        mine = choice["prompt_logprobs"][position][str(ids[position])]
        assert mine["logprob"] == pytest.approx(logprobs["token_logprobs"][position], abs=1e-4)
        assert mine["decoded_token"] == logprobs["tokens"][position] and mine["rank"] >= 1
    # The same tokens again, as a prompt of ids, with one token of the answer: the text has both.
    again = complete(server, prompt=ids, echo=True, max_tokens=1, logprobs=0)["choices"][0]
    assert again["text"].startswith("One, two, three,") and len(again["logprobs"]["tokens"]) == len(ids) + 1
    assert again["logprobs"]["text_offset"][-1] == len("One, two, three,")


def test_an_echo_streams_what_the_whole_answer_has(server):
    fields = {"prompt": "One, two,", "max_tokens": 3, "temperature": 0, "echo": True, "logprobs": 1}
    whole = complete(server, **fields)["choices"][0]
    chunks = [chunk["choices"][0] for chunk in stream(server, "/v1/completions", fields)]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    columns = [chunk["logprobs"] for chunk in chunks if chunk["logprobs"]]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert sum((column[name] for column in columns), []) == whole["logprobs"][name]


def test_prompt_logprobs_of_a_chat(server):
    body = chat(server, prompt_logprobs=0, return_token_ids=True, max_tokens=1)
    assert len(body["prompt_logprobs"]) == len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]
    assert body["prompt_logprobs"][0] is None
    assert [list(entry) for entry in body["prompt_logprobs"][1:]] == [[str(i)] for i in body["prompt_token_ids"][1:]]


def test_token_ids_stream_as_they_come_whole(server):
    fields = {"prompt": "One, two,", "max_tokens": 6, "temperature": 0, "return_token_ids": True}
    whole = complete(server, **fields)["choices"][0]
    chunks = [chunk["choices"][0] for chunk in stream(server, "/v1/completions", fields)]
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert sum((chunk.get("token_ids", []) for chunk in chunks), []) == whole["token_ids"]
    assert len(whole["token_ids"]) == 6


def test_stops_say_what_stopped(server):
    plain = complete(server, return_token_ids=True)["choices"][0]
    text, tokens = plain["text"], plain["token_ids"]
    word = text.split(",")[1]
    stopped = complete(server, stop=[word])["choices"][0]
    assert stopped["stop_reason"] == word and stopped["text"] == text.split(word)[0]
    kept = complete(server, stop=[word], include_stop_str_in_output=True)["choices"][0]
    assert kept["text"] == text.split(word)[0] + word
    by_token = complete(server, stop_token_ids=[tokens[3]], return_token_ids=True)["choices"][0]
    end = tokens.index(tokens[3])
    assert by_token["stop_reason"] == tokens[3] and by_token["finish_reason"] == "stop"
    assert by_token["token_ids"] == tokens[: end + 1]
    later = complete(server, stop_token_ids=[tokens[3]], min_tokens=end + 3)["choices"][0]
    assert later["stop_reason"] != tokens[3] or len(later["text"]) > len(by_token["text"])


def test_bad_words_and_allowed_tokens_hold(server):
    plain = complete(server, return_token_ids=True)["choices"][0]
    word = plain["text"].split(",")[0].strip()
    assert word and word not in complete(server, bad_words=[word], max_tokens=30)["choices"][0]["text"]
    allowed = sorted(set(plain["token_ids"][:3]))
    tokens = complete(server, allowed_token_ids=allowed, return_token_ids=True, temperature=1)["choices"][0]["token_ids"]
    assert set(tokens) <= set(allowed) and len(tokens) == 12


def test_rules_that_leave_no_token_are_the_clients_fault(server):
    body = {"prompt": "a", "allowed_token_ids": [5], "logit_bias": {}, "bad_words": ["x"], "max_tokens": 3}
    assert post(server, "/v1/completions", body)[0] == 200
    ids = complete(server, prompt="x", max_tokens=0, echo=True, return_token_ids=True)["choices"][0]["prompt_token_ids"]
    status, _, text = post(server, "/v1/completions", {**body, "allowed_token_ids": ids[:1]})
    assert status == 400 and "bad_words" in json.loads(text)["error"]["message"]


def test_min_tokens_keep_the_answer_going(server):
    body = chat(server, messages=[{"role": "user", "content": "Say only: yes"}], min_tokens=40, max_tokens=60)
    assert body["usage"]["completion_tokens"] >= 40


def test_special_tokens_show_when_they_are_wanted(server):
    fields = {"ignore_eos": True, "max_tokens": 3, "temperature": 0, "logit_bias": {"2": 100}}  # <|im_end|>
    shown = chat(server, skip_special_tokens=False, **fields)["choices"][0]["message"]["content"]
    assert shown == "<|im_end|>" * 3
    assert chat(server, **fields)["choices"][0]["message"]["content"] == ""


def test_a_cache_salt_keeps_prefixes_apart(server):
    prompt = "The same long beginning, again and again. " * 20

    def cached(**fields):
        return complete(server, prompt=prompt, max_tokens=1, **fields)["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(cache_salt="mine") == 0
    assert cached(cache_salt="mine") > 0
    assert cached(cache_salt="yours") == 0
    assert cached() == 0


def test_a_truncated_prompt_keeps_its_end(server):
    whole = complete(server, max_tokens=0, echo=True, return_token_ids=True)["choices"][0]["prompt_token_ids"]
    body = complete(server, max_tokens=1, truncate_prompt_tokens=3, return_token_ids=True)
    assert body["choices"][0]["prompt_token_ids"] == whole[-3:] and body["usage"]["prompt_tokens"] == 3


def test_a_prompt_can_be_truncated_to_what_fits(start_server):
    server = start_server("--backend", "sim")  # reads a full context in no time
    usage = complete(server, prompt="word " * 9000, max_tokens=5, truncate_prompt_tokens=-1)["usage"]
    assert usage["prompt_tokens"] == 8192 - 5 and usage["completion_tokens"] == 5


def test_an_answer_goes_on_with_the_last_message(server):
    messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, 3, 4,"}]
    fields = {"messages": messages, "temperature": 0, "max_tokens": 8, "return_token_ids": True}
    going_on = chat(server, continue_final_message=True, add_generation_prompt=False, **fields)
    assert going_on["choices"][0]["message"]["content"].strip().startswith("5")
    echoed = chat(server, continue_final_message=True, add_generation_prompt=False, echo=True, **fields)
    assert echoed["choices"][0]["message"]["content"].startswith("1, 2, 3, 4,")
    new_turn = chat(server, **fields)
    bare = chat(server, add_generation_prompt=False, **fields)
    assert len(going_on["prompt_token_ids"]) < len(bare["prompt_token_ids"]) < len(new_turn["prompt_token_ids"])


def test_the_template_gets_tools_only_when_they_may_be_called(server):
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    counts = [
        chat(server, max_tokens=1, **fields)["usage"]["prompt_tokens"]
        for fields in ({}, {"tools": [tool], "tool_choice": "none"}, {"tools": [tool]})
    ]
    assert counts[0] == counts[1] < counts[2]


def test_requests_of_a_better_priority_are_accepted(server):
    assert complete(server, priority=-5, max_tokens=1)["choices"][0]["text"]
