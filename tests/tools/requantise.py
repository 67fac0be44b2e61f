#!/usr/bin/env python3
"""Writes a GGUF model's matrices in another type, for benchmarks of the same model in several.

    pip install gguf==0.19.0 numpy
    tests/tools/requantise.py MODEL.gguf OUT.gguf --type Q8_0      # F32, F16, BF16, Q8_0, Q5_0, Q5_1, Q4_0, Q4_1

Values are read through their own quantisation, so a copy in a wider type is as good as the original, not better. Norms
and other vectors stay in F32.
"""

import argparse

import gguf
import numpy as np
from gguf.quants import dequantize, quantize


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--type", required=True, choices=["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"])
    arguments = parser.parse_args()
    kind = gguf.GGMLQuantizationType[arguments.type]

    reader = gguf.GGUFReader(arguments.model)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(arguments.out, architecture)
    for name, field in reader.fields.items():
        # The writer makes these itself.
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub_type)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(tensor.shape[::-1])
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=False)
    writer.close()


if __name__ == "__main__":
    main()
