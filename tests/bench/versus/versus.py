#!/usr/bin/env python3
"""Ours against a peer's OpenAI server: the same model file, the same seeded requests, in turns. Run by tests/bench/versus/run.

    tests/bench/versus/run --model MODEL.gguf --peer build/llama.cpp/native/bin/llama-server
    tests/bench/versus/run --model MODEL.gguf --peer-command 'other-server --model {model} --port {port}' --cases decode-1
    tests/bench/versus/run --model MODEL.gguf --peer-url http://127.0.0.1:8080/v1     # already running, on this machine
    tests/bench/versus/run --model MODEL.gguf --peer ... --cases poisson --rates 0.4,1,2,4

Cases:
  prefill-N   one prompt of N random tokens, never the same twice: N over the time to the first token
  decode-B    B streams that start together, from prompts of 32 tokens: tokens per second of all of them while all run
  mixed       8 streams tell a story, then a prompt of 1,500 tokens comes: the longest silence of any stream from then
              until the prompt's first token, and the time to that
  poisson     Poisson arrivals, 30 % of prompts of 1,350 to 1,650 tokens, 70 % of 54 to 66, answers of 64 to 128 tokens;
              goodput: answers per second whose first token came within 2 s and whose mean gap was within 200 ms.
              Both are told so by the headers x-slo-ttft-ms and x-slo-tpot-ms; what ours then refuses is not good

Runs go ours, peer, ours, peer, ...; a ratio is that of two neighbours, and the table has the medians and the whole range.
Above 1 ours is better, in times too. A run during which something else used the machine, be it the server whose turn it is
not, is done again, three times at most; then the one that was disturbed least counts, and a line says so. Ours runs without
speculation, and where prompts meet streams (mixed, poisson) with --itl-target-ms 100, in whose place an x-slo-tpot-ms stands; --our-flags
comes behind that.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import gguf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from client import RequestFailed, Stream, longest_gap, steady_rate  # noqa: E402
from programs import MODEL, ROOT, load, table  # noqa: E402
from servers import LLAMA_SERVER, Ours, Peer, machine_seconds, processor_seconds  # noqa: E402

CASES = ["prefill-512", "prefill-2048", "decode-1", "decode-16", "mixed", "poisson"]
WARM_UP = ["prefill-64", "decode-1"]
PAUSE_SECONDS = 0.5  # between runs: threads that spin for a while go to sleep
QUIET_WITHIN_SECONDS = 30  # a run waits so long at most for what else runs on the machine to end
OTHERS_SHARE_MAX = 0.05  # of a processor, that all but the server and its client may use; else a run is done again,
ATTEMPTS_MAX = 4  # at most so often in all
DECODE_PROMPT = 32
# Words, because from random tokens models go on with characters of several tokens, whose text comes with the last.
MIXED_STORY = "Story {}. Once upon a time there was a small town by the sea, where the people got up early every morning, and"
MIXED_STREAMS, MIXED_PROMPT, MIXED_STREAM_TOKENS, MIXED_BEFORE = 8, 1500, 1024, 16
FIRST_WITHIN_MS, MEAN_GAP_WITHIN_MS = 2000, 200


def prompt_of(draw, tokens, vocabulary):
    """Random tokens; the first hundreds are special or single bytes in most vocabularies."""
    return [draw.randrange(300, vocabulary) for _ in range(tokens)]


async def prefill(server, draw, vocabulary, tokens):
    answer = await Stream(server.url, server.model, prompt_of(draw, tokens, vocabulary), 1).start().answer()
    return {"tokens/s": tokens / answer.ttft}


async def decode(server, draw, vocabulary, streams, tokens):
    running = [
        Stream(server.url, server.model, prompt_of(draw, DECODE_PROMPT, vocabulary), tokens).start() for _ in range(streams)
    ]
    return {"tokens/s": steady_rate([await stream.answer() for stream in running])}


async def mixed(server, draw, vocabulary):
    running = [
        Stream(server.url, server.model, MIXED_STORY.format(draw.randrange(1000)), MIXED_STREAM_TOKENS).start()
        for _ in range(MIXED_STREAMS)
    ]
    while min(stream.events for stream in running) < MIXED_BEFORE:
        if any(stream.task.done() for stream in running):
            raise RequestFailed(f"a stream ended early: {[stream.reads[-1:] for stream in running]}")
        await asyncio.sleep(0.02)
    # As long as it decodes after its first token, the streams beside it have more to show.
    arriving = await Stream(server.url, server.model, prompt_of(draw, MIXED_PROMPT, vocabulary), 8).start().answer()
    first = arriving.sent_at + arriving.ttft
    ended = [stream for stream in running if stream.task.done()]
    if ended:
        raise RequestFailed(f"{len(ended)} of the streams ended before the prompt's first token")
    for stream in running:
        await stream.leave()
    gap = longest_gap([stream.so_far() for stream in running], arriving.sent_at, first)
    return {"longest gap, ms": gap * 1e3, "TTFT, ms": arriving.ttft * 1e3}


def write_arrivals(path, rate, count, seed):
    """A trace with Azure's columns."""
    draw = random.Random(seed)
    seconds = 0.0
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for _ in range(count):
        seconds += draw.expovariate(rate)
        prompt = draw.randint(1350, 1650) if draw.random() < 0.3 else draw.randint(54, 66)
        hours, rest = divmod(seconds, 3600)
        minutes, rest = divmod(rest, 60)
        lines.append(f"2026-01-01 {int(hours):02}:{int(minutes):02}:{rest:010.7f},{prompt},{draw.randint(64, 128)}")
    path.write_text("\n".join(lines) + "\n")


