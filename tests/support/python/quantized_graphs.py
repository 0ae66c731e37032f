#!/usr/bin/env python3
"""Random graphs as quantizers write them: quantized_graphs.py FOLDER COUNT writes FOLDER/<i>.onnx, and FOLDER/sum.onnx with data.

Q/DQ pairs around matmuls, convolutions and what moves elements, products of codes, weights of 4 bits. Scales are powers of two and
sums have few terms, which makes all arithmetic exact in f32: engines must agree bit by bit, halves included. Rows may be a symbol m.
"""
import sys

import numpy as np

from onnx_writer import TYPES, Model
from protobuf_wire import field

TYPES.update(uint4=21, int4=22)
ENDS = {"uint8": (0, 255), "int8": (-128, 127), "uint4": (0, 15), "int4": (-8, 7)}


class Graph(Model):
    def __init__(self, seed):
        super().__init__(21)
        self.random, self.results = np.random.default_rng(seed), []

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def codes(self, kind, *shape):
        """Half of them are the least or the greatest of the type."""
        values = self.random.integers(*ENDS[kind], shape, endpoint=True)
        return np.where(self.random.random(shape) < 0.5, self.random.choice(ENDS[kind], shape), values)

    def stored(self, kind, values):
        """A constant of codes; those of 4 bits lie two in a byte."""
        values = np.asarray(values)
        if ENDS[kind][1] > 15:
            return self.constant(values.astype(kind))
        nibbles = np.append(values.reshape(-1), [0] * (values.size % 2)).astype(np.int64).reshape(-1, 2) & 15
        name = self.fresh("c")
        self.weights.append(field(5, b"".join(field(1, n) for n in values.shape) + field(2, TYPES[kind]) + field(8, name) +
                                  field(9, (nibbles[:, 0] | nibbles[:, 1] << 4).astype(np.uint8).tobytes())))
        return name

    def zero(self, kind):
        low, high = ENDS[kind]
        return self.pick(low, high, (low + high + 1) // 2, low + 1, int(self.random.integers(low, high)))

    def quantized(self, x, codes=False, least=False):
        """A pair behind x, or its codes with scale and zero point; `least`: of a value that is not negative."""
        kind, shape = "uint8" if least else self.pick("uint8", "int8"), self.pick((), (1,))
        scale = self.constant(np.full(shape, 2.0 ** self.pick(-6, -5, -4), np.float32))
        zero = self.stored(kind, np.full(shape, 0 if least else self.zero(kind)))
        q = self("QuantizeLinear", x, scale, zero)
        return (q, scale, zero, kind) if codes else self("DequantizeLinear", q, scale, zero)

    def weight(self, *shape, axis):
        kind, each = self.pick("int8", "uint8", "int8", "int4", "uint4"), self.pick(False, True)
        n = (shape[axis],) if each else self.pick((), (1,))
        scale = 2.0 ** self.random.integers(-9, -5, n)
        zero = self.pick([], [self.stored(kind, np.zeros(n, int))], [self.stored(kind, self.codes(kind, *n))])
        return self("DequantizeLinear", self.stored(kind, self.codes(kind, *shape)), self.constant(np.asarray(scale, np.float32)), *zero,
                    **({"axis": self.pick(axis, axis - len(shape))} if each else {}))

    def bias(self, n):
        return self("DequantizeLinear", self.constant(self.random.integers(-2000, 2000, n).astype(np.int32)), self.constant(np.float32(2**-10)))

    def activated(self, x):
        op = self.pick("", "Relu", "Clip", "Clip")
        return self(op, x, *([-1.5, 1.5] if op == "Clip" else [])) if op else x

    def result(self, v, kind="float32"):
        self.results.append((v, kind))


def matmul(g):
    k, n, rows = g.pick(1, 7, 16, 33, 64, 130), g.pick(1, 5, 16, 17, 48), g.pick((1,), (3,), (17,), (2, 3), ("m",))
    y = g("MatMul", g.quantized(g.input([*rows, k])), g.weight(k, n, axis=1))
    y = g.activated(g("Add", y, g.bias(n)) if g.pick(0, 1) else y)
    if g.pick(0, 1):
        y = g("Add", y, g.quantized(g.input([n])))
    g.result(g.quantized(y) if g.pick(0, 1) else y)


def products_of_one_value(g):
    """As query, key and value: pairs and none, in any number."""
    x, least = g.quantized(g.input([g.pick(1, 4), 16])), g.pick(False, True)
    for n in (8, 16, 8):
        y = g("Add", g("MatMul", x, g.weight(16, n, axis=1)), g.bias(n))
        for _ in range(g.pick(0, 1, 1, 2)):
            y = g.quantized(y, least=least)
        codes, _, _, kind = g.quantized(y, codes=True, least=least)
        g.result(*g.pick((y,), (codes, kind), (codes, kind)))


def moved_rows(g):
    x = g("Transpose", g.quantized(g.input([2, 3, 4, 8])), perm=[0, 2, 1, 3])
    g.result(g.quantized(g("Gemm", g("Reshape", x, [-1, 24]), g.weight(10, 24, axis=0), g.bias(10), transB=1)))


def product_of_values(g):
    m, k, n = g.pick(1, 5, 16), g.pick(3, 16, 40), g.pick(1, 9, 32)
    y = g("MatMul", g.quantized(g.input([2, m, k])), g.quantized(g.input([2, k, n])))
    g.result(g.quantized(g("Mul", y, 0.125) if g.pick(0, 1) else y))


def conv(g):
    rank, groups = g.pick(1, 2, 2, 3), g.pick(1, 1, 2, 4)
    channels, out = groups * g.pick(1, 3, 8), groups * g.pick(1, 2, 8)
    window = [g.pick(1, 2, 3) for _ in range(rank)]
    y = g("Conv", g.quantized(g.input([g.pick(1, 2), channels] + [g.pick(5, 8)] * rank)), g.weight(out, channels // groups, *window, axis=0),
          *g.pick([], [g.bias(out)]), kernel_shape=window, group=groups, strides=[g.pick(1, 2)] * rank, dilations=[g.pick(1, 2)] * rank,
          pads=[g.pick(0, 1) for _ in window * 2])
    y = g.quantized(g.activated(y))
    g.result(g.quantized(g("Add", y, g.quantized(y))) if g.pick(0, 1) else y)


def movement(g):
    y = g.quantized(g.input([1, 4, 6, 6]))
    for _ in range(4):
        y = {"pool": lambda: g("MaxPool", y, kernel_shape=[2, 2], pads=g.pick([0, 0, 1, 1], [1] * 4)),
             "mean": lambda: g("AveragePool", y, kernel_shape=[2, 2]),
             "pad": lambda: g("Pad", y, [0, 0, 1, 0, 0, 0, 0, 2], g.pick(0.0, 0.75, -3.0)),
             "join": lambda: g("Concat", y, g.quantized(y), axis=g.pick(1, 2)),
             "grow": lambda: g("Resize", y, None, [1.0, 1.0, 2.0, 1.0], mode="nearest"),
             "slice": lambda: g("Slice", y, [-1], [-1000], [3], [-1]),
             "relu": lambda: g("Relu", y),
             "sum": lambda: g("Add", y, g.quantized(g.input([1])))}[
                 g.pick("pool", "mean", "pad", "join", "grow", "slice", "relu", "sum") if _ else "sum"]()
        y = g.quantized(y) if g.pick(0, 1, 1) else y
    g.result(y)


def moved_codes(g):
    y, scale, zero, kind = g.quantized(g.input([2, 4, 4, 6]), codes=True)
    y = g("Concat", y, g("Pad", g("MaxPool", y, kernel_shape=[1, 2]), [0] * 7 + [1], zero if g.pick(0, 1) else g.stored(kind, 3)), axis=1)
    y = g("Transpose", g("Tile", y, [1, 1, 1, 2]), perm=[0, 2, 3, 1])
    g.result(y, kind)
    g.result(g("MatMul", g("DequantizeLinear", y, scale, zero), g.weight(8, 5, axis=1)))


def integers(g):
    kind, other = g.pick("uint8", "int8"), g.pick("uint8", "int8")
    k, n = g.pick(1, 37, 64, 300), g.pick(1, 8, 19)
    zeros = g.stored(kind, g.zero(kind)), g.stored(other, g.codes(other, n))
    g.result(g("MatMulInteger", g.input([g.pick(1, 3, 18), k], kind), g.stored(other, g.codes(other, k, n)), *zeros[:g.pick(0, 1, 2)]), "int32")
    g.result(g("ConvInteger", g.input([1, 6, 7, 7], kind), g.stored(other, g.codes(other, 5, 6, 3, 3)), zeros[0], pads=[1, 0, 2, 1]), "int32")


def linear_operators(g):
    kind, other = g.pick(("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"))
    part = lambda t: (np.float32(2.0 ** g.pick(-7, -6, -5)), g.stored(t, g.zero(t)))  # noqa: E731
    x, a, to = g.input([3, 20], kind), part(kind), part(kind)
    y = g("QLinearMatMul", x, *a, g.stored(other, g.codes(other, 20, 9)), *part(other), *to)
    b, last = part(kind), part(kind)
    g.result(g("QLinearAdd", y, *to, g.stored(kind, g.codes(kind, 9)), *b, *last, domain="com.microsoft"), kind)


def weight_in_blocks(g):
    kind, block = g.pick("int4", "uint4", "int8"), g.pick(8, 16, 32)
    shape = block * g.pick(1, 3), g.pick(3, 16, 24)
    parts = shape[0] // block, shape[1]
    scale = (2.0 ** g.random.integers(-9, -5, parts)).astype(np.float32)
    w = g("DequantizeLinear", g.stored(kind, g.codes(kind, *shape)), scale, *g.pick([], [g.stored(kind, g.codes(kind, *parts))]), axis=0,
          block_size=block)
    x = g.input([g.pick(1, 5, "m"), shape[0]])
    g.result(g("MatMul", g.quantized(x), w))


def enlarged(g):
    """A transposed convolution or an interpolation beside what skips it."""
    channels = g.pick(3, 4)
    x, skip = g.quantized(g.input([1, 4, 5, 5])), g.quantized(g.input([1, channels, 10, 10]))
    if g.pick(0, 1):
        y = g("Resize", x, None, [1.0, 1.0, 2.0, 2.0], mode="linear")
    else:
        k, out = g.pick((4, 0), (3, 1))
        y = g("ConvTranspose", x, g.weight(4, 4, k, k, axis=1), kernel_shape=[k, k], strides=[2, 2], pads=[1] * 4, output_padding=[out] * 2)
    y = g.quantized(y)
    y = g.quantized(g("Concat", *g.pick((y, skip), (skip, y)), axis=1))
    g.result(g.quantized(g("Conv", y, g.weight(5, 4 + channels, 3, 3, axis=0), kernel_shape=[3, 3])))


def shuffled(g):
    """Channels are interleaved and cut in halves, of which one is convolved."""
    x = g.quantized(g.input([1, 8, 5, 5]))
    y = g("Reshape", g("Transpose", g("Reshape", x, [1, 2, 4, 5, 5]), perm=[0, 2, 1, 3, 4]), [1, 8, 5, 5])
    halves = [g("Slice", y, [start], [start + 4], [1]) for start in (0, 4)]
    halves = [g.quantized(v) if g.pick(0, 1, 1) else v for v in halves]
    z = g.quantized(g("Conv", halves[1], g.weight(4, 1, 3, 3, axis=0), kernel_shape=[3, 3], pads=[1] * 4, group=4))
    g.result(g.quantized(g("Concat", halves[0], z, *g.pick([], [halves[1]]), axis=1)))


def without_pairs(g):
    """Clamped and joined values are read by a convolution as floats."""
    x = g.quantized(g.input([1, 4, 6, 6]))
    y = g.pick(lambda: g("Relu", x), lambda: g("Clip", x, -0.5, 1.0), lambda: g("Clip", x, 0.0, 41 / 128))()
    y = g("Concat", y, *g.pick([], [x], [g.quantized(x)]), axis=g.pick(2, 3))
    g.result(g("Conv", y, g.weight(3, 4, 3, 3, axis=0), kernel_shape=[3, 3]))


PATTERNS = [matmul, products_of_one_value, moved_rows, product_of_values, conv, movement, moved_codes, integers, linear_operators,
            weight_in_blocks, enlarged, shuffled, without_pairs]

for i in range(int(sys.argv[2])):
    graph = Graph(i)
    for j in range(5):
        PATTERNS[(i * 5 + j) % len(PATTERNS)](graph)
    graph.save(f"{sys.argv[1]}/{i}.onnx", *graph.results)

# The sum of two dequantized values, of which many are halves of the scale of the result, up to the rounding of two products.
graph, terms = Graph(0), []
for i, scale in enumerate((0.1, 0.05)):
    numbers = np.float32(scale), np.uint8(128)
    terms.append(graph("DequantizeLinear", graph("QuantizeLinear", graph.input([2, 999]), *numbers), *numbers))
    x = ((graph.codes("uint8", 2, 999) - 128) * scale).astype(np.float32)
    x.tofile(f"{sys.argv[1]}/{i}.bin")
    np.save(f"{sys.argv[1]}/input_{i}.npy", x)
graph.result(graph("QuantizeLinear", graph("Add", *terms), np.float32(0.1), np.uint8(131)), "uint8")
graph.save(f"{sys.argv[1]}/sum.onnx", *graph.results)
