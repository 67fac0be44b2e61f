"""The two servers of a comparison: ours, and a peer that is started here or runs already."""

import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import Server  # noqa: E402

START_SECONDS_MAX = 300

# What llama.cpp needs to serve 16 at once, each with the longest prompt of the cases; its copies of idle sequences, which
# cost time and serve repeated prompts only, are off.
LLAMA_SERVER = "{peer} -m {model} --host 127.0.0.1 --port {port} -t {threads} -np 16 -c 40960 --cache-ram 0 --no-ui"


def processor_seconds(pid):
    """User and system time of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Time that all processors spent on anything, other virtual machines included, so far."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def first_model(url):
    with urllib.request.urlopen(url + "/models", timeout=10) as answer:
        return json.load(answer)["data"][0]["id"]


class Ours:
    """twostroke on the same file."""

    name = "ours"

    def __init__(self, model, flags):
        self.server = Server(model, *flags)
        self.url, self.pid = self.server.url, self.server.process.pid
        self.model = first_model(self.url)

    def close(self):
        self.server.__exit__()

    def read_bandwidth(self):
        """Bytes per second that it measured at its start; None: it did not."""
        return self.server.metrics().get("twostroke_peak_read_bytes_per_second")


class Peer:
    """Another server: `command` starts it, or it runs at `url`."""

    name = "peer"

    def __init__(self, model, command, url):
        self.process, self.pid, self.url = None, None, url
        if url is None:
            self._start(model, command)
        self.model = first_model(self.url)

    def _start(self, model, command):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.log = tempfile.TemporaryFile("w+")
        words = [word.format(model=model, port=port, threads=len(os.sched_getaffinity(0))) for word in shlex.split(command)]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        self.pid = self.process.pid
        self.url = f"http://127.0.0.1:{port}/v1"
        give_up = time.monotonic() + START_SECONDS_MAX
        while not self._ready(port):
            if self.process.poll() is not None or time.monotonic() > give_up:
                self.process.kill()
                self.log.seek(0)
                raise SystemExit("the peer did not start:\n" + self.log.read()[-3000:])
            time.sleep(0.2)

    def _ready(self, port):
        """Whether it has loaded its model: llama.cpp answers before, with 503, and other servers do not listen."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as error:
            return error.code == 404
        except OSError:
            return False

    def close(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
