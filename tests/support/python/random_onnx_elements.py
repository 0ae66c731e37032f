"""Steps of random ONNX graphs: elementwise operators, sizes and movement."""
import math

import numpy as np

from onnx_writer import TYPES
from random_onnx_graph import INTEGERS, NATIVE, Value, like, step

# Elementwise

UNARY = {  # operator: the least opset, the bound of the result as a function of that of the operand
    "Tanh": (7, lambda b: 1), "Sigmoid": (7, lambda b: 1), "Erf": (9, lambda b: 1), "Sin": (7, lambda b: 1), "Cos": (7, lambda b: 1),
    "Softsign": (7, lambda b: 1), "Atan": (7, lambda b: 2), "Softplus": (7, lambda b: b + 1), "Elu": (7, lambda b: b + 1),
    "Selu": (7, lambda b: 2 * b + 2), "Celu": (12, lambda b: b + 1), "HardSigmoid": (7, lambda b: 1), "HardSwish": (14, lambda b: b),
    "Mish": (18, lambda b: b + 1), "LeakyRelu": (7, lambda b: b), "ThresholdedRelu": (10, None), "Gelu": (20, lambda b: b),
    "Asinh": (9, lambda b: b), "Shrink": (9, None), "Swish": (24, lambda b: b),
}
EXACT_UNARY = {"Neg", "Abs", "Relu", "Identity"}
JUMPS = {"Floor", "Ceil", "Round", "Sign"}


@step(6)
def unary(g, s):
    x = g.any_float(s)
    op = g.pick(list(UNARY))
    least, bound = UNARY[op]
    if x is None or g.opset < least or bound is None:
        return None
    attributes = {}
    if op in ("Elu", "Celu", "LeakyRelu") and g.below(2):
        attributes["alpha"] = g.pick([0.5, 0.25, 1.5])
    if op == "HardSigmoid" and g.below(2):
        attributes = {"alpha": 0.3, "beta": 0.4}
    if op == "Gelu" and g.below(2):
        attributes["approximate"] = "tanh"
    return like(x, s.node(op, [x], **attributes), 1.5 * bound(x.big))


@step(3)
def exact_unary(g, s):
    op = g.pick(sorted(EXACT_UNARY))
    x = g.choose(s, lambda v: v.dtype in (g.float, *INTEGERS) or (op == "Identity" and v.dtype in NATIVE))
    if x is None or (op == "Relu" and x.dtype in INTEGERS and g.opset < 14):
        return None
    return like(x, s.node(op, [x]), x.big, x.grain)


@step(2)
def jump(g, s):
    x = g.exact(s, lambda v: v.dtype == g.float)
    op = g.pick(sorted(JUMPS) + ["ThresholdedRelu", "Shrink", "Hardmax"])
    if x is None or (op == "Hardmax" and (x.rank == 0 or x.count == 0)):
        return None
    attributes = {"axis": g.below(2 * x.rank) - x.rank} if op == "Hardmax" else {}
    if op == "Shrink":
        attributes = {"lambd": 0.5, "bias": g.pick([0.0, 0.25])}
    return like(x, s.node(op, [x], **attributes), x.big + 1, x.grain if op != "Shrink" else max(x.grain, 2))


@step(2)
def guarded(g, s):
    """Functions of a part of the numbers, of operands inside it."""
    x = g.any_float(s)
    if x is None:
        return None
    op = g.pick(["Exp", "Log", "Sqrt", "Reciprocal", "Asin", "Acos", "Atanh", "Acosh", "Tan", "Sinh", "Cosh"])
    if op == "Exp":
        return like(x, s.node(op, [x]), math.exp(x.big)) if x.big <= 5 else None
    if op in ("Log", "Sqrt", "Reciprocal", "Acosh"):
        y = s.node("Add", [s.node("Abs", [x]), np.array(1.25 if op == "Acosh" else 0.5, x.dtype)])
        return like(x, s.node(op, [y]), x.big + 2)
    y = s.node("Mul", [s.node("Tanh", [x]), np.array(0.75, x.dtype)])
    return like(x, s.node(op, [y]), 2)


