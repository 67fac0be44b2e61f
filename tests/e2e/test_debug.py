"""Seeing why: /debug/..., the step journal, and its replay."""

import json
import os
import re
import resource
import signal
import stat
import struct
import subprocess
import threading
import urllib.request

import pytest

from conftest import BINARY
from eventually import eventually


def replay(path, *arguments):
    return subprocess.run([BINARY, "replay", str(path), *arguments], capture_output=True, text=True, timeout=300)


def post(server, path, body, headers=None, timeout=120):
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read())


def debug(server, path):
    status, text = server.get(path)
    return status, json.loads(text)


def completion(**more):
    return {"model": "smollm2", "prompt": "Once upon a time", "max_tokens": 8, **more}


def test_a_request_is_found_by_the_id_of_its_answer_and_by_its_own(server):
    answer = post(server, "/v1/completions", completion(n=2), {"X-Request-Id": "debug-me"})
    for name in (answer["id"], "debug-me"):
        status, call = debug(server, f"/debug/requests/{name}")
        assert status == 200
        assert call["id"] == answer["id"] and call["request_id"] == "debug-me"
        assert call["endpoint"] == "/v1/completions" and call["state"] == "ended"
        (prompt,) = call["prompts"]
        assert prompt["outcome"] == "finished" and prompt["error"] is None
        assert prompt["prompt_tokens"] == answer["usage"]["prompt_tokens"]
        assert prompt["output_tokens"] == answer["usage"]["completion_tokens"]
        assert 0 <= prompt["first_scheduled_seconds"] <= prompt["first_token_seconds"] <= prompt["duration_seconds"]


def test_each_prompt_of_a_call_is_shown(server):
    answer = post(server, "/v1/completions", completion(prompt=["One", "Two, and", "Three"]))
    _, call = debug(server, f"/debug/requests/{answer['id']}")
    assert len(call["prompts"]) == 3
    assert sum(prompt["output_tokens"] for prompt in call["prompts"]) == answer["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 16}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}),
        ("/v1/embeddings", {"input": ["Hi", "there"]}),
    ],
)
def test_every_protocol_is_known_by_its_ids(server, path, body):
    answer = post(server, path, {"model": "smollm2", **body}, {"X-Request-Id": "by" + path.replace("/", "-")})
    for name in {answer.get("id"), "by" + path.replace("/", "-")} - {None}:
        status, call = debug(server, f"/debug/requests/{name}")
        assert status == 200 and call["endpoint"] == path and call["state"] == "ended"


def test_an_unknown_request_is_a_404_that_says_what_to_ask_with(server):
    status, answer = debug(server, "/debug/requests/chatcmpl-nothing")
    assert status == 404 and "X-Request-Id" in answer["error"]["message"]


def test_steps_are_shown_oldest_first_and_no_more_than_asked_for(server):
    post(server, "/v1/completions", completion(max_tokens=6, ignore_eos=True))
    status, answer = debug(server, "/debug/steps?last=5")
    assert status == 200
    steps = answer["data"]
    assert len(steps) == 5
    assert [step["step"] for step in steps] == list(range(steps[0]["step"], steps[0]["step"] + 5))
    assert all(step["class"] == "decode" and step["decode"]["tokens"] == 1 for step in steps)
    assert all(0 < step["duration_seconds"] < 60 for step in steps)
    for wrong in ("0", "x", "1000000"):
        assert debug(server, f"/debug/steps?last={wrong}")[0] == 400


