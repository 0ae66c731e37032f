"""Odd inputs of every kind that rlxc reads: odd_inputs.py FOLDER writes them, one file each (or a folder, a link, a fifo) named
KIND-what_is_odd. KIND: onnx, json, text, csv, record (calibration), lir, config, data (a folder of test data for
examples/mlp.json). Files whose names begin with `_` belong to others.
"""
import copy
import json
import os
import pathlib
import random
import subprocess
import sys

import numpy as np

from onnx_writer import attribute, tensor, value_info
from protobuf_wire import field, varint
import random_onnx

HUGE = [2 ** 31, 2 ** 32, 2 ** 47, 2 ** 62, 2 ** 63 - 1, -1, -2 ** 63]
ALL = {}  # name: bytes, or a function that makes the path


def add(kind, name, content):
    base, n = f"{kind}-{name}", 0
    while base + (f"_{n}" if n else "") in ALL:
        n += 1
    ALL[base + (f"_{n}" if n else "")] = content.encode() if isinstance(content, str) else content


def node(op, ins, outs, *attributes, domain="", name=""):
    return field(1, b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + (field(3, name) if name else b"") +
                 field(4, op) + b"".join(attributes) + (field(7, domain) if domain else b""))


def weight(array, name):
    return field(5, tensor(np.asarray(array), name))


def graph_of(*parts):
    return b"".join(parts) + field(2, "g")


def model(*parts, opset=17, ir=9, extra=b"", opsets=None):
    return field(1, ir) + field(7, graph_of(*parts)) + (field(8, field(2, opset)) if opsets is None else opsets) + extra


def inp(name="x", dtype="float32", shape=(2, 3)):
    return field(11, value_info(name, dtype, list(shape) if shape is not None else None))


def out(name="y"):
    return field(12, field(1, name))


def body_attribute(name, graph):
    return field(5, field(1, name) + field(6, graph) + field(20, 5))


RELU = node("Relu", ["x"], ["y"])
GOOD = model(inp(), RELU, out())


def wire():
    add("onnx", "empty", b"")
    add("onnx", "one_byte", b"\x08")
    for i in range(0, len(GOOD), 5):
        add("onnx", f"truncated_{i}", GOOD[:i])
    add("onnx", "varint_without_end", b"\x08" + b"\xff" * 40)
    add("onnx", "length_beyond", b"\x3a\xff\xff\xff\xff\x7f" + b"a" * 40)
    add("onnx", "length_2_63", b"\x3a" + varint(2 ** 63) + b"a")
    add("onnx", "groups", b"\x3b" * 5000)
    add("onnx", "field_0", b"\x00\x00" + GOOD)
    add("onnx", "graph_as_number", field(1, 9) + varint(7 << 3) + varint(5))
    add("onnx", "graph_twice", GOOD + field(7, graph_of(inp(), RELU, out())))
    add("onnx", "graph_empty", field(1, 9) + field(7, b"") + field(8, field(2, 17)))
    add("onnx", "no_graph", field(1, 9) + field(8, field(2, 17)))
    add("onnx", "zeros", b"\0" * 10000)
    add("onnx", "random_bytes", random.Random(1).randbytes(20000))
    add("onnx", "text", "this is not a model\n" * 100)
    nested = b""
    for _ in range(3000):
        nested = field(6, field(5, field(6, nested)))  # a graph in an attribute in a node
    add("onnx", "nested_3000", field(1, 9) + field(7, field(1, field(4, "If") + nested)))
    kind = field(1, field(1, 1))
    for _ in range(2000):
        kind = field(4, field(1, kind))
    add("onnx", "type_nested_2000", model(field(11, field(1, "x") + field(2, kind)), RELU, out()))
    add("onnx", "unknown_fields", GOOD + field(1999, b"abc") + varint(77 << 3) + varint(5))


