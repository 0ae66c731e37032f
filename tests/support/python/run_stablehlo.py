"""Reads StableHLO text in generic form, checks the type of every operation against its operands, and computes it with NumPy.

run_stablehlo.py WEIGHTS INPUT... in a folder with model.mlir and model.json writes output_<i>.bin. Written from the public
specification of StableHLO, and shares nothing with what writes the text. A module of several partitions runs on as many threads.
"""
import json
import re
import sys
import threading

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64, "i1": np.bool_,
         "complex<f32>": np.complex64, "complex<f64>": np.complex128}
# What NumPy lacks is held in a wider type and rounded after each operation.
TYPES.update({"bf16": np.float32, "f8E4M3FN": np.float32, "f8E5M2": np.float32, "i4": np.int8, "ui4": np.uint8})
TENSOR = r"tensor<(?:\d+x)*(?:complex<f\d+>|\w+)>"
NAMES = {"bool": "i1", "u4": "ui4", "u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64", "f8e4m3fn": "f8E4M3FN", "f8e5m2": "f8E5M2"}
erf = np.vectorize(__import__("math").erf, otypes=[np.float64])


def fail(line, why):
    sys.exit(f"model.mlir: {why}: {line.strip()[:300]}")


def parse_type(text):
    dims, element = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", text.strip()).groups()
    return [int(d) for d in dims.split("x")[:-1]], TYPES[element], NARROW.get(element)


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32).reshape(np.shape(x))
    return np.where(np.isnan(x), np.float32(np.nan), rounded)


def to_f8(mantissa, bias, top, beyond):
    """Rounds to the nearest value, halves to even; what is beyond the largest, `top`, becomes `beyond`."""
    def rounded(x):
        step = np.exp2(np.maximum(np.frexp(x)[1] - 1, 1 - bias) - mantissa)
        y = np.rint(x / step) * step
        return np.where(np.abs(y) > top, np.copysign(np.float32(beyond), y), y).astype(np.float32)
    return rounded


def f8_values(mantissa, bias, special):
    """Of all codes; `special` are the values of the last ones of a sign."""
    code = np.arange(128)
    value = np.exp2(np.maximum(code >> mantissa, 1) - bias - mantissa) * ((code & (1 << mantissa) - 1) + (code >> mantissa > 0) * (1 << mantissa))
    value[128 - len(special):] = special
    return np.concatenate([value, -value]).astype(np.float32)


NAN, INF = float("nan"), float("inf")
NARROW = {"bf16": to_bf16, "i4": lambda x: (x & 15 ^ 8) - 8, "ui4": lambda x: x & 15, "f8E4M3FN": to_f8(3, 7, 448, NAN), "f8E5M2": to_f8(2, 15, 57344, INF)}
F8_VALUES = {"f8E4M3FN": f8_values(3, 7, [NAN]), "f8E5M2": f8_values(2, 15, [INF, NAN, NAN, NAN])}


def types(text):
    return [parse_type(t) for t in re.findall(TENSOR, text)]


def ints(attributes, key):
    m = re.search(rf"\b{key} = array<i64(?:: ([^>]*))?>", attributes)
    return [int(n) for n in m[1].split(",")] if m[1] else []


def pairs(attributes, key):
    m = re.search(rf"\b{key} = dense<\[(.*?)\]> : tensor", attributes)
    return [tuple(map(int, p.split(","))) for p in re.findall(r"\[([^\]]*)\]", m[1])]


def listed(attributes, key):
    m = re.search(rf"{key} = \[([^\]]*)\]", attributes)
    return [int(n) for n in m[1].split(",")] if m[1].strip() else []


def scalar(attributes, key):
    return int(re.search(rf"\b{key} = (\d+)", attributes)[1])


def literal(text, dtype, dims):
    def value(s):
        s = s.strip()
        if s in ("true", "false"):
            return s == "true"
        if s.startswith("0x"):
            width = np.dtype(dtype).itemsize
            return np.array([int(s, 16) << 8 * width - 4 * len(s[2:])], f"u{width}").view(dtype)[0]  # of bf16 the upper half
        return float(s) if "." in s else int(s)
    if text.startswith("["):
        return np.array([value(s) for s in re.sub(r"[\[\]]", "", text).split(",") if s.strip()], dtype).reshape(dims)
    return np.full(dims, value(text), dtype)


