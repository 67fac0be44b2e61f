"""schemathesis against the running server: no 500, and no answer outside the document that the server gives of itself."""

import subprocess
import sys

import pytest

# What a document can promise. Left out: that every body which fits the schema is taken (rules between fields, such as
# prompts times n, and what a chat template refuses, are beyond a schema).
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
]


@pytest.fixture(scope="module")
def simulated():
    from conftest import Server

    # Tokens at once, and few of them: max_tokens in the generated requests goes up to 2^31.
    running = Server("--drain-notice-ms", "0", "--backend", "sim", "--context-max", "256")
    yield running
    assert running.stop() == 0, "".join(running.log)


def test_no_answer_is_outside_the_document(simulated, tmp_path):
    command = [sys.executable, "-m", "schemathesis.cli", "run", simulated.url + "/openapi.json"]
    options = ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "10"]
    options += ["--seed", "1", "--generation-deterministic", "--no-shrink"]
    options += ["--suppress-health-check", "all", "--warnings", "off", "--workers", "1", "--continue-on-failure"]
    ended = subprocess.run(command + options, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2_000:]
    assert simulated.get("/readyz")[0] == 200
