#!/usr/bin/python3
"""How long steps of training take, in milliseconds of wall and processor time: the digits models of examples/train, a larger
perceptron and a small transformer, by the cpu package and by PyTorch, where it is installed. Adam and cross-entropy, batches of 64, 1 and 2 threads; the
median of rounds that alternate between both."""
import base64
import ctypes
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
RLXC = os.environ.get("RLXC", str(ROOT / "build/rlxc"))
BATCH, ROUNDS, STEPS = 64, 7, 20


def wide_model(path, width=1024):
    rng = np.random.default_rng(1)
    sizes, constants, nodes = [width, width, width, 10], [], [{"op": "Input", "results": [[0, f"f32[batch,{width}]", "x"]]}]
    value, last = 1, 0
    for i, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        for shape in ((rows, columns), (columns,)):
            data = rng.normal(scale=rows**-0.5, size=shape).astype("<f4")
            constants.append({"id": len(constants), "dtype": "f32", "dims": list(shape), "base64": base64.b64encode(data.tobytes()).decode()})
            nodes.append({"op": "Param", "attrs": {"data": len(constants) - 1},
                          "results": [[value, f"f32[{','.join(map(str, shape))}]", f"{'wb'[len(shape) == 1]}{i}"]]})
            value += 1
        nodes.append({"op": "MatMul", "operands": [last, value - 2], "results": [[value]]})
        nodes.append({"op": "Add", "operands": [value, value - 1], "results": [[value + 1]]})
        value, last = value + 2, value + 1
        if i + 2 < len(sizes):
            nodes.append({"op": "Relu", "operands": [last], "results": [[value]]})
            value, last = value + 1, value
    path.write_text(json.dumps({"format": "rlxc-graph", "format_version": "1.0", "module": "wide", "symbols": ["batch"],
                                "constants": constants, "graphs": [{"name": "main", "nodes": nodes, "outputs": [[last, "logits"]]}]}))


SEQUENCE, MODEL, HEADS, LAYERS = 32, 128, 4, 2


def transformer_model(path):
    """Pre-norm layers with GELU, the mean over positions, a classifier."""
    rng = np.random.default_rng(2)
    constants, nodes, count = [], [{"op": "Input", "results": [[0, f"f32[batch,{SEQUENCE},{MODEL}]", "x"]]}], [1]

    def add(op, operands, attrs=None):
        nodes.append({"op": op, "operands": operands, "results": [[count[0]]]} | ({"attrs": attrs} if attrs else {}))
        count[0] += 1
        return count[0] - 1

    def param(*shape, value=None):
        data = rng.normal(scale=shape[0]**-0.5, size=shape) if value is None else np.full(shape, value)
        constants.append({"id": len(constants), "dtype": "f32", "dims": list(shape),
                          "base64": base64.b64encode(data.astype("<f4").tobytes()).decode()})
        nodes.append({"op": "Param", "attrs": {"data": len(constants) - 1},
                      "results": [[count[0], f"f32[{','.join(map(str, shape))}]", f"p{len(constants)}"]]})
        count[0] += 1
        return count[0] - 1

    def linear(v, rows, columns):
        return add("Add", [add("MatMul", [v, param(rows, columns)]), param(columns, value=0)])

    def norm(v):
        return add("LayerNorm", [v, param(MODEL, value=1), param(MODEL, value=0)], {"axis": 2, "eps": 1e-5})

    v = 0
    for _ in range(LAYERS):
        n = norm(v)
        q, k, w = (linear(n, MODEL, MODEL) for _ in range(3))
        heads = add("Attention", [q, k, w], {"num_heads": HEADS, "num_kv_heads": HEADS, "layout": "packed", "out_layout": "packed"})
        v = add("Add", [v, linear(heads, MODEL, MODEL)])
        v = add("Add", [v, linear(add("Gelu", [linear(norm(v), MODEL, 4 * MODEL)]), 4 * MODEL, MODEL)])
    logits = linear(add("Reduce", [v], {"op": "mean", "axes": [1]}), MODEL, 10)
    path.write_text(json.dumps({"format": "rlxc-graph", "format_version": "1.0", "module": "transformer", "symbols": ["batch"],
                                "constants": constants, "graphs": [{"name": "main", "nodes": nodes, "outputs": [[logits, "logits"]]}]}))


