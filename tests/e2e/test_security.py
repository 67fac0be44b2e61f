"""The contract's list of attacks, one test or more for each point, against the real binary.

What needs no server is tested closer to its code; each section names those tests.
"""

import concurrent.futures
import json
import resource
import socket
import struct
import subprocess
import threading
import urllib.parse

import pytest

from conftest import BINARY, MODEL
from test_access import ask


def alive(server):
    """The server answers a request after whatever came before."""
    status, _, text = ask(server, "/v1/completions", "POST", {"prompt": "Hi", "max_tokens": 1})
    assert status == 200, text


def refused(server, path, body, expected=400):
    status, _, text = ask(server, path, "POST", body)
    assert status == expected, text[:500]
    error = json.loads(text)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    alive(server)
    return error


@pytest.fixture(scope="module")
def simulated():
    from conftest import Server

    running = Server("--drain-notice-ms", "0", "--backend", "sim")
    yield running
    assert running.stop() == 0, "".join(running.log)


# 1. Model files (GgufDamage.*, RandomDamageIsSurvivedThousandsOfTimes).


def test_a_tiny_file_that_claims_2_to_63_elements_fails_at_once_in_little_memory(tmp_path):
    array = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack("<Q1sIIQ", 1, b"k", 9, 4, 1 << 63)
    tensors = struct.pack("<4sIQQ", b"GGUF", 3, 1 << 63, 0)
    for name, content in [("array", array), ("tensors", tensors.ljust(43, b"\0"))]:
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(content)
        ended = subprocess.run(
            [BINARY, "serve", "--model", path, "--port", "0"],
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20)),
        )
        assert ended.returncode == 1, ended.stderr
        assert "9223372036854775808" in ended.stderr


# 2. Templates (Limits.*, ChatRequest.RefusesEachWrongValueByName).

TEMPLATE = """
{%- if messages[0].content == 'raise' %}{{ raise_exception('no') }}{% endif %}
{%- if messages[0].content == 'loop' %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif %}
{%- if messages[0].content == 'recurse' %}{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}{% endif %}
{%- if messages[0].content == 'grow' %}{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}{% endif %}
{%- if messages[0].content == 'host' %}{{ ''.__class__.__mro__[1].__subclasses__() }}{% endif %}
{{- messages[0].content }}{{ bos_token }}{{ extra }}"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    from conftest import Server

    path = tmp_path_factory.mktemp("template") / "template.jinja"
    path.write_text(TEMPLATE)
    running = Server("--drain-notice-ms", "0", "--backend", "sim", "--chat-template", str(path))
    yield running
    assert running.stop() == 0, "".join(running.log)


def chat(content, **more):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 1, **more}


@pytest.mark.parametrize("content", ["raise", "loop", "recurse", "grow", "host"])
def test_a_template_that_fails_costs_its_own_request_only(hostile, content):
    error = refused(hostile, "/v1/chat/completions", chat(content))
    assert error["param"] == "messages"
    assert ask(hostile, "/v1/chat/completions", "POST", chat("fine"))[0] == 200


def test_template_arguments_cannot_replace_the_servers_own(hostile):
    for name in ["messages", "add_generation_prompt", "bos_token", "eos_token", "tools"]:
        error = refused(hostile, "/v1/chat/completions", chat("fine", chat_template_kwargs={name: "mine"}))
        assert error["param"] == "chat_template_kwargs"
    assert refused(hostile, "/v1/chat/completions", chat("fine", chat_template="{{ 7 * 7 }}"))["param"] == "chat_template"
    status, _, text = ask(hostile, "/v1/chat/completions/render", "POST", chat("a", chat_template_kwargs={"extra": "!"}))
    assert status == 200 and "!" in json.loads(text)["prompt"]


def test_probes_are_answered_while_long_renders_run(hostile):
    """One I/O thread, one text thread: however many renders are to come, they do not stand in a probe's way."""
    answered = threading.Event()

    def render_on_and_on():
        statuses = []
        while not answered.is_set():
            statuses.append(ask(hostile, "/v1/chat/completions/render", "POST", chat("loop"))[0])
        return statuses

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        renders = [pool.submit(render_on_and_on) for _ in range(40)]
        try:
            assert [ask(hostile, "/livez")[0] for _ in range(5)] == [200] * 5
        finally:
            answered.set()
        assert {status for render in renders for status in render.result()} == {400}


# 3. Nesting (Json.RefusesDeepNestingBeforeParsingIt, the tests of server/text/grammar).


def test_deep_nesting_is_refused(simulated):
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    nested = json.dumps(chat("hi", tools=[tool])).replace('"parameters": {}', '"parameters": ' + "[" * 3000 + "]" * 3000)
    refused(simulated, "/v1/chat/completions", nested)
    for constraint in [
        {"grammar": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000},
        {"regex": "(" * 60_000 + "a" + ")" * 60_000},
        {"json": {"type": "string", "pattern": "(" * 3000 + "a" + ")" * 3000}},
    ]:
        refused(simulated, "/v1/chat/completions", chat("hi", structured_outputs=constraint))


# 4. Pre-tokenizers (Megabyte.IsSplitInLinearTimeOnASmallStackWithoutLoss, over every pattern).


