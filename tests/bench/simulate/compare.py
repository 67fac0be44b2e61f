#!/usr/bin/env python3
"""The simulator against reality: the same requests to a real server on this machine and to `twostroke simulate`.

    tests/bench/simulate/compare.py               # about 9 minutes, on an idle machine
    tests/bench/simulate/compare.py --requests 40

Three workloads, each written as a trace that both read: short prompts with long answers, long prompts with short
answers, and both mixed with Poisson arrivals at --load of what the server manages. Each is run --runs times, each time
with a server of its own; the simulator takes its step times from the calibration that this server made at its start,
and nothing else of what was measured. Speculation and the prefix cache are off: what they gain depends on texts, which
traces do not have. Printed are TTFT, TPOT and output tokens per second: the medians measured and predicted, the
deviation between them, and that of each run. TTFT is the server's own, which is what is simulated; the client's has its
connection and its own waiting for a processor besides, because it shares them with the server.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import BUILD, MODEL, Server, table  # noqa: E402

# Prompt and answer tokens, with their weights.
WORKLOADS = {
    "short/long": [(40, 120, 1.0)],
    "long/short": [(800, 12, 1.0)],
    "mixed": [(60, 80, 0.7), (600, 24, 0.3)],
}
STEP_TOKENS = 512
RUNNING = 32


def write_trace(path, kinds, rate, requests, seed):
    """Azure's columns. Arrivals of a Poisson process."""
    draw = random.Random(seed)
    seconds = 0.0
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for _ in range(requests):
        prompt, output, _ = draw.choices(kinds, weights=[kind[2] for kind in kinds])[0]
        minutes, rest = divmod(seconds, 60)
        lines.append(f"2026-01-01 00:{int(minutes):02}:{rest:010.7f},{prompt},{output}")
        seconds += draw.expovariate(rate)
    path.write_text("\n".join(lines) + "\n")


def simulate(model, trace, calibration, *flags):
    command = [BUILD / "twostroke", "simulate", "--model", model, "--fleet", "CPU-2", "--workload", trace,
               "--calibration", calibration, "--max-step-tokens", STEP_TOKENS, "--max-running", RUNNING,
               "--kv-memory-mb", 1024, "--json", "-", *flags]
    printed = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(printed)["fleets"][0]


def first_tokens(server):
    """How many first tokens the server has sent, and the seconds that they took in all, by its own clock."""
    metrics = server.metrics()
    total = lambda suffix: sum(value for name, value in metrics.items() if name.startswith(f"twostroke_time_to_first_token_seconds_{suffix}"))
    return total("count"), total("sum")


def measure(kinds, arguments, folder, rate):
    """One run: what the server did, and what is simulated with the calibration that it made at its start. With a server
    of its own, so that both are of the same minute: machines change. Without a rate: requests a second when all come at
    once, and nothing simulated."""
    cache = folder / "calibration"
    flags = ["--max-step-tokens", STEP_TOKENS, "--max-running", RUNNING, "--kv-memory-mb", 1024,
             "--no-prefix-cache", "--speculation", "off", "--calibration-cache", cache, "--calibration-ms", 6000]
    trace = folder / "trace.csv"
    with Server(arguments.model, *flags) as server:
        if rate is None:
            write_trace(trace, kinds, 1000, arguments.requests, arguments.seed + 1)
            saturated = server.load("--trace", trace, "--requests", arguments.requests)
            return saturated["complete"] / saturated["seconds"]
        calibrations = list(cache.glob("*"))
        if not calibrations:
            raise SystemExit("the server kept no calibration: is the machine busy?\n" + "".join(server.log))
        write_trace(trace, kinds, rate, arguments.requests, arguments.seed)
        before = first_tokens(server)
        real = server.load("--trace", trace, "--requests", arguments.requests)
        count, seconds = (now - then for now, then in zip(first_tokens(server), before))
    predicted = simulate(arguments.model, trace, calibrations[0], "--no-prefix-cache")
    return {
        "TTFT mean, ms": (seconds / count * 1e3, predicted["ttft"]["mean_seconds"] * 1e3),
        "at the client": (real["ttft_seconds"]["mean"] * 1e3, predicted["ttft"]["mean_seconds"] * 1e3),
        "TPOT mean, ms": (real["tpot_seconds"]["mean"] * 1e3, predicted["tpot"]["mean_seconds"] * 1e3),
        "output tokens/s": (real["output_tokens"] / real["seconds"], predicted["output_tokens"] / predicted["seconds"]),
    }


def compare(name, kinds, arguments):
    """Rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        rate = arguments.load * measure(kinds, arguments, pathlib.Path(folder), None)
    runs = []
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(measure(kinds, arguments, pathlib.Path(folder), rate))
    rows = []
    for what in runs[0]:
        measured, expected = (statistics.median(run[what][side] for run in runs) for side in (0, 1))
        each = " ".join(f"{100 * (run[what][1] / run[what][0] - 1):+.0f}%" for run in runs)
        rows.append([f"{name} at {rate:.2f}/s", what, measured, expected, f"{100 * (expected / measured - 1):+.0f}%", each])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--requests", type=int, default=60, help="of each workload")
    parser.add_argument("--runs", type=int, default=3, help="of each workload")
    parser.add_argument("--load", type=float, default=0.7, help="arrivals, as a share of what comes out when all come at once")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    rows = []
    for name, kinds in WORKLOADS.items():
        rows += compare(name, kinds, arguments)
    table(["workload", "", "measured", "simulated", "deviation", "of each run"], rows)


if __name__ == "__main__":
    main()