UNARY = {"exponential": np.exp, "exponential_minus_one": np.expm1, "log": np.log, "log_plus_one": np.log1p, "sqrt": np.sqrt,
         "rsqrt": lambda x: 1 / np.sqrt(x), "sine": np.sin, "cosine": np.cos, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
         "round_nearest_even": np.rint, "negate": np.negative, "abs": np.abs, "sign": np.sign,
         "not": lambda x: np.logical_not(x) if x.dtype == np.bool_ else np.invert(x)}
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum, "power": np.power,
          "atan2": np.arctan2, "remainder": np.fmod, "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
          "shift_right_logical": np.right_shift,
          "and": lambda a, b: np.logical_and(a, b) if a.dtype == np.bool_ else np.bitwise_and(a, b),
          "or": lambda a, b: np.logical_or(a, b) if a.dtype == np.bool_ else np.bitwise_or(a, b),
          "xor": lambda a, b: np.logical_xor(a, b) if a.dtype == np.bool_ else np.bitwise_xor(a, b),
          "divide": lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / np.where(b == 0, 1, b)).astype(a.dtype)}
COMPARE = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal}


def pad(x, fill, low, high):
    cut = tuple(slice(-l if l < 0 else 0, n + h if h < 0 else n) for l, h, n in zip(low, high, x.shape))
    return np.pad(x[cut], [(max(l, 0), max(h, 0)) for l, h in zip(low, high)], constant_values=fill)


def windows(x, size, strides, dilations):
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape, size, dilations, strides)]
    for offset in np.ndindex(*size):
        yield offset, x[tuple(slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in zip(offset, dilations, out, strides))]


def convolution(x, w, a):
    rank = x.ndim - 2
    if re.search(r"#stablehlo.conv<\[b, f(, \d)*\]x\[(\d, )*i, o\]->\[b, f(, \d)*\]>", a):
        w = np.moveaxis(w, (-1, -2), (0, 1))
    elif not re.search(r"#stablehlo.conv<\[b, f(, \d)*\]x\[o, i(, \d)*\]->\[b, f(, \d)*\]>", a):
        sys.exit("convolution: other dimension numbers")
    groups, dilation = scalar(a, "feature_group_count"), ints(a, "lhs_dilation")
    wide = np.zeros(list(x.shape[:2]) + [(n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation)], x.dtype)
    wide[(slice(None),) * 2 + tuple(slice(None, None, d) for d in dilation)] = x
    p = [(0, 0), (0, 0)] + pairs(a, "padding")
    wide = pad(wide, 0, [l for l, _ in p], [h for _, h in p])
    y, o, c = None, w.shape[0] // groups, w.shape[1]
    for offset, part in windows(wide, (1, 1) + w.shape[2:], [1, 1] + ints(a, "window_strides"), [1, 1] + ints(a, "rhs_dilation")):
        weight = w[(slice(None),) * 2 + offset[2:]]
        terms = [np.moveaxis(np.tensordot(weight[g * o:(g + 1) * o], part[:, g * c:(g + 1) * c], ([1], [1])), 0, 1) for g in range(groups)]
        term = np.concatenate(terms, axis=1)
        y = term if y is None else y + term
    return y


def dot(x, y, a, result):
    bx, by = listed(a, "lhs_batching_dimensions"), listed(a, "rhs_batching_dimensions")
    cx, cy = listed(a, "lhs_contracting_dimensions"), listed(a, "rhs_contracting_dimensions")
    fx, fy = [d for d in range(x.ndim) if d not in bx + cx], [d for d in range(y.ndim) if d not in by + cy]
    size = lambda t, axes: int(np.prod([t.shape[d] for d in axes]))
    left = x.transpose(bx + fx + cx).reshape(size(x, bx), size(x, fx), size(x, cx))
    right = y.transpose(by + cy + fy).reshape(size(y, by), size(y, cy), size(y, fy))
    wide = np.float32 if x.dtype == np.float16 else result if x.dtype.kind in "iu" else x.dtype
    return np.matmul(left.astype(wide), right.astype(wide)).reshape([x.shape[d] for d in bx + fx] + [y.shape[d] for d in fy])


def gather(x, index, a):
    axis = listed(a, "start_index_map")
    sizes = ints(a, "slice_sizes")
    if len(axis) != 1 or listed(a, "collapsed_slice_dims") != axis or sizes[axis[0]] != 1 or scalar(a, "index_vector_dim") != index.ndim:
        sys.exit("gather: other dimension numbers")
    y = np.take(x, np.clip(index, 0, x.shape[axis[0]] - 1), axis=axis[0])
    offset = [d if d < axis[0] else d + index.ndim - 1 for d in range(x.ndim) if d != axis[0]]
    assert offset == listed(a, "offset_dims") or [d for d in range(axis[0])] + [d - 1 + index.ndim for d in range(axis[0] + 1, x.ndim)] == listed(a, "offset_dims")
    return y


