"""Models that compute the sizes which operators need from constants alone: constant_sources.py FOLDER [SOURCE...] writes
FOLDER/CONSUMER/model.onnx and the expected outputs, as cases. Each source below is an operator on constants whose result, as an integer,
is a number from 1 to 10 that is known; each consumer takes all sources, or those that are named."""
import pathlib
import sys

import numpy as np

from onnx_writer import Model, tensor
from protobuf_wire import field

SOURCES = {}
F = lambda *v: np.array(v, np.float32)
I = lambda *v: np.array(v, np.int64)


def source(f):
    SOURCES[f.__name__] = f
    return f


def scaled(op, value, result, **attributes):
    """A function of one real: its result is scaled to 5."""
    SOURCES[op] = lambda m: (m.whole(m("Mul", m(op, F(value), **attributes), float(5 / result))), 5)


sigmoid = lambda x: 1 / (1 + np.exp(-x))
for op, value, result in (
        ("Abs", -3, 3), ("Neg", -3, 3), ("Ceil", 2.5, 3), ("Floor", 2.5, 2), ("Round", 2.5, 2), ("Sqrt", 7, 7 ** .5), ("Exp", 1.5, np.exp(1.5)),
        ("Log", 7, np.log(7)), ("Reciprocal", 3, 1 / 3), ("Sign", 3, 1), ("Erf", .5, .5204999), ("Sin", 1, np.sin(1)), ("Cos", 1, np.cos(1)),
        ("Tan", 1, np.tan(1)), ("Asin", .5, np.arcsin(.5)), ("Acos", .5, np.arccos(.5)), ("Atan", 1, np.arctan(1)), ("Sinh", 1, np.sinh(1)),
        ("Cosh", 1, np.cosh(1)), ("Asinh", 1, np.arcsinh(1)), ("Acosh", 2, np.arccosh(2)), ("Atanh", .5, np.arctanh(.5)),
        ("Sigmoid", 1, sigmoid(1)), ("Tanh", 1, np.tanh(1)), ("Relu", 2, 2), ("LeakyRelu", 2, 2), ("Elu", 2, 2), ("Selu", 2, 2 * 1.0507),
        ("Celu", 2, 2), ("HardSigmoid", 1, .7), ("HardSwish", 1, 4 / 6), ("Softplus", 1, np.log1p(np.exp(1))), ("Softsign", 1, .5),
        ("Mish", 1, np.tanh(np.log1p(np.exp(1)))), ("Gelu", 1, .8413447), ("ThresholdedRelu", 2, 2), ("Identity", 2, 2), ("Shrink", 2, 2),
        ("GlobalMaxPool", [[[2, 7]]], 7), ("GlobalAveragePool", [[[2, 8]]], 5), ("GlobalLpPool", [[[3, 4]]], 5), ("Det", [[2, 1], [1, 3]], 5),
        ("ReduceSum", [[1, 2], [3, 4]], 10), ("ReduceMean", [[1, 2], [3, 6]], 3), ("ReduceMax", [[1, 2], [3, 4]], 4),
        ("ReduceMin", [[3, 2], [3, 4]], 2), ("ReduceProd", [[1, 2], [3, 4]], 24), ("ReduceL1", [[1, -2], [3, 4]], 10),
        ("ReduceL2", [[1, 2], [2, 4]], 5), ("ReduceLogSum", [[1, 2], [3, 4]], np.log(10)),
        ("ReduceLogSumExp", [[1, 2], [0, 0]], np.log(np.exp(1) + np.exp(2) + 2)), ("ReduceSumSquare", [[1, 2], [0, 2]], 9),
        ("Dropout", 2, 2)):
    scaled(op, value, result)


def picked(name, expected, *inputs, at=0, result=0, n=1, **attributes):
    """An operator of which one element of a result is the number."""
    def build(m):
        made = m(name, *inputs, n=n, **attributes)
        made = made[result] if n > 1 else made
        return m.whole(m("Gather", m("Reshape", made, I(-1)), I(at))), expected
    SOURCES[name] = build


