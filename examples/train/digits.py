#!/usr/bin/env python3
"""Writes pictures of digits and two models to train on them: digits.py FOLDER

The pictures are the glyphs of a 5x7 font, each moved, turned, scaled and sheared at random, with noise: x.npy [4000,1,12,12] and
y.npy [4000] to train on, x_test.npy and y_test.npy (1000) that training does not see. mlp.json and cnn.json are the models with
random weights, as JSON graphs of rlxc.
"""
import base64
import json
import pathlib
import sys

import numpy as np

SIZE = 12


def glyphs():
    """The ten digits as [10, 7, 5]."""
    rows = {
        "0": " ### |#   #|#  ##|# # #|##  #|#   #| ### ", "1": "  #  | ##  |  #  |  #  |  #  |  #  | ### ",
        "2": " ### |#   #|    #|   # |  #  | #   |#####", "3": " ### |#   #|    #|  ## |    #|#   #| ### ",
        "4": "   # |  ## | # # |#  # |#####|   # |   # ", "5": "#####|#    |#### |    #|    #|#   #| ### ",
        "6": " ### |#   #|#    |#### |#   #|#   #| ### ", "7": "#####|    #|   # |  #  |  #  | #   | #   ",
        "8": " ### |#   #|#   #| ### |#   #|#   #| ### ", "9": " ### |#   #|#   #| ####|    #|#   #| ### "}
    return np.array([[[c == "#" for c in line] for line in rows[d].split("|")] for d in "0123456789"], np.float32)


def pictures(count, rng):
    """Pictures [count, 1, SIZE, SIZE] and their digits [count]."""
    digits = rng.integers(0, 10, count)
    font = np.pad(glyphs(), ((0, 0), (3, 3), (3, 3)))
    angle, shear = rng.uniform(-0.2, 0.2, count), rng.uniform(-0.15, 0.15, count)
    scale = rng.uniform(0.8, 1.0, (count, 2))
    shift = rng.uniform(-0.8, 0.8, (count, 2))
    grid = np.stack(np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij"), -1) - (SIZE - 1) / 2
    turn = np.stack([np.cos(angle), np.sin(angle) + shear, -np.sin(angle), np.cos(angle)], -1).reshape(count, 2, 2)
    at = np.einsum("hwi,nij->nhwj", grid, turn) * scale[:, None, None] + shift[:, None, None]
    at = np.clip(at + (np.array(font.shape[1:]) - 1) / 2, 0, np.array(font.shape[1:]) - 1.001)
    low = at.astype(int)
    part = at - low
    picture = 0
    for dy in (0, 1):
        for dx in (0, 1):
            weight = np.abs(1 - dy - part[..., 0]) * np.abs(1 - dx - part[..., 1])
            picture = picture + weight * font[digits[:, None, None], low[..., 0] + dy, low[..., 1] + dx]
    picture = picture * rng.uniform(0.7, 1.0, (count, 1, 1)) + rng.normal(0, 0.08, picture.shape)
    return picture[:, None].astype(np.float32), digits.astype(np.int64)


class Model:
    """A JSON graph, node by node."""

    def __init__(self, name, rng):
        self.name, self.rng, self.constants, self.nodes, self.values = name, rng, [], [], 0

    def node(self, op, operands=(), kind=None, value_name=None, /, **attrs):
        result = [self.values]
        if kind or value_name:
            result += [kind] + ([value_name] if value_name else [])
        node = {"op": op, "results": [result]}
        if operands:
            node["operands"] = list(operands)
        if attrs:
            node["attrs"] = attrs
        self.nodes.append(node)
        self.values += 1
        return self.values - 1

    def param(self, name, *dims):
        """Uniform in +-1/sqrt(terms of a sum), as torch.nn.Linear; zeros for a bias."""
        bound = 1 / np.sqrt(dims[0] if len(dims) == 2 else np.prod(dims[1:])) if len(dims) > 1 else 0
        data = self.rng.uniform(-bound, bound, dims).astype("<f4")
        self.constants.append({"id": len(self.constants), "dtype": "f32", "dims": list(dims),
                               "base64": base64.b64encode(data.tobytes()).decode()})
        return self.node("Param", (), f"f32[{','.join(map(str, dims))}]", name, data=len(self.constants) - 1)

    def linear(self, name, x, inputs, outputs):
        product = self.node("MatMul", (x, self.param(name + ".weight", inputs, outputs)))
        return self.node("Add", (product, self.param(name + ".bias", outputs)))

    def convolution(self, name, x, inputs, outputs):
        unit = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "output_padding": [0, 0], "groups": 1}
        y = self.node("Conv", (x, self.param(name + ".weight", outputs, inputs, 3, 3), self.param(name + ".bias", outputs)), **unit)
        window = {"op": "max", "kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
        return self.node("Pool", (self.node("Relu", (y,)),), **window)

    def write(self, folder, output):
        graph = {"name": "main", "nodes": self.nodes, "outputs": [[output, "logits"]]}
        text = json.dumps({"format": "rlxc-graph", "format_version": "1.0", "module": self.name, "symbols": ["batch"],
                           "constants": self.constants, "graphs": [graph]}, indent=1)
        (folder / (self.name + ".json")).write_text(text + "\n")


def mlp(rng):
    m = Model("mlp", rng)
    x = m.node("Input", (), f"f32[batch,1,{SIZE},{SIZE}]", "x")
    flat = m.node("Reshape", (x,), dims=["batch", SIZE * SIZE])
    hidden = m.node("Relu", (m.linear("fc1", flat, SIZE * SIZE, 64),))
    return m, m.linear("fc2", hidden, 64, 10)


def cnn(rng):
    m = Model("cnn", rng)
    x = m.node("Input", (), f"f32[batch,1,{SIZE},{SIZE}]", "x")
    y = m.convolution("conv2", m.convolution("conv1", x, 1, 8), 8, 16)
    flat = m.node("Reshape", (y,), dims=["batch", 16 * (SIZE // 4) ** 2])
    return m, m.linear("fc", flat, 16 * (SIZE // 4) ** 2, 10)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    for suffix, count in (("", 4000), ("_test", 1000)):
        x, y = pictures(count, rng)
        np.save(folder / f"x{suffix}.npy", x)
        np.save(folder / f"y{suffix}.npy", y)
    for model in (mlp, cnn):
        m, output = model(rng)
        m.write(folder, output)


if __name__ == "__main__":
    main()