@step(8)
def binary(g, s):
    x = g.choose(s, lambda v: v.dtype in (g.float, *INTEGERS))
    y = x and g.partner(s, x)
    if not y:
        return None
    op = g.pick(["Add", "Sub", "Mul", "Max", "Min", "Add", "Mul", "Sum", "Mean"])
    if op in ("Sum", "Mean") and x.dtype in INTEGERS:
        return None
    if g.below(2):
        x, y = y, x
    operands = [x, y]
    if op in ("Max", "Min", "Sum", "Mean") and g.below(3) == 0:
        operands.append(g.pick(operands))
    big = x.big * y.big if op == "Mul" else x.big + y.big + max(x.big, y.big)
    grain = None
    if x.grain is not None and y.grain is not None and op != "Mean":
        grain = x.grain + y.grain if op == "Mul" else max(x.grain, y.grain)
    return Value(s.node(op, operands), x.dtype, g.broadcast(x, y), big, grain)


@step(2)
def quotient(g, s):
    x = g.choose(s, lambda v: v.dtype in (g.float, *INTEGERS))
    y = x and g.partner(s, x)
    if not y:
        return None
    one = np.array(1, x.dtype)
    d = s.node("Add", [s.node("Abs", [y]), one])
    op = g.pick(["Div", "Div", "Mod", "Pow", "PRelu"])
    if op == "Mod":
        if x.grain is None or y.grain is None:
            return None
        fmod = 1 if x.dtype == g.float else g.below(2)
        return Value(s.node("Mod", [x, d], fmod=fmod), x.dtype, g.broadcast(x, y), y.big + 1,
                     max(x.grain, y.grain) if x.dtype != g.float else None)
    if op == "Pow":
        if x.dtype != g.float or x.big > 8:
            return None
        base = s.node("Add", [s.node("Abs", [x]), np.array(0.5, x.dtype)])
        e = g.pick([2, 3, 0.5, -1, 1, 0])
        return like(x, s.node("Pow", [base, np.array(e, x.dtype)]), (x.big + 1) ** max(e, 1))
    if op == "PRelu":
        if x.dtype != g.float or g.broadcast(x, y) != x.shape:
            return None
        return like(x, s.node("PRelu", [x, y]), x.big * max(y.big, 1))
    return Value(s.node("Div", [x, d]), x.dtype, g.broadcast(x, y), x.big, 0 if x.dtype != g.float else None)


@step(3)
def compare(g, s):
    x = g.exact(s, lambda v: v.dtype in (g.float, *INTEGERS))
    y = x and g.partner(s, x)
    if not y or y.grain is None:
        return None
    ops = ["Less", "Greater", "Equal"] + (["LessOrEqual", "GreaterOrEqual"] if g.opset >= 12 else [])
    return Value(s.node(g.pick(ops), [x, y]), "bool", g.broadcast(x, y), 1, 0)


@step(2)
def logic(g, s):
    x = g.choose(s, lambda v: v.dtype == "bool")
    if x is None:
        return None
    if g.below(4) == 0:
        return like(x, s.node("Not", [x]), 1, 0)
    y = g.partner(s, x)
    return y and Value(s.node(g.pick(["And", "Or", "Xor"]), [x, y]), "bool", g.broadcast(x, y), 1, 0)