def names_and_edges():
    add("onnx", "no_outputs", model(inp(), RELU))
    add("onnx", "no_nodes", model(inp(), out("x")))
    add("onnx", "nothing", model())
    add("onnx", "output_missing", model(inp(), RELU, out("z")))
    add("onnx", "output_twice", model(inp(), RELU, out(), out()))
    add("onnx", "output_is_input", model(inp(), RELU, out("x"), out()))
    add("onnx", "output_is_weight", model(inp(), weight(np.ones(3, np.float32), "w"), out("w")))
    add("onnx", "input_twice", model(inp(), inp(), RELU, out()))
    add("onnx", "input_unused", model(inp(), inp("u"), RELU, out()))
    add("onnx", "input_missing", model(RELU, out()))
    add("onnx", "weight_twice", model(weight(np.ones(3, np.float32), "x"), weight(np.ones(2, np.float32), "x"), RELU, out()))
    add("onnx", "weight_is_input_of_other_type", model(inp(), weight(np.ones(3, np.int64), "x"), RELU, out()))
    add("onnx", "node_output_twice", model(inp(), RELU, RELU, out()))
    add("onnx", "node_output_is_input", model(inp(), node("Relu", ["x"], ["x"]), out("x")))
    add("onnx", "node_output_is_weight", model(inp(), weight(np.ones(3, np.float32), "y"), RELU, out()))
    add("onnx", "cycle_1", model(inp(), node("Add", ["x", "y"], ["y"]), out()))
    add("onnx", "cycle_2", model(inp(), node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), out("b")))
    add("onnx", "out_of_order", model(inp(), node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"]), out()))
    add("onnx", "empty_names", model(inp(""), node("Relu", [""], [""]), out("")))
    add("onnx", "empty_output", model(inp(), node("Relu", ["x"], [""]), RELU, out()))
    add("onnx", "empty_required_input", model(inp(), node("Add", ["x", ""], ["y"]), out()))
    add("onnx", "no_op", model(inp(), node("", ["x"], ["y"]), out()))
    add("onnx", "unknown_op", model(inp(), node("Frobnicate", ["x"], ["y"]), out()))
    add("onnx", "unknown_domain", model(inp(), node("Relu", ["x"], ["y"], domain="evil.corp"), out()))
    add("onnx", "domain_ai_onnx", model(inp(), node("Relu", ["x"], ["y"], domain="ai.onnx"), out()))
    for n in (0, 2, 3, 1000):
        add("onnx", f"relu_of_{n}", model(inp(), node("Relu", ["x"] * n, ["y"]), out()))
        add("onnx", f"relu_to_{n}", model(inp(), node("Relu", ["x"], [f"y{i}" for i in range(n)]), out("y0")))
    for length in (1 << 12, 1 << 20):
        long = "n" * length
        add("onnx", f"name_{length}", model(inp(long), node("Relu", [long], [long + "y"], name=long), out(long + "y")))
    for i, text in enumerate(["\0", "\xff", "../../x", "/etc/passwd", "%s%n", "a b", "\ud7ff", "𝔘", "\x7f\x1b[2J", "-", "con", "."]):
        add("onnx", f"name_odd_{i}", model(inp(text), node("Relu", [text], [text + "y"], name=text), out(text + "y"), extra=field(2, text)))
    add("onnx", "graph_name_odd", field(1, 9) + field(7, field(2, "a/../..//\\\0\n") + inp() + RELU + out()) + field(8, field(2, 17)))


def versions():
    for v in (0, -1, 1, 5, 6, 12, 27, 1000, 2 ** 31, 2 ** 62):
        add("onnx", f"opset_{v}", model(inp(), RELU, out(), opset=v))
        add("onnx", f"ir_{v}", model(inp(), RELU, out(), ir=v))
    add("onnx", "opset_none", model(inp(), RELU, out(), opsets=b""))
    add("onnx", "opset_two", model(inp(), RELU, out(), opsets=field(8, field(2, 9)) + field(8, field(2, 17))))
    add("onnx", "opset_without_version", model(inp(), RELU, out(), opsets=field(8, field(1, ""))))


def types():
    for t in (0, 8, 14, 15, 16, 17, 21, 22, 23, 24, 99, 2 ** 31, -1):
        info = field(1, "x") + field(2, field(1, field(1, t) + field(2, field(1, field(1, 2)))))
        add("onnx", f"input_type_{t}", model(field(11, info), RELU, out()))
        raw = field(1, 2) + field(2, t) + field(8, "x") + field(9, b"\0" * 8)
        add("onnx", f"weight_type_{t}", model(field(5, raw), RELU, out()))
        add("onnx", f"cast_to_{t}", model(inp(), node("Cast", ["x"], ["y"], attribute("to", t)), out()))
    for op in ("Add", "MatMul", "Concat", "Where", "Equal", "Pow", "Mod", "Max"):
        for t in ("bool", "int8", "uint64", "float16", "float64"):
            more = [attribute("axis", 0)] if op == "Concat" else []
            ins = ["x", "u"] + (["u"] if op == "Where" else [])
            add("onnx", f"mixed_{op}_{t}", model(inp(), inp("u", t), node(op, ins, ["y"], *more), out()))
    string = field(1, "x") + field(2, field(1, field(1, 8) + field(2, field(1, field(1, 2)))))
    for op in ("Add", "Relu", "Identity", "Equal", "StringNormalizer", "Cast"):
        ins = ["x", "x"] if op in ("Add", "Equal") else ["x"]
        more = [attribute("to", 1)] if op == "Cast" else []
        add("onnx", f"string_{op}", model(field(11, string), node(op, ins, ["y"], *more), out()))


def shapes():
    for d in HUGE + [0, "", "N", "N/0", "a\nb", "x" * 10000, "2*N", "-N", "N N", "𝔘", "((((", "9" * 400]:
        for op in ("Relu", "Softmax", "Transpose", "ReduceSum", "Shape", "Flatten"):
            add("onnx", f"dim_{str(d)[:12].encode('ascii', 'replace').decode().replace('/', '_').replace(chr(10), '_')}_{op}",
                model(inp(shape=[d, 3]), node(op, ["x"], ["y"]), out()))
    for rank in (0, 7, 8, 9, 33, 64, 65, 1000, 100000):
        for op in ("Relu", "Transpose", "Softmax", "ReduceMean"):
            if rank <= 1000 or op == "Relu":
                add("onnx", f"rank_{rank}_{op}", model(inp(shape=[1] * rank), node(op, ["x"], ["y"]), out()))
    add("onnx", "no_shape", model(inp(shape=None), RELU, out()))
    both = field(1, "x") + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 3) + field(2, "N")))))
    add("onnx", "dim_value_and_name", model(field(11, both), RELU, out()))
    add("onnx", "input_without_type", model(field(11, field(1, "x")), RELU, out()))
    add("onnx", "declared_otherwise", model(inp(), RELU, field(12, value_info("y", "int64", [9, 9, 9]))))
    add("onnx", "info_otherwise", model(inp(), node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"]), out(),
                                        field(13, value_info("a", "float32", [5]))))
    for a in ([0, 3], [3, 0], [0, 0]):
        for op in ("MatMul", "Softmax", "ReduceMax", "ReduceMean", "ArgMax", "TopK", "Concat", "Transpose", "LayerNormalization",
                   "NonZero", "CumSum", "Flatten", "Split", "Gather"):
            more, ins, weights = [], ["x"], b""
            if op == "MatMul":
                ins, weights = ["x", "w"], weight(np.ones([a[1], 2], np.float32), "w")
            if op in ("TopK", "CumSum", "Gather"):
                ins, weights = ["x", "w"], weight(np.array([1] if op == "TopK" else 0, np.int64), "w")
            if op == "LayerNormalization":
                ins, weights = ["x", "w"], weight(np.ones([a[1]], np.float32), "w")
            if op == "Concat":
                ins, more = ["x", "x"], [attribute("axis", 0)]
            add("onnx", f"zero_{a[0]}_{a[1]}_{op}", model(inp(shape=a), weights, node(op, ins, ["y"], *more), out()))