T, N = np.array([True]), np.array([False])
for op, *two in (("And", T, T), ("Or", N, T), ("Xor", N, T), ("Not", N), ("Equal", F(2), F(2)), ("Less", F(2), F(3)), ("Greater", F(3), F(2)),
                 ("LessOrEqual", F(2), F(2)), ("GreaterOrEqual", F(2), F(2)), ("IsNaN", F(np.nan)), ("IsInf", F(np.inf))):
    picked(op, 1, *two)
for op, expected, *two in (("Add", 5, F(2), F(3)), ("Sub", 2, F(5), F(3)), ("Mul", 6, F(2), F(3)), ("Div", 2, F(6), F(3)), ("Pow", 8, F(2), F(3)),
                           ("Min", 2, F(2), F(3)), ("Max", 3, F(2), F(3)), ("Mean", 3, F(2), F(4)), ("Sum", 7, F(2), F(4), F(1)),
                           ("PRelu", 2, F(2), F(4)), ("Mod", 3, I(8), I(5)), ("BitwiseAnd", 5, I(7), I(13)), ("BitwiseOr", 7, I(5), I(2)),
                           ("BitwiseXor", 5, I(7), I(2)), ("BitwiseNot", 5, I(-6))):
    picked(op, expected, *two)
U = lambda *v: np.array(v, np.uint8)
S = np.float32
picked("BitShift", 4, U(2), U(1), direction="LEFT")
picked("Where", 3, T, F(3), F(4))
picked("Clip", 6, F(9), S(0), S(6))
picked("Shape", 3, F(1, 2, 3))
picked("Size", 4, F([1, 2], [3, 4]))
picked("Flatten", 3, F([4, 2], [3, 4]), at=2)
picked("Squeeze", 2, F([4, 2]), at=1)
picked("Unsqueeze", 4, F(4), I(0))
picked("Transpose", 3, F([4, 2], [3, 1]), perm=[1, 0], at=1)
picked("Concat", 3, F(4), F(3), axis=0, at=1)
picked("Slice", 3, F(4, 2, 3), I(2), I(-9), I(0), I(-1))
picked("Pad", 6, F(4, 3), I(1, 0), S(6))
picked("Tile", 2, F(4, 2), I(3), at=3)
picked("Expand", 4, F(4), I(2, 3))
picked("Range", 5, np.int64(2), np.int64(9), np.int64(3), at=1)
picked("ConstantOfShape", 6, I(3), value=F(6))
picked("GatherElements", 3, F(4, 2, 3), I(2, 0))
picked("GatherND", 3, F([4, 2], [3, 1]), I([1, 0]))
picked("ScatterND", 7, F(4, 2, 3), I([0]), F(7))
picked("ScatterElements", 7, F(4, 2, 3), I(0), F(7))
picked("NonZero", 3, F(0, 0, 0, 4))
picked("Compress", 3, F(4, 2, 3), np.array([False, True, True]), at=1)
picked("Trilu", 4, F([4, 2], [3, 1]), upper=0)
picked("OneHot", 5, I(1), I(3), F(2, 5), at=1)
picked("ReverseSequence", 3, F([4], [2], [3]), I(3), batch_axis=1, time_axis=0)
picked("CastLike", 4, F(4), I(1))
picked("CumSum", 9, F(4, 2, 3), np.int64(0), at=2)
picked("DepthToSpace", 3, np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2, 1), blocksize=2, at=1)
picked("SpaceToDepth", 3, np.arange(1, 9, dtype=np.float32).reshape(1, 1, 4, 2), blocksize=2, at=4)
picked("CenterCropPad", 2, F(1, 2, 3, 4, 5), I(3), axes=[0])
picked("MatMul", 7, F([1, 2], [3, 4]), F([1, 2], [3, 4]))
picked("Gemm", 8, F([1, 2], [3, 4]), F([1, 2], [3, 4]), F(1))
picked("MatMulInteger", 5, U([1, 2]), U([1], [2]))
picked("Einsum", 5, F([1, 2], [3, 4]), F(1, 2), equation="ij,j->i")
picked("Conv", 5, F([[1, 2, 3]]), F([[1, 2]]))
picked("ConvInteger", 8, U([[1, 2, 3]]), U([[1, 2]]), at=1)
picked("ConvTranspose", 6, F([[2, 2, 3]]), F([[1, 2]]), at=1)
picked("MaxPool", 7, F([[1, 7, 3]]), kernel_shape=[3])
picked("AveragePool", 4, F([[1, 7, 4]]), kernel_shape=[3])
picked("LpPool", 5, F([[3, 4]]), kernel_shape=[2])
picked("Hardmax", 1, F([4, 2, 3]))
picked("Softmax", 1, F([4, -20, -20]))
picked("LayerNormalization", 3, F(1, -1), F(3, 3), epsilon=1e-9)
picked("RMSNormalization", 3, F(1, -1), F(3, 3), epsilon=1e-9)
picked("BatchNormalization", 5, F([[6]]), F(2), F(1), F(4), F(1), epsilon=1e-9)
picked("InstanceNormalization", 3, F([[2, -2]]), F(2), F(1), epsilon=1e-9)
picked("GroupNormalization", 3, F([[2, -2]]), F(2), F(1), epsilon=1e-9, num_groups=1)
picked("LRN", 4, F([[4]]), size=1, alpha=0.0)
picked("QuantizeLinear", 5, F(4), S(1), np.uint8(1))
picked("DequantizeLinear", 4, U(9), S(.5), np.uint8(1))
picked("Resize", 3, F([[3, 1]]), None, F(1, 1, 2), mode="nearest")
picked("DFT", 5, F([[1], [2], [1], [1]]))
picked("GridSample", 7, F([[[7, 1], [1, 1]]]), F([[[-.5, -.5]]]))
picked("RoiAlign", 4, F([[[4, 4], [4, 4]]]), F([0, 0, 1, 1]), I(0), output_height=1, output_width=1)
picked("Attention", 4, F([[[1]]]), F([[[1]]]), F([[[4]]]))
picked("TfIdfVectorizer", 2, I(7, 2, 7), max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0],
       ngram_indexes=[0], pool_int64s=[7])