@step(2)
def bitwise(g, s):
    x = g.choose(s, lambda v: v.dtype in ("int32", "int64", "uint8", "int8"))
    if x is None or g.opset < 18:
        return None
    op = g.pick(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"])
    if op == "BitwiseNot":
        return None if x.dtype == "uint8" else like(x, s.node(op, [x]), x.big + 1, 0)
    if op == "BitShift":
        if x.dtype != "uint8" or x.big > 60:
            return None
        return like(x, s.node(op, [x, np.array(1, np.uint8)], direction=g.pick(["LEFT", "RIGHT"])), 2 * x.big, 0)
    y = g.partner(s, x)
    return y and Value(s.node(op, [x, y]), x.dtype, g.broadcast(x, y), 2 * (x.big + y.big) + 1, 0)


@step(2)
def where(g, s):
    c = g.choose(s, lambda v: v.dtype == "bool")
    x = c and g.choose(s, lambda v: v.dtype in (g.float, *INTEGERS, "uint8") and
                       all(a == b or (1 in (a, b) and 0 not in (a, b)) for a, b in zip(c.shape[::-1], v.shape[::-1])))
    if not x:
        return None
    y = g.given(s, x.dtype, [])
    operands = [x, y] if g.below(2) else [y, x]
    grain = None if x.grain is None else max(x.grain, y.grain)
    return Value(s.node("Where", [c] + operands), x.dtype, g.broadcast(c, x), max(x.big, y.big), grain)


@step(1)
def clip(g, s):
    x = g.choose(s, lambda v: v.dtype in (g.float, *INTEGERS, "int8", "uint8"))
    if x is None:
        return None
    low, high = np.array(1, x.dtype), np.array(3, x.dtype)
    operands = [x, low if g.below(3) else None, high if g.below(3) else None]
    while operands[-1] is None:
        operands.pop()
    return like(x, s.node("Clip", operands), x.big + 1, x.grain)


@step(4)
def cast(g, s):
    x = g.choose(s, lambda v: v.dtype == "bool" or v.grain is not None or v.dtype in TYPES)
    if x is None:
        return None
    targets = ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]
    if g.opset >= 19:
        targets += ["bfloat16", "float8e4m3fn", "float8e5m2"]
    to = g.pick(targets + [g.float] * 12)
    if to == x.dtype:
        return None
    narrow = ("bfloat16", "float8e4m3fn", "float8e5m2")
    from_float = x.dtype.startswith(("float", "bfloat"))
    to_float = to.startswith(("float", "bfloat"))
    if not to_float or to in narrow:
        if x.grain is None and x.dtype != "bool":
            return None  # a result that rounding may turn over
        if x.dtype in narrow and not to_float:
            return None
        if to in narrow and (not from_float or x.dtype != "float32"):
            return None
    operand = x
    if from_float and to.startswith("u"):
        operand = s.node("Abs", [x]) if x.dtype not in narrow else None
    elif x.dtype.startswith("int") and to.startswith("u") or x.dtype.startswith(("int", "uint")) and not to_float and x.big > 100:
        if x.big > 1000 or not x.dtype.startswith("int"):
            return None
        operand = s.node("Abs", [x]) if x.dtype in INTEGERS else None
    if operand is None or (not to_float and to != "bool" and x.big > 100):
        return None
    grain = x.grain
    if from_float and not to_float:
        grain = 0
    if to in ("float8e4m3fn", "float8e5m2"):
        grain = None if x.big > 400 else 16 if to == "float8e5m2" else 9
        if grain is None:
            return None
    elif to == "bfloat16":
        grain = None if x.grain is None or x.grain + math.log2(max(x.big, 1)) > 7 else x.grain
        if grain is None:
            return None
    return Value(s.node("Cast", [operand], to=TYPES[to]), to, x.shape, 1 if to == "bool" or x.dtype == "bool" else x.big * 1.1, grain)


@step(1)
def numbers_asked(g, s):
    x = g.any_float(s)
    if x is None:
        return None
    if g.below(2):
        return Value(s.node("IsNaN", [x]), "bool", x.shape, 1, 0)
    return Value(s.node("IsInf", [x]), "bool", x.shape, 1, 0) if x.dtype != "float16" or g.opset >= 20 else None


# Sizes and movement

MOVED = ("float32", "float64", "float16", "int64", "int32", "bool", "uint8", "int8")


def movable(g, s, accept=lambda v: True):
    return g.choose(s, lambda v: v.dtype in MOVED and accept(v))


@step(3)
def transpose(g, s):
    x = movable(g, s, lambda v: v.rank > 1)
    if x is None:
        return None
    perm = [int(i) for i in g.random.permutation(x.rank)]
    default = perm == list(range(x.rank))[::-1] and g.below(2)
    return Value(s.node("Transpose", [x], perm=None if default else perm), x.dtype, [x.shape[i] for i in perm], x.big, x.grain)


