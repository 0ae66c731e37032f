"""Random ONNX graphs as they grow: values, scopes, and the generator that fills them with the steps of random_onnx_elements.py and
random_onnx_layers.py."""
import math

import numpy as np

import onnx_writer
from onnx_writer import tensor, value_info
from protobuf_wire import field

SYMBOLS = {7: "N", 11: "M"}  # sizes of inputs that are symbols; no other size of a model with symbols has these values
LARGEST = 2000  # elements of a value
INTEGERS = ("int32", "int64")
EXACT_BITS = {"float16": 9, "float32": 22, "float64": 50}


class Value:
    """What is known of a value: |x| <= big, and x is computed exactly as a multiple of 2^-grain unless grain is None."""

    def __init__(self, name, dtype, shape, big=4.0, grain=None):
        self.name, self.dtype, self.shape = name, dtype, tuple(int(d) for d in shape)
        self.big = big
        fits = grain is not None and grain + math.log2(max(big, 1)) <= EXACT_BITS.get(dtype, 60)
        self.grain = grain if fits else None

    @property
    def rank(self):
        return len(self.shape)

    @property
    def count(self):
        return math.prod(self.shape)


def attribute(name, value):
    if isinstance(value, bytes):  # a graph
        return field(5, field(1, name) + field(6, value) + field(20, 5))
    if isinstance(value, np.generic):
        value = value.item()
    return onnx_writer.attribute(name, list(value) if isinstance(value, tuple) else value)


class Scope:
    """A graph as it grows: its nodes, and the values that its nodes may read."""

    def __init__(self, generator, outer=None):
        self.g, self.outer = generator, outer
        self.nodes, self.weights, self.inputs = [], [], []
        self.pool = list(outer.pool) if outer else []
        self.own = 0 if outer is None else len(self.pool)
        self.used = set()
        self.depth = outer.depth + 1 if outer else 0

    def constant(self, array):
        name = self.g.fresh("c")
        array = np.asarray(array)
        if self.g.below(4):
            self.weights.append(field(5, tensor(array, name)))
        else:
            self.nodes.append(field(1, field(2, name) + field(4, "Constant") + attribute("value", array)))
        return name

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        names = []
        for v in inputs:
            if v is None:
                names.append("")
            elif isinstance(v, Value):
                names.append(v.name)
                self.used.add(v.name)
            else:
                names.append(v if isinstance(v, str) else self.constant(v))
        results = [self.g.fresh("v") for _ in range(outputs)]
        self.nodes.append(field(1, b"".join(field(1, n) for n in names) + b"".join(field(2, r) for r in results) +
                                field(3, f"{op}_{results[0]}") + field(4, op) +
                                b"".join(attribute(k, v) for k, v in attributes.items() if v is not None) +
                                (field(7, domain) if domain else b"")))
        return results[0] if outputs == 1 else results

    def input(self, dtype, shape, name=None):
        name = name or self.g.fresh("x")
        dims = [SYMBOLS[d] if self.g.symbolic and d in SYMBOLS else d for d in shape]
        self.inputs.append(field(11, value_info(name, dtype, dims)))
        return name

    def bytes(self, name, outputs):
        made = b"".join(field(12, value_info(v.name, v.dtype, None)) for v in outputs)
        return b"".join(self.nodes) + field(2, name) + b"".join(self.weights) + b"".join(self.inputs) + made


STEPS = []


def step(weight=1):
    def add(f):
        STEPS.extend([f] * weight)
        return f
    return add