OPS = {  # operator: shape of x, further operands, attributes with what they should be
    "Conv": ((1, 4, 5, 5), [np.ones([4, 4, 3, 3], np.float32)],
             dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1], group=1, auto_pad="NOTSET")),
    "ConvTranspose": ((1, 4, 5, 5), [np.ones([4, 4, 3, 3], np.float32)],
                      dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1], group=1, output_padding=[0, 0],
                           output_shape=[5, 5])),
    "MaxPool": ((1, 4, 5, 5), [], dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], dilations=[1, 1], ceil_mode=0,
                                       storage_order=0)),
    "AveragePool": ((1, 4, 5, 5), [], dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], ceil_mode=0, count_include_pad=0)),
    "LpPool": ((1, 4, 5, 5), [], dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], p=2)),
    "LRN": ((1, 4, 5, 5), [], dict(size=3, alpha=0.1, beta=0.5, bias=1.0)),
    "DepthToSpace": ((1, 4, 5, 5), [], dict(blocksize=2, mode="DCR")),
    "SpaceToDepth": ((1, 4, 6, 6), [], dict(blocksize=2)),
    "Transpose": ((2, 3, 4), [], dict(perm=[2, 0, 1])),
    "Flatten": ((2, 3, 4), [], dict(axis=1)),
    "Concat": ((2, 3, 4), [np.ones([2, 3, 4], np.float32)], dict(axis=1)),
    "Softmax": ((2, 3, 4), [], dict(axis=1)),
    "Hardmax": ((2, 3, 4), [], dict(axis=1)),
    "ReduceMean": ((2, 3, 4), [], dict(axes=[1], keepdims=1)),
    "ArgMax": ((2, 3, 4), [], dict(axis=1, keepdims=1, select_last_index=0)),
    "LayerNormalization": ((2, 3, 4), [np.ones([4], np.float32)], dict(axis=-1, epsilon=1e-5, stash_type=1)),
    "LpNormalization": ((2, 3, 4), [], dict(axis=1, p=2)),
    "Gemm": ((3, 4), [np.ones([4, 3], np.float32)], dict(transA=0, transB=0, alpha=1.0, beta=1.0)),
    "Gather": ((3, 4), [np.array([0, 1], np.int64)], dict(axis=0)),
    "GatherND": ((3, 4), [np.array([[0], [1]], np.int64)], dict(batch_dims=0)),
    "ScatterElements": ((3, 4), [np.array([[0, 1]], np.int64), np.ones([1, 2], np.float32)], dict(axis=0, reduction="add")),
    "Slice": ((3, 4), [np.array([0]), np.array([2]), np.array([1]), np.array([1])], dict()),
    "Pad": ((3, 4), [np.array([0, 1, 0, 1])], dict(mode="constant")),
    "Reshape": ((3, 4), [np.array([4, 3])], dict(allowzero=0)),
    "Expand": ((3, 4), [np.array([2, 3, 4])], dict()),
    "Tile": ((3, 4), [np.array([2, 2])], dict()),
    "Split": ((4, 4), [np.array([2, 2])], dict(axis=0)),
    "Squeeze": ((1, 4), [np.array([0])], dict()),
    "Unsqueeze": ((3, 4), [np.array([0])], dict()),
    "TopK": ((3, 4), [np.array([2])], dict(axis=1, largest=1, sorted=1)),
    "OneHot": ((3, 4), [np.array(5), np.array([0, 1], np.float32)], dict(axis=-1)),
    "CumSum": ((3, 4), [np.array(0)], dict(exclusive=0, reverse=0)),
    "Trilu": ((3, 4), [np.array(0)], dict(upper=1)),
    "EyeLike": ((3, 4), [], dict(k=0, dtype=1)),
    "Resize": ((1, 1, 4, 4), [np.zeros([0], np.float32), np.array([1, 1, 2, 2], np.float32)],
               dict(mode="linear", coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75, nearest_mode="floor",
                    extrapolation_value=0.0)),
    "QuantizeLinear": ((3, 4), [np.array(0.5, np.float32), np.array(0, np.uint8)], dict(axis=1)),
    "Einsum": ((3, 4), [np.ones([4, 3], np.float32)], dict(equation="ij,jk->ik")),
    "LSTM": ((2, 1, 3), [np.ones([1, 8, 3], np.float32), np.ones([1, 8, 2], np.float32)],
             dict(hidden_size=2, direction="forward", clip=1.0, activations=["Sigmoid", "Tanh", "Tanh"])),
    "GRU": ((2, 1, 3), [np.ones([1, 6, 3], np.float32), np.ones([1, 6, 2], np.float32)],
            dict(hidden_size=2, direction="forward", linear_before_reset=0)),
    "BatchNormalization": ((2, 3, 4), [np.ones(3, np.float32)] * 4, dict(epsilon=1e-5, momentum=0.9, training_mode=0)),
    "InstanceNormalization": ((2, 3, 4), [np.ones(3, np.float32)] * 2, dict(epsilon=1e-5)),
    "GroupNormalization": ((2, 4, 4), [np.ones(4, np.float32)] * 2, dict(num_groups=2, epsilon=1e-5)),
    "DFT": ((1, 4, 1), [], dict(onesided=0, inverse=0, axis=1)),
    "GridSample": ((1, 1, 4, 4), [np.ones([1, 2, 2, 2], np.float32)], dict(mode="linear", padding_mode="zeros", align_corners=0)),
    "RoiAlign": ((1, 1, 4, 4), [np.ones([1, 4], np.float32), np.array([0])], dict(output_height=2, output_width=2, sampling_ratio=1)),
    "MaxRoiPool": ((1, 1, 4, 4), [np.ones([1, 5], np.float32)], dict(pooled_shape=[2, 2], spatial_scale=1.0)),
    "Col2Im": ((1, 9, 9), [np.array([5, 5]), np.array([3, 3])], dict(strides=[1, 1])),
    "Clip": ((3, 4), [np.array(0, np.float32), np.array(1, np.float32)], dict()),
    "Range": ((), [np.array(5, np.float32), np.array(1, np.float32)], dict()),
    "ReverseSequence": ((3, 4), [np.array([1, 2, 3, 1])], dict(batch_axis=1, time_axis=0)),
    "NonMaxSuppression": ((1, 3, 4), [np.ones([1, 1, 3], np.float32), np.array(2), np.array(0.5, np.float32)], dict(center_point_box=0)),
}
ODD_INTS = [-1, 0, 7, 2 ** 31, 2 ** 62, -2 ** 63]
ODD_FLOATS = [float("nan"), float("inf"), -1e38, 0.0]


