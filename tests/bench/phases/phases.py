#!/usr/bin/env python3
"""Prefill and decode, apart: five measurements on this machine. Run by tests/bench/phases/run.

a  equal total tokens, once ten prompt tokens for each output token and once the other way round
b  the same model in F16, Q8_0 and Q4_0: both phases
c  1 to 32 sequences at once: both phases
d  KV in blocks of 16 positions against one contiguous reservation for each sequence, at equal memory
e  the time to the first token behind a long prefix that others share, with the prefix cache and without

Nothing is drafted: speculation has a benchmark of its own. Prints tables and writes phases.svg and phases.json into --out.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import BUILD, MODEL, ROOT, Server, table  # noqa: E402

KINDS = ["F16", "Q8_0", "Q4_0"]


def engine(model, *flags):
    """bench_engine's rows: {(phase, batch): tokens/s}."""
    command = [BUILD / "bench_engine", "--model", model, *map(str, flags)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = re.findall(r"^(prefill|decode) +(\d+) +([\d.]+)", text, re.M)
    return {(phase, int(batch)): float(rate) for phase, batch, rate in rows}


def requests(report):
    """Total tokens per second of a load that arrived at once."""
    return (report["prompt_tokens"] + report["output_tokens"]) / report["seconds"]


def ratio(options):
    """a"""
    count = 8 if options.quick else 24
    mixes = {"10:1": "800/80=", "1:1": "440/440=", "1:10": "80/800="}
    result = {}
    with Server(options.model, "--context-max", 2048, "--no-prefix-cache", "--speculation", "off") as server:
        server.load("--mix", "60/8=", "--rate", 1000, "--requests", 4)
        for name, mix in mixes.items():
            result[name] = requests(server.load("--mix", mix, "--rate", 1000, "--requests", count))
    print(f"a  Equal total tokens ({count} requests of 880 at once), by prompt tokens : output tokens")
    table(["ratio", "tokens/s", "of 10:1"], [[name, rate, rate / result["10:1"]] for name, rate in result.items()])
    return result


def weights(options):
    """b"""
    result = {}
    for kind in KINDS:
        path = options.out / f"{options.model.stem}.{kind}.gguf"
        if not path.exists():
            subprocess.run([sys.executable, ROOT / "tests/tools/requantise.py", options.model, path, "--type", kind], check=True)
        rates = engine(path, "--batch", 1, 16, "--repeats", options.repeats)
        result[kind] = {"prefill": rates["prefill", 1], "decode 1": rates["decode", 1], "decode 16": rates["decode", 16]}
    print("b  Weights: tokens/s of each phase by itself")
    table(["type", "prefill 512", "decode, batch 1", "decode, batch 16"], [[kind, *rates.values()] for kind, rates in result.items()])
    return result


def batches(options):
    """c"""
    sizes = [1, 2, 4, 8, 16, 32]
    rates = engine(options.model, "--prompt-tokens", 128, "--prompts", *sizes, "--batch", *sizes, "--repeats", options.repeats)
    print("c  Sequences at once: tokens/s of each phase by itself (prompts of 128 tokens)")
    table(
        ["batch", "prefill", "of batch 1", "decode", "of batch 1"],
        [[n, rates["prefill", n], rates["prefill", n] / rates["prefill", 1], rates["decode", n], rates["decode", n] / rates["decode", 1]] for n in sizes],
    )
    return {str(n): {"prefill": rates["prefill", n], "decode": rates["decode", n]} for n in sizes}


def paging(options):
    """d"""
    count = 16 if options.quick else 48
    result = {}
    # 1,024 positions are the contiguous reservation: a sequence's whole context, whatever becomes of it.
    for name, block in {"blocks of 16": 16, "contiguous": 1024}.items():
        flags = ["--context-max", 1024, "--kv-memory-mb", options.kv_mb, "--block-size", block, "--no-prefix-cache",
                 "--speculation", "off"]
        with Server(options.model, *flags) as server:
            server.load("--mix", "60/8=", "--rate", 1000, "--requests", 4)
            watch = Watch(server)
            # ShareGPT's mean lengths (161 and 338 tokens: Kwon et al., "Efficient Memory Management for Large Language
            # Model Serving with PagedAttention", SOSP 2023).
            report = server.load("--mix", "161/338", "--rate", 1000, "--requests", count)
            running, waste = watch.stop()
        result[name] = {"sequences": running, "waste": waste, "output tokens/s": report["output_tokens"] / report["seconds"]}
    print(f"d  KV memory of {options.kv_mb} MiB, {count} requests of about 161 + 338 tokens at once, contexts up to 1,024")
    table(
        ["KV", "sequences in flight", "KV waste %", "output tokens/s"],
        [[name, each["sequences"], 100 * each["waste"], each["output tokens/s"]] for name, each in result.items()],
    )
    return result


class Watch:
    """Reads /metrics over and over, while a load runs: mean sequences in flight, and KV positions held for nothing."""

    def __init__(self, server):
        self.server, self.samples, self.over = server, [], threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.2):
            seen = self.server.metrics()
            if seen["twostroke_sequences_running"] > 0:
                self.samples.append(seen)

    def stop(self):
        self.over.set()
        self.thread.join()
        # The end of a load, when the last sequences are alone, says nothing about how many fit.
        full = [s for s in self.samples if s["twostroke_sequences_waiting"] > 0] or self.samples
        unused = sum(s["twostroke_kv_positions{state=\"unused\"}"] for s in full)
        used = sum(s["twostroke_kv_positions{state=\"used\"}"] for s in full)
        return sum(s["twostroke_sequences_running"] for s in full) / len(full), unused / (used + unused)


