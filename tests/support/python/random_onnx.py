"""Random valid ONNX models with inputs, as cases: random_onnx.py FOLDER COUNT [FIRST SEED] writes FOLDER/SEED-TYPE/model.onnx
and FOLDER/SEED-TYPE/test_data_set_0/input_*.pb; TYPE is that of most numbers. Equal seeds give equal cases.

Ranks are 0 to 6, sizes may be symbols, zero or one; If, Loop and Scan nodes nest; functions, sequences, narrow and quantized types
occur. An operation that jumps (comparison, rounding, argmax) gets only operands that every implementation computes exactly.
"""
import pathlib
import sys

import numpy as np

import random_onnx_elements  # noqa: F401, its steps
import random_onnx_layers  # noqa: F401
from onnx_writer import tensor
from random_onnx_graph import Generator


def main(folder, count, first=1):
    for seed in range(first, first + count):
        g = Generator(seed)
        model = g.model()
        case = pathlib.Path(folder) / f"{seed:06}-{g.float}" / "test_data_set_0"
        case.mkdir(parents=True, exist_ok=True)
        (case.parent / "model.onnx").write_bytes(model)
        for i, (name, array) in enumerate(g.feeds):
            (case / f"input_{i}.pb").write_bytes(tensor(np.asarray(array), name))


if __name__ == "__main__":
    main(sys.argv[1], *[int(a) for a in sys.argv[2:]])
