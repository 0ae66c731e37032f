"""Reads StableHLO text in generic form, checks the type of every operation against its operands, and computes it with NumPy.

run_stablehlo.py WEIGHTS INPUT... in a folder with model.mlir and model.json writes output_<i>.bin. Written from the public
specification of StableHLO, and shares nothing with what writes the text.
"""
import json
import re
import sys

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64, "i1": np.bool_}
NAMES = {"bool": "i1", "u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64"}
erf = np.vectorize(__import__("math").erf, otypes=[np.float64])


def fail(line, why):
    sys.exit(f"model.mlir: {why}: {line.strip()[:300]}")


def parse_type(text):
    *dims, element = re.fullmatch(r"tensor<(.*)>", text.strip())[1].split("x")
    return [int(d) for d in dims], TYPES[element]


def types(text):
    return [parse_type(t) for t in re.findall(r"tensor<[^>]*>", text)]


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
            return np.array([int(s, 16)], f"u{width}").view(dtype)[0]
        return float(s) if "." in s else int(s)
    if text.startswith("["):
        return np.array([value(s) for s in text[1:-1].split(",") if s.strip()], dtype).reshape(dims)
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
    if not re.search(r"#stablehlo.conv<\[b, f(, \d)*\]x\[o, i(, \d)*\]->\[b, f(, \d)*\]>", a):
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


def dot(x, y, a):
    bx, by = listed(a, "lhs_batching_dimensions"), listed(a, "rhs_batching_dimensions")
    cx, cy = listed(a, "lhs_contracting_dimensions"), listed(a, "rhs_contracting_dimensions")
    fx, fy = [d for d in range(x.ndim) if d not in bx + cx], [d for d in range(y.ndim) if d not in by + cy]
    size = lambda t, axes: int(np.prod([t.shape[d] for d in axes]))
    left = x.transpose(bx + fx + cx).reshape(size(x, bx), size(x, fx), size(x, cx))
    right = y.transpose(by + cy + fy).reshape(size(y, by), size(y, cy), size(y, fy))
    wide = np.float32 if x.dtype == np.float16 else x.dtype
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


def compute(op, x, a, dims, dtype, region):
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
        return dot(x[0], x[1], a)
    if op == "convolution":
        return convolution(x[0], x[1], a)
    if op == "gather":
        return gather(x[0], x[1], a)
    sys.exit(f"model.mlir: unknown operation {op}")


def main(folder, inputs):
    model = json.load(open("model.json"))
    values = {}
    for i, (path, port) in enumerate(zip(inputs, model["inputs"])):
        values[f"%i{i}"] = np.fromfile(path, TYPES[NAMES.get(port["dtype"], port["dtype"])]).reshape(port["shape"])
    for i, w in enumerate(model["weights"]):
        dtype = TYPES[NAMES.get(w["dtype"], w["dtype"])]
        count = w["stored"] // np.dtype(dtype).itemsize
        data = np.fromfile(f"{folder}/{w['file']}", dtype, count, offset=w["offset"]) if count else np.zeros(0, dtype)
        values[f"%w{i}"] = np.broadcast_to(data, w["shape"]) if w["stored"] < w["bytes"] else data.reshape(w["shape"])
    text = open("model.mlir").read()
    head = re.search(r"@main\((.*?)\) -> \((.*?)\) \{", text)
    for name, kind in re.findall(r"(%\w+): (tensor<[^>]*>)", head[1]):
        dims, dtype = parse_type(kind)
        if list(values[name].shape) != dims or values[name].dtype != dtype:
            fail(head[0], f"{name} has another type")
    body = re.sub(r"\(\{\n\s*\^bb0\([^\n]*\n\s*%\w+ = \"stablehlo\.(\w+)\"[^\n]*\n[^\n]*\n\s*\}\)", r"<<\1>>", text[head.end():])
    np.seterr(all="ignore")
    for line in body.split("\n"):
        line = re.sub(r"^\s*//.*", "", line)
        m = re.match(r'\s*(%\d+) = "stablehlo\.(\w+)"\(([^)]*)\)(?: <<(\w+)>>)?(?: \{(.*)\})? : \((.*)\) -> (tensor<[^>]*>)$', line)
        if m:
            operands = [values[n.strip()] for n in m[3].split(",") if n.strip()]
            for x, (dims, dtype) in zip(operands, types(m[6]), strict=True):
                if list(x.shape) != dims or x.dtype != dtype:
                    fail(line, f"an operand is {x.dtype} {list(x.shape)}")
            dims, dtype = parse_type(m[7])
            try:
                y = np.asarray(compute(m[2], operands, m[5] or "", dims, dtype, m[4]))
            except (AssertionError, TypeError, ValueError, IndexError, KeyError) as e:
                fail(line, f"{type(e).__name__} {e}")
            if list(y.shape) != dims:
                fail(line, f"the result has the shape {list(y.shape)}")
            if y.dtype != dtype:
                if m[2] in ("compare", "convert", "select", "concatenate", "reshape"):
                    fail(line, f"the result is {y.dtype}")
                y = y.astype(dtype)
            values[m[1]] = y
            continue
        m = re.match(r'\s*"func\.return"\((.*?)\) :', line)
        if m:
            for i, (name, port) in enumerate(zip(m[1].split(","), model["outputs"])):
                np.ascontiguousarray(values[name.strip()]).tofile(f"output_{i}.bin")
        elif line.strip() not in ("", "}"):
            fail(line, "not understood")


main(sys.argv[1], sys.argv[2:])
