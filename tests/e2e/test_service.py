"""What operators rely on: nothing left behind, both phases counted, an orderly end, metrics that lint clean."""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import openai
import pytest

from conftest import BINARY, MODEL
from eventually import eventually

LONG_PROMPT = list(range(100, 500))  # token ids: exactly 400 prompt tokens


def idle(server):
    metrics = server.metrics()
    return (
        metrics["twostroke_requests_running"] == 0
        and metrics["twostroke_requests_waiting"] == 0
        and metrics['twostroke_kv_blocks{state="referenced"}'] == 0
    )


def thread_count(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def open_stream(server, max_tokens):
    """A raw connection in mid-stream: its first bytes have come."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    body = json.dumps({"prompt": "Tell me", "max_tokens": max_tokens, "ignore_eos": True, "stream": True})
    connection.sendall(
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert connection.recv(1) == b"H"
    return connection


def test_two_hundred_clients_that_vanish_in_mid_stream_leave_nothing_behind(server):
    eventually(lambda: idle(server))
    threads = thread_count(server)
    before = server.metrics()
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        connections = list(pool.map(lambda _: open_stream(server, 4000), range(200)))
    for connection in connections:
        connection.close()
    cancelled = 'twostroke_requests_total{outcome="cancelled"}'
    # Idle it also is before the first step has told of them.
    eventually(lambda: server.metrics()[cancelled] - before[cancelled] == 200 and idle(server))
    after = server.metrics()
    assert after["twostroke_http_connections"] <= before["twostroke_http_connections"]
    assert thread_count(server) == threads
    assert server.client().completions.create(model="smollm2", prompt="Hi", max_tokens=2).usage.completion_tokens == 2


def test_prompts_prefill_while_streams_decode_and_every_prompt_token_is_counted(start_server):
    server = start_server("--max-step-tokens", "40")
    client = server.client()
    options = dict(model="smollm2", max_tokens=150, extra_body={"ignore_eos": True})
    started = threading.Barrier(9)
    usages = []

    def stream(i):
        answer = client.completions.create(
            prompt=f"Story {i}:", stream=True, stream_options={"include_usage": True}, **options
        )
        for number, chunk in enumerate(answer):
            if number == 0:
                started.wait(120)
            if chunk.usage:
                usages.append(chunk.usage)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(stream, i) for i in range(8)]
        started.wait(120)
        usages.append(client.completions.create(model="smollm2", prompt=LONG_PROMPT, max_tokens=1).usage)
        for done in streams:
            done.result()
    eventually(lambda: idle(server))
    metrics = server.metrics()
    # 400 tokens at no more than 40 - 8 a step: at least 13 steps with both phases.
    assert metrics['twostroke_step_duration_seconds_count{class="mixed"}'] >= 13
    assert usages[-1] is not None and len(usages) == 9
    prompt_tokens = sum(usage.prompt_tokens for usage in usages)
    computed = metrics['twostroke_prefill_tokens_total{source="computed"}']
    cached = metrics['twostroke_prefill_tokens_total{source="cached"}']
    assert computed + cached == prompt_tokens
    assert metrics["twostroke_output_tokens_total"] == sum(usage.completion_tokens for usage in usages)


def test_sigterm_lets_streams_finish_and_refuses_new_requests(start_server):
    server = start_server()
    client = server.client()
    stream = client.completions.create(
        model="smollm2", prompt="Go:", max_tokens=400, stream=True, extra_body={"ignore_eos": True}
    )
    chunks = [next(iter(stream))]
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: server.get("/readyz")[0] == 503)
    assert server.get("/livez")[0] == 200
    with pytest.raises(openai.InternalServerError) as caught:
        eventually(lambda: client.completions.create(model="smollm2", prompt="Hi", max_tokens=1) is None)
    assert caught.value.status_code == 503 and caught.value.response.headers["Retry-After"]
    chunks += list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert server.process.wait(60) == 0


def test_what_outlasts_the_drain_gets_an_error_event(start_server):
    server = start_server("--drain-timeout-ms", "100")
    stream = server.client().completions.create(
        model="smollm2", prompt="Go:", max_tokens=8000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError, match="shutting down"):
        list(stream)
    assert server.process.wait(60) == 0


def test_metrics_lint_clean(server):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    status, text = server.get("/metrics")
    assert status == 200
    check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    assert check.returncode == 0 and check.stderr == "", check.stdout + check.stderr


def test_kv_blocks_are_conserved(server):
    metrics = server.metrics()
    states = [metrics[f'twostroke_kv_blocks{{state="{state}"}}'] for state in ("free", "cached", "referenced")]
    before = sum(states)
    server.client().completions.create(model="smollm2", prompt="Count the blocks.", max_tokens=40)
    metrics = server.metrics()
    states = [metrics[f'twostroke_kv_blocks{{state="{state}"}}'] for state in ("free", "cached", "referenced")]
    assert sum(states) == before > 0


def test_errors_below_the_api_have_its_shape(server):
    for path, expected in [("/v1/nothing", 404), ("/v1/chat/completions", 405)]:
        status, text = server.get(path)
        assert status == expected
        assert set(json.loads(text)["error"]) == {"message", "type", "param", "code"}


def status_of(server, path, body):
    request = urllib.request.Request(server.url + path, body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_costly_json_is_refused_and_the_server_lives(server):
    deep = '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"
    message = {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f", "arguments": deep}}]}
    assert status_of(server, "/v1/chat/completions", json.dumps({"messages": [message]})) == 400
    assert status_of(server, "/v1/completions", '{"prompt": ' + deep + "}") == 400
    wide = json.dumps({"prompt": "x", "metadata": {str(i): 1 for i in range(100_000)}})
    assert status_of(server, "/v1/completions", wide) == 400
    many = '{"messages": [' + "[]," * 10_000_000 + "[]]}"
    assert status_of(server, "/v1/chat/completions", many) == 400
    assert status_of(server, "/v1/completions", json.dumps({"prompt": "x" * 20_000_000})) == 400
    assert server.get("/readyz")[0] == 200


def test_a_second_signal_ends_an_idle_server_without_waiting(start_server):
    # The last --drain-notice-ms counts: the first signal alone would take a minute.
    server = start_server("--drain-notice-ms", "60000", "--backend", "sim")
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: server.get("/readyz")[0] == 503)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0


def test_a_backend_that_hangs_does_not_keep_the_server(start_server):
    plugin = BINARY.parent / "tests/backend/plugins/sim_plugin.so"
    if not plugin.exists():
        pytest.skip(f"the plug-in is not built: {plugin}")
    server = start_server("--backend", str(plugin), "--plugin-args", "hang=1", "--drain-timeout-ms", "100", "--step-stall-ms", "1")
    answers = []

    def ask():
        with pytest.raises(openai.InternalServerError) as caught:
            server.client().completions.create(model="smollm2", prompt=[1, 2], max_tokens=1)
        answers.append(caught.value.status_code)

    client = threading.Thread(target=ask)
    client.start()
    eventually(lambda: server.get("/readyz")[0] == 503)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 1
    client.join()
    assert answers == [503]
    assert any("hangs in a step" in line for line in server.log)


def test_the_reader_of_the_log_may_go_away():
    if not MODEL.exists():
        pytest.skip(f"the model is not there: {MODEL}")
    command = [BINARY, "serve", "--model", MODEL, "--port", "0", "--backend", "sim", "--log-level", "debug"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        ready = next(line for line in process.stderr if "ready:" in line)
        url = re.search(r"on (http://\S+)/v1", ready).group(1)
        process.stderr.close()
        for _ in range(3):  # each writes to the log
            with urllib.request.urlopen(url + "/livez", timeout=30) as answer:
                assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
