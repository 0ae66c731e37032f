"""Writes a float ONNX model as a Q/DQ model: a pair before each operand of convolutions, matmuls, additions, multiplications and
pooling, 8 bits, one scale and zero point per activation, one scale per output channel of a weight; biases have 32 bits. Codes of
weights are random, within sqrt(3 / fan-in), which keeps activations near 1. They lie in codes.bin beside the model, other weights
where they were.
Usage: quantized_model.py MODEL OUT [OP ...]; the operators replace the list above."""
import math
import os
import random
import struct
import sys

from protobuf_wire import field, fields

FLOAT, UINT8, INT8, INT32 = 1, 2, 3, 6
MOVEMENTS = ["MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze"]
OPS = ["Conv", "Gemm", "MatMul", "Add", "Mul", "MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Concat", "HardSwish"]
model, out, *ops = sys.argv[1:]
ops = ops or OPS
values = random.Random(7)
pool = values.randbytes(1 << 20)
with open(model, "rb") as f:
    parts = list(fields(f.read()))
graph = list(fields(next(v for k, v in parts if k == 7)))


def of(message, number):
    return [v for k, v in fields(message) if k == number]


def integers(packed):
    """The values of a repeated integer field, packed or not."""
    found = []
    for v in packed:
        if isinstance(v, int):
            found.append(v)
            continue
        value = shift = 0
        for byte in v:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                found.append(value)
                value = shift = 0
    return found


weights = {of(t, 8)[0]: (integers(of(t, 1)), of(t, 2)[0]) for k, t in graph if k == 5}
floats = {name for name, (dims, dtype) in weights.items() if dtype == FLOAT}
scales, steps_of = {}, {}  # of rounded values; scale and zero point of activations
moved, nonnegative = {}, set()  # operand of what moves or selects elements; results of Relu and the like
added, nodes, codes, pairs = [], [], open(os.path.join(os.path.dirname(out), "codes.bin"), "wb"), {}


def tensor(name, dtype, dims, data):
    added.append(b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name) + field(9, data))
    return name


def node(op, inputs, output, **attributes):
    nodes.append(b"".join(field(1, v) for v in inputs) + field(2, output) + field(4, op) +
                 b"".join(field(5, field(1, k) + field(3, v) + field(20, 2)) for k, v in attributes.items()))
    return output


def activation(v):
    """The value, rounded: codes of about 0.04 around a zero point of its own, which is 0 if the value is not negative. What moves or
    selects elements has the scale of its operand."""
    if v not in pairs:
        first = v
        while first in moved:
            first = moved[first]
        if first not in steps_of:
            positive = first in nonnegative
            steps_of[first] = values.uniform(0.03, 0.05) / (2 if positive else 1), 0 if positive else values.randrange(100, 156)
        step, zero = steps_of[first]
        scale = tensor(v + b".scale", FLOAT, [], struct.pack("<f", step))
        zero = tensor(v + b".zero", UINT8, [], bytes([zero]))
        q = node("QuantizeLinear", [v, scale, zero], v + b".codes")
        pairs[v] = node("DequantizeLinear", [q, scale, zero], v + b".rounded")
        scales[pairs[v]] = [step]
    return pairs[v]


def weight(v, axis):
    if v not in pairs:
        dims = weights[v][0]
        name, channels, count = v + b".codes", dims[axis], math.prod(dims)
        offset, fan_in, left = codes.tell(), count / channels, count
        while left > 0:
            left -= codes.write(pool[:left])
        steps = [math.sqrt(3 / fan_in) / 127 * values.uniform(0.8, 1.2) for _ in range(channels)]
        scale = struct.pack(f"<{channels}f", *steps)
        places = {"location": "codes.bin", "offset": str(offset), "length": str(count)}
        added.append(b"".join(field(1, d) for d in dims) + field(2, INT8) + field(8, name) +
                     b"".join(field(13, field(1, k) + field(2, p)) for k, p in places.items()) + field(14, 1))
        pairs[v] = node("DequantizeLinear", [name, tensor(v + b".scale", FLOAT, [channels], scale)], v + b".rounded", axis=axis)
        scales[pairs[v]] = steps
    return pairs[v]


