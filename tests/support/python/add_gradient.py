"""Writes an ONNX model that also gives the gradients of its first output by its weights: what a step of training computes.
Usage: add_gradient.py MODEL TRAINING_MODEL."""
import sys

from protobuf_wire import field, fields


def attribute(name, type_, values, number):
    return field(5, field(1, name) + b"".join(field(number, v) for v in values) + field(20, type_))


model = open(sys.argv[1], "rb").read()
graph = next(value for number, value in fields(model) if number == 7)
weights, output = [], None
for number, value in fields(graph):
    tensor = list(fields(value)) if number in (5, 12) else []
    if number == 5:  # initializer: dims, data_type, name
        rank = sum(len(value) if isinstance(value, bytes) else 1 for n, value in tensor if n == 1)  # packed, or one by one
        is_float = (2, 1) in tensor
        if is_float and rank >= 2:
            weights += [value for n, value in tensor if n == 8]
    elif number == 12 and output is None:
        output = next(v for n, v in tensor if n == 1)
made = [b"gradient_%d" % i for i in range(len(weights))]
float_tensor = field(2, field(1, field(1, 1)))
node = b"".join(field(1, w) for w in weights) + b"".join(field(2, g) for g in made) + field(4, b"Gradient") + \
    field(7, b"ai.onnx.preview.training") + attribute(b"xs", 8, weights, 9) + attribute(b"y", 3, [output], 4)
more = field(1, node) + b"".join(field(12, field(1, g) + float_tensor) for g in made)
opset = field(8, field(1, b"ai.onnx.preview.training") + field(2, 1))
open(sys.argv[2], "wb").write(b"".join(field(n, v + more if n == 7 else v) for n, v in fields(model)) + opset)
