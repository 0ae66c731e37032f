"""Small models that are too much work: endless_models.py FOLDER writes

endless.onnx: a loop without trip count and condition; nested.onnx: 30 loops of 3 iterations, each the body of the one before;
functions.onnx: 40 functions that each call the next one twice; large.onnx: a tensor of 4 GiB.
"""
import pathlib
import sys

import numpy as np

from onnx_writer import attribute, tensor, value_info
from protobuf_wire import field


def node(op, inputs, outputs, *attributes, domain="", name=""):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name or op + "_" + outputs[0]) +
            field(4, op) + b"".join(attributes) + (field(7, domain) if domain else b""))


def graph_attribute(name, graph):
    return field(5, field(1, name) + field(6, graph) + field(20, 5))


def save(path, *graph, model=b""):
    graph = b"".join(graph) + field(2, "g") + field(11, value_info("x", "float32", [2])) + field(12, field(1, "y"))
    path.write_bytes(field(1, 9) + field(7, graph) + field(8, field(2, 17)) + field(8, field(1, "f") + field(2, 1)) + model)


def body(depth, levels):
    """v is the carried value of a loop; its next one is that of the loop inside, or v + v."""
    v, cond, out = f"v{depth}", f"c{depth}", f"o{depth}"
    inner = (field(1, node("Add", [v, v], [out])) if depth + 1 == levels else
             field(5, tensor(np.array(3, np.int64), f"n{depth}")) +
             field(1, node("Loop", [f"n{depth}", "", v], [out], graph_attribute("body", body(depth + 1, levels)))))
    return (inner + field(1, node("Identity", [cond], [cond + "o"])) + field(2, f"body{depth}") +
            field(11, value_info(f"i{depth}", "int64", [])) + field(11, value_info(cond, "bool", [])) +
            field(11, value_info(v, "float32", [2])) + field(12, field(1, cond + "o")) + field(12, field(1, out)))


def function(number, calls, domain):
    return field(25, field(1, f"F{number}") + field(4, "a") + field(5, "c") + field(7, node(calls, ["a"], ["b"], domain=domain)) +
                 field(7, node(calls, ["b"], ["c"], domain=domain)) + field(9, field(1, "") + field(2, 17)) +
                 field(9, field(1, "f") + field(2, 1)) + field(10, "f"))


def main(folder):
    loop = node("Loop", ["", "", "x"], ["y"], graph_attribute("body", body(0, 1)), name="forever")
    save(folder / "endless.onnx", field(1, loop))
    outer = node("Loop", ["n", "", "x"], ["y"], graph_attribute("body", body(0, 30)), name="outer")
    save(folder / "nested.onnx", field(5, tensor(np.array(3, np.int64), "n")), field(1, outer))
    levels = 40
    functions = b"".join(function(i, f"F{i + 1}" if i + 1 < levels else "Relu", "f" if i + 1 < levels else "")
                         for i in range(levels))
    save(folder / "functions.onnx", field(1, node("F0", ["x"], ["y"], domain="f", name="first_call")), model=functions)
    shape = field(5, tensor(np.array([1 << 15, 1 << 15], np.int64), "shape"))
    wide = field(1, node("ReduceSum", ["x"], ["one"], attribute("keepdims", 0))) + field(1, node("Expand", ["one", "shape"], ["wide"]))
    sums = field(1, node("Softmax", ["wide"], ["soft"])) + field(1, node("ReduceSum", ["soft"], ["y"], attribute("keepdims", 0)))
    save(folder / "large.onnx", shape, wide, sums)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