def poisson(server, rate, count, seed):
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "arrivals.csv"
        write_arrivals(trace, rate, count, seed)
        report = load(server.url, "--trace", trace, "--requests", count, "--seed", seed, "--ttft-ms", FIRST_WITHIN_MS,
                      "--tpot-ms", MEAN_GAP_WITHIN_MS,
                      "--header", f"x-slo-ttft-ms={FIRST_WITHIN_MS}", "--header", f"x-slo-tpot-ms={MEAN_GAP_WITHIN_MS}")  # fmt: skip
    if report["failed"]:
        print(f"{server.name}: {report['failed']} requests failed, first: {report['first_error']}", file=sys.stderr)
    return {
        "goodput/s": report["goodput"],
        "good, of all": report["good"] / report["offered"],
        "TTFT p50, ms": report["ttft_seconds"]["p50"] * 1e3,
        "TPOT p50, ms": report["tpot_seconds"]["p50"] * 1e3,
        "longest gap, ms": report["itl_seconds"]["max"] * 1e3,
    }


def wait_for_quiet():
    give_up = time.monotonic() + QUIET_WITHIN_SECONDS
    while True:
        before = machine_seconds()
        time.sleep(PAUSE_SECONDS)
        if machine_seconds() - before <= OTHERS_SHARE_MAX * PAUSE_SECONDS or time.monotonic() > give_up:
            return


class Comparison:
    def __init__(self, options):
        self.options = options
        self.runs = {}  # case: [{"ours": {figure: value}, "peer": ...}]
        self.peak = None

    def one(self, case, server, seed):
        """Figures of a run. The seed says what is asked, so that both are asked the same."""
        attempts = []  # (share of a processor that others used, figures)
        for attempt in range(ATTEMPTS_MAX):
            wait_for_quiet()
            if server.pid is None:
                return self.figures(case, server, seed)
            machine, ours, begin = machine_seconds(), processor_seconds(server.pid) + sum(os.times()[:4]), time.monotonic()
            # Another prompt each time, or the prefix cache would know it.
            figures = self.figures(case, server, seed + attempt)
            machine, ours = machine_seconds() - machine, processor_seconds(server.pid) + sum(os.times()[:4]) - ours
            attempts.append(((machine - ours) / (time.monotonic() - begin), figures))
            if attempts[-1][0] <= OTHERS_SHARE_MAX:
                return figures
            print(f"{case}, {server.name}: others used {attempts[-1][0]:.0%} of a processor: {json.dumps(figures)}", file=sys.stderr)
        share, figures = min(attempts, key=lambda attempt: attempt[0])
        print(f"{case}, {server.name}: the machine is busy; the run that others disturbed least, {share:.0%}, counts", file=sys.stderr)
        return figures

    def figures(self, case, server, seed):
        options, draw = self.options, random.Random(seed)
        kind, _, number = case.partition("-")
        if kind == "prefill":
            return asyncio.run(prefill(server, draw, options.vocabulary, int(number)))
        if kind == "decode":
            return asyncio.run(decode(server, draw, options.vocabulary, int(number), options.decode_tokens))
        if kind == "mixed":
            return asyncio.run(mixed(server, draw, options.vocabulary))
        # Each rate has prompts of its own, as each round has: none may be in a prefix cache.
        return poisson(server, float(number), options.requests, seed + 1_000_000 * (1 + options.rates.split(",").index(number)))

    def compare(self, cases, our_flags, peer_flags):
        options = self.options
        with contextlib.ExitStack() as stack:
            ours = Ours(options.model, ["--speculation", "off", *our_flags, *options.our_flags.split()])
            stack.callback(ours.close)
            peer = Peer(options.model, " ".join([options.peer_command, *peer_flags]), options.peer_url)
            stack.callback(peer.close)
            self.peak = max(self.peak or 0, ours.read_bandwidth() or 0) or None
            for server in (ours, peer):
                for case in WARM_UP:
                    self.figures(case, server, options.seed - 1)
            for case in cases:
                rounds = self.runs.setdefault(case, [])
                for _ in range(options.rounds):
                    # Not a seed twice, in rounds that were added later neither: prompts must be new to a prefix cache.
                    seed = options.seed + 1000 * len(rounds)
                    rounds.append({server.name: self.one(case, server, seed) for server in (ours, peer)})
                    print(f"{case}: {json.dumps(rounds[-1])}", file=sys.stderr, flush=True)
                    options.out.write_text(json.dumps(self.as_json(), indent=2) + "\n")  # an interrupted comparison keeps them

    def print(self):
        rows = []
        for case, rounds in self.runs.items():
            if not rounds:
                continue
            for figure in rounds[0]["ours"]:
                ours, peer = [r["ours"][figure] for r in rounds], [r["peer"][figure] for r in rounds]
                better = [b / a if figure.endswith("ms") else a / b for a, b in zip(ours, peer) if a > 0 and b > 0]
                ratio = f"{statistics.median(better):.2f}" if better else "-"
                spread = f"{min(better):.2f} to {max(better):.2f}" if better else "-"
                rows.append([case, figure, len(rounds), statistics.median(ours), statistics.median(peer), ratio, spread])
        table(["case", "", "rounds", "ours", "peer", "ratio", "of rounds"], rows)
        if self.runs.get("decode-1") and self.peak:
            for name in ("ours", "peer"):
                rate = statistics.median(r[name]["tokens/s"] for r in self.runs["decode-1"])
                of_file = rate * self.options.step_bytes
                print(f"decode-1, {name}: {of_file / 1e9:.1f} GB/s of the file's weights, {of_file / self.peak:.0%} of the "
                      f"{self.peak / 1e9:.1f} GB/s that this machine reads")  # fmt: skip

    def as_json(self):
        return {
            "model": str(self.options.model),
            "step_bytes": self.options.step_bytes,
            "peer": self.options.peer_url or self.options.peer_command,
            "machine": {"processor": processor_name(), "processors": len(os.sched_getaffinity(0)), "read_bytes_per_second": self.peak},
            "runs": self.runs,
        }


