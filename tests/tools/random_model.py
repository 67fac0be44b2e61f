#!/usr/bin/env python3
"""Writes a GGUF model of random weights, in the shape of a Llama and in any format: for benchmarks, not for its answers.

    pip install gguf==0.19.0 numpy
    tests/tools/random_model.py OUT.gguf --shape llama-3.2-1b --type Q4_K
    tests/tools/random_model.py OUT.gguf --shape smollm2-135m --type Q8_0 --layers 4 --context 2048

--shape says what the options for single numbers do not. The embedding, which with --tied is the output matrix too, gets
the type that llama.cpp's quantiser would choose: Q6_K where --type has 4 or 5 bits, --type itself otherwise and where
rows are no multiple of 256.

Formats are filled directly: random codes, and scales such that a matrix's standard deviation is 1/sqrt(its inputs) and
its mean 0. The vocabulary is byte-level BPE over made-up words of one to four letters: any text becomes tokens, and
nearly every token is text. The same options and seed make the same file, byte for byte.
"""

import argparse
import itertools
import math
import string

import gguf
import numpy as np

T = gguf.GGMLQuantizationType

SHAPES = {
    "llama-3.2-1b": {
        "layers": 16, "width": 2048, "heads": 32, "kv_heads": 8, "head_size": 64, "feed_forward": 8192,
        "vocabulary": 128256, "rope_theta": 500000.0, "context": 131072,
    },
    "smollm2-135m": {
        "layers": 30, "width": 576, "heads": 9, "kv_heads": 3, "head_size": 64, "feed_forward": 1536,
        "vocabulary": 49152, "rope_theta": 100000.0, "context": 8192,
    },
}  # fmt: skip

# Per format, where a block's half-precision factors lie and what each is of the block's scale. The minimum of an
# asymmetric format is such that the middle of its codes stands for 0.
HALVES = {
    T.Q4_0: {0: 1}, T.Q4_1: {0: 1, 2: -7.5}, T.Q5_0: {0: 1}, T.Q5_1: {0: 1, 2: -15.5}, T.Q8_0: {0: 1}, T.IQ4_NL: {0: 1},
    T.Q4_K: {0: 1, 2: 7.5}, T.Q5_K: {0: 1, 2: 15.5}, T.Q6_K: {208: 1},
}  # fmt: skip
PLAIN = [T.F32, T.F16, T.BF16]
ROWS_AT_ONCE_BYTES = 64 << 20


