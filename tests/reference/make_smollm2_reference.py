#!/usr/bin/env python3
"""Makes the reference values for SmolLM2-135M-Instruct that tests/backend/numerics_smollm2_test.cpp compares with.

transformers loads the same GGUF file that the engine serves and computes in float32 on the CPU. For each of 20 prompts
the fixtures hold the whole distribution of the token after the prompt, and 32 greedy tokens with the log-probability by
which each beat the runner-up. README.md in this folder has the commands and the file formats.
"""

import argparse
import hashlib
import json
import pathlib
import sys

import numpy
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
GREEDY_TOKENS = 32
STEPS_PER_NAT = 2048  # a log-probability is stored as round(-logprob * STEPS_PER_NAT), at most 65535


def prompt_ids(tokenizer, prompt):
    if "chat" in prompt:
        text = tokenizer.apply_chat_template(prompt["chat"], tokenize=False, add_generation_prompt=True)
    else:
        text = prompt["text"]
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def run_prompt(model, ids):
    """The distribution after the prompt [vocab], the greedy tokens, and the margin of each over the second best."""
    output = model(input_ids=torch.tensor([ids]), use_cache=True)
    first = torch.log_softmax(output.logits[0, -1], dim=-1)
    logprobs, tokens, margins = first, [], []
    for _ in range(GREEDY_TOKENS):
        top = torch.topk(logprobs, 2)
        tokens.append(int(torch.argmax(logprobs)))
        margins.append(float(top.values[0] - top.values[1]))
        output = model(
            input_ids=torch.tensor([[tokens[-1]]]), past_key_values=output.past_key_values, use_cache=True
        )
        logprobs = torch.log_softmax(output.logits[0, -1], dim=-1)
    return first.numpy(), tokens, margins


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "smollm2", help="folder for the fixtures")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    where = {"pretrained_model_name_or_path": str(arguments.model.parent), "gguf_file": arguments.model.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    model.eval()

    prompts = json.loads((HERE / "smollm2_prompts.json").read_text(encoding="utf-8"))
    lines = [
        "# Made by make_smollm2_reference.py; see README.md. For each prompt: its ids, the greedy ids, the margins.",
        f"# model sha256 {hashlib.sha256(arguments.model.read_bytes()).hexdigest()}",
        f"# torch {torch.__version__}, transformers {transformers.__version__}, float32",
    ]
    codes = []
    for index, prompt in enumerate(prompts):
        ids = prompt_ids(tokenizer, prompt)
        logprobs, tokens, margins = run_prompt(model, ids)
        codes.append(numpy.minimum(numpy.rint(-logprobs.astype(numpy.float64) * STEPS_PER_NAT), 65535))
        lines.append("prompt " + " ".join(map(str, ids)))
        lines.append("greedy " + " ".join(map(str, tokens)))
        lines.append("margin " + " ".join(f"{m:.5f}" for m in margins))
        print(f"{index + 1}/{len(prompts)}: {len(ids)} tokens -> {tokenizer.decode(tokens)!r}", file=sys.stderr)

    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "greedy.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (arguments.out / "logprobs.u16").write_bytes(numpy.stack(codes).astype("<u2").tobytes())


if __name__ == "__main__":
    main()