def spelled(text):
    return "".join(c if c.isalnum() else "_" for c in str(text))[:24]


def attributes():
    for op, (shape, operands, given) in OPS.items():
        names = ["x"] + [f"w{i}" for i in range(len(operands))]
        weights = b"".join(weight(w, f"w{i}") for i, w in enumerate(operands))
        opset = 21 if op == "GroupNormalization" else 18 if op in ("Col2Im", "Split", "Resize", "Pad") else 17 if op != "DFT" else 19

        def case(name, changed, ins=None, more=weights):
            listed = [attribute(k, v) for k, v in changed.items() if not (isinstance(v, list) and v and isinstance(v[0], str))]
            add("onnx", f"{op}_{name}", model(inp(shape=shape), more, node(op, ins or names, ["y"], *listed), out(), opset=opset))

        case("as_it_should_be", given)
        for key, value in given.items():
            if isinstance(value, list) and isinstance(value[0], str):
                continue
            odd = ODD_INTS if isinstance(value, int) else ODD_FLOATS if isinstance(value, float) else ["", "x" * 1000] \
                if isinstance(value, str) else [[v] * len(value) for v in ODD_INTS] + [[], value + value, [2 ** 40, 1] * 500]
            other = "word" if not isinstance(value, str) else 5
            for o in odd + [other]:
                case(f"{key}_{spelled(o)}", {**given, key: o})
        for i, w in enumerate(operands):
            kind = w.dtype
            odd = ODD_INTS if kind.kind in "iu" and w.dtype == np.int64 else []
            for o in odd:
                changed = b"".join(weight(np.full_like(v, o) if j == i else v, f"w{j}") for j, v in enumerate(operands))
                case(f"operand_{i}_{spelled(o)}", given, more=changed)
            if kind.kind == "f":
                for o in ODD_FLOATS[:3]:
                    changed = b"".join(weight(np.full_like(v, o) if j == i else v, f"w{j}") for j, v in enumerate(operands))
                    case(f"operand_{i}_{spelled(o)}", given, more=changed)
            for what, array in (("empty", np.zeros([0], kind)), ("rank_0", np.zeros([], kind)), ("rank_5", np.ones([1] * 5, kind)),
                                ("bool", np.ones(w.shape, bool))):
                changed = b"".join(weight(array if j == i else v, f"w{j}") for j, v in enumerate(operands))
                case(f"operand_{i}_{what}", given, more=changed)
            case(f"operand_{i}_absent", given, ins=[n if n != f"w{i}" else "" for n in names])
            case(f"operand_{i}_of_input", given, ins=[n if n != f"w{i}" else "x" for n in names])
        for s in ((), (1,), (0,) * max(len(shape), 1), (1,) * 6):
            add("onnx", f"{op}_of_{spelled(s)}", model(inp(shape=s), weights,
                                                      node(op, names, ["y"], *[attribute(k, v) for k, v in given.items()
                                                                              if not (isinstance(v, list) and isinstance(v[0], str))]),
                                                      out(), opset=opset))
    twice = attribute("axis", 0) + attribute("axis", 1)
    add("onnx", "attribute_twice", model(inp(), node("Softmax", ["x"], ["y"], twice), out()))
    add("onnx", "attribute_without_name", model(inp(), node("Softmax", ["x"], ["y"], field(5, field(3, 1) + field(20, 2))), out()))
    add("onnx", "attribute_without_type", model(inp(), node("Softmax", ["x"], ["y"], field(5, field(1, "axis") + field(3, 1))), out()))
    add("onnx", "attribute_reference", model(inp(), node("Softmax", ["x"], ["y"], field(5, field(1, "axis") + field(21, "a"))), out()))
    add("onnx", "attribute_1_mb", model(inp(), node("Softmax", ["x"], ["y"], attribute("axis", 1), attribute("junk", "x" * (1 << 20))), out()))
    add("onnx", "attribute_100000_ints", model(inp(), node("Transpose", ["x"], ["y"], attribute("perm", [0] * 100000)), out()))


