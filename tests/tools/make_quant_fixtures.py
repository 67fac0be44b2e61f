#!/usr/bin/env python3
"""Writes tests/backend/fixtures/quantised_types.gguf: a tensor of every supported type, and what it stands for.

For a type such as Q4_K the file holds a tensor "Q4_K" of random bytes with sane scales (positive, negative, zero and
subnormal ones), and "Q4_K.expected", its values in F32 as the `gguf` Python package dequantises them.

    pip install gguf==0.19.0 numpy
    tests/tools/make_quant_fixtures.py tests/backend/fixtures/quantised_types.gguf
"""

import sys

import gguf
import numpy as np

SEED = 20260
T = gguf.GGMLQuantizationType

# Byte offsets of the half-precision constants in a block.
HALVES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.IQ4_NL: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}
SPECIAL = np.array([0.0, -0.0, 6e-8, -3e-5, 6.1e-5, -1.5], dtype=np.float16)


def random_blocks(rng, kind, rows, blocks_per_row):
    _, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, size=(rows * blocks_per_row, block_bytes), dtype=np.uint8)
    for offset in HALVES[kind]:
        scales = rng.normal(0, 0.05, size=len(data)).astype(np.float16)
        scales[: len(SPECIAL)] = rng.permutation(SPECIAL)[: len(scales)]
        data[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return data.reshape(rows, -1)


def main(path):
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(path, "fixture")

    def add(kind, data):
        expected = gguf.quants.dequantize(data, kind)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        writer.add_tensor(kind.name + ".expected", np.ascontiguousarray(expected, dtype=np.float32))

    for kind in HALVES:
        block_size, _ = gguf.GGML_QUANT_SIZES[kind]
        add(kind, random_blocks(rng, kind, rows=3, blocks_per_row=2 if block_size == 256 else 4))
    floats = rng.normal(0, 1, size=(3, 40)).astype(np.float32)
    halves = floats.astype(np.float16)
    halves[0, : len(SPECIAL)] = SPECIAL
    writer.add_tensor("F32", floats)
    writer.add_tensor("F32.expected", floats)
    writer.add_tensor("F16", halves)
    writer.add_tensor("F16.expected", halves.astype(np.float32))
    add(T.BF16, gguf.quants.quantize(floats, T.BF16))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