def processor_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def read_file(model):
    """The size of its vocabulary, and the bytes of its matrices that a step reads: all but an embedding that is only looked up."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(model).tensors}
    step_bytes = sum(int(tensor.n_bytes) for tensor in tensors.values())
    if "output.weight" in tensors:
        step_bytes -= int(tensors["token_embd.weight"].n_bytes)
    return int(tensors["token_embd.weight"].shape[1]), step_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    peer = parser.add_mutually_exclusive_group(required=True)
    peer.add_argument("--peer", help="a llama-server program, which is started for 16 at once")
    peer.add_argument("--peer-command", help="another server, with {model}, {port} and, where it takes it, {threads}")
    peer.add_argument("--peer-url", help="a server that runs already: its base, with /v1")
    parser.add_argument("--peer-flags", default="", help="more for the peer's command")
    parser.add_argument("--peer-streams-flags", default="", help="more for mixed and poisson only, for example '-b 128'")
    parser.add_argument("--our-flags", default="", help="more for twostroke serve, for example '--speculation ngram'")
    parser.add_argument("--cases", default=",".join(CASES[:-1]), help="any of prefill-N, decode-B, mixed, poisson")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rates", default="0.4", help="of poisson, requests per second")
    parser.add_argument("--requests", type=int, default=40, help="of a poisson run")
    parser.add_argument("--decode-tokens", type=int, default=64, help="that each stream of decode-B gets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/versus/versus.json")
    parser.add_argument("--append", action="store_true", help="add rounds to those in --out, of the same model and peer")
    options = parser.parse_args()
    if options.peer:
        options.peer_command = LLAMA_SERVER.replace("{peer}", options.peer)
    options.peer_command = f"{options.peer_command or ''} {options.peer_flags}".strip()
    options.vocabulary, options.step_bytes = read_file(options.model)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the servers end too
    comparison = Comparison(options)
    if options.append and options.out.exists():
        before = json.loads(options.out.read_text())
        if before["model"] != str(options.model):
            raise SystemExit(f"{options.out} is of {before['model']}")
        comparison.runs, comparison.peak = before["runs"], before["machine"]["read_bytes_per_second"]
    cases = options.cases.split(",")
    alone = [case for case in cases if case.startswith(("prefill-", "decode-"))]
    together = [case for case in cases if case == "mixed"]
    if "poisson" in cases:
        together += [f"poisson-{rate}" for rate in options.rates.split(",")]
    unknown = set(cases) - set(alone) - {"mixed", "poisson"}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for part, our_flags, peer_flags in (
        (alone, [], []),
        (together, ["--itl-target-ms", "100"], [options.peer_streams_flags]),
    ):
        if part:
            comparison.compare(part, our_flags, peer_flags)
    print(f"{options.model.name}; {processor_name()}, {len(os.sched_getaffinity(0))} processors")
    comparison.print()


if __name__ == "__main__":
    main()