def data():
    def raw(dims, kind, bytes_=b"", more=b""):
        return field(5, b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, "w") + (field(9, bytes_) if bytes_ else b"") + more)

    def case(name, weights):
        add("onnx", f"weight_{name}", model(inp(), weights, node("Add", ["x", "w"], ["y"]), out()))
    case("raw_short", raw([3], 1, b"\0" * 11))
    case("raw_long", raw([3], 1, b"\0" * 13))
    case("none", raw([3], 1))
    case("float_data_short", raw([3], 1, more=field(4, b"\0" * 8)))
    case("int64_data_for_float", raw([3], 1, more=field(7, varint(1) * 3)))
    case("raw_and_typed", raw([3], 1, b"\0" * 12, field(4, b"\0" * 12)))
    case("segment", raw([3], 1, b"\0" * 12, field(3, field(1, 0) + field(2, 5))))
    for d in HUGE:
        case(f"dim_{d}", raw([d], 1, b"\0" * 12))
        case(f"dim_0_{d}", raw([0, d], 1))
    case("dims_product_wraps", raw([2 ** 32, 2 ** 32], 1, b"\0" * 12))
    case("rank_1000", raw([1] * 1000, 1, b"\0" * 4))
    case("strings", raw([2], 8, more=field(6, "a") + field(6, "b")))
    case("string_raw", raw([2], 8, b"abcdefgh"))
    for value in ("nan", "inf", "-inf", "1e-45"):
        case(value, weight(np.full([3], float(value), np.float32), "w"))

    def external(name, *pairs, dims=(3,), location=1):
        entries = b"".join(field(13, field(1, k) + field(2, v)) for k, v in pairs)
        case(f"external_{name}", raw(list(dims), 1, more=entries + field(14, location)))
    blob = ("location", "_blob.bin")
    external("good", blob)
    external("missing", ("location", "_nowhere.bin"))
    external("parent", ("location", "../blob.bin"))
    external("absolute", ("location", "/etc/passwd"))
    external("inside_parent", ("location", "a/../../_blob.bin"))
    external("link", ("location", "_link.bin"))
    external("link_folder", ("location", "_linked/_blob.bin"))
    external("loop", ("location", "_loop.bin"))
    external("fifo", ("location", "_fifo.bin"))
    external("folder", ("location", "_folder"))
    external("empty_name", ("location", ""))
    external("none")
    external("nul", ("location", "_blob.bin\0.txt"))
    external("itself", ("location", "onnx-weight_external_itself"))
    external("proc", ("location", "/proc/self/mem"))
    external("long", ("location", "x" * 5000))
    external("twice", blob, ("location", "_other.bin"))
    for value in ("-1", "99999999", "18446744073709551615", "9223372036854775807", "abc", "", " 0", "0x0", "1e3", "3"):
        external(f"offset_{spelled(value)}", blob, ("offset", value))
        external(f"length_{spelled(value)}", blob, ("length", value))
    external("sum_wraps", blob, ("offset", "9223372036854775800"), ("length", "100"))
    external("checksum", blob, ("checksum", "0" * 40))
    external("checksum_odd", blob, ("checksum", "zz"))
    external("unknown_key", blob, ("compress", "zip"))
    external("huge", blob, dims=(2 ** 31, 2 ** 20))
    external("location_5", blob, location=5)


def sub_graphs():
    then = graph_of(node("Relu", ["x"], ["t"]), out("t"))
    cond = inp("c", "bool", ())
    both = [body_attribute("then_branch", then), body_attribute("else_branch", then)]
    add("onnx", "if_good", model(inp(), cond, node("If", ["c"], ["y"], *both), out()))
    add("onnx", "if_one_branch", model(inp(), cond, node("If", ["c"], ["y"], both[0]), out()))
    add("onnx", "if_branch_as_int", model(inp(), cond, node("If", ["c"], ["y"], attribute("then_branch", 1), both[1]), out()))
    add("onnx", "if_branch_twice", model(inp(), cond, node("If", ["c"], ["y"], both[0], *both), out()))
    add("onnx", "if_no_results", model(inp(), cond, node("If", ["c"], [], *both), RELU, out()))
    add("onnx", "if_more_results", model(inp(), cond, node("If", ["c"], ["y", "z"], *both), out()))
    add("onnx", "if_with_input", model(inp(), cond, node("If", ["c"], ["y"], body_attribute("then_branch", then + inp("u")), both[1]), out()))
    add("onnx", "if_of_number", model(inp(), node("If", ["x"], ["y"], *both), out()))
    other = graph_of(node("Cast", ["x"], ["t"], attribute("to", 7)), out("t"))
    add("onnx", "if_types_differ", model(inp(), cond, node("If", ["c"], ["y"], both[0], body_attribute("else_branch", other)), out()))
    later = graph_of(node("Relu", ["z"], ["t"]), out("t"))
    add("onnx", "if_reads_later", model(inp(), cond, node("If", ["c"], ["y"], both[0], body_attribute("else_branch", later)),
                                        node("Relu", ["y"], ["z"]), out()))
    shadow = graph_of(node("Relu", ["x"], ["x"]), out("x"))
    add("onnx", "if_shadows", model(inp(), cond, node("If", ["c"], ["y"], both[0], body_attribute("else_branch", shadow)), out()))
    for depth in (10, 60, 500, 3000):
        g = then
        for i in range(depth):
            g = graph_of(node("If", ["c"], [f"r{i}"], body_attribute("then_branch", g), body_attribute("else_branch", then)), out(f"r{i}"))
        add("onnx", f"if_nested_{depth}", model(inp(), cond, node("If", ["c"], ["y"], body_attribute("then_branch", g), both[1]), out()))

    def loop(count=b"", condition="", body=None, ins=("x",), outs=("y",), name="", weights=b""):
        body = body or graph_of(inp("i", "int64", ()), inp("k", "bool", ()), inp("v"), node("Identity", ["k"], ["k2"]),
                                node("Relu", ["v"], ["v2"]), out("k2"), out("v2"))
        add("onnx", "loop_" + name, model(inp(), weights, node("Loop", ["n" if weights else "", condition, *ins], list(outs),
                                                              body_attribute("body", body)), out(outs[0] if outs else "x")))
    for n in (0, -1, -2 ** 63, 3, 2 ** 31, 2 ** 63 - 1):
        loop(name=f"{n}", weights=weight(np.array(n, np.int64), "n"))
    loop(name="count_is_list", weights=weight(np.array([1, 2], np.int64), "n"))
    loop(name="count_is_float", weights=weight(np.array(1, np.float32), "n"))
    loop(name="no_carried", ins=())
    loop(name="too_many_carried", ins=("x", "x", "x"), outs=("y", "z", "q"))
    loop(name="no_results", outs=())
    loop(name="body_empty", body=graph_of())
    loop(name="body_without_outputs", body=graph_of(inp("i", "int64", ()), inp("k", "bool", ()), inp("v")))
    grow = graph_of(inp("i", "int64", ()), inp("k", "bool", ()), inp("v", shape=("a", "b")), node("Identity", ["k"], ["k2"]),
                    node("Concat", ["v", "v"], ["v2"], attribute("axis", 0)), out("k2"), out("v2"))
    for n in (3, 40, 2 ** 40):
        loop(name=f"doubles_{n}", body=grow, weights=weight(np.array(n, np.int64), "n"))
    kept = graph_of(inp("i", "int64", ()), inp("k", "bool", ()), inp("v"), node("Identity", ["k"], ["k2"]), node("Relu", ["v"], ["v2"]),
                    node("Relu", ["v"], ["s"]), out("k2"), out("v2"), out("s"))
    for n in (0, 2 ** 20, 2 ** 50):
        loop(name=f"scans_{n}", body=kept, outs=("z", "y"), weights=weight(np.array(n, np.int64), "n"))

    def function(name, *nodes, more=b""):
        return field(25, field(1, name) + field(4, "a") + field(5, "b") + b"".join(field(7, n) for n in nodes) +
                     field(9, field(2, 17)) + field(9, field(1, "f") + field(2, 1)) + field(10, "f") + more)

    def inner(op, i, o, domain=""):
        return field(1, i) + field(2, o) + field(4, op) + (field(7, domain) if domain else b"")
    imports = field(8, field(2, 17)) + field(8, field(1, "f") + field(2, 1))

    def with_functions(name, *functions, call="F"):
        add("onnx", "function_" + name, model(inp(), node(call, ["x"], ["y"], domain="f"), out(), opsets=imports, extra=b"".join(functions)))
    with_functions("good", function("F", inner("Relu", "a", "b")))
    with_functions("calls_itself", function("F", inner("F", "a", "b", "f")))
    with_functions("call_each_other", function("F", inner("G", "a", "b", "f")), function("G", inner("F", "a", "b", "f")))
    with_functions("empty", function("F"))
    with_functions("twice", function("F", inner("Relu", "a", "b")), function("F", inner("Tanh", "a", "b")))
    with_functions("missing")
    with_functions("no_domain", field(25, field(1, "F") + field(4, "a") + field(5, "b") + field(7, inner("Relu", "a", "b"))))
    with_functions("chain_3000", *[function(f"F{i}" if i else "F", inner(f"F{i + 1}" if i < 2999 else "Relu", "a", "b", "f" if i < 2999 else ""))
                                   for i in range(3000)])