class Generator:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.names, self.feeds = 0, []
        self.float = self.pick(["float32"] * 7 + ["float64", "float16", "float16"])
        self.symbolic = self.below(5) < 2
        self.opset = int(self.pick([13, 15, 17, 18, 20, 21, 22, 23]))
        self.functions = b""

    def below(self, n):
        return int(self.random.integers(n))

    def pick(self, things):
        return things[self.below(len(things))]

    def fresh(self, stem):
        self.names += 1
        return f"{stem}{self.names}"

    # Data

    def is_static(self, d):
        return not self.symbolic or d < 7

    def size(self):
        return self.pick([1, 2, 3, 4, 5, 2, 3, 4, 6] + ([7, 7, 11] if self.symbolic else [8]) + ([0] if self.below(12) == 0 else []))

    def shape(self, rank):
        while True:
            shape = [self.size() for _ in range(rank)]
            if math.prod(shape) <= 600:
                return shape

    def data(self, dtype, shape, low=None):
        """Numbers of a coarse grid."""
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.startswith("float"):
            return (self.random.integers(-8 if low is None else int(4 * low), 9, shape) / 4).astype(dtype)
        least = 0 if dtype.startswith("u") else -6
        return self.random.integers(least if low is None else low, 7, shape).astype(dtype)

    def given(self, s, dtype, shape, low=None):
        """A weight, or an input where the scope has inputs of its own."""
        array = self.data(dtype, shape, low)
        big, grain = (2.0, 2) if dtype.startswith("float") else (6.0, 0)
        if s.depth == 0 and self.below(3) == 0:
            name = s.input(dtype, shape)
            self.feeds.append((name, array))
        elif all(self.is_static(d) for d in shape):
            name = s.constant(array)
        else:
            return None
        return Value(name, dtype, shape, big, grain)

    # Values of the pool

    def choose(self, s, accept):
        for _ in range(30):
            v = s.pool[-1 - self.below(min(len(s.pool), 5))] if self.below(2) else self.pick(s.pool)
            if accept(v):
                return v
        return None

    def any_float(self, s, accept=lambda v: True):
        return self.choose(s, lambda v: v.dtype == self.float and accept(v))

    def exact(self, s, accept=lambda v: True):
        return self.choose(s, lambda v: v.grain is not None and v.dtype != "bool" and accept(v))

    def partner(self, s, x):
        """A value that broadcasts with x, of its type."""
        def fits(y):
            return y.dtype == x.dtype and all(a == b or (1 in (a, b) and 0 not in (a, b))
                                              for a, b in zip(x.shape[::-1], y.shape[::-1]))
        if self.below(3):
            y = self.choose(s, fits)
            if y:
                return y
        shape = [d if self.is_static(d) and self.below(3) else 1 for d in x.shape][self.below(x.rank + 1):]
        return self.given(s, x.dtype, shape)

    def broadcast(self, *values):
        return np.broadcast_shapes(*[v.shape for v in values])

    def dims(self, s, wanted, of):
        """A shape operand: constants, and where it has symbols, what Shape nodes tell."""
        if all(self.is_static(d) for d in wanted):
            return np.array(wanted, np.int64)
        parts = []
        for d in wanted:
            if self.is_static(d):
                parts.append(np.array([d], np.int64))
                continue
            source = next(((v, i) for v in [of] + s.pool for i, k in enumerate(v.shape) if k == d), None)
            if source is None:
                return None
            v, i = source
            parts.append(s.node("Gather", [s.node("Shape", [v]), np.array([i], np.int64)], axis=0))
        return s.node("Concat", parts, axis=0)

    def fill(self, s, count):
        made = tries = 0
        while made < count and tries < 30 * count:
            tries += 1
            before = len(s.nodes), len(s.weights), len(s.inputs), len(self.feeds), set(s.used), len(s.pool)
            out = self.pick(STEPS)(self, s)
            values = [] if out is None else out if isinstance(out, list) else [out]
            if not values or any(v.count > LARGEST or v.rank > 6 or v.big > 1e4 for v in values):
                del s.nodes[before[0]:], s.weights[before[1]:], s.inputs[before[2]:], self.feeds[before[3]:]
                s.used = before[4]
                del s.pool[before[5]:]
                continue
            s.pool.extend(values)
            made += 1

    def model(self):
        s = Scope(self)
        for _ in range(2 + self.below(3)):
            rank = self.pick([0, 1, 2, 2, 3, 3, 4, 4, 5, 6])
            dtype = self.pick([self.float] * 6 + ["int64", "int32", "bool", "int8", "uint8"])
            shape = self.shape(rank)
            array = self.data(dtype, shape)
            name = s.input(dtype, shape)
            self.feeds.append((name, array))
            s.pool.append(Value(name, dtype, shape, 6.0 if dtype.startswith(("i", "u")) else 2.0,
                                2 if dtype.startswith("float") else 0))
        if not any(v.dtype == self.float for v in s.pool):
            name = s.input(self.float, [3, 4])
            self.feeds.append((name, self.data(self.float, [3, 4])))
            s.pool.append(Value(name, self.float, [3, 4], 2.0, 2))
        inputs = len(s.pool)
        self.fill(s, 2 + self.below(14))
        made = s.pool[inputs:]
        outputs = [v for v in made if v.name not in s.used or self.below(8) == 0]
        if not outputs:
            outputs = made[-1:] or [s.pool[0]]
        outputs = [v if v.dtype in NATIVE else Value(s.node("Cast", [v], to=1), "float32", v.shape) for v in outputs]
        named = []
        for v in outputs:  # an output is the result of a node
            named.append(Value(s.node("Identity", [v]), v.dtype, v.shape) if v in s.pool[:inputs] else v)
        opsets = field(8, field(2, self.opset)) + (field(8, field(1, "local") + field(2, 1)) if self.functions else b"")
        return field(1, 8 if self.opset < 19 else 9 if self.opset < 21 else 10) + field(7, s.bytes("random", named)) + opsets + self.functions


NATIVE = {"float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"}


def like(x, name, big=None, grain=None, dtype=None):
    return Value(name, dtype or x.dtype, x.shape, x.big if big is None else big, grain)