def scatter(x, index, updates, a, region):
    if (listed(a, "inserted_window_dims") != [0] or listed(a, "scatter_dims_to_operand_dims") != [0] or scalar(a, "index_vector_dim") != 1
            or listed(a, "update_window_dims") != list(range(1, x.ndim)) or index.ndim != 1):
        sys.exit("scatter: other dimension numbers")
    y = x.copy()
    for i, row in zip(index, updates, strict=True):
        if 0 <= i < y.shape[0]:
            y[i] = row if region is None else BINARY[region](y[i], row)
    return y


def fft(x, a):
    assert ints(a, "fft_length") == [x.shape[-1]]
    return {"FFT": np.fft.fft, "IFFT": np.fft.ifft}[re.search(r"fft_type (\w+)>", a)[1]](x)


def starts(x, sizes, operands):
    return tuple(slice(int(s), int(s) + n) for s, n in zip(np.clip(operands, 0, np.array(x.shape) - sizes), sizes))


class Devices:
    """Partitions that run the same program at the same time."""

    def __init__(self, count):
        self.count, self.barrier, self.sent, self.own = count, threading.Barrier(count), [None] * count, threading.local()

    def groups(self, attributes):
        rows = re.search(r"replica_groups = dense<\[(.*?)\]> : tensor<(\d+)x(\d+)xi64>", attributes)
        groups = [[int(n) for n in row.split(",")] for row in re.findall(r"\[([^\]]*)\]", rows[1])]
        assert [len(groups)] + [len(g) for g in groups] == [int(rows[2])] + [int(rows[3])] * len(groups), "replica_groups"
        assert sorted(n for g in groups for n in g) == list(range(self.count)), "replica_groups do not cover the partitions"
        return groups

    def exchange(self, what, x):
        """The value of every partition. All have to call it for the same operation."""
        self.sent[self.own.rank] = (what, x)
        self.barrier.wait()
        sent = list(self.sent)
        self.barrier.wait()
        assert all(w == what for w, _ in sent), "partitions meet in different operations"
        return [v for _, v in sent]

    def collective(self, op, x, a, region):
        if op == "partition_id":
            return np.uint32(self.own.rank)
        assert re.search(r"channel_handle = #stablehlo.channel_handle<handle = [1-9]\d*, type = 1>", a), "no channel"
        all_sent = self.exchange((op, a), x)
        if op == "collective_permute":
            sources = {target: source for source, target in pairs(a, "source_target_pairs")}
            return all_sent[sources[self.own.rank]] if self.own.rank in sources else np.zeros_like(x)
        assert ("use_global_device_ids" in a) == (op != "all_to_all")
        (members,) = [g for g in self.groups(a) if self.own.rank in g]
        at, received = members.index(self.own.rank), [all_sent[m] for m in members]
        if op == "all_gather":
            return np.concatenate(received, axis=scalar(a, "all_gather_dim"))
        if op == "all_to_all":
            assert scalar(a, "split_count") == len(members)
            return np.concatenate([np.split(v, len(members), scalar(a, "split_dimension"))[at] for v in received], scalar(a, "concat_dimension"))
        total = received[0]
        for v in received[1:]:
            total = BINARY[region](total, v)
        return total if op == "all_reduce" else np.split(total, len(members), scalar(a, "scatter_dimension"))[at]