@source
def LogSoftmax(m):
    return m.whole(m("Mul", m("Gather", m("LogSoftmax", F(4, 8)), I(0)), -1.0)), 4


@source
def fmod(m):
    return m.whole(m("Mod", F(7.5), F(5), fmod=1)), 2


@source
def BlackmanWindow(m):
    return m.whole(m("Mul", m("Gather", m("BlackmanWindow", np.int64(4)), I(2)), 5.0)), 5


@source
def HammingWindow(m):
    return m.whole(m("Mul", m("Gather", m("HammingWindow", np.int64(4)), I(2)), 5.0)), 5


@source
def ArgMax(m):
    return m("ArgMax", F(4, 2, 3, 9), keepdims=1), 3


@source
def ArgMin(m):
    return m("ArgMin", F(4, 2, 3, 9), keepdims=1), 1


@source
def TopK(m):
    return m("TopK", F(4, 2, 3, 9), I(1), n=2)[1], 3


@source
def Unique(m):
    return m("Unsqueeze", m("Size", m("Unique", F(4, 2, 4, 9, 2))), I(0)), 3


@source
def NonMaxSuppression(m):
    kept = m("NonMaxSuppression", F([[0, 0, 1, 1], [0, 0, 1, .9], [2, 2, 3, 3]]), F([[.9, .8, .7]]), np.int64(3), np.float32(.5))
    return m("Slice", m("Shape", kept), I(0), I(1)), 2


@source
def Split(m):
    return m("Split", I(4, 2, 3), I(1, 2), axis=0, n=2)[0], 4


@source
def DynamicQuantizeLinear(m):
    return m.whole(m("Div", m("Cast", m("Gather", m("DynamicQuantizeLinear", F(0, 1, 2), n=3)[0], I(2)), to=1), 51.0)), 5


@source
def EyeLike(m):
    return m("ReduceSum", m("EyeLike", m("Cast", F([1, 2, 3], [4, 5, 6], [7, 8, 9]), to=7)), I(0, 1), keepdims=0, shape=True), 3


@source
def LpNormalization(m):
    return m.whole(m("Mul", m("Gather", m("LpNormalization", F(3, 4), axis=0), I(0)), 5.0)), 3