def torch_transformer():
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(MODEL, HEADS, 4 * MODEL, 0.0, "gelu", batch_first=True, norm_first=True)
                for _ in range(LAYERS))
            self.head = torch.nn.Linear(MODEL, 10)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x.mean(1))

    return Model()


def package_step(folder, model, name, x, label):
    out = folder / (name + "_package")
    subprocess.run([RLXC, "compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "adam", "--bind", f"batch={BATCH}",
                    "--emit", "kernels", "-q", "-o", out], check=True)
    kernels = out / "kernels/cpu"
    subprocess.run(["make", "-s", f"lib{name}.so"], cwd=kernels, check=True)
    library, error = ctypes.CDLL(str(kernels / f"lib{name}.so")), ctypes.c_int()
    create, step = getattr(library, name + "_train_create"), getattr(library, name + "_step")
    create.restype, step.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    trainer = create(os.fsencode(kernels), b".", ctypes.byref(error))
    inputs = (ctypes.c_void_p * 2)(x.ctypes.data, label.ctypes.data)

    def run():
        assert step(trainer, inputs, 2, None) == 0

    return run, lambda threads: getattr(library, name + "_set_threads")(threads)


def torch_step(name, x, label):
    import torch

    nn = torch.nn
    models = {
        "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10)),
        "cnn": lambda: nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                                     nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10)),
        "transformer": torch_transformer,
        "wide": lambda: nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)),
    }
    model = models[name]()
    optimizer = torch.optim.Adam(model.parameters())
    inputs, labels = torch.from_numpy(x), torch.from_numpy(label)

    def run():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return run, torch.set_num_threads


def measure(run):
    wall, busy = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        run()
    return (time.perf_counter() - wall) * 1e3 / STEPS, (time.process_time() - busy) * 1e3 / STEPS


def main():
    has_torch = importlib.util.find_spec("torch") is not None
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        subprocess.run([sys.executable, ROOT / "examples/train/digits.py", folder], check=True)
        wide_model(folder / "wide.json")
        transformer_model(folder / "transformer.json")
        print(f"{'model':11} {'threads':>7} {'rlxc wall':>10} {'cpu':>8} {'torch wall':>11} {'cpu':>8} {'wall ratio':>11} {'cpu ratio':>10}")
        for name, shape in (("mlp", (BATCH, 1, 12, 12)), ("cnn", (BATCH, 1, 12, 12)), ("wide", (BATCH, 1024)),
                            ("transformer", (BATCH, SEQUENCE, MODEL))):
            x, label = rng.normal(size=shape).astype(np.float32), rng.integers(0, 10, BATCH)
            sides = [package_step(folder, folder / (name + ".json"), name, x, label)]
            if has_torch:
                sides.append(torch_step(name, x, label))
            for threads in (1, 2):
                found = [[] for _ in sides]
                for _, set_threads in sides:
                    set_threads(threads)
                for i in range(ROUNDS + 1):
                    for k, (run, _) in enumerate(sides):
                        sample = measure(run)
                        if i > 0:
                            found[k].append(sample)
                medians = [[statistics.median(s[j] for s in side) for j in (0, 1)] for side in found]
                row = f"{name:11} {threads:7} {medians[0][0]:10.3f} {medians[0][1]:8.3f}"
                if has_torch:
                    row += f" {medians[1][0]:11.3f} {medians[1][1]:8.3f} {medians[0][0] / medians[1][0]:11.2f} {medians[0][1] / medians[1][1]:10.2f}"
                print(row, flush=True)


if __name__ == "__main__":
    main()