COLLECTIVES = ("partition_id", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
devices = Devices(1)


def compute(op, x, a, dims, dtype, region):
    if op in COLLECTIVES:
        return devices.collective(op, x[0] if x else None, a, region)
    if op == "constant":
        return literal(re.match(r"value = dense<(.*)> : tensor", a)[1], dtype, dims)
    if op in UNARY:
        return UNARY[op](x[0])
    if op in BINARY:
        assert x[0].shape == x[1].shape and x[0].dtype == x[1].dtype, "operands differ"
        return BINARY[op](x[0], x[1])
    if op == "compare":
        assert x[0].shape == x[1].shape and x[0].dtype == x[1].dtype, "operands differ"
        return COMPARE[re.search(r"comparison_direction (\w+)>", a)[1]](x[0], x[1])
    if op == "select":
        assert x[0].dtype == np.bool_ and x[1].dtype == x[2].dtype and x[0].shape == x[1].shape == x[2].shape, "operands differ"
        return np.where(*x)
    if op == "convert":
        return x[0].astype(dtype)
    if op == "bitcast_convert":
        return x[0].view(dtype)
    if op == "reshape":
        return x[0].reshape(dims)
    if op == "transpose":
        return x[0].transpose(ints(a, "permutation"))
    if op == "broadcast_in_dim":
        axes = ints(a, "broadcast_dimensions")
        assert len(axes) == x[0].ndim and all(n in (1, dims[d]) for n, d in zip(x[0].shape, axes)), "broadcast"
        shape = [1] * len(dims)
        for n, d in zip(x[0].shape, axes):
            shape[d] = n
        return np.broadcast_to(x[0].transpose(np.argsort(axes)).reshape(shape), dims)
    if op == "slice":
        return x[0][tuple(slice(*s) for s in zip(ints(a, "start_indices"), ints(a, "limit_indices"), ints(a, "strides")))]
    if op == "reverse":
        return np.flip(x[0], tuple(ints(a, "dimensions")))
    if op == "concatenate":
        return np.concatenate(x, axis=scalar(a, "dimension"))
    if op == "iota":
        d = scalar(a, "iota_dimension")
        return np.broadcast_to(np.arange(dims[d], dtype=dtype).reshape([-1 if i == d else 1 for i in range(len(dims))]), dims)
    if op == "pad":
        return pad(x[0], x[1], ints(a, "edge_padding_low"), ints(a, "edge_padding_high"))
    if op == "reduce":
        f = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}[region]
        return f(f.reduce(x[0], axis=tuple(ints(a, "dimensions")), dtype=x[0].dtype, initial=x[1]), x[1]) if region != "add" else np.add.reduce(x[0], axis=tuple(ints(a, "dimensions")), dtype=x[0].dtype)
    if op == "reduce_window":
        p = pairs(a, "padding")
        wide = pad(x[0], x[1], [l for l, _ in p], [h for _, h in p])
        y = None
        for _, part in windows(wide, ints(a, "window_dimensions"), ints(a, "window_strides"), ints(a, "window_dilations")):
            y = part if y is None else BINARY[region](y, part)
        return y
    if op == "dot_general":
        return dot(x[0], x[1], a, dtype)
    if op == "convolution":
        return convolution(x[0], x[1], a)
    if op == "gather":
        return gather(x[0], x[1], a)
    if op == "scatter":
        return scatter(*x, a, region)
    if op == "complex":
        return (x[0] + 1j * x[1]).astype(dtype)
    if op in ("real", "imag"):
        return getattr(x[0], op)
    if op == "fft":
        return fft(x[0], a)
    if op == "dynamic_slice":
        return x[0][starts(x[0], ints(a, "slice_sizes"), x[1:])]
    if op == "dynamic_update_slice":
        y = x[0].copy()
        y[starts(y, x[1].shape, x[2:])] = x[1]
        return y
    sys.exit(f"model.mlir: unknown operation {op}")


OPERATION = re.compile(r'\s*(?:(%\d+)(?::(\d+))? = )?"(?:stablehlo|func)\.(\w+)"\(([^)]*)\)( \(\{)?(.*)$')
TAIL = re.compile(r" ?(?:\{(.*)\} )?: \((.*)\) -> \(?(.*?)\)?$")