def bias(v, x, w):
    """Codes of 32 bits, whose scale is the product of those of the operands."""
    steps = [scales[x][0] * s for s in scales[w]]
    codes_of_bias = [round(values.uniform(-0.1, 0.1) / s) for s in steps]
    count = len(steps)
    name = tensor(v + b".codes", INT32, [count], struct.pack(f"<{count}i", *codes_of_bias))
    scale = tensor(v + b".scale", FLOAT, [count], struct.pack(f"<{count}f", *steps))
    return node("DequantizeLinear", [name, scale], v + b".rounded", axis=0)


def quantized(n):
    op, inputs, trans_b = of(n, 4)[0].decode(), of(n, 1), False
    for a in of(n, 5):
        trans_b |= of(a, 1)[0] == b"transB" and of(a, 3) == [1]
    changed = list(inputs)
    for i, v in enumerate(inputs):
        if op not in ops or not v or (i == 2 and op in ("Conv", "Gemm")) or (i > 0 and op == "ReduceMean"):
            continue
        if v in weights:
            if i == 1 and op in ("Conv", "Gemm", "MatMul") and v in floats:
                changed[i] = weight(v, 0 if op == "Conv" or trans_b else len(weights[v][0]) - 1)
        elif v in activations:
            changed[i] = activation(v)
    if op in ("Conv", "Gemm") and len(inputs) == 3 and inputs[2] in floats and set(changed[:2]) <= set(scales):
        changed[2] = bias(inputs[2], changed[0], changed[1])
    return b"".join(field(1, v) for v in changed) + b"".join(field(k, v) for k, v in fields(n) if k != 1)


# Operators whose results are floats; others may be indices or masks.
FLOAT_OPS = set(OPS) | {"Relu", "LayerNormalization", "Softmax", "Gelu", "Erf", "Tanh", "Sub", "Div", "Reshape", "Transpose", "HardSigmoid",
                        "Where", "Clip", "Sigmoid", "BatchNormalization", "Flatten", "Squeeze", "Unsqueeze", "Split", "Slice", "Pad", "Expand", "Gather", "Tile",
                        "Neg", "Sqrt", "Reciprocal", "Pow", "Exp", "InstanceNormalization", "GroupNormalization", "LeakyRelu", "Resize", "SimplifiedLayerNormalization", "Elu", "Softplus"}
activations = set()
for k, v in graph:
    if k == 11 and of(v, 2) and of(of(of(v, 2)[0], 1)[0], 1) == [FLOAT]:
        activations.add(of(v, 1)[0])


def float_result(n):
    op = of(n, 4)[0].decode()
    if op == "Cast":
        return any(of(a, 1)[0] == b"to" and of(a, 3) == [FLOAT] for a in of(n, 5))
    return op in FLOAT_OPS and any(s in activations or s in floats for s in of(n, 1))


for k, v in graph:
    if k == 1:
        if float_result(v):
            activations.update(of(v, 2))
        op, inputs, results = of(v, 4)[0].decode(), of(v, 1), of(v, 2)
        if op in MOVEMENTS:
            moved[results[0]] = inputs[0]
        if op in ("Relu", "Sigmoid", "HardSigmoid", "Softmax") or (op in ("AveragePool", "GlobalAveragePool") and inputs[0] in nonnegative):
            nonnegative.add(results[0])
        nodes.append(quantized(v))
codes.close()
rest = [field(k, v) for k, v in graph if k not in (1, 5)]
replaced, read = {of(t, 8)[0] for t in added}, {v for n in nodes for v in of(n, 1)}
kept = [field(5, t) for k, t in graph if k == 5 and (of(t, 8)[0] in read or of(t, 8)[0] + b".codes" not in replaced)]
body = b"".join([field(1, n) for n in nodes] + kept + [field(5, t) for t in added] + rest)
with open(out, "wb") as f:
    f.write(b"".join(field(7, body) if k == 7 else field(k, v) for k, v in parts))