@step(3)
def reshape(g, s):
    x = movable(g, s, lambda v: v.count > 0)
    if x is None:
        return None
    shape = list(x.shape)
    for _ in range(1 + g.below(2)):
        if len(shape) > 1 and g.below(2):
            at = g.below(len(shape) - 1)
            shape[at:at + 2] = [shape[at] * shape[at + 1]]
        elif shape and g.below(2):
            at = g.below(len(shape))
            factors = [k for k in (2, 3) if shape[at] % k == 0 and g.is_static(shape[at])]
            if factors:
                shape[at:at + 1] = [factors[0], shape[at] // factors[0]]
        else:
            shape.insert(g.below(len(shape) + 1), 1)
    unknown = [i for i, d in enumerate(shape) if not g.is_static(d)]
    wanted = list(shape)
    if len(unknown) == 1 or (not unknown and shape and g.below(2)):
        wanted[unknown[0] if unknown else g.below(len(shape))] = -1
        operand = np.array(wanted, np.int64)
    else:
        operand = g.dims(s, wanted, x)
    return None if operand is None else Value(s.node("Reshape", [x, operand]), x.dtype, shape, x.big, x.grain)


@step(2)
def views(g, s):
    x = movable(g, s)
    if x is None:
        return None
    op = g.pick(["Flatten", "Squeeze", "Unsqueeze"])
    if op == "Flatten":
        axis = g.below(2 * x.rank + 1) - x.rank
        at = axis + x.rank if axis < 0 else axis
        return Value(s.node(op, [x], axis=axis), x.dtype, [math.prod(x.shape[:at]), math.prod(x.shape[at:])], x.big, x.grain)
    if op == "Squeeze":
        ones = [i for i, d in enumerate(x.shape) if d == 1]
        if not ones:
            return None
        axes = [i for i in ones if g.below(2)] or ones[:1]
        given = [a - x.rank if g.below(2) else a for a in axes]
        return Value(s.node(op, [x, np.array(given, np.int64)]), x.dtype, [d for i, d in enumerate(x.shape) if i not in axes], x.big,
                     x.grain)
    rank = x.rank + 1 + g.below(2)
    axes = sorted(int(i) for i in g.random.choice(rank, rank - x.rank, replace=False))
    rest = iter(x.shape)
    return Value(s.node(op, [x, np.array([a - rank if g.below(2) else a for a in axes], np.int64)]), x.dtype,
                 [1 if i in axes else next(rest) for i in range(rank)], x.big, x.grain)


@step(2)
def expand(g, s):
    x = movable(g, s)
    if x is None:
        return None
    if g.below(2):
        wanted = [g.pick([2, 3]) if d == 1 and g.below(2) else d for d in x.shape]
        if g.below(3) == 0:
            wanted.insert(0, 2)
        operand = g.dims(s, wanted, x)
        return None if operand is None else Value(s.node("Expand", [x, operand]), x.dtype, wanted, x.big, x.grain)
    times = [g.pick([1, 1, 2, 3]) for _ in x.shape]
    if x.rank == 0:
        return None
    return Value(s.node("Tile", [x, np.array(times, np.int64)]), x.dtype, [d * t for d, t in zip(x.shape, times)], x.big, x.grain)


@step(3)
def concat(g, s):
    x = movable(g, s, lambda v: v.rank > 0)
    if x is None:
        return None
    axis = g.below(x.rank)
    parts = [x]
    for _ in range(1 + g.below(2)):
        y = g.choose(s, lambda v: v.dtype == x.dtype and v.rank == x.rank and
                     all(i == axis or a == b for i, (a, b) in enumerate(zip(v.shape, x.shape))))
        parts.insert(g.below(len(parts) + 1), y or x)
    shape = list(x.shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    grain = None if any(p.grain is None for p in parts) else max(p.grain for p in parts)
    return Value(s.node("Concat", parts, axis=axis - x.rank if g.below(2) else axis), x.dtype, shape, max(p.big for p in parts), grain)


@step(2)
def split(g, s):
    x = movable(g, s, lambda v: v.rank > 0)
    if x is None:
        return None
    axis = g.below(x.rank)
    size = x.shape[axis]
    if size < 2 or not g.is_static(size):
        return None
    first = 1 + g.below(size - 1)
    sizes = [first, size - first]
    names = s.node("Split", [x, np.array(sizes, np.int64)], 2, axis=axis)
    return [Value(n, x.dtype, x.shape[:axis] + (k,) + x.shape[axis + 1:], x.big, x.grain) for n, k in zip(names, sizes)]


@step(4)
def slice_(g, s):
    x = movable(g, s, lambda v: v.rank > 0)
    if x is None:
        return None
    axes = sorted(int(i) for i in g.random.choice(x.rank, 1 + g.below(min(x.rank, 2)), replace=False))
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for a in axes:
        d = x.shape[a]
        k = g.pick([1, 1, 2, -1, -2, 3])
        start, end = (g.below(d + 1), g.below(d + 3)) if k > 0 else (g.below(d + 2), g.pick([-d - 1, -2 ** 40, 0]))
        if not g.is_static(d):  # what holds for every size
            start, end, k = (g.pick([0, 1]), 2 ** 40, k) if k > 0 else (-1, -2 ** 63, k)
        if g.below(3) == 0 and k > 0 and g.is_static(d) and start < d:
            start -= d
        starts.append(start), ends.append(end), steps.append(k)
        shape[a] = len(range(*slice(start, end, k).indices(d)))
    return Value(s.node("Slice", [x] + [np.array(v, np.int64) for v in (starts, ends, axes, steps)]), x.dtype, shape, x.big, x.grain)


@step(2)
def pad(g, s):
    x = movable(g, s, lambda v: 0 < v.rank < 5 and v.count > 0)
    if x is None:
        return None
    mode = g.pick(["constant", "constant", "reflect", "edge"])
    pads = [[0, 0] for _ in x.shape]
    for a in range(x.rank):
        if g.below(2):
            most = x.shape[a] - 1 if mode == "reflect" else 2
            pads[a] = [g.below(most + 1) if most < 3 else g.below(3), g.below(min(most, 2) + 1)]
    if mode == "constant" and g.below(4) == 0 and x.rank and x.shape[0] > 1 and g.is_static(x.shape[0]):
        pads[0] = [-1, pads[0][1]]
    operand = np.array([p[0] for p in pads] + [p[1] for p in pads], np.int64)
    value = np.array(1, x.dtype) if mode == "constant" and g.below(2) else None
    operands = [x, operand] + ([value] if value is not None else [])
    if x.dtype in ("bool", "float16") and mode != "constant":
        return None
    return Value(s.node("Pad", operands, mode=mode), x.dtype, [d + p[0] + p[1] for d, p in zip(x.shape, pads)], max(x.big, 1), x.grain)


def indices(g, s, size, shape, kind=np.int64, negative=True):
    array = g.random.integers(-size if negative else 0, size, shape).astype(kind)
    if s.depth == 0 and g.below(2):
        name = s.input(array.dtype.name, shape)
        g.feeds.append((name, array))
        return name
    return array if all(g.is_static(d) for d in shape) else None


@step(3)
def gather(g, s):
    x = movable(g, s, lambda v: v.rank > 0 and v.count > 0)
    if x is None:
        return None
    axis = g.below(x.rank)
    size = x.shape[axis]
    if not g.is_static(size):
        return None
    kind = g.pick([np.int64, np.int32])
    if g.below(3):
        shape = [g.pick([1, 2, 3]) for _ in range(g.below(3))]
        i = indices(g, s, size, shape, kind)
        return None if i is None else Value(s.node("Gather", [x, i], axis=axis), x.dtype, x.shape[:axis] + tuple(shape) +
                                            x.shape[axis + 1:], x.big, x.grain)
    shape = [1 + g.below(d) if g.is_static(d) else 1 for d in x.shape]
    i = indices(g, s, size, shape, kind)
    return None if i is None else Value(s.node("GatherElements", [x, i], axis=axis), x.dtype, shape, x.big, x.grain)


@step(1)
def gather_nd(g, s):
    x = movable(g, s, lambda v: v.rank > 1 and v.count > 0 and all(g.is_static(d) for d in v.shape))
    if x is None:
        return None
    batch = g.below(2)
    depth = 1 + g.below(x.rank - batch)
    lead = list(x.shape[:batch]) + [g.pick([1, 2, 3])]
    i = np.stack([g.random.integers(-x.shape[batch + k], x.shape[batch + k], lead) for k in range(depth)], -1).astype(np.int64)
    if x.rank - batch < depth:
        return None
    return Value(s.node("GatherND", [x, i], batch_dims=batch), x.dtype, lead + list(x.shape[batch + depth:]), x.big, x.grain)


@step(2)
def scatter(g, s):
    x = g.exact(s, lambda v: v.rank > 0 and v.count > 0 and v.dtype in (g.float, *INTEGERS) and all(g.is_static(d) for d in v.shape))
    if x is None:
        return None
    reductions = [None] + (["add", "mul"] if g.opset >= 16 else []) + (["max", "min"] if g.opset >= 18 else [])
    reduction = g.pick(reductions)
    if g.below(2):
        axis = g.below(x.rank)
        shape = [1 + g.below(d) for d in x.shape]
        if reduction is None:  # no index twice
            shape[axis] = min(shape[axis], x.shape[axis])
            order = np.argsort(g.random.random(shape[:axis] + [x.shape[axis]] + shape[axis + 1:]), axis)
            i = np.take(order, range(shape[axis]), axis).astype(np.int64)
        else:
            i = g.random.integers(-x.shape[axis], x.shape[axis], shape).astype(np.int64)
        u = g.given(s, x.dtype, shape)
        name = u and s.node("ScatterElements", [x, i, u], axis=axis, reduction=reduction)
    else:
        depth = 1 + g.below(x.rank)
        n = g.pick([1, 2, 3])
        if reduction is None:
            n = min(n, math.prod(x.shape[:depth]))
            flat = g.random.choice(math.prod(x.shape[:depth]), n, replace=False)
        else:
            flat = g.random.integers(0, math.prod(x.shape[:depth]), n)
        i = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64)
        u = g.given(s, x.dtype, [n] + list(x.shape[depth:]))
        name = u and s.node("ScatterND", [x, i, u], reduction=reduction)
    if not u:
        return None
    if reduction == "mul":
        return like(x, name, x.big * max(u.big, 1) ** 4, None if x.dtype == g.float else 0)
    return like(x, name, x.big + 8 * u.big, max(x.grain, u.grain))


@step(2)
def sizes(g, s):
    x = movable(g, s)
    if x is None:
        return None
    op = g.pick(["Shape", "Shape", "Size", "ConstantOfShape", "Range"])
    if op == "Size":
        return Value(s.node(op, [x]), "int64", [], max(x.count, 1), 0)
    if op == "Shape":
        if x.rank == 0:
            return None
        attributes, n = {}, x.rank
        if g.opset >= 15 and g.below(2):
            attributes["start"] = g.below(x.rank)
            n -= attributes["start"]
        return Value(s.node(op, [x], **attributes), "int64", [n], max(x.shape + (1,)), 0)
    if op == "ConstantOfShape":
        dtype = g.pick([g.float, "int64", "int32", "bool"])
        return Value(s.node(op, [s.node("Shape", [x])], value=np.array([1], dtype)), dtype, x.shape, 1, 0)
    if x.rank == 0:
        return None
    d = s.node("Gather", [s.node("Shape", [x]), np.array(0, np.int64)])
    start, delta = g.below(3), g.pick([1, 2])
    n = max(0, -(-(x.shape[0] - start) // delta))
    if g.symbolic and not g.is_static(x.shape[0]) and (start or delta != 1):
        return None
    return Value(s.node("Range", [np.array(start, np.int64), d, np.array(delta, np.int64)]), "int64", [n], x.shape[0] + 1, 0)


@step(1)
def from_sizes(g, s):
    """An integer that is a size, as a number of the graph."""
    v = g.choose(s, lambda v: v.dtype == "int64" and v.rank == 1 and v.count > 0)
    if v is None:
        return None
    return Value(s.node("Cast", [v], to=TYPES[g.float]), g.float, v.shape, v.big, 0)


@step(1)
def triangle(g, s):
    x = movable(g, s, lambda v: v.rank >= 2 and v.dtype in (g.float, "int64", "int32", "bool"))
    if x is None or g.opset < 14:
        return None
    k = [np.array(g.below(5) - 2, np.int64)] if g.below(2) else []
    return like(x, s.node("Trilu", [x] + k, upper=g.below(2)), x.big, x.grain)


@step(1)
def blocks(g, s):
    x = g.choose(s, lambda v: v.rank == 4 and v.dtype == g.float and all(g.is_static(d) for d in v.shape[1:]))
    if x is None:
        return None
    n, c, h, w = x.shape
    if c % 4 == 0 and c and g.below(2):
        return Value(s.node("DepthToSpace", [x], blocksize=2, mode=g.pick(["DCR", "CRD"])), x.dtype, [n, c // 4, 2 * h, 2 * w], x.big, x.grain)
    if h % 2 == 0 and w % 2 == 0:
        return Value(s.node("SpaceToDepth", [x], blocksize=2), x.dtype, [n, 4 * c, h // 2, w // 2], x.big, x.grain)
    return None


@step(1)
def one_hot(g, s):
    depth = g.pick([2, 3, 5])
    shape = [g.pick([1, 2, 3]) for _ in range(1 + g.below(2))]
    i = indices(g, s, depth, shape)
    axis = g.below(len(shape) + 1)
    return Value(s.node("OneHot", [i, np.array(depth, np.int64), np.array([0, 2], g.float)], axis=axis if g.below(2) else axis - len(shape) - 1),
                 g.float, shape[:axis] + [depth] + shape[axis:], 2, 0)


@step(1)
def reverse(g, s):
    x = movable(g, s, lambda v: v.rank >= 2 and v.count > 0 and all(g.is_static(d) for d in v.shape[:2]) and v.dtype in (g.float, "int64"))
    if x is None or x.dtype == "float16":
        return None
    time = g.below(2)
    lengths = g.random.integers(1, x.shape[time] + 1, [x.shape[1 - time]]).astype(np.int64)
    return like(x, s.node("ReverseSequence", [x, lengths], time_axis=time, batch_axis=1 - time), x.big, x.grain)


@step(1)
def eye(g, s):
    x = g.choose(s, lambda v: v.rank == 2 and v.dtype in (g.float, *INTEGERS))
    return x and like(x, s.node("EyeLike", [x], k=g.below(3) - 1), 1, 0)


@step(1)
def data_decides(g, s):
    """Sizes that data decide: their sums are values."""
    x = g.exact(s, lambda v: v.count > 0 and v.rank > 0 and v.dtype in (g.float, *INTEGERS) and v.dtype != "float16")
    if x is None or s.depth:
        return None
    op = g.pick(["NonZero", "Unique", "Compress"])
    if op == "NonZero":
        total = s.node("ReduceSum", [s.node(op, [x]), np.array([1], np.int64)], keepdims=0)
        return Value(total, "int64", [x.rank], x.count * max(x.shape), 0)
    if op == "Unique":
        return Value(s.node("Size", [s.node(op, [x])]), "int64", [], x.count, 0)
    axis = g.below(x.rank)
    if not g.is_static(x.shape[axis]):
        return None
    keep = g.data("bool", [x.shape[axis]])
    keep[0] = True
    return Value(s.node(op, [x, keep], axis=axis), x.dtype, x.shape[:axis] + (int(keep.sum()),) + x.shape[axis + 1:], x.big, x.grain)