class Region:
    """Block arguments and operations (op, operands, attributes, operand types, results, result types, regions, line)."""

    def __init__(self, lines):
        self.arguments, self.operations = [], []
        while True:
            line = next(lines)
            if re.match(r"\s*(//.*)?$", line):
                continue
            if re.match(r"\s*\}", line):
                self.end = line.strip()
                return
            if head := re.match(r"\s*\^bb0\((.*)\):$", line):
                self.arguments = re.findall(rf"(%\w+): ({TENSOR})", head[1])
                continue
            m = OPERATION.match(line) or fail(line, "not understood")
            name, count, op, operands, opens, tail = m.groups()
            regions = []
            while opens or (regions and regions[-1].end == "}, {"):
                regions.append(Region(lines))
                opens, tail = None, regions[-1].end[2:]
            t = TAIL.match(tail) or fail(line, "not understood")
            names = [f"{name}#{r}" for r in range(int(count))] if count else [name] if name else []
            self.operations.append((op, [n.strip() for n in operands.split(",") if n.strip()], t[1] or "", types(t[2]), names,
                                    types(t[3]), regions, line))

    def combiner(self):
        """The operation of a region that combines two scalars, or None when it gives its second argument."""
        (a, _), (b, _) = self.arguments
        if len(self.operations) == 1 and self.operations[0][1] == [b]:
            return None
        (op, operands, *_), (last, *_) = self.operations
        assert operands == [a, b] and last == "return"
        return op

    def run(self, outside, arguments):
        values = {**outside, **{name: x for (name, _), x in zip(self.arguments, arguments, strict=True)}}
        for name, kind in self.arguments:
            check(values[name], parse_type(kind), name, "an argument")
        for op, operands, a, operand_types, names, result_types, regions, line in self.operations:
            x = [values[n] for n in operands]
            for v, t in zip(x, operand_types, strict=True):
                check(v, t, line, "an operand")
            if op == "return":
                return x
            try:
                results = execute(op, x, a, result_types, regions, values)
            except (AssertionError, TypeError, ValueError, IndexError, KeyError) as e:
                fail(line, f"{type(e).__name__} {e}")
            for name, y, kind in zip(names, results, result_types, strict=True):
                dims, dtype, narrow = kind
                y = np.asarray(y)
                if y.dtype != dtype and op not in ("compare", "convert", "select", "concatenate", "reshape", "while", "if", "sort"):
                    y = y.astype(dtype)
                check(y, kind, line, "the result")
                values[name] = narrow(y).astype(dtype) if narrow else y


def check(x, kind, line, what):
    dims, dtype, _ = kind
    if list(x.shape) != dims or x.dtype != dtype:
        fail(line, f"{what} is {x.dtype} {list(x.shape)}")


def execute(op, x, a, result_types, regions, values):
    if op == "while":
        while regions[0].run(values, x)[0]:
            x = regions[1].run(values, x)
        return x
    if op == "if":
        return regions[0 if x[0] else 1].run(values, [])
    if op == "sort":
        axis, (compare, *_) = scalar(a, "dimension"), regions[0].operations
        assert "is_stable = true" in a and compare[0] == "compare" and compare[1] == [n for n, _ in regions[0].arguments[:2]]
        key = x[0] if "LT" in compare[2] else -x[0] if x[0].dtype.kind == "f" else -x[0].astype(np.int64)
        order = np.argsort(key, axis=axis, kind="stable")
        return [np.take_along_axis(v, order, axis) for v in x]
    (dims, dtype, _), = result_types
    return [compute(op, x, a, dims, dtype, regions[0].combiner() if regions else None)]


def read(path, name, shape, offset=0, stored=None):
    """`stored` bytes, fewer than there are where all elements are equal."""
    name = NAMES.get(name, name)
    data = np.fromfile(path, np.uint8, -1 if stored is None else stored, offset=offset) if stored != 0 else np.zeros(0, np.uint8)
    if name in ("i4", "ui4"):  # the first element in the low bits
        values = NARROW[name](np.stack([data & 15, data >> 4], axis=-1).reshape(-1).view(TYPES[name]))[:np.prod(shape, dtype=int)]
    elif name in F8_VALUES:
        values = F8_VALUES[name][data]
    elif name == "bf16":
        values = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = data.view(TYPES[name])
    return values.reshape(shape) if values.size == np.prod(shape) else np.broadcast_to(values[:1], shape)


def write(path, y, name):
    y = np.ascontiguousarray(y)
    if name == "bf16":
        y = (y.view(np.uint32) >> 16).astype(np.uint16)
    assert name == "bf16" or NAMES.get(name, name) not in NARROW, f"an output of type {name}"
    y.tofile(path)


def part(data, weight, mesh, rank):
    """The bytes of a weight that belong to a device."""
    place = {}
    for axis in reversed(mesh):
        place[axis["axis"]] = (rank % axis["size"], axis["size"])
        rank //= axis["size"]
    at = 0
    for name in weight["slice"]["along"]:
        at = at * place[name][1] + place[name][0]
    runs, run = weight["slice"]["runs"], weight["slice"]["run"]
    rows = data.reshape(runs, weight["slice"]["whole"])[:, at * run : (at + 1) * run]
    return np.pad(rows, ((0, 0), (0, run - rows.shape[1]))).reshape(-1)


def read_weight(folder, w, mesh, rank):
    path = f"{folder}/{w['file']}"
    if "slice" not in w:
        return read(path, w["dtype"], w["shape"], w["offset"], w["stored"])
    data = part(np.memmap(path, np.uint8, "r", w["offset"], w["stored"]), w, mesh, rank)
    assert len(data) == w["bytes"]
    if NAMES.get(w["dtype"], w["dtype"]) in F8_VALUES:
        return F8_VALUES[NAMES.get(w["dtype"])][data].reshape(w["shape"])
    if w["dtype"] == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(w["shape"])
    return data.view(TYPES[NAMES.get(w["dtype"], w["dtype"])]).reshape(w["shape"])


