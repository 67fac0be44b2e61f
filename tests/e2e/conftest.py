"""Starts the real binary for the end-to-end tests."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import urllib.request

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("TWOSTROKE_BINARY", ROOT / "build/release/twostroke"))
MODEL = pathlib.Path(
    os.environ.get("TWOSTROKE_SMOLLM2", pathlib.Path.home() / ".cache/twostroke/SmolLM2-135M-Instruct.Q4_1.gguf")
)


class Server:
    """A running `twostroke serve` on a free port."""

    def __init__(self, *flags, env=None):
        if not MODEL.exists():
            pytest.skip(f"the model is not there: {MODEL} (deploy/fetch-model fetches it)")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--model", MODEL, "--served-model-name", "smollm2", "--port", "0", *flags],
            stderr=subprocess.PIPE,
            text=True,
            env={"TWOSTROKE_CALIBRATION_CACHE": "none", **os.environ, **(env or {})},
        )
        self.log = []
        self.url = None
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r"ready: .* on (http://\S+)/v1", line):
                self.url = match.group(1)
                break
        assert self.url, "the server did not start:\n" + "".join(self.log)
        # The pipe must not fill up.
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def client(self, **options):
        defaults = {"base_url": self.url + "/v1", "api_key": "none", "max_retries": 0, "timeout": 120}
        return openai.OpenAI(**{**defaults, **options})

    def get(self, path):
        """Status and text of a GET."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self):
        """All samples: {'name{labels}': value}."""
        _, text = self.get("/metrics")
        return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.M)}

    def stop(self, sig=signal.SIGTERM, timeout=60):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(timeout)


@pytest.fixture(scope="session")
def server():
    """One server that most tests share."""
    running = Server("--drain-notice-ms", "0")
    yield running
    assert running.stop() == 0, "".join(running.log)


@pytest.fixture(scope="session")
def client(server):
    return server.client()


@pytest.fixture
def start_server():
    """Starts servers with flags of their own; they end with the test."""
    started = []

    def start(*flags, env=None):
        # They start in no time; the shared server calibrates.
        started.append(Server("--drain-notice-ms", "0", *flags, env={"TWOSTROKE_CALIBRATION_MS": "0", **(env or {})}))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