def numbers_of_things():
    def chain(n, op="Relu"):
        ins = (lambda i: [f"v{i}", f"v{i}"]) if op == "Add" else (lambda i: [f"v{i}"])
        return model(inp("v0"), *[node(op, ins(i), [f"v{i + 1}"]) for i in range(n)], out(f"v{n}"))
    add("onnx", "chain_20000", chain(20000))
    add("onnx", "chain_add_20000", chain(20000, "Add"))
    add("onnx", "chain_tanh_200000", chain(200000, "Tanh"))
    add("onnx", "inputs_3000", model(*[inp(f"x{i}") for i in range(3000)], node("Sum", [f"x{i}" for i in range(3000)], ["y"]), out()))
    add("onnx", "outputs_3000", model(inp(), *[node("Relu", ["x"], [f"y{i}"]) for i in range(3000)], *[out(f"y{i}") for i in range(3000)]))
    add("onnx", "concat_20000", model(inp(), node("Concat", ["x"] * 20000, ["y"], attribute("axis", 0)), out()))
    add("onnx", "split_5000", model(inp(shape=[5000, 2]), node("Split", ["x"], [f"y{i}" for i in range(5000)]), *[out(f"y{i}") for i in range(5000)]))
    add("onnx", "weights_20000", model(inp(), *[weight(np.ones(3, np.float32), f"w{i}") for i in range(20000)],
                                       *[node("Add", [f"a{i}" if i else "x", f"w{i}"], [f"a{i + 1}"]) for i in range(2000)], out("a2000")))
    add("onnx", "symbols_2000", model(*[inp(f"x{i}", shape=[f"N{i}", 3]) for i in range(2000)],
                                      node("Concat", [f"x{i}" for i in range(2000)], ["y"], attribute("axis", 0)), out()))
    add("onnx", "einsum_long", model(inp(), node("Einsum", ["x"], ["y"], attribute("equation", "ij->" + "ij" * 1000)), out()))
    add("onnx", "einsum_52", model(inp(shape=[1] * 52), node("Einsum", ["x"], ["y"], attribute(
        "equation", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ->")), out()))
    squares = [node("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(60)]
    add("onnx", "size_squared", model(inp(shape=["N", 3]), node("Size", ["x"], ["s0"]), *squares, out("s60")))
    modulo = [node("Mod" if i % 2 else "Add", [f"s{i}", "s0"], [f"s{i + 1}"]) for i in range(300)]
    add("onnx", "size_mod_300", model(inp(shape=["N", "M"]), node("Size", ["x"], ["s0"]), *modulo, out("s300")))


def mutants():
    """Valid random models with a few bytes changed."""
    rng = random.Random(7)
    for seed in range(1, 161):
        good = random_onnx.Generator(seed).model()
        bad = bytearray(good)
        for _ in range(1 + seed % 4):
            at = rng.randrange(len(bad))
            how = rng.randrange(4)
            if how == 0:
                bad[at] = rng.choice([0, 1, 0x7f, 0x80, 0xff])
            elif how == 1:
                bad[at] ^= 1 << rng.randrange(8)
            elif how == 2:
                bad[at:at] = bytes([rng.randrange(256)])
            else:
                del bad[at]
        add("onnx", f"mutant_{seed}", bytes(bad))


def paths(value, at=()):
    yield at
    if isinstance(value, dict):
        for k, v in value.items():
            yield from paths(v, at + (k,))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from paths(v, at + (i,))


def changed(tree, path, value):
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = changed(tree[path[0]], path[1:], value)
    return tree


def without(tree, path):
    tree = copy.copy(tree)
    if len(path) == 1:
        del tree[path[0]]
    else:
        tree[path[0]] = without(tree[path[0]], path[1:])
    return tree


def json_mutants(kind, text, count, seed=3):
    rng = random.Random(seed)
    tree = json.loads(text)
    places = [p for p in paths(tree) if p]
    odd = [None, True, -1, 0, 2 ** 31, 2 ** 63, 2 ** 64, 1e300, -0.5, "", "x", "\0", "../x", "N\n#error", [], {}, [[]], [1] * 1000, {"": 1},
           "f" * 5000]
    for n in range(count):
        place = rng.choice(places)
        if rng.randrange(6) == 0:
            add(kind, f"mutant_{n}", json.dumps(without(tree, place)))
        else:
            add(kind, f"mutant_{n}", json.dumps(changed(tree, place, rng.choice(odd))))
    for i in range(0, len(text), max(1, len(text) // 12)):
        add(kind, f"truncated_{i}", text[:i])


def json_models(examples):
    for name in ("mlp", "decoder"):
        json_mutants("json", (examples / f"{name}.json").read_text(), 60, seed=len(name))
    good = (examples / "mlp.json").read_text()
    for depth in (200, 300, 100000):
        add("json", f"nested_{depth}", "[" * depth)
        add("json", f"nested_objects_{depth}", '{"a":' * depth)
    add("json", "bom", "\ufeff" + good)
    add("json", "utf16", good.encode("utf-16"))
    add("json", "nul", good.replace(":", ":\0", 1))
    add("json", "not_utf8", good.encode().replace(b"name", b"n\xff\xfeme", 1))
    add("json", "comment", "// a comment\n" + good)
    add("json", "trailing_comma", good.rstrip().rstrip("}") + ",}")
    add("json", "twice", good + good)
    add("json", "key_twice", good.replace("{", '{"name": 5,', 1))
    add("json", "number_1e999", good.replace(" 1", " 1e999", 1))
    add("json", "digits", '{"a": ' + "9" * 100000 + "}")
    add("json", "scalar", "5")
    add("json", "string_unclosed", '{"a": "' + "x" * 100000)
    add("json", "surrogate", '{"name": "\\ud800"}')


def texts(rlxc, examples):
    rng = random.Random(5)
    for name in ("mlp.json", "decoder.json", "bert.onnx"):
        for stage in ("hir", "mir", "lir"):
            good = subprocess.run([rlxc, "inspect", examples / name, "--stage", stage], capture_output=True, check=True).stdout.decode()
            lines = good.splitlines()
            for n in range(14):
                some = list(lines)
                at = rng.randrange(len(some))
                how = n % 7
                words = some[at].split(" ")
                if how == 0:
                    del some[at]
                elif how == 1:
                    some.insert(at, some[rng.randrange(len(some))])
                elif how == 2:
                    words[rng.randrange(len(words))] = str(rng.choice(HUGE))
                    some[at] = " ".join(words)
                elif how == 3:
                    some[at] = some[at].replace("%", "%9", 1)
                elif how == 4:
                    some[at] = some[at].replace("f32", rng.choice(["f16", "i64", "bool", "string", "f33"]))
                elif how == 5:
                    some[at] = some[at].replace("[", "[0,", 1)
                else:
                    some[at] = some[at][:len(some[at]) // 2]
                add("text", f"{name.split('.')[0]}_{stage}_{n}", "\n".join(some))
    add("text", "only_head", 'module "')
    add("text", "no_graph", 'module "a" mir {\n}\n')
    add("text", "deep", 'module "a" mir {\n' + "graph @main {\n" * 5000)
    add("text", "dims", 'module "a" mir {\ngraph @main {\n %0 = input "x" : f32[' + "(" * 20000 + "]\n return %0\n}\n}\n")
    add("text", "dims_sum", 'module "a" mir {\ngraph @main {\n %0 = input "x" : f32[' + "+".join(["n"] * 20000) + "]\n return %0\n}\n}\n")
    add("text", "dims_power", 'module "a" mir {\ngraph @main {\n %0 = input "x" : f32[' + "*".join(["(n+m+k+1)"] * 60) + "]\n return %0\n}\n}\n")


def tables():
    head = "id,lower,upper,size\n"
    for name, text in {
            "empty": "", "head_only": head, "no_head": "0,0,2,64\n", "other_head": "a,b,c\n1,2,3\n", "few_columns": head + "0,0,2\n",
            "many_columns": head + "0,0,2,64" + ",1" * 100000 + "\n", "negative": head + "-1,-5,2,64\n", "backwards": head + "0,5,2,64\n",
            "same": head + "0,2,2,64\n", "id_twice": head + "0,0,2,64\n0,1,3,64\n", "huge_size": head + f"0,0,2,{2 ** 63}\n",
            "huge_sizes": head + "".join(f"{i},0,2,{2 ** 62}\n" for i in range(8)), "beyond_64_bits": head + "0,0,2,99999999999999999999\n",
            "huge_times": head + f"0,{-2 ** 63},{2 ** 63 - 1},64\n", "words": head + "a,b,c,d\n", "floats": head + "0,0.5,2e3,6.4\n",
            "nan": head + "0,nan,inf,64\n", "spaces": head + " 0 , 0 , 2 , 64 \n", "crlf": head.replace("\n", "\r\n") + "0,0,2,64\r\n",
            "nul": head + "0,0,2,64\0\n", "quotes": head + '"0","0","2","64"\n', "empty_lines": head + "\n\n0,0,2,64\n\n",
            "no_newline": head + "0,0,2,64", "bom": "\ufeff" + head + "0,0,2,64\n", "zero_size": head + "0,0,2,0\n", "binary": "id\xff\0\1",
            "long_line": head + "9" * (1 << 20), "one_time": head + "".join(f"{i},5,6,{i + 1}\n" for i in range(20000)),
            "staircase": head + "".join(f"{i},{i},{i + 2},{i % 97 + 1}\n" for i in range(50000)),
            "all_overlap": head + "".join(f"{i},0,9,{i * 7919 % 1000 + 1}\n" for i in range(20000)),
            "nested": head + "".join(f"{i},{i},{40000 - i},{i % 100 + 1}\n" for i in range(15000))}.items():
        add("csv", name, text)


def records(rlxc, examples, folder):
    made = folder / "_made"
    made.mkdir(exist_ok=True)
    subprocess.run([rlxc, "calibrate", examples / "mlp.json", "--random", "2", "-o", made / "record.json"], capture_output=True, check=True)
    json_mutants("record", (made / "record.json").read_text(), 30)
    good = subprocess.run([rlxc, "compile", examples / "mlp.json", "-q", "--emit", "lir", "-o", "-"], capture_output=True, check=True).stdout
    json_mutants("lir", good.decode(), 120)
    config = subprocess.run([rlxc, "compile", examples / "mlp.json", "--print-config"], capture_output=True, check=True).stdout.decode()
    json_mutants("config", config, 40)
    add("config", "includes_itself", '{"config": "config-includes_itself"}')


def data_sets(examples):
    shapes = {"rank_1": [4], "rank_9": [1] * 9, "zero": [0, 0], "huge": [2 ** 40, 2 ** 40], "negative": [-1, 4], "none": []}
    for name, shape in shapes.items():
        add("data", name, lambda path, s=shape: one_input(path, b"".join(field(1, d) for d in s) + field(2, 1) + field(9, b"\0" * 16)))
    for t in (0, 7, 8, 9, 10, 99):
        add("data", f"type_{t}", lambda path, t=t: one_input(path, field(1, 4) + field(2, t) + field(9, b"\0" * 16)))
    add("data", "empty_file", lambda path: one_input(path, b""))
    add("data", "random", lambda path: one_input(path, random.Random(2).randbytes(500)))
    add("data", "no_inputs", lambda path: (path / "test_data_set_0").mkdir(parents=True))
    add("data", "no_sets", lambda path: path.mkdir())
    add("data", "fifo", lambda path: ((path / "test_data_set_0").mkdir(parents=True), os.mkfifo(path / "test_data_set_0" / "input_0.pb")))
    add("data", "folder", lambda path: (path / "test_data_set_0" / "input_0.pb").mkdir(parents=True))
    add("data", "many", lambda path: [one_input(path, field(1, 4) + field(2, 1) + field(9, b"\0" * 16), f"input_{i}.pb") for i in range(200)])


def one_input(path, content, name="input_0.pb"):
    (path / "test_data_set_0").mkdir(parents=True, exist_ok=True)
    (path / "test_data_set_0" / name).write_bytes(content)


def places():
    """Things that are no files, under the names of models."""
    add("onnx", "is_folder", lambda path: path.mkdir())
    add("onnx", "is_fifo", lambda path: os.mkfifo(path))
    add("onnx", "is_null", lambda path: path.symlink_to("/dev/null"))
    add("onnx", "is_zero", lambda path: path.symlink_to("/dev/zero"))
    add("onnx", "is_loop", lambda path: path.symlink_to(path.name))
    add("onnx", "is_dangling", lambda path: path.symlink_to("nowhere"))
    add("onnx", "is_link", lambda path: path.symlink_to("onnx-if_good"))
    add("onnx", "is_proc", lambda path: path.symlink_to("/proc/self/mem"))
    add("csv", "is_folder", lambda path: path.mkdir())
    add("csv", "is_fifo", lambda path: os.mkfifo(path))
    add("csv", "is_zero", lambda path: path.symlink_to("/dev/zero"))
    add("config", "is_fifo", lambda path: os.mkfifo(path))
    add("record", "is_zero", lambda path: path.symlink_to("/dev/zero"))
    add("lir", "is_fifo", lambda path: os.mkfifo(path))
    add("json", "is_folder", lambda path: path.mkdir())


def main(folder, rlxc):
    folder, examples = pathlib.Path(folder), pathlib.Path("examples")
    folder.mkdir(parents=True, exist_ok=True)
    for make in (wire, names_and_edges, versions, types, shapes, attributes, data, sub_graphs, numbers_of_things, mutants, tables, places):
        make()
    json_models(examples)
    texts(rlxc, examples)
    records(rlxc, examples, folder)
    data_sets(examples)
    for name, content in ALL.items():
        path = folder / name
        content(path) if callable(content) else path.write_bytes(content)
    (folder / "_blob.bin").write_bytes(b"\0" * 64)
    (folder / "_folder").mkdir()
    (folder / "_link.bin").symlink_to("_blob.bin")
    (folder / "_linked").symlink_to(".")
    (folder / "_loop.bin").symlink_to("_loop.bin")
    os.mkfifo(folder / "_fifo.bin")


if __name__ == "__main__":
    main(*sys.argv[1:])