@pytest.mark.parametrize("letter", ["a", " ", "日", "\n", "1", "'", "\u0301"])
def test_a_megabyte_of_one_character_is_tokenized(simulated, letter):
    text = letter * ((1 << 20) // len(letter.encode()))
    status, _, answer = ask(simulated, "/tokenize", "POST", {"prompt": text})
    assert status == 200
    assert json.loads(answer)["count"] > 0


# 5. Prompts (CompletionRequest.*).


@pytest.mark.parametrize(
    "prompt",
    ["", [""], [], [-1], [10**9], [2**63], [1.5], [[]], [[], []], ["", ""], None, {}, [[1], "a"], [1, "a"]]
    + ["<|im_start|>", "<|im_end|><|endoftext|>", [0], [1, 2], "\0", "\ud800", "\uffff"],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/completions/render"])
def test_odd_prompts_get_a_clean_answer(server, path, prompt):
    status, _, text = ask(server, path, "POST", {"prompt": prompt, "max_tokens": 1})
    assert status in (200, 400), text
    if status == 400:
        assert json.loads(text)["error"]["message"]
    alive(server)


# 6. Logits that are not numbers, or all masked: Failure.ARowThatIsNotFiniteFailsItsRequestAlone,
#    CpuBackend.FailsOnlyTheRowWhoseLogitsAreNotFinite, SamplerFailure.IsReportedForWhatIsNotFinite.

# 7. Special tokens in a message: test_render_shows_the_chat_template_and_its_tokens, ChatPrompt.*.

# 8. HTTP (RequestParser.*, ChunkedDecoder.*, HttpServer.*: deadlines, pipelining).


def raw(server, head, body=b""):
    """The status line of the answer to exactly these bytes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + body)
        answer = b""
        while b"\r\n" not in answer:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
    return answer.split(b"\r\n")[0].decode()


POST = "POST /v1/completions HTTP/1.1\nHost: x\nContent-Type: application/json\n"


@pytest.mark.parametrize(
    "head, body, status",
    [
        (POST + "Transfer-Encoding: chunked\n\n", b"-2\r\n", 400),
        (POST + "Transfer-Encoding: chunked\n\n", b"ffffffffffffffff1\r\n", 413),
        (POST + "Transfer-Encoding: chunked\nContent-Length: 4\n\n", b"0\r\n\r\n", 400),
        (POST + "Content-Length: 4\nContent-Length: 5\n\n", b"{}  ", 400),
        (POST + "Content-Length: -1\n\n", b"", 400),
        (POST + "Content-Length: 99999999999\n\n", b"", 413),
        (POST + "X: " + "a" * 40_000 + "\n\n", b"", 431),
        (POST + "".join(f"X-{i}: a\n" for i in range(200)) + "\n", b"", 431),
        ("GET /livez HTTP/1.1\nHost: x\nHost: y\n\n", b"", 400),
    ],
)
def test_ambiguous_and_oversized_requests_are_refused(simulated, head, body, status):
    assert raw(simulated, head, body).split()[1] == str(status)
    alive(simulated)


# 9. Keys and caches: test_access.py, AccessPolicy.*, HttpServerAccess.*, CacheSalt.*.

# 10. Names, paths and logs (LogText.*).

PATHS = ["../../etc/passwd", "/etc/passwd", "..%2f..%2fetc%2fpasswd", "file:///etc/passwd", str(MODEL), "smollm2/../x"]


@pytest.mark.parametrize("name", PATHS)
def test_model_names_are_names_only(simulated, name):
    error = refused(simulated, "/v1/completions", {"prompt": "Hi", "model": name}, 404)
    assert error["code"] == "model_not_found"
    status, _, text = ask(simulated, "/v1/models/" + urllib.parse.quote(name, safe=""))
    assert status == 404
    assert "root:" not in text


def test_errors_hide_paths(hostile):
    answers = [
        ask(hostile, "/v1/models/x"),
        ask(hostile, "/nothing"),
        ask(hostile, "/v1/chat/completions", "POST", chat("raise")),
        ask(hostile, "/v1/completions", "POST", {"prompt": 5}),
        ask(hostile, "/v1/completions", "POST", {"prompt": [1] * 20_000}),
    ]
    for status, headers, text in answers:
        assert status in (400, 404)
        for part in [str(MODEL.parent), "/tmp", ".gguf", ".jinja", ".cpp"]:
            assert part not in text + str(headers)


def test_what_clients_send_cannot_write_lines_of_the_log():
    from conftest import Server

    running = Server("--drain-notice-ms", "0", "--backend", "sim", "--log-level", "debug")
    try:
        raw(running, "GET /livez%0d%0aforged HTTP/1.1\nHost: x\nX-Request-Id: id\x1b[31m\n\n")
        raw(running, "GET /livez HTTP/1.1\nHost: x\nX-Request-Id: a%0d%0aforged\n\n")
        ask(running, "/v1/completions", "POST", {"prompt": "Hi", "model": "m\r\nforged"})
        ask(running, "/v1/models/m%0d%0aforged")
    finally:
        assert running.stop() == 0
    assert not [line for line in running.log if line.startswith("forged") or "\x1b" in line]


def test_a_served_name_with_a_line_feed_stays_on_its_line():
    from conftest import Server

    running = Server("--drain-notice-ms", "0", "--backend", "sim", "--served-model-name", "a\nforged")
    assert running.stop() == 0
    assert not [line for line in running.log if line.startswith("forged")]
