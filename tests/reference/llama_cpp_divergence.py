#!/usr/bin/env python3
"""How far llama.cpp's distributions are from the float32 reference in smollm2/: the figure that ours is held against.

    tests/bench/versus/build-llama-cpp build/llama.cpp
    tests/reference/llama_cpp_divergence.py --server build/llama.cpp/native/bin/llama-server \
        --model ~/.cache/twostroke/SmolLM2-135M-Instruct.Q4_1.gguf

Starts the server, asks it for the probabilities of all 49,152 tokens behind each of the 20 prompts, and computes
KL(reference || llama.cpp) in double as tests/backend/numerics_smollm2_test.cpp does for ours. Standard library only.
"""

import argparse
import array
import hashlib
import json
import math
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 49152
STEPS_PER_NAT = 2048
PLAIN_TOKEN = 504  # "The"
LOGPROB_MIN = -100.0  # of a probability that llama.cpp rounds to 0


def read_reference():
    """(prompt ids, first greedy id, log-probabilities) of each prompt; and the sha256 of the model they are of."""
    lines = (HERE / "smollm2/greedy.txt").read_text().splitlines()
    model = next(line.split()[-1] for line in lines if line.startswith("# model sha256"))
    prompts = [list(map(int, line.split()[1:])) for line in lines if line.startswith("prompt")]
    greedy = [int(line.split()[1]) for line in lines if line.startswith("greedy")]
    codes = array.array("H", (HERE / "smollm2/logprobs.u16").read_bytes())
    if sys.byteorder == "big":
        codes.byteswap()
    reference = []
    for i, ids in enumerate(prompts):
        logprobs = [-code / STEPS_PER_NAT for code in codes[i * VOCAB : (i + 1) * VOCAB]]
        reference.append((ids, greedy[i], normalised(logprobs)))
    return reference, model


def normalised(logprobs):
    shift = math.log(math.fsum(map(math.exp, logprobs)))
    return [each - shift for each in logprobs]


def ask(url, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def logprobs_behind(url, ids):
    # A token that ends the answer or is half a character comes without its probabilities, so the choice is another one's;
    # the probabilities are those before any sampling setting.
    body = {"prompt": ids, "n_predict": 1, "n_probs": VOCAB, "temperature": 0, "logit_bias": [[PLAIN_TOKEN, 1000]], "cache_prompt": False}
    answer = ask(url, "/completion", body)
    top = answer["completion_probabilities"][0]["top_logprobs"]
    if len(top) != VOCAB:
        raise SystemExit(f"the server tells {len(top)} probabilities instead of {VOCAB}")
    logprobs = [0.0] * VOCAB
    for each in top:
        logprobs[each["id"]] = max(each["logprob"], LOGPROB_MIN)
    return normalised(logprobs)


def start(options):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [options.server, "-m", options.model, "--host", "127.0.0.1", "--port", str(port), "-c", "4096", "-np", "1", "--no-ui"]
    process = subprocess.Popen([*command, *options.flags.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            ask(url, "/health")
            return process, url
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                raise SystemExit("the server did not start")
            time.sleep(0.2)
    process.kill()
    raise SystemExit("the server did not become ready")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--server", required=True, help="a llama-server program")
    parser.add_argument("--flags", default="", help="more for it, for example '-ctk q8_0 -ctv q8_0'")
    options = parser.parse_args()

    reference, model = read_reference()
    if hashlib.sha256(options.model.read_bytes()).hexdigest() != model:
        raise SystemExit(f"{options.model} is not the file that the reference was made from (sha256 {model})")
    process, url = start(options)
    try:
        divergences, equal = [], 0
        for ids, greedy, p in reference:
            q = logprobs_behind(url, ids)
            divergences.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)))
            equal += max(range(VOCAB), key=q.__getitem__) == greedy
    finally:
        process.terminate()
        process.wait()
    mean = math.fsum(divergences) / len(divergences)
    print(f"mean KL {mean:.3g} (greatest {max(divergences):.3g}) over {len(divergences)} prompts; {equal} most probable tokens equal")


if __name__ == "__main__":
    main()