@source
def resize_sizes(m):
    return m.whole(m("Gather", m("Reshape", m("Resize", F([[4, 2]]), None, None, I(1, 1, 4), mode="linear"), I(-1)), I(0))), 4


@source
def cast_chain(m):
    x = F(5.3)
    for kind in (10, 1, 16, 11, 2, 3, 13, 6):
        x = m("Cast", x, to=kind)
    return m("Cast", x, to=7), 5


@source
def sequence(m):
    return m("SequenceAt", m("SplitToSequence", I(4, 2, 3), I(1, 1, 1), axis=0), np.int64(1)), 2


@source
def sequence_length(m):
    return m("Unsqueeze", m("SequenceLength", m("SplitToSequence", I(4, 2, 3), axis=0)), I(0)), 3


@source
def sequence_of_parts(m):
    parts = m("SequenceConstruct", I(4), I(6))
    parts = m("SequenceInsert", parts, I(7), np.int64(1))
    return m("Slice", m("ConcatFromSequence", m("SequenceErase", parts, np.int64(0)), axis=0), I(0), I(1)), 7


@source
def optional(m):
    return m("OptionalGetElement", m("Optional", I(4))), 4


def body(m, build):
    """A graph whose names occur nowhere else; `build` makes its nodes and returns its outputs."""
    inner = Case()
    inner.stem = m.fresh("body")
    return inner.graph(*build(inner))


@source
def If(m):
    yes, no = (body(m, lambda b: [(b("Add", I(2), I(n)), "int64", [1])]) for n in (3, 1))
    return m("If", m("Greater", m("Sqrt", S(9)), S(2)), then_branch=yes, else_branch=no), 5


@source
def Loop(m):
    def build(b):
        condition, x = [b.input(shape, kind, b.fresh("in")) for shape, kind in (([], "int64"), ([], "bool"), ([1], "int64"))][1:]
        return (b("Identity", condition), "bool", []), (b("Add", x, I(2)), "int64", [1])
    return m("Loop", np.int64(3), np.array(True), I(1), body=body(m, build)), 7


@source
def Scan(m):
    def build(b):
        total = b("Add", *(b.input([], "int64", b.fresh("in")) for _ in range(2)))
        return (total, "int64", []), (b("Identity", total), "int64", [])
    return m("Slice", m("Scan", np.int64(0), I(1, 2, 3), n=2, body=body(m, build), num_scan_inputs=1)[1], I(-1), I(9)), 6


@source
def LSTM(m):
    n = m("LSTM", F([[1]]), F([[0], [0], [0], [0]]), F([[0], [0], [0], [0]]), n=3, hidden_size=1)[0]
    return m("Size", n, shape=True), 1


@source
def MelWeightMatrix(m):
    w = m("MelWeightMatrix", np.int64(4), np.int64(8), np.int64(16), np.float32(0), np.float32(8))
    return m("Slice", m("Shape", w), I(0), I(1)), 5


@source
def AffineGrid(m):
    g = m("AffineGrid", F([[1, 0, 0], [0, 1, 0]]), I(1, 1, 2, 2), align_corners=1)
    return m.whole(m("Mul", m("Gather", m("Reshape", g, I(-1)), I(7)), 5.0)), 5


@source
def random_shape(m):
    return m("Slice", m("Shape", m("RandomNormalLike", F([1, 2], [3, 4], [5, 6]))), I(0), I(1)), 3


@source
def large_table(m):
    return m("Add", m("ReduceMax", np.arange(300000, dtype=np.int64) % 7, keepdims=1), I(1)), 7


class Case(Model):
    def __init__(self):
        super().__init__(23)
        self.stem, self.outputs, self.expected, self.feeds = "", [], [], []

    def fresh(self, stem):
        return super().fresh(f"{self.stem}.{stem}" if self.stem else stem)

    def whole(self, x):
        """An i64 vector of the real numbers, which may be a little below integers."""
        return self("Cast", self("Add", self("Cast", x, to=1), .25), to=7, shape=True)

    def __call__(self, op, *inputs, shape=False, **more):
        made = super().__call__(op, *inputs, **more)
        return super().__call__("Reshape", made, I(1)) if shape else made

    def feed(self, array):
        name = self.input(list(array.shape), array.dtype.name)
        self.feeds.append((name, array))
        return name

    def result(self, name, array):
        self.outputs.append((name, array.dtype.name, list(array.shape)))
        self.expected.append((name, array))