def test_what_runs_and_what_waits_is_shown_while_it_does(start_server):
    server = start_server("--max-running", "1")
    with server.client() as client:
        running = client.completions.create(**completion(max_tokens=2000, extra_body={"ignore_eos": True}), stream=True)
        running_id = next(iter(running)).id
        waiting = threading.Thread(
            target=post, args=(server, "/v1/completions", completion(), {"X-Request-Id": "waits"}), daemon=True
        )
        waiting.start()
        call = eventually(lambda: (lambda a: a[1] if a[0] == 200 else None)(debug(server, "/debug/requests/waits")))
        assert call["state"] == "waiting"
        (sequence,) = call["prompts"][0]["sequences"]
        assert sequence["state"] == "waiting" and sequence["queue_position"] == 0
        call = eventually(
            lambda: next(
                (
                    call
                    for call in [debug(server, "/debug/requests/waits")[1]]
                    if call["prompts"][0]["sequences"][0]["wait"] == "no_slot"
                ),
                None,
            )
        )
        _, call = debug(server, f"/debug/requests/{running_id}")
        assert call["state"] == "running"
        (sequence,) = call["prompts"][0]["sequences"]
        assert sequence["state"] == "decode" and sequence["wait"] is None
        assert sequence["blocks"] > 0 and sequence["tokens"] == sequence["computed_tokens"] + 1
        _, listed = debug(server, "/debug/requests")
        assert [call["state"] for call in listed["data"]] == ["running", "waiting"]
        assert listed["engine_requests"] == 2
        assert len(debug(server, "/debug/requests?limit=1")[1]["data"]) == 1
        running.close()
    waiting.join(60)
    assert eventually(lambda: debug(server, "/debug/requests")[1]["data"] == [])
    _, call = debug(server, f"/debug/requests/{running_id}")
    assert call["state"] == "ended" and call["prompts"][0]["outcome"] == "cancelled"


def test_it_needs_a_key_where_the_server_has_any(start_server):
    server = start_server("--api-key", "secret", "--backend", "sim")
    for path in ("/debug/requests", "/debug/requests/x", "/debug/steps"):
        assert server.get(path)[0] == 401


