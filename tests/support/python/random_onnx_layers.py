"""Steps of random ONNX graphs: reductions, contractions, convolutions, norms, recurrence, quantization, control flow, sequences."""
import math

import numpy as np

from protobuf_wire import field
from random_onnx_graph import INTEGERS, Scope, Value, like, step

# Reductions

@step(5)
def reduce(g, s):
    ops = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare",
           "ReduceLogSum"]
    op = g.pick(ops + ["ReduceSum", "ReduceMean", "ReduceMax"])
    x = g.choose(s, lambda v: v.dtype == g.float or (v.dtype in INTEGERS and op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")))
    if x is None or x.count == 0:
        return None
    axes = sorted(int(i) for i in g.random.choice(x.rank, 1 + g.below(x.rank), replace=False)) if x.rank else []
    keep = g.below(2)
    n = math.prod(x.shape[a] for a in axes)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
    given = [a - x.rank if g.below(3) == 0 else a for a in axes]
    attributes = {"keepdims": keep}
    operands = [x]
    if op == "ReduceLogSum":
        operands = [s.node("Add", [s.node("Abs", [x]), np.array(0.5, x.dtype)])]
    if len(axes) == x.rank and g.below(2):
        pass  # all axes, by default
    elif op == "ReduceSum" or g.opset >= 18:
        operands.append(np.array(given, np.int64))
    elif given:
        attributes["axes"] = given
    if not axes and len(operands) == 2:
        operands.pop()
    big = {"ReduceMean": x.big, "ReduceMax": x.big, "ReduceMin": x.big, "ReduceLogSum": x.big + 5, "ReduceLogSumExp": x.big + 8,
           "ReduceProd": max(x.big, 1) ** min(n, 40), "ReduceSumSquare": x.big ** 2 * n}.get(op, x.big * max(n, 1))
    grain = None
    if x.grain is not None:
        grain = {"ReduceSum": x.grain, "ReduceMax": x.grain, "ReduceMin": x.grain, "ReduceL1": x.grain}.get(op)
        if x.dtype in INTEGERS:
            grain = 0
    return Value(s.node(op, operands, **attributes), x.dtype, shape, big, grain)


@step(2)
def positions(g, s):
    x = g.exact(s, lambda v: v.rank > 0 and v.count > 0 and v.dtype in (g.float, *INTEGERS) and v.dtype != "float16")
    if x is None:
        return None
    axis = g.below(x.rank)
    if g.below(2):
        keep = g.below(2)
        shape = [1 if i == axis else d for i, d in enumerate(x.shape) if keep or i != axis]
        return Value(s.node(g.pick(["ArgMax", "ArgMin"]), [x], axis=axis, keepdims=keep, select_last_index=g.below(2)), "int64", shape,
                     x.shape[axis], 0)
    if not g.is_static(x.shape[axis]):
        return None
    k = 1 + g.below(x.shape[axis])
    shape = x.shape[:axis] + (k,) + x.shape[axis + 1:]
    values, where = s.node("TopK", [x, np.array([k], np.int64)], 2, axis=axis, largest=g.below(2))
    return [Value(values, x.dtype, shape, x.big, x.grain), Value(where, "int64", shape, x.shape[axis], 0)]


@step(2)
def along(g, s):
    x = g.any_float(s, lambda v: v.rank > 0 and v.count > 0)
    if x is None:
        return None
    axis = g.below(x.rank)
    op = g.pick(["Softmax", "Softmax", "LogSoftmax", "CumSum", "LpNormalization", "MeanVarianceNormalization"])
    if op == "CumSum":
        if x.dtype == "float16":
            return None
        return like(x, s.node(op, [x, np.array(axis, np.int64)], exclusive=g.below(2), reverse=g.below(2)), x.big * x.shape[axis], x.grain)
    if op == "LpNormalization":
        p = 1 + g.below(2)
        y = s.node("Add", [s.node("Abs", [x]), np.array(0.25, x.dtype)])
        return like(x, s.node(op, [y], axis=axis, p=p), 2)
    if op == "MeanVarianceNormalization":
        axes = [0, 2, 3] if x.rank == 4 else [axis]
        if math.prod(x.shape[a] for a in axes) < 4 or not all(g.is_static(d) for d in x.shape):
            return None
        ramp = (np.arange(x.count) * 7 % 11 - 5).reshape(x.shape).astype(x.dtype)  # so that no variance is 0
        return like(x, s.node(op, [s.node("Add", [x, ramp])], axes=axes), 40)
    return like(x, s.node(op, [x], axis=axis - x.rank if g.below(2) else axis), 2 * x.big + 5 if op == "LogSoftmax" else 1)


# Contractions, convolutions, norms

def bound_of_sum(x, y, n):
    grain = None if x.grain is None or y.grain is None else x.grain + y.grain
    return x.big * y.big * max(n, 1), grain


@step(6)
def matmul(g, s):
    x = g.any_float(s, lambda v: v.rank >= 1)
    if x is None or x.dtype == "float64" and g.below(2):
        return None
    k = x.shape[-1]
    form = g.below(4)
    if form == 0 and x.rank == 2:
        turned, other = g.below(2), g.below(2)
        k = x.shape[0] if turned else x.shape[1]
        if not g.is_static(k):
            return None
        y = g.given(s, x.dtype, [3, k] if other else [k, 3])
        if not y:
            return None
        c = g.pick([None, [3], [1], []])
        big, grain = bound_of_sum(x, y, k)
        m = x.shape[1] if turned else x.shape[0]
        alpha = g.pick([None, 0.5, 2.0])
        operands = [x, y] + ([g.given(s, x.dtype, c)] if c is not None else [])
        return Value(s.node("Gemm", operands, transA=turned, transB=other, alpha=alpha, beta=g.pick([None, 0.5])), x.dtype, [m, 3],
                     2 * big + 4, None)
    if form == 1 and x.rank >= 2:
        y = g.any_float(s, lambda v: v.rank >= 1)
        t = list(range(x.rank))
        t[-1], t[-2] = t[-2], t[-1]
        y = Value(s.node("Transpose", [x], perm=t), x.dtype, [x.shape[i] for i in t], x.big, x.grain)
        big, grain = bound_of_sum(x, y, k)
        return Value(s.node("MatMul", [x, y]), x.dtype, x.shape[:-1] + (x.shape[-2],), big, grain)
    if not g.is_static(k):
        return None
    if form == 2:
        y = g.given(s, x.dtype, [k])
        if not y:
            return None
        big, grain = bound_of_sum(x, y, k)
        return Value(s.node("MatMul", [x, y]), x.dtype, x.shape[:-1], big, grain)
    n = g.pick([1, 2, 4, 5])
    lead = [d if g.is_static(d) and g.below(2) else 1 for d in x.shape[:-2]] if g.below(3) == 0 else []
    y = g.given(s, x.dtype, lead + [k, n])
    if not y or (x.rank == 1 and lead):
        return None
    big, grain = bound_of_sum(x, y, k)
    shape = np.broadcast_shapes(x.shape[:-2], tuple(lead)) + x.shape[-2:-1] + (n,) if x.rank > 1 else (n,)
    return Value(s.node("MatMul", [x, y]), x.dtype, shape, big, grain)


@step(1)
def einsum(g, s):
    forms = ["ij->ji", "ij,jk->ik", "bij,bjk->bik", "bij,bkj->bik", "ij->i", "ij->", "bhid,bhjd->bhij", "i,j->ij", "...ij,jk->...ik", "ii->i"]
    form = g.pick(forms)
    left = form.split("->")[0].split(",")
    size = {c: g.pick([1, 2, 3, 4]) for c in "bhijkd"}
    shapes = [([2] if "..." in part else []) + [size[c] for c in part.replace("...", "")] for part in left]
    out = form.split("->")[1]
    operands = [g.given(s, "float32", shape) for shape in shapes]
    if g.float != "float32" or not all(operands):
        return None
    shape = ([2] if "..." in out else []) + [size[c] for c in out.replace("...", "")]
    return Value(s.node("Einsum", operands, equation=form), "float32", shape, 4.0 ** len(operands) * 64)


def window(g, sizes, kernel):
    """Attributes of a window over spatial sizes, and the sizes it leaves."""
    n = len(sizes)
    strides = [g.pick([1, 1, 2, 3]) for _ in range(n)]
    dilations = [g.pick([1, 1, 2]) for _ in range(n)]
    pads = [g.below(min(k, 3)) for k in kernel + kernel]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    out = [(d + pads[i] + pads[n + i] - reach[i]) // strides[i] + 1 for i, d in enumerate(sizes)]
    ok = all(d + pads[i] + pads[n + i] >= reach[i] for i, d in enumerate(sizes)) and all(d > 0 for d in out)
    return ({"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}, out) if ok else (None, None)


def image(g, s):
    return g.any_float(s, lambda v: 3 <= v.rank <= 5 and v.count > 0 and all(g.is_static(d) for d in v.shape[1:]))


@step(4)
def conv(g, s):
    x = image(g, s)
    if x is None or x.dtype == "float64":
        return None
    c, spatial = x.shape[1], list(x.shape[2:])
    kernel = [1 + g.below(min(3, d)) for d in spatial]
    group = g.pick([1, 1, c])
    m = group * g.pick([1, 2])
    attributes, out = window(g, spatial, kernel)
    if attributes is None:
        return None
    if g.below(4) == 0:
        attributes = {"kernel_shape": kernel, "auto_pad": g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"]), "strides": attributes["strides"]}
        same = attributes["auto_pad"] != "VALID"
        out = [-(-d // k) if same else (d - w) // k + 1 for d, k, w in zip(spatial, attributes["strides"], kernel)]
    w = g.given(s, x.dtype, [m, c // group] + kernel)
    b = g.given(s, x.dtype, [m]) if g.below(2) else None
    if not w:
        return None
    big, grain = bound_of_sum(x, w, c // group * math.prod(kernel))
    return Value(s.node("Conv", [x, w] + ([b] if b else []), group=group, **attributes), x.dtype, [x.shape[0], m] + out, big + 2, grain)


@step(2)
def conv_transpose(g, s):
    x = image(g, s)
    if x is None or x.rank > 4 or x.dtype == "float64":
        return None
    c, spatial = x.shape[1], list(x.shape[2:])
    kernel = [1 + g.below(3) for _ in spatial]
    group = g.pick([1, 1, c])
    m = g.pick([1, 2])
    strides, dilations = [g.pick([1, 2, 3]) for _ in spatial], [g.pick([1, 1, 2]) for _ in spatial]
    extra = [g.below(max(k, d)) if max(k, d) > 1 and g.below(2) else 0 for k, d in zip(strides, dilations)]
    extra = [e if e < k else 0 for e, k in zip(extra, strides)]
    pads = [g.below(min(k, 2)) for k in kernel + kernel]
    n = len(spatial)
    out = [(d - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + extra[i] - pads[i] - pads[n + i] for i, d in enumerate(spatial)]
    w = g.given(s, x.dtype, [c, m] + kernel)
    if any(d <= 0 for d in out) or not w:
        return None
    big, grain = bound_of_sum(x, w, c * math.prod(kernel))
    return Value(s.node("ConvTranspose", [x, w], group=group, strides=strides, dilations=dilations, pads=pads, output_padding=extra), x.dtype,
                 [x.shape[0], m * group] + out, big, grain)


@step(3)
def pool(g, s):
    x = image(g, s)
    if x is None or x.dtype == "float64":
        return None
    spatial = list(x.shape[2:])
    op = g.pick(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "MaxPool"])
    if op.startswith("Global"):
        big = x.big * (math.prod(spatial) if op == "GlobalLpPool" else 1)
        return Value(s.node(op, [x]), x.dtype, list(x.shape[:2]) + [1] * len(spatial), big, x.grain if op == "GlobalMaxPool" else None)
    kernel = [1 + g.below(min(3, d)) for d in spatial]
    attributes, out = window(g, spatial, kernel)
    if attributes is None:
        return None
    dilated = any(d > 1 for d in attributes["dilations"])
    if (op == "AveragePool" and g.opset < 19) or (op == "LpPool" and g.opset < 18):
        if dilated:
            return None
        del attributes["dilations"]
    if op == "AveragePool":
        attributes["count_include_pad"] = g.below(2)
    name = s.node(op, [x], **attributes)
    big = x.big * (math.prod(kernel) if op == "LpPool" else 1)
    return Value(name, x.dtype, list(x.shape[:2]) + out, big, x.grain if op == "MaxPool" else None)


@step(3)
def norm(g, s):
    x = g.any_float(s, lambda v: v.rank >= 2 and v.count > 0)
    if x is None or x.dtype != "float32":
        return None
    op = g.pick(["LayerNormalization", "LayerNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization",
                 "RMSNormalization", "LRN"])
    c = x.shape[1]
    if op in ("LayerNormalization", "RMSNormalization"):
        axis = 1 + g.below(x.rank - 1)
        shape = x.shape[axis:]
        if g.opset < (17 if op[0] == "L" else 23) or math.prod(shape) < 3 or not all(g.is_static(d) for d in shape):
            return None
        operands = [x, g.given(s, x.dtype, shape)] + ([g.given(s, x.dtype, shape)] if op[0] == "L" and g.below(2) else [])
        return like(x, s.node(op, operands, axis=axis - x.rank if g.below(2) else axis, epsilon=1e-2), 100)
    if not g.is_static(c):
        return None
    if op == "BatchNormalization":
        operands = [x] + [g.given(s, x.dtype, [c]) for _ in range(3)] + [g.given(s, x.dtype, [c], low=1)]
        return like(x, s.node(op, operands, epsilon=1e-2), 4 * (x.big + 2) + 2)
    if x.rank < 3 or math.prod(x.shape[2:]) < 3:
        return None
    if op == "LRN":
        return like(x, s.node(op, [x], size=1 + 2 * g.below(2), alpha=0.1, beta=0.75, bias=1.0), x.big) if x.rank == 4 else None
    if op == "InstanceNormalization":
        return like(x, s.node(op, [x, g.given(s, x.dtype, [c]), g.given(s, x.dtype, [c])], epsilon=1e-2), 100)
    if g.opset < 21:
        return None
    groups = g.pick([k for k in range(1, c + 1) if c % k == 0])
    return like(x, s.node(op, [x, g.given(s, x.dtype, [c]), g.given(s, x.dtype, [c])], num_groups=groups, epsilon=1e-2), 100)


@step(2)
def resize(g, s):
    x = g.any_float(s, lambda v: v.rank == 4 and v.count > 0 and all(g.is_static(d) for d in v.shape))
    if x is None or x.dtype != "float32":
        return None
    mode = g.pick(["nearest", "linear", "cubic"])
    to = [d * g.pick([1, 2, 3]) if g.below(2) else max(1, d - g.below(2)) for d in x.shape[2:]]
    shape = list(x.shape[:2]) + to
    place = g.pick(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
    rounding = g.pick(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]) if mode == "nearest" else None
    if mode == "nearest" and place != "asymmetric" or mode == "nearest" and rounding.startswith("round"):
        if any(a % b and b % a for a, b in zip(to, x.shape[2:])):
            return None
        place, rounding = "asymmetric", "floor"
    return Value(s.node("Resize", [x, None, None, np.array(shape, np.int64)], mode=mode, coordinate_transformation_mode=place,
                        nearest_mode=rounding), x.dtype, shape, 2 * x.big, x.grain if mode == "nearest" else None)


@step(1)
def grid_sample(g, s):
    x = g.any_float(s, lambda v: v.rank == 4 and v.count > 0 and all(g.is_static(d) for d in v.shape))
    if x is None or x.dtype != "float32" or g.opset < 20:
        return None
    grid = g.given(s, x.dtype, [x.shape[0], 2, 3, 2])
    if not grid:
        return None
    small = s.node("Mul", [grid, np.array(0.43, x.dtype)])
    return Value(s.node("GridSample", [x, small], mode=g.pick(["linear", "cubic"]), padding_mode=g.pick(["zeros", "border", "reflection"]),
                        align_corners=g.below(2)), x.dtype, [x.shape[0], x.shape[1], 2, 3], 3 * x.big)


@step(1)
def recurrent(g, s):
    if g.float != "float32":
        return None
    op, gates = g.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, width, hidden = g.pick([1, 2, 3]), g.pick([1, 2]), 3, g.pick([2, 4])
    direction = g.pick(["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    x = g.given(s, g.float, [steps, batch, width])
    w, r = g.given(s, g.float, [d, gates * hidden, width]), g.given(s, g.float, [d, gates * hidden, hidden])
    b = g.given(s, g.float, [d, 2 * gates * hidden]) if g.below(2) else None
    lengths = g.random.integers(1, steps + 1, [batch]).astype(np.int32) if g.below(3) == 0 else None
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = g.below(2)
    names = s.node(op, [x, w, r, b, lengths], 2, **attributes)
    return [Value(names[0], g.float, [steps, d, batch, hidden], 1), Value(names[1], g.float, [d, batch, hidden], 1)]


# Quantization

@step(3)
def quantize(g, s):
    x = g.exact(s, lambda v: v.dtype == "float32" and v.count > 0)
    if x is None:
        return None
    kind = g.pick(["int8", "uint8"])
    zero = np.array(g.pick([0, 3] if kind == "int8" else [0, 128]), kind)
    scale = np.array(g.pick([0.25, 0.5, 0.125]), np.float32)
    attributes = {}
    if x.rank and g.below(3) == 0:
        axis = g.below(x.rank)
        if g.is_static(x.shape[axis]):
            n = x.shape[axis]
            scale, zero = np.array([g.pick([0.25, 0.5]) for _ in range(n)], np.float32), np.full([n], zero, kind)
            attributes["axis"] = axis
    q = s.node("QuantizeLinear", [x, scale, zero], **attributes)
    if g.below(3) == 0:
        return Value(q, kind, x.shape, 255, 0)
    return [Value(q, kind, x.shape, 255, 0), like(x, s.node("DequantizeLinear", [q, scale, zero], **attributes), x.big + 1, 3)]


@step(2)
def integer_product(g, s):
    x = g.choose(s, lambda v: v.dtype in ("uint8", "int8") and v.rank >= 2 and v.count > 0)
    if x is None:
        return None
    k = x.shape[-1]
    if not g.is_static(k):
        return None
    w = g.data("int8", [k, 3])
    operands = [x, w]
    if g.below(2):
        operands += [np.array(g.below(5), x.dtype)] + ([np.array(1, np.int8)] if g.below(2) else [])
    if x.dtype == "int8" and g.below(2):
        return None
    return Value(s.node("MatMulInteger", operands), "int32", x.shape[:-1] + (3,), 260 * 7 * k, 0)


@step(1)
def dynamic_quantize(g, s):
    x = g.exact(s, lambda v: v.dtype == "float32" and v.count > 0)
    if x is None:
        return None
    q, scale, zero = s.node("DynamicQuantizeLinear", [x], 3)
    return like(x, s.node("DequantizeLinear", [q, scale, zero]), 2 * x.big + 1)


# Control flow, functions, sequences

def close(g, inner, like_value):
    """A value of the scope as like_value is, that differs with what the scope computes."""
    own = [v for v in inner.pool[inner.own:] if v.dtype == like_value.dtype]
    same = [v for v in own if v.shape == like_value.shape]
    if same:
        return same[-1]
    total = [v for v in own if v.count > 0]
    if total and like_value.dtype.startswith("float"):
        mean = inner.node("ReduceMean", [total[-1]], keepdims=0)
        name = inner.node("Add", [like_value, mean])
        return Value(name, like_value.dtype, like_value.shape, like_value.big + total[-1].big)
    return Value(inner.node("Identity", [like_value]), like_value.dtype, like_value.shape, like_value.big, like_value.grain)


@step(3)
def branch(g, s):
    if s.depth > 1:
        return None
    c = g.choose(s, lambda v: v.dtype == "bool" and v.count == 1)
    x = g.choose(s, lambda v: v.dtype in (g.float, "int64") and v.count > 0)
    if x is None:
        return None
    if c is None:
        c = g.given(s, "bool", [])
    bodies, results = [], []
    for name in ("then", "else"):
        inner = Scope(g, s)
        g.fill(inner, 1 + g.below(4))
        out = close(g, inner, x)
        bodies.append(inner.bytes(g.fresh(name), [out]))
        results.append(out)
        s.used |= inner.used
    grain = None if any(r.grain is None for r in results) else max(r.grain for r in results)
    return Value(s.node("If", [c], then_branch=bodies[0], else_branch=bodies[1]), x.dtype, x.shape, max(r.big for r in results), grain)


@step(3)
def loop(g, s):
    if s.depth > 1:
        return None
    x = g.any_float(s, lambda v: v.count > 0)
    if x is None:
        return None
    trips = g.pick([0, 1, 2, 3, 4])
    count = np.array(trips, np.int64)
    if s.depth == 0 and g.below(2):
        name = s.input("int64", [])
        g.feeds.append((name, count))
        count = name
    inner = Scope(g, s)
    i, cond, v = (inner.input(t, shape) for t, shape in (("int64", []), ("bool", []), (x.dtype, x.shape)))
    inner.own = len(inner.pool)
    carried = Value(v, x.dtype, x.shape, max(x.big, 1))
    inner.pool += [Value(i, "int64", [], 4, 0), carried]
    g.fill(inner, 1 + g.below(4))
    out = close(g, inner, carried)
    if out is carried or out.big > max(x.big, 1) or out.name == v:
        out = Value(inner.node("Tanh", [out]), x.dtype, x.shape, 1)
    going = inner.node("Identity", [cond])
    stop = trips
    if g.below(3) == 0:
        stop = min(trips, 3)
        going = inner.node("Less", [i, np.array(2, np.int64)])
    outputs = [Value(going, "bool", []), out]
    scanned = g.below(2) and (trips > 0 and stop > 0) and not (g.symbolic and s.depth)
    if scanned:
        outputs.append(Value(inner.node("Sigmoid", [out]), x.dtype, x.shape, 1))
    s.used |= inner.used
    start = None if g.below(2) else np.array(True)
    names = s.node("Loop", [count, start, x], len(outputs) - 1, body=inner.bytes(g.fresh("body"), outputs))
    result = like(x, names[0] if scanned else names, max(x.big, 1))
    return [result, Value(names[1], x.dtype, (stop,) + x.shape, 1)] if scanned else result


@step(2)
def scan(g, s):
    if s.depth > 1:
        return None
    x = g.any_float(s, lambda v: v.rank >= 1 and v.count > 0)
    if x is None:
        return None
    state = g.given(s, x.dtype, [d if g.is_static(d) else 1 for d in x.shape[1:]])
    if not state:
        return None
    inner = Scope(g, s)
    a, e = inner.input(x.dtype, state.shape), inner.input(x.dtype, x.shape[1:])
    inner.own = len(inner.pool)
    acc, item = Value(a, x.dtype, state.shape, max(state.big, 2)), Value(e, x.dtype, x.shape[1:], x.big)
    inner.pool += [acc, item]
    mixed = Value(inner.node("Add", [acc, item]), x.dtype, x.shape[1:], 99)
    if mixed.shape != acc.shape:
        mixed = acc
    g.fill(inner, g.below(3))
    nxt = Value(inner.node("Tanh", [mixed]), x.dtype, state.shape, 1)
    y = Value(inner.node("Sub", [item, nxt]), x.dtype, g.broadcast(item, nxt), x.big + 1)
    body = inner.bytes(g.fresh("scan"), [nxt, y])
    s.used |= inner.used
    backwards = g.below(2)
    names = s.node("Scan", [state, x], 2, body=body, num_scan_inputs=1, scan_input_directions=[backwards],
                   scan_output_directions=[g.below(2)])
    return [Value(names[0], x.dtype, state.shape, 1), Value(names[1], x.dtype, (x.shape[0],) + y.shape, x.big + 1)]


@step(1)
def function(g, s):
    x = g.any_float(s)
    if x is None:
        return None
    if not g.functions:
        def node(op, ins, outs, *attributes):
            return field(7, b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + field(4, op) + b"".join(attributes))
        alpha = field(5, field(1, "alpha") + field(20, 1) + field(21, "slope"))
        g.functions = field(25, field(1, "Mixed") + field(4, "a") + field(5, "c") + field(6, "slope") +
                            node("LeakyRelu", ["a"], ["b"], alpha) + node("Sub", ["b", "a"], ["d"]) + node("Tanh", ["d"], ["c"]) +
                            field(9, field(2, g.opset)) + field(10, "local"))
    return like(x, s.node("Mixed", [x], domain="local", slope=g.pick([0.25, 0.5])), 1)


@step(1)
def sequence(g, s):
    x = g.any_float(s, lambda v: v.rank > 0)
    if x is None or s.depth:
        return None
    axis = g.below(x.rank)
    if g.below(2):
        made = s.node("SequenceConstruct", [x, x])
        if g.below(2):
            made = s.node("SequenceInsert", [made, x])
            return Value(s.node("ConcatFromSequence", [made], axis=axis), x.dtype,
                         x.shape[:axis] + (3 * x.shape[axis],) + x.shape[axis + 1:], x.big, x.grain)
        return like(x, s.node("SequenceAt", [made, np.array(-1, np.int64)]), x.big, x.grain)
    if not g.is_static(x.shape[axis]) or x.shape[axis] == 0:
        return None
    parts = s.node("SplitToSequence", [x, np.array(1, np.int64)], axis=axis)
    return Value(s.node("SequenceAt", [parts, np.array(0, np.int64)]), x.dtype, x.shape[:axis] + (1,) + x.shape[axis + 1:], x.big, x.grain)