R = np.arange(5040, dtype=np.float32)


def resized(x, n):  # nearest, half_pixel, round_prefer_floor
    at = (np.arange(n) + .5) * (x.shape[2] / n) - .5
    return x[:, :, np.clip(np.ceil(at - .5), 0, x.shape[2] - 1).astype(int)]


def branch(m, x, n):
    """Padded inside an If whose condition only data tell."""
    bodies = [body(m, lambda b: [(b("Mul", b("Pad", x, b("Concat", I(0), n, axis=0)), factor), "float32")]) for factor in (2.0, 3.0)]
    return m("If", m("Greater", m("ReduceSum", x, keepdims=0), 0.0), then_branch=bodies[0], else_branch=bodies[1])


CONSUMERS = {
    "branch": (R[:6], branch, lambda x, n: 2 * np.pad(x, (0, n))),
    "pad": (R[:6].reshape(2, 3), lambda m, x, n: m("Pad", x, m("Concat", I(0, 0, 0), n, axis=0)), lambda x, n: np.pad(x, [(0, 0), (0, n)])),
    "slice_end": (R[:12], lambda m, x, n: m("Slice", x, I(0), n), lambda x, n: x[:n]),
    "slice_step": (R[:12], lambda m, x, n: m("Slice", x, I(0), I(99), I(0), n), lambda x, n: x[::n]),
    "resize": (R[:10].reshape(1, 2, 5), lambda m, x, n: m("Resize", x, None, None, m("Concat", I(1, 2), n, axis=0)), resized),
    "resize_scale": (R[:10].reshape(1, 2, 5), lambda m, x, n: m("Resize", x, None, m("Concat", F(1, 1), m("Cast", n, to=1), axis=0)),
                     lambda x, n: x.repeat(n, 2)),
    "reshape": (R, lambda m, x, n: m("Reshape", x, m("Concat", n, I(-1), axis=0)), lambda x, n: x.reshape(n, -1)),
    "expand": (R[:2].reshape(2, 1), lambda m, x, n: m("Expand", x, m("Concat", I(2), n, axis=0)), lambda x, n: np.broadcast_to(x, (2, n))),
    "tile": (R[:3], lambda m, x, n: m("Tile", x, n), lambda x, n: np.tile(x, n)),
    "range": (R[:1], lambda m, x, n: m("Add", m("Cast", m("Range", np.int64(0), m("Squeeze", n), np.int64(1)), to=1), x), lambda x, n: R[:n] + x),
    "top_k": (R[:12], lambda m, x, n: m("TopK", x, n, n=2)[0], lambda x, n: x[::-1][:n]),
    "split": (R[:12], lambda m, x, n: m("Split", x, m("Concat", n, m("Sub", I(12), n), axis=0), n=2)[1], lambda x, n: x[n:]),
    "constant_of_shape": (R[:1], lambda m, x, n: m("Add", m("ConstantOfShape", n, value=F(2)), x), lambda x, n: np.full(n, 2, np.float32) + x),
    "one_hot": (I(3), lambda m, x, n: m("OneHot", x, n, F(0, 1)), lambda x, n: (np.arange(n)[None] == x[:, None]).astype(np.float32)),
}


def main(folder, *names):
    for name, (x, build, compute) in CONSUMERS.items():
        m = Case()
        fed = m.feed(x)
        for of in names or SOURCES:
            m.stem = of
            n, value = SOURCES[of](m)
            m.result(build(m, fed, n), np.ascontiguousarray(compute(x, value)))
        data = pathlib.Path(folder) / name / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        m.save(data.parent / "model.onnx", *m.outputs)
        for kind, arrays in (("input", m.feeds), ("output", m.expected)):
            for i, (value, array) in enumerate(arrays):
                (data / f"{kind}_{i}.pb").write_bytes(tensor(array, value))


if __name__ == "__main__":
    main(*sys.argv[1:])