def traffic(server):
    """Requests of all kinds, some of which go away."""
    client = server.client()

    def stream_and_leave(index):
        stream = client.completions.create(
            **completion(prompt=f"{index} little birds sat", max_tokens=200, extra_body={"ignore_eos": True}),
            stream=True,
        )
        for _ in range(3):
            next(stream)
        stream.close()

    def whole(index):
        post(server, "/v1/completions", completion(prompt="The same beginning, then " + "and " * 40 * index, n=2))

    def constrained(index):
        post(
            server,
            "/v1/chat/completions",
            {
                "model": "smollm2",
                "messages": [{"role": "user", "content": f"A number like {index}?"}],
                "max_tokens": 20,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
                    },
                },
            },
        )

    def embedded(index):
        post(server, "/v1/embeddings", {"model": "smollm2", "input": ["one text"] * index})

    threads = [
        threading.Thread(target=work, args=(index,))
        for index in (1, 2, 3)
        for work in (stream_and_leave, whole, constrained, embedded)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def frames(journal):
    """Where the records of each frame of a journal are, and how many bytes (scheduler/journal/journal.h). The last
    frame is the orderly end: it is written on its own, however fast the steps came."""
    places, at = [], len(b"twostroke-steps\0") + 4
    while at < len(journal):
        (length,) = struct.unpack_from("<I", journal, at)
        places.append((at + 12, length))
        at += 12 + length
    assert at == len(journal)
    return places


def damaged_copy(journal, begin, length, path):
    """The path of a copy with another bit amid those bytes."""
    damaged = bytearray(journal)
    damaged[begin + length // 2] ^= 4
    path.write_bytes(damaged)
    return path


def test_a_replay_makes_every_decision_again(start_server, tmp_path):
    path = tmp_path / "journal"
    server = start_server("--journal", str(path), "--max-running", "3", "--kv-memory-mb", "16", "--context-max", "512")
    traffic(server)
    assert server.stop() == 0
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    replayed = replay(path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "every decision is the recorded one" in replayed.stdout
    assert "closed in order" in replayed.stdout
    accepted, finished, cancelled = map(
        int, re.search(r"(\d+) accepted.* (\d+) finished, (\d+) cancelled", replayed.stdout).groups()
    )
    assert accepted == finished + cancelled == 15 and cancelled == 3

    # Some of its steps for people, in their order.
    shown = replay(path, "--steps", "1-3").stdout
    assert re.findall(r"^step (\d+) at", shown, re.M) == ["1", "2", "3"]
    assert re.search(r"^  prefill  request \d+: positions \[0, \d+\) of a prompt of \d+$", shown, re.M)
    wrong = replay(path, "--steps", "3-1")
    assert wrong.returncode == 2 and "--steps takes A-B or A" in wrong.stderr
    with open("/dev/full", "w") as full:
        unwritten = subprocess.run([BINARY, "replay", path], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert unwritten.returncode == 2 and "could not be written" in unwritten.stderr

    # One with damage behind all steps, one with damage before them, one that is cut off, and none.
    whole = path.read_bytes()
    places = frames(whole)
    steps = int(re.search(r"^steps +(\d+)", replayed.stdout, re.M).group(1))
    answer = replay(damaged_copy(whole, *places[-1], tmp_path / "damaged"))
    assert answer.returncode == 2 and "damaged" in answer.stderr
    assert f"{steps} steps before that replayed, all decided alike." in answer.stderr
    answer = replay(damaged_copy(whole, *places[0], tmp_path / "damaged"))
    assert answer.returncode == 2 and "damaged" in answer.stderr
    assert "No step comes before that." in answer.stderr
    (tmp_path / "cut").write_bytes(whole[:-5])
    answer = replay(tmp_path / "cut")
    assert answer.returncode == 0 and "cut off at byte" in answer.stdout
    (tmp_path / "none").write_text("not a journal")
    assert replay(tmp_path / "none").returncode == 2
    assert replay(tmp_path / "absent").returncode == 2


def test_a_killed_server_leaves_a_journal_that_can_be_replayed(start_server, tmp_path):
    path = tmp_path / "journal"
    server = start_server("--journal", str(path), "--backend", "sim")
    post(server, "/v1/completions", completion(max_tokens=50))
    assert eventually(lambda: "1 finished" in replay(path).stdout), "it is on the disk soon, while the server runs"
    server.stop(signal.SIGKILL)
    replayed = replay(path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "1 finished" in replayed.stdout and "not closed" in replayed.stdout


def test_a_full_journal_ends_and_serving_goes_on(start_server, tmp_path):
    path = tmp_path / "journal"
    server = start_server("--journal", str(path), "--journal-max-mb", "1", "--backend", "sim", "--context-max", "8192")
    assert server.metrics()["twostroke_journal_recording"] == 1
    for _ in range(400):
        post(server, "/v1/completions", completion(prompt=[1] * 4000, max_tokens=1))
        if any("ends here" in line for line in server.log):
            break
    assert any("ends here, serving goes on: the file is full" in line for line in server.log)
    assert server.metrics()["twostroke_journal_recording"] == 0
    post(server, "/v1/completions", completion())
    assert path.stat().st_size <= 1 << 20
    replayed = replay(path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "full" in replayed.stdout


def test_a_journal_beyond_the_limit_of_a_file_ends_and_serving_goes_on(start_server, tmp_path):
    path = tmp_path / "journal"
    server = start_server("--journal", str(path), "--backend", "sim")
    post(server, "/v1/completions", completion())
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    for _ in range(20):
        post(server, "/v1/completions", completion(prompt=[1] * 500, max_tokens=1))
    assert eventually(lambda: any("ends here, serving goes on: it cannot be written" in line for line in server.log))
    post(server, "/v1/completions", completion())
    replayed = replay(path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_a_replay_says_what_it_cannot_show(start_server, tmp_path):
    path = tmp_path / "journal"
    server = start_server("--journal", str(path), "--backend", "sim")
    post(server, "/v1/completions", completion())
    server.stop()
    last = int(re.search(r"^steps +(\d+)", replay(path).stdout, re.M).group(1))
    assert replay(path, "--steps", f"{last}").returncode == 0
    beyond = replay(path, "--steps", f"{last + 1}-{last + 9}")
    assert beyond.returncode == 2 and f"there is no step {last + 1}; the last one is {last}" in beyond.stderr
    foreign = tmp_path / "foreign"
    foreign.write_text("something else")
    assert replay(foreign).returncode == 2 and replay(foreign).stderr.count("\n") == 1


def test_a_journal_that_cannot_be_is_refused_at_the_start(tmp_path):
    from conftest import MODEL

    ended = subprocess.run(
        [BINARY, "serve", "--model", MODEL, "--port", "0", "--journal", str(tmp_path / "no" / "where"), "--backend", "sim"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1 and "cannot be created" in ended.stderr


def test_a_journal_that_cannot_be_is_refused_before_the_model_is_read(tmp_path):
    no_model = tmp_path / "model.gguf"
    no_model.write_text("no model")
    ended = subprocess.run(
        [BINARY, "serve", "--model", no_model, "--port", "0", "--journal", tmp_path / "no" / "where"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1 and "--journal" in ended.stderr and "GGUF" not in ended.stderr
