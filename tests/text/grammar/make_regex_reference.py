#!/usr/bin/env python3
"""Writes fixtures/regex.json: random patterns with random texts, and whether Python's `re` finds the pattern in them.

    python3 tests/text/grammar/make_regex_reference.py [SEED]

Texts avoid what the dialects disagree on: line breaks, and digits or letters beyond ASCII (re.ASCII is set).
"""
import json
import random
import re
import sys
from pathlib import Path

CHARACTERS = list("aabbc01_- .") + ["é", "日", "😀"]
CLASSES = ["[ab]", "[^a]", "[a-c0-9]", "[^-a]", r"[\d_]", r"[^\w]", r"[é-日]", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S",
           ".", r"\x61", r"é", r"\.", r"[\]\-]", "日", "😀"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "??", "{1,2}?"]


def pattern(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(CLASSES) if rng.random() < 0.5 else rng.choice(["a", "b", "c", "0", "é"])
    if kind < 0.7:
        return "".join(pattern(rng, depth - 1) for _ in range(rng.randint(1, 4)))
    if kind < 0.82:
        parts = [pattern(rng, depth - 1) for _ in range(rng.randint(2, 3))]
        if rng.random() < 0.2:
            parts.append("")
        return rng.choice(["(", "(?:"]) + "|".join(parts) + ")"
    if kind < 0.95:
        return "(?:" + pattern(rng, depth - 1) + ")" + rng.choice(QUANTIFIERS)
    return rng.choice(["(?:^|" + pattern(rng, depth - 1) + ")", "(?:" + pattern(rng, depth - 1) + "|$)"])


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rng = random.Random(seed)
    cases = []
    while len(cases) < 400:
        text = pattern(rng, 3)
        if rng.random() < 0.3:
            text = "^" + text
        if rng.random() < 0.3:
            text += "$"
        try:
            compiled = re.compile(text, re.ASCII)
        except re.error:
            continue
        texts = ["".join(rng.choice(CHARACTERS) for _ in range(rng.randint(0, 6))) for _ in range(12)]
        cases.append({
            "pattern": text,
            "texts": texts,
            "found": [compiled.search(t) is not None for t in texts],
            "whole": [compiled.fullmatch(t) is not None for t in texts],
        })
    path = Path(__file__).parent / "fixtures" / "regex.json"
    path.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text(f'{{"seed": {seed}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