def parameters(folder, model, mesh, rank):
    """After the inputs: weights, and results of weights.mlir, whose numbers follow theirs."""
    rows = model["weights"]
    numbers, prepared = model.get("parameters", range(len(rows))), model.get("prepared", [])
    stored = {n: read_weight(folder, rows[n], mesh, rank) for n in sorted({*numbers, *prepared}) if n < len(rows)}
    if prepared:
        made = evaluate(open("weights.mlir").read(), [stored[n] for n in prepared])
        stored.update((len(rows) + i, v) for i, v in enumerate(made))
    return [stored[n] for n in numbers]


def main(folder, inputs):
    model = json.load(open("model.json"))
    values = [read(path, port["dtype"], port["shape"]) for path, port in zip(inputs, model["inputs"])]
    mesh = model.get("mesh", [])
    ranks = range(int(np.prod([axis["size"] for axis in mesh], dtype=int)))
    arguments = [values + parameters(folder, model, mesh, rank) for rank in ranks]
    text = open("model.mlir").read()
    check_annotations(text)
    assert len(arguments) == partitions(text), "model.json has another mesh"
    for i, y in enumerate(evaluate_all(text, arguments)):
        write(f"output_{i}.bin", y, model["outputs"][i]["dtype"])


def partitions(text):
    head = re.search(r"^module @\w+(?: attributes \{mhlo.num_partitions = (\d+) : i32, mhlo.num_replicas = 1 : i32\})? \{", text)
    return int(head[1] or 1)


def evaluate_all(text, arguments):
    """Results of all partitions at once, which have to be equal. Arguments are lists by partition."""
    global devices
    devices = Devices(len(arguments))
    results, errors = [None] * len(arguments), []

    def run(rank):
        devices.own.rank = rank
        try:
            results[rank] = evaluate(text, arguments[rank])
        except BaseException as e:  # of any kind: the others must not wait
            if not isinstance(e, threading.BrokenBarrierError):
                errors.append(e)
            devices.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(arguments))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    for other in results[1:]:
        for i, (x, y) in enumerate(zip(results[0], other, strict=True)):
            if not np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"):
                sys.exit(f"model.mlir: partitions disagree about output {i}")
    return results[0]


def check_annotations(text):
    """The shardings of parameters and results (dialect sdy) name axes of the mesh, each once, and their parts have equal sizes."""
    mesh = re.search(r"^  sdy\.mesh @mesh = <\[(.*)\]>$", text, re.M)
    axes = {name: int(size) for name, size in re.findall(r'"(\w+)"=(\d+)', mesh[1])} if mesh else {}
    head = re.search(r"@main\((.*?)\) -> \((.*?)\) \{\n", text)
    for part in head.groups():
        annotated = re.findall(rf"({TENSOR}) \{{sdy\.sharding = #sdy\.sharding<@mesh, \[(.*?)\]>\}}", part)
        assert len(annotated) == part.count("sdy.sharding ="), "an annotation is not of a tensor"
        for kind, sharding in annotated:
            dims, parts = parse_type(kind)[0], re.findall(r"\{(.*?)\}", sharding)
            used = [axis for p in parts for axis in re.findall(r'"(\w+)"', p)]
            assert len(parts) == len(dims) and len(set(used)) == len(used) and set(used) <= set(axes), f"{kind}: {sharding}"
            for n, p in zip(dims, parts):
                assert p in ("", "?") or n % int(np.prod([axes[a] for a in re.findall(r'"(\w+)"', p)])) == 0, f"{kind}: {sharding}"


def evaluate(text, arguments):
    """Results of @main for its parameters in order."""
    head = re.search(r"@main\((.*?)\) -> \((.*?)\) \{\n", text)
    values = {}
    for (name, kind), value in zip(re.findall(rf"(%\w+): ({TENSOR})", head[1]), arguments, strict=True):
        check(value, parse_type(kind), head[0], name)
        values[name] = value
    np.seterr(all="ignore")
    results = Region(iter(text[head.end():].split("\n"))).run(values, [])
    for i, (y, kind) in enumerate(zip(results, types(head[2]), strict=True)):
        check(y, kind, head[0], f"output {i}")
    return results


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
