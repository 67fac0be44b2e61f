#!/usr/bin/env python3
"""Makes the reference embeddings of SmolLM2-135M-Instruct that tests/e2e/test_embeddings.py compares with.

transformers loads the same GGUF file that the engine serves and computes in float32 on the CPU. An embedding is the
mean of the last hidden states of a text's tokens, or the state of its last token, scaled to length 1. README.md in this
folder has the commands and the file formats.
"""

import argparse
import json
import pathlib
import sys

import numpy
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent


@torch.no_grad()
def embeddings(model, ids):
    """[2, hidden]: mean-pooled, last-pooled."""
    states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]  # behind the last norm
    pooled = torch.stack([states.mean(dim=0), states[-1]])
    return torch.nn.functional.normalize(pooled, dim=-1).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "smollm2", help="folder for the fixture")
    arguments = parser.parse_args()

    where = {"pretrained_model_name_or_path": str(arguments.model.parent), "gguf_file": arguments.model.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    model = transformers.AutoModel.from_pretrained(**where, dtype=torch.float32)
    model.eval()

    vectors = []
    for text in json.loads((HERE / "smollm2_texts.json").read_text(encoding="utf-8")):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        vectors.append(embeddings(model, ids))
        print(f"{len(ids)} tokens: {text[:60]!r}", file=sys.stderr)
    (arguments.out / "embeddings.f32").write_bytes(numpy.stack(vectors).astype("<f4").tobytes())


if __name__ == "__main__":
    main()
