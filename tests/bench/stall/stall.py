#!/usr/bin/env python3
"""Sarathi's stall: what long prompts do to the streams beside them, under three ways to plan steps.

    tests/bench/stall/stall.py                    # about 15 minutes
    tests/bench/stall/stall.py --requests 30 --fractions 0.7

Three servers get the same requests (open-loop, short and long prompts mixed):
  whole       prompts are computed whole, in one step
  fixed 512   in chunks of 512 tokens
  objective   in chunks that keep a step within the inter-token objective

The objective is --factor times the plain decode step: the median gap of --decode-batch short requests that run
together, without any prefill between. (The paper sets its objectives likewise, by a decode step of 32 requests.) Goodput: requests whose first token came within --ttft-ms and 99 of 100 of whose gaps were within 1.2
times the objective. No server drafts: several tokens of one step reach the client at once, and their gaps of zero would
hide the step's length. Rates are fractions of saturation: of the requests per second that come out when all arrive at once.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import MODEL, Server, table  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--requests", type=int, default=60, help="in each run")
    parser.add_argument("--short", default="60/96", help="prompt/output tokens of short requests")
    parser.add_argument("--long", default="1500/32", help="and of long ones")
    parser.add_argument("--long-share", type=float, default=0.2)
    parser.add_argument("--fractions", default="0.5,0.65,0.8,0.95", help="of saturation")
    parser.add_argument("--factor", type=float, default=2.5, help="objective over plain decode step")
    parser.add_argument("--decode-batch", type=int, default=8, help="requests in the plain decode step")
    parser.add_argument("--objective-ms", type=float, help="instead of --factor times what is measured")
    parser.add_argument("--ttft-ms", type=float, default=10_000, help="the other objective of goodput")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each; the table shows the one of median p99")
    arguments = parser.parse_args()

    mix = f"{arguments.short}*{1 - arguments.long_share} {arguments.long}*{arguments.long_share}"
    plain_decode = ["--speculation", "off"]
    whole = plain_decode + ["--max-chunk-tokens", 2048, "--max-step-tokens", 2048 + 64]
    fixed = plain_decode + ["--max-chunk-tokens", 512, "--max-step-tokens", 512 + 64]
    count = ["--requests", arguments.requests]

    with Server(arguments.model, *fixed) as server:
        server.load("--mix", mix, "--rate", 1000, "--requests", 8)
        saturated = server.load("--mix", mix, "--rate", 1000, *count)
    saturation = saturated["complete"] / saturated["seconds"]
    print(f"saturation: {saturation:.2f} requests/s ({saturated['output_tokens'] / saturated['seconds']:.0f} output tokens/s)")

    fractions = [float(text) for text in arguments.fractions.split(",")]
    objective = arguments.objective_ms
    if objective is None:
        batch = arguments.decode_batch
        with Server(arguments.model, *fixed) as server:
            server.load("--mix", arguments.short, "--rate", 1000, "--requests", batch, "--seed", 99)
            plain = server.load("--mix", arguments.short, "--rate", 1000, "--requests", batch)["itl_seconds"]["p50"] * 1000
        objective = arguments.factor * plain
        print(f"plain decode step of {batch} requests: {plain:.1f} ms")
    print(f"objective: {objective:.1f} ms between tokens, {arguments.ttft_ms:.0f} ms to the first\n")

    ways = {"whole": whole, "fixed 512": fixed, "objective": plain_decode + ["--itl-target-ms", f"{objective:.2f}"]}
    for fraction in fractions:
        runs = {name: [] for name in ways}
        for turn in range(arguments.rounds):
            for name, flags in ways.items():
                with Server(arguments.model, *flags) as server:
                    server.load("--mix", mix, "--rate", 1000, "--requests", 4, "--seed", 99)
                    runs[name].append(
                        server.load("--mix", mix, "--rate", fraction * saturation, *count, "--seed", 1 + turn,
                                    "--ttft-ms", arguments.ttft_ms, "--itl-ms", 1.2 * objective)
                    )
        print(f"at {fraction:.2f} of saturation, {fraction * saturation:.2f} requests/s")
        rows = []
        for name, reports in runs.items():
            report = sorted(reports, key=lambda each: each["itl_seconds"]["p99"])[len(reports) // 2]
            gap, first = report["itl_seconds"], report["ttft_seconds"]
            rows.append([
                name, gap["p50"] * 1000, gap["p99"] * 1000, gap["p99"] * 1000 / objective, first["p50"] * 1000,
                first["p99"] * 1000, report["output_tokens"] / report["seconds"], report["goodput"], report["failed"],
            ])
        table(["", "ITL p50 ms", "p99 ms", "p99/objective", "TTFT p50 ms", "p99 ms", "output tok/s", "goodput/s", "failed"], rows)


if __name__ == "__main__":
    main()
