"""Writes ONNX models without the onnx package: m = Model(17); y = m("MatMul", x, m.w(4, 8)); m.save(path, y).

Operands are names of values, numbers and lists (f32, i64 and bool constants) or numpy arrays; None is an absent operand. Outputs
may be tuples of name, type and perhaps shape; an attribute of bytes is a graph."""
import numpy as np

from protobuf_wire import field

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
         "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8e4m3fn": 17, "float8e5m2": 19}


def tensor(array, name=""):
    dims = b"".join(field(1, d) for d in array.shape)
    return dims + field(2, TYPES[array.dtype.name]) + field(8, name) + field(9, np.ascontiguousarray(array).tobytes())


def attribute(name, value):
    if isinstance(value, list):
        number, kind = (7, 6) if value and isinstance(value[0], float) else (8, 7)
        values = b"".join(field(number, v) for v in value)
    else:
        number, kind = {int: (3, 2), float: (2, 1), str: (4, 3), np.ndarray: (5, 4), bytes: (6, 5)}[type(value)]
        values = field(number, tensor(value) if kind == 4 else value)
    return field(5, field(1, name) + values + field(20, kind))


def value_info(name, dtype, shape=None):
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape or [])
    shape = field(2, dims) if shape is not None else b""
    return field(1, name) + field(2, field(1, field(1, TYPES[dtype]) + shape))


class Model:
    def __init__(self, opset):
        self.opset, self.nodes, self.weights, self.inputs = opset, [], [], []
        self.names, self.random = 0, np.random.default_rng(0)

    def fresh(self, stem):
        self.names += 1
        return f"{stem}_{self.names}"

    def input(self, shape, dtype="float32", name=None):
        name = name or self.fresh("x")
        self.inputs.append(field(11, value_info(name, dtype, shape)))
        return name

    def constant(self, value):
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray):
            first = value[0] if isinstance(value, list) and value else value
            kind = np.float32 if isinstance(first, float) else bool if isinstance(first, bool) else np.int64
            value = np.array(value, kind)
        name = self.fresh("c")
        self.weights.append(field(5, tensor(value, name)))
        return name

    def w(self, *shape):
        """A weight of random numbers."""
        return self.constant((self.random.standard_normal(shape) / 8).astype(np.float32))

    def __call__(self, op, *inputs, n=1, domain="", results=None, **attributes):
        """A node; the name of its result, or a list of `n`."""
        names = ["" if v is None else v if isinstance(v, str) else self.constant(v) for v in inputs]
        results = results or [self.fresh(op.lower()) for _ in range(n)]
        self.nodes.append(field(1, b"".join(field(1, v) for v in names) + b"".join(field(2, v) for v in results) +
                                field(3, self.fresh("/" + op)) + field(4, op) + field(7, domain) +
                                b"".join(attribute(k, v) for k, v in attributes.items())))
        return results[0] if len(results) == 1 else results

    def graph(self, *outputs, dtype="float32"):
        """The graph, as the attribute of a node takes it too."""
        typed = [name if isinstance(name, tuple) else (name, dtype) for name in outputs]
        made = b"".join(field(12, value_info(*output)) for output in typed)
        return b"".join(self.nodes) + field(2, "forms") + b"".join(self.weights) + b"".join(self.inputs) + made

    def save(self, path, *outputs, dtype="float32"):
        with open(path, "wb") as f:
            f.write(field(1, 9) + field(7, self.graph(*outputs, dtype=dtype)) + field(8, field(2, self.opset)) +
                    field(8, field(1, "com.microsoft") + field(2, 1)))
