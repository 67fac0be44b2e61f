"""The real `openai` client against the real binary and SmolLM2."""

import concurrent.futures
import json
import math
import urllib.request

import openai
import pytest

MESSAGES = [{"role": "user", "content": "Name three colours of the rainbow."}]


def fold(stream):
    """Text per choice, finish reasons per choice, usage and all chunks of a chat stream."""
    text, finish, usage, chunks = {}, {}, None, []
    for chunk in stream:
        chunks.append(chunk)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text[choice.index] = text.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                assert choice.index not in finish, "two finish reasons for one choice"
                finish[choice.index] = choice.finish_reason
    return text, finish, usage, chunks


def test_the_model_is_listed_and_found_by_name(client):
    models = client.models.list()
    assert [model.id for model in models] == ["smollm2"]
    assert client.models.retrieve("smollm2").object == "model"


def test_a_streamed_chat_is_the_whole_answer_in_pieces(client):
    options = dict(model="smollm2", messages=MESSAGES, max_tokens=40, temperature=0)
    whole = client.chat.completions.create(**options)
    text, finish, usage, chunks = fold(
        client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    )
    assert whole.choices[0].message.content == text[0] != ""
    assert whole.choices[0].message.role == "assistant"
    assert finish == {0: whole.choices[0].finish_reason}
    # What was cached may differ from call to call; what was counted may not.
    counted = lambda u: (u.prompt_tokens, u.completion_tokens, u.total_tokens)
    assert counted(usage) == counted(whole.usage)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1 and len({chunk.created for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len(chunks) > 10, "the answer came in one piece"


def test_without_include_usage_every_chunk_has_a_choice(client):
    chunks = fold(client.chat.completions.create(model="smollm2", messages=MESSAGES, max_tokens=5, stream=True))[3]
    assert all(len(chunk.choices) == 1 for chunk in chunks)


def test_the_raw_stream_ends_with_done(server):
    body = json.dumps({"messages": MESSAGES, "max_tokens": 3, "stream": True}).encode()
    request = urllib.request.Request(
        server.url + "/v1/chat/completions", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no"
        frames = answer.read().decode().split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]


def test_a_completion_has_log_probabilities_that_fit_its_text(client):
    answer = client.completions.create(
        model="smollm2", prompt="The capital of France is", max_tokens=8, temperature=0, logprobs=3
    )
    choice = answer.choices[0]
    logprobs = choice.logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
    assert "".join(logprobs.tokens) == choice.text
    assert "Paris" in choice.text
    for token, chosen, top, offset in zip(
        logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset
    ):
        assert chosen <= 0 and math.isclose(chosen, max(top.values())), "greedy takes the most probable token"
        assert len(top) == 3
        assert choice.text[offset:].startswith(token)


def test_chat_log_probabilities_come_with_bytes_and_candidates(client):
    choice = client.chat.completions.create(
        model="smollm2", messages=MESSAGES, max_tokens=6, temperature=0, logprobs=True, top_logprobs=2
    ).choices[0]
    assert bytes(b for entry in choice.logprobs.content for b in entry.bytes).decode() == choice.message.content
    assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)


def test_a_stop_string_cuts_text_and_log_probabilities_alike(client):
    options = dict(model="smollm2", prompt="1, 2, 3, 4,", max_tokens=30, temperature=0, logprobs=0)
    full = client.completions.create(**options).choices[0]
    stop = full.text[7:11]
    cut = client.completions.create(**options, stop=stop).choices[0]
    assert cut.text == full.text[: full.text.index(stop)]
    assert cut.finish_reason == "stop" and full.finish_reason == "length"
    assert "".join(cut.logprobs.tokens).startswith(cut.text)
    assert len("".join(cut.logprobs.tokens[:-1])) < len(cut.text), "a token that was cut away has a log-probability"
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**options, stop=stop, stream=True))
    assert streamed == cut.text


def test_three_choices_differ_and_the_prompt_counts_once(client):
    options = dict(model="smollm2", messages=MESSAGES, max_tokens=20, temperature=1.2, seed=7)
    one = client.chat.completions.create(**options)
    three = client.chat.completions.create(**options, n=3)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    texts = [choice.message.content for choice in three.choices]
    assert len(set(texts)) == 3
    assert texts[0] == one.choices[0].message.content, "the first choice draws as it would alone"
    assert three.usage.prompt_tokens == one.usage.prompt_tokens
    text, finish, _, _ = fold(client.chat.completions.create(**options, n=3, stream=True))
    assert [text[i] for i in range(3)] == texts and len(finish) == 3


def test_a_list_of_prompts_gives_a_choice_for_each(client):
    prompts = ["The sky is", "Grass is"]
    together = client.completions.create(model="smollm2", prompt=prompts, max_tokens=5, temperature=0)
    alone = [client.completions.create(model="smollm2", prompt=p, max_tokens=5, temperature=0) for p in prompts]
    assert [c.text for c in together.choices] == [a.choices[0].text for a in alone]
    assert together.usage.prompt_tokens == sum(a.usage.prompt_tokens for a in alone)


def test_seeded_text_does_not_depend_on_what_it_is_batched_with(client):
    def draw(seed):
        return client.chat.completions.create(
            model="smollm2", messages=MESSAGES, max_tokens=24, temperature=1, seed=seed
        ).choices[0].message.content

    alone = [draw(seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        batched = list(pool.map(draw, [seed for _ in range(4) for seed in range(4)]))
    assert batched == alone * 4
    assert len(set(alone)) > 1


def test_cached_prompt_tokens_are_reported(client):
    prompt = "Once upon a time, in a land of " + "many hills and " * 40
    first = client.completions.create(model="smollm2", prompt=prompt, max_tokens=1, temperature=0)
    second = client.completions.create(model="smollm2", prompt=prompt, max_tokens=1, temperature=0)
    assert first.choices[0].text == second.choices[0].text
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert 0 < cached < second.usage.prompt_tokens and cached % 16 == 0


def test_wrong_values_raise_typed_errors_that_name_the_field(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="smollm2", messages=MESSAGES, temperature=9)
    assert caught.value.param == "temperature" and "between 0 and 2" in str(caught.value)
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "x " * 20_000}], stream=True)
    assert caught.value.code == "context_length_exceeded"
    assert "This model's maximum context length is" in str(caught.value)


def test_a_full_queue_raises_a_rate_limit_error_with_a_retry_time(start_server):
    server = start_server("--max-running", "1", "--max-waiting-requests", "1")
    client = server.client()
    endless = dict(model="smollm2", prompt="Count:", max_tokens=4000, extra_body={"ignore_eos": True}, stream=True)
    running = client.completions.create(**endless)
    next(iter(running))
    waiting = client.completions.create(**endless)
    with pytest.raises(openai.RateLimitError) as caught:
        client.completions.create(**endless)
    assert int(caught.value.response.headers["Retry-After"]) >= 1
    running.close()
    next(iter(waiting)), "a place was free again"
    waiting.close()