def random_blocks(random, kind, count):
    """Blocks of scale 1: [count, bytes of a block]."""
    data = np.frombuffer(random.bytes(count * gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    data = data.reshape(count, -1).copy()
    halves(data, kind, np.ones(count))
    if kind == T.Q8_0:
        codes = data[:, 2:].view(np.int8)
        codes[codes == -128] = 0  # no quantiser writes it
    if kind in (T.Q4_K, T.Q5_K):
        # Bytes 4 to 16: eight scales and eight minima of 6 bits. The low 4 bits of minimum 4 + i share byte 8 + i with
        # those of scale 4 + i, their high 2 bits are the upper ones of bytes 4 + i and i. Each minimum is its scale.
        data[:, 8:12] = data[:, 4:8]
        data[:, 12:16] = data[:, 12:16] & 15 | data[:, 12:16] << 4
    return data


def halves(data, kind, scales):
    for offset, factor in HALVES[kind].items():
        data[:, offset : offset + 2] = (scales * factor).astype("<f2").view(np.uint8).reshape(-1, 2)


def random_matrix(random, kind, outputs, inputs):
    """Yields the rows in parts, as the file has them."""
    deviation = 1 / math.sqrt(inputs)
    if kind in PLAIN:
        rows_max = max(1, ROWS_AT_ONCE_BYTES // (4 * inputs))
        for begin in range(0, outputs, rows_max):
            values = random.standard_normal((min(rows_max, outputs - begin), inputs), dtype=np.float32) * deviation
            yield gguf.quants.quantize(values, kind)
        return
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if inputs % block_size:
        raise SystemExit(f"{kind.name} needs rows of a multiple of {block_size} numbers, not {inputs}; choose another --type")
    of_scale_one = gguf.quants.dequantize(random_blocks(np.random.default_rng(0), kind, 4096), kind).std()
    blocks_per_row = inputs // block_size
    rows_max = max(1, ROWS_AT_ONCE_BYTES // (block_bytes * blocks_per_row))
    for begin in range(0, outputs, rows_max):
        rows = min(rows_max, outputs - begin)
        data = random_blocks(random, kind, rows * blocks_per_row)
        # Scales differ as those of trained weights do, and have both signs where an asymmetry of the codes (-8 to 7)
        # would add up otherwise.
        scales = random.uniform(0.75, 1.25, len(data)) * deviation / of_scale_one
        if kind in (T.Q4_0, T.Q5_0, T.IQ4_NL, T.Q6_K):
            scales *= random.choice([-1, 1], len(data))
        halves(data, kind, scales)
        yield data.reshape(rows, -1)


def made_up_vocabulary(size):
    """Tokens and merges of a byte-level BPE with exactly so many tokens; the last two are <s> and </s>."""
    # The printable stand-ins of bytes that GPT-2's vocabulary has: a byte that is no visible character gets the next
    # code point from 256 on.
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    tokens = [chr(byte) for byte in visible] + [chr(256 + i) for i in range(len(hidden))]
    special = ["<s>", "</s>"]
    if size < len(tokens) + 26 + len(special):
        raise SystemExit(f"--vocabulary must be at least {len(tokens) + 26 + len(special)}")
    space = chr(256 + hidden.index(ord(" ")))
    letters = string.ascii_lowercase
    pairs = [(a, b) for a in letters for b in letters]
    merges = itertools.chain(
        ((space, a) for a in letters),
        pairs,
        ((a + b, c) for a, b in pairs for c in letters),
        ((a + b, c + d) for a, b in pairs for c, d in pairs),
    )
    wanted = size - len(tokens) - len(special)
    chosen = list(itertools.islice(merges, wanted))
    if len(chosen) < wanted:
        raise SystemExit(f"--vocabulary may be at most {size - wanted + len(chosen)}")
    return tokens + [a + b for a, b in chosen] + special, [f"{a} {b}" for a, b in chosen]


def matrices(options):
    """Name and [outputs, inputs] of each, without the embedding."""
    queries, keys = options.heads * options.head_size, options.kv_heads * options.head_size
    for layer in range(options.layers):
        for name, outputs, inputs in (
            ("attn_q", queries, options.width),
            ("attn_k", keys, options.width),
            ("attn_v", keys, options.width),
            ("attn_output", options.width, queries),
            ("ffn_gate", options.feed_forward, options.width),
            ("ffn_up", options.feed_forward, options.width),
            ("ffn_down", options.width, options.feed_forward),
        ):
            yield f"blk.{layer}.{name}.weight", outputs, inputs


def add_settings(writer, options):
    writer.add_type("model")
    writer.add_name(f"random {options.shape} {options.type}")
    writer.add_block_count(options.layers)
    writer.add_context_length(options.context)
    writer.add_embedding_length(options.width)
    writer.add_feed_forward_length(options.feed_forward)
    writer.add_head_count(options.heads)
    writer.add_head_count_kv(options.kv_heads)
    writer.add_key_length(options.head_size)
    writer.add_value_length(options.head_size)
    writer.add_rope_dimension_count(options.head_size)
    writer.add_rope_freq_base(options.rope_theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(options.vocabulary)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)

    tokens, merges = made_up_vocabulary(options.vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    types = [gguf.TokenType.NORMAL] * (len(tokens) - 2) + [gguf.TokenType.CONTROL] * 2
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(len(tokens) - 2)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_add_bos_token(False)


def write(options):
    kind = T[options.type]
    embedding = T[options.embedding_type] if options.embedding_type else kind
    if not options.embedding_type and kind.name[:2] in ("Q4", "Q5", "IQ") and options.width % 256 == 0:
        embedding = T.Q6_K
    random = np.random.Generator(np.random.SFC64(options.seed))
    writer = gguf.GGUFWriter(options.out, "llama")
    add_settings(writer, options)

    plan = []  # (name, type, outputs, inputs); norms have no inputs
    plan.append(("token_embd.weight", embedding, options.vocabulary, options.width))
    if not options.tied:
        plan.append(("output.weight", embedding, options.vocabulary, options.width))
    plan += [(name, kind, outputs, inputs) for name, outputs, inputs in matrices(options)]
    for name in [f"blk.{i}.{norm}_norm.weight" for i in range(options.layers) for norm in ("attn", "ffn")]:
        plan.append((name, T.F32, options.width, None))
    plan.append(("output_norm.weight", T.F32, options.width, None))

    for name, kind, outputs, inputs in plan:
        block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        shape = [outputs] if inputs is None else [outputs, inputs]
        bytes_of_it = math.prod(shape) // block_size * block_bytes
        # The type is raw_dtype; the other says only that the shape is in numbers, not in bytes.
        writer.add_tensor_info(name, shape, np.dtype(np.float32), bytes_of_it, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    file = writer.fout[0]
    for name, kind, outputs, inputs in plan:
        writer.write_padding(file, file.tell())
        if inputs is None:
            file.write(np.ones(outputs, dtype="<f4").tobytes())
            continue
        for rows in random_matrix(random, kind, outputs, inputs):
            file.write(rows.tobytes())
    writer.write_padding(file, file.tell())
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    types = sorted(kind.name for kind in [*PLAIN, *HALVES])
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--type", required=True, choices=types, help="of the matrices")
    parser.add_argument("--embedding-type", choices=types)
    parser.add_argument("--tied", action=argparse.BooleanOptionalAction, default=True, help="the embedding is the output matrix too")
    parser.add_argument("--seed", type=int, default=1)
    for name, value in SHAPES["llama-3.2-1b"].items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value))
    options = parser.parse_args()
    for name, value in SHAPES[options.shape].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    write(options)


if __name__ == "__main__":
    main()
