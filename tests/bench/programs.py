"""Starts the server and the load generator for benchmarks that compare settings. Standard library only."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TWOSTROKE_BUILD", ROOT / "build/release"))
MODEL = pathlib.Path.home() / ".cache/twostroke/SmolLM2-135M-Instruct.Q4_1.gguf"


class Server:
    """A `twostroke serve` on a free port, for as long as the with block lasts."""

    def __init__(self, model, *flags):
        self.process = subprocess.Popen(
            [BUILD / "twostroke", "serve", "--model", model, "--port", "0", "--drain-notice-ms", "0", *map(str, flags)],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = []
        self.url = None
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r"ready: .* on (http://\S+/v1)", line):
                self.url = match.group(1)
                break
        if self.url is None:
            raise SystemExit("the server did not start:\n" + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def load(self, *flags):
        """A run of bench_load against it; its report."""
        return load(self.url, *flags)

    def metrics(self):
        """All samples: {'name{labels}': value}."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/metrics") as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.M)}


def load(url, *flags):
    """A run of bench_load against any server; its report."""
    command = [BUILD / "bench_load", "--url", url, "--json", "-", *map(str, flags)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def table(header, rows):
    """Prints rows of strings and numbers in columns."""
    cells = [list(map(str, header))] + [
        [f"{cell:.3g}" if isinstance(cell, float) and abs(cell) < 100 else f"{cell:.0f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))), flush=True)
    print(flush=True)
