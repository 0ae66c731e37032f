"""Packages for tpu, read back: stablehlo_back.py FOLDER MODEL...

Compiles each model for tpu into FOLDER, reads model.mlir and weights.mlir of the package, and compares the outputs with those of the
model on the same random inputs. Prints a line per model; the exit code is the number of models that differ.
"""
import importlib.util
import json
import os
import re
import sys

import numpy as np
import rlxc

TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "bool": "?"}
TYPES.update({letter + str(bits): letter + str(bits // 8) for letter in "iu" for bits in (8, 16, 32, 64)})


def weights_of(folder, description):
    spec = importlib.util.spec_from_file_location("rlxc_weights", os.path.join(folder, "rlxc_weights.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = description["weights"]
    stored = module.stored_weights(description, folder)
    return [np.frombuffer(data, TYPES[row["dtype"]]).reshape(row["shape"]) for row, (_, data) in zip(rows, stored)]


def call(path, arrays):
    model = rlxc.load(path)
    return list(model.run({port.name: array for port, array in zip(model.inputs, arrays)}).values())


def differs(path, folder):
    model = rlxc.load(path)
    symbols = {symbol for port in model.inputs for dim in port.shape for symbol in re.findall(r"[A-Za-z_]\w*", str(dim))}
    if symbols := symbols & set(model.symbols):
        model = rlxc.load(path, bind={symbol: 8 for symbol in sorted(symbols)})
    inputs = model.random_inputs()
    expected = list(model.run(inputs).values())
    model.compile("tpu").save(folder, emit="kernels")
    package = os.path.join(folder, "kernels/tpu")
    with open(os.path.join(package, "model.json")) as f:
        description = json.load(f)
    values = weights_of(package, description)
    if prepared := description.get("prepared"):
        values += call(os.path.join(package, "weights.mlir"), [values[n] for n in prepared])
    parameters = description.get("parameters", range(len(description["weights"])))
    given = [np.asarray(inputs[port["name"]]).reshape(port["shape"]) for port in description["inputs"]]
    outputs = call(os.path.join(package, "model.mlir"), given + [values[n] for n in parameters])
    for want, got in zip(expected, outputs):
        if want.shape != got.shape or not np.allclose(want.astype("f8"), got.astype("f8"), rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"differs by {np.abs(want.astype('f8') - got.astype('f8')).max() if want.shape == got.shape else (want.shape, got.shape)}"
    return "" if len(expected) == len(outputs) else f"{len(outputs)} outputs for {len(expected)}"


def main(folder, paths):
    failed = 0
    for i, path in enumerate(paths):
        try:
            reason = differs(path, os.path.join(folder, str(i)))
        except rlxc.Error as error:
            # What tpu cannot run is no package.
            if any(d.code == "RLX0202" for d in error.diagnostics):
                print(f"none    {path}: no package for tpu")
                continue
            reason = str(error)
        failed += bool(reason)
        print(f"{'FAIL' if reason else 'ok':7} {path}{': ' + reason if reason else ''}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