def sharing(options):
    """e"""
    result = {}
    for name, flags in {"with the prefix cache": [], "without": ["--no-prefix-cache"]}.items():
        with Server(options.model, *flags) as server:
            server.load("--mix", "1100/4=", "--shared-prefix", 1000, "--rate", 1000, "--requests", 1)
            report = server.load("--mix", "1100/4=", "--shared-prefix", 1000, "--rate", 0.2, "--requests", 4 if options.quick else 10, "--seed", 1)
        result[name] = {"ttft": report["ttft_seconds"]["p50"], "cached": report["cached_tokens"] / report["prompt_tokens"]}
    print("e  Prompts of 1,100 tokens, 1,000 of them shared with those before")
    table(["", "TTFT p50 ms", "cached %"], [[name, 1000 * each["ttft"], 100 * each["cached"]] for name, each in result.items()])
    return result


PARTS = {"a": ratio, "b": weights, "c": batches, "d": paging, "e": sharing}


def plot(results, path):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plot

    figure, axes = plot.subplots(2, 3, figsize=(15, 8))
    for axis in axes.flat:
        axis.set_visible(False)

    def bars(axis, title, names, values, unit):
        axis.set_visible(True)
        axis.bar(names, values, color="#4878a8")
        axis.set_title(title)
        axis.set_ylabel(unit)

    if part := results.get("a"):
        bars(axes[0, 0], "a: equal total tokens", list(part), list(part.values()), "tokens/s")
    if part := results.get("b"):
        axis = axes[0, 1]
        axis.set_visible(True)
        for shift, phase in enumerate(next(iter(part.values()))):
            places = [i + 0.27 * (shift - 1) for i in range(len(part))]
            axis.bar(places, [rates[phase] for rates in part.values()], 0.25, label=phase)
        axis.set_xticks(range(len(part)), list(part))
        axis.set_title("b: weights")
        axis.set_ylabel("tokens/s")
        axis.legend()
    if part := results.get("c"):
        axis = axes[0, 2]
        axis.set_visible(True)
        for phase in ["prefill", "decode"]:
            axis.plot([int(n) for n in part], [rates[phase] for rates in part.values()], marker="o", label=phase)
        axis.set_xscale("log", base=2)
        axis.set_xlabel("sequences at once")
        axis.set_ylabel("tokens/s")
        axis.set_title("c: batch size")
        axis.legend()
    if part := results.get("d"):
        bars(axes[1, 0], "d: sequences in flight at equal memory", list(part), [each["sequences"] for each in part.values()], "sequences")
    if part := results.get("e"):
        bars(axes[1, 1], "e: behind a shared prefix", list(part), [1000 * each["ttft"] for each in part.values()], "TTFT, ms")
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/phases")
    parser.add_argument("--only", default="a,b,c,d,e", help="which parts")
    parser.add_argument("--kv-mb", type=int, default=192, help="KV memory of part d")
    parser.add_argument("--repeats", type=int, default=3, help="runs of parts b and c, of which the median counts")
    parser.add_argument("--quick", action="store_true", help="a look in a few minutes; figures are rough")
    options = parser.parse_args()
    if options.quick:
        options.repeats = 1
    options.out.mkdir(parents=True, exist_ok=True)
    unknown = set(options.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only takes some of a,b,c,d,e, not {', '.join(sorted(unknown))}")
    results = {letter: PARTS[letter](options) for letter in PARTS if letter in options.only.split(",")}
    (options.out / "phases.json").write_text(json.dumps(results, indent=2) + "\n")
    plot(results, options.out / "phases.svg")
    print(f"{options.out / 'phases.svg'}, {options.out / 'phases.json'}")


if __name__ == "__main__":
    main()
