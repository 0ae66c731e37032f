"""Models whose names are hostile, and a check of what was made of them.

hostile_names.py models FOLDER writes everywhere.onnx and static.onnx (one of these names in every place), graph_<i>.onnx for graph names that packages
use themselves, and refused.onnx, whose names are in an error. hostile_names.py check FOLDER... reads all files of artefacts:
no line begins with the text that the names carry, and JSON, XML and Python are well formed. JSON is also checked by its schema.
"""
import json
import pathlib
import py_compile
import subprocess
import sys
import xml.etree.ElementTree

from onnx_writer import attribute, tensor, value_info
from protobuf_wire import field
import numpy as np

PAYLOAD = "#error text of a model"
BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\u0085", "\u2028", "\u2029", "\0", "\\\n"]
ENDS = ["\\", "\\ ", "??/", "*/", "/*", "//", '"', "'", "`", '"""', "'''", "$(error x)", "`exit 1`", "${1}", "%s%n", "#", "<!--",
        "</script><script>", "]]>", "-->", "|", "\u202e", "\x1b[2J", "'; exit 1; '", "é", "x" * 5000]
NAMES = [f"n{i}{b}{PAYLOAD}{b}//" for i, b in enumerate(BREAKS)] + [f"e{i}{e}" for i, e in enumerate(ENDS)]
GRAPHS = ["kernels", "kernels_0", "parallel", "main", "Main", "rlxc", "x", "timer", "pthread", "model", "run", "1", "", "a b", "y" * 5000, "../up"]
SCHEMAS = ["dispatch", "fusion", "launch", "lir", "manifest", "plan", "precision", "quant"]


def node(op, inputs, outputs, name, *attributes):
    return field(1, b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) + field(4, op) +
                 b"".join(attributes))


def save(path, graph_name, *parts):
    graph = b"".join(parts) + field(2, graph_name)
    model = field(1, 9) + field(2, NAMES[0]) + field(7, graph) + field(8, field(2, 17)) + field(6, NAMES[1])
    path.write_bytes(model + field(14, field(1, NAMES[2]) + field(2, NAMES[3])))


def everywhere(path, rows):
    """A model with the names in every place; `rows` tells the first size of an input from its name."""
    parts = []
    for i, name in enumerate(NAMES):
        # Sizes differ, so that every node has a kernel of its own.
        weight = np.full((3, i + 2), 0.25, np.float32)
        parts += [field(5, tensor(weight, "w" + name)), field(11, value_info(name, "float32", [rows(name), 3])),
                  field(12, value_info("y" + name, "float32", [rows(name), i + 2])),
                  node("MatMul", [name, "w" + name], ["h" + name], name),
                  node("Softmax", ["h" + name], ["y" + name], name + "/2", attribute("axis", 1))]
    save(path, "g" + NAMES[0], *parts)


def models(folder):
    everywhere(folder / "everywhere.onnx", lambda name: 2 if "\0" in name else "s" + name)  # no argument of a program has a zero
    everywhere(folder / "static.onnx", lambda name: 2)
    for i, name in enumerate(GRAPHS):
        weight = np.full((4, 4), 0.5, np.float32)
        save(folder / f"graph_{i}.onnx", name, field(5, tensor(weight, "w")), field(11, value_info("x", "float32", [2, 4])),
             field(12, value_info("y", "float32", [2, 4])), node("MatMul", ["x", "w"], ["y"], "product"))
    unknown = [node("Mystery", ["x"], [f"y{i}" + name], name) for i, name in enumerate(NAMES)]
    save(folder / "refused.onnx", "g", field(11, value_info("x", "float32", [4])), *unknown)


def faults_of(path):
    data = path.read_bytes()
    if path.suffix in (".weights", ".o", ".a", ".bin"):
        return
    text = data.decode("utf-8")
    # Only the line feed ends a line of JSON; other languages know more.
    for line in text.split("\n") if path.suffix == ".json" else text.splitlines():
        if line.lstrip().startswith(PAYLOAD[:8]):
            yield "a line begins with text of the model: " + repr(line[:60])
    if path.suffix == ".json":
        json.loads(text)
    elif path.suffix == ".svg":
        xml.etree.ElementTree.fromstring(text)
    elif path.suffix == ".py":
        py_compile.compile(path, doraise=True)
    elif not path.suffix == ".html" and any(ord(c) < 32 and c not in "\n\t" or c in "\x7f\u0085\u2028\u2029\u202e" for c in text):
        yield "has control characters"


def check(folders):
    fails = 0
    paths = sorted(p for f in folders for p in pathlib.Path(f).rglob("*") if p.is_file() and p.name != "run")
    for name in SCHEMAS:
        documents = [p for p in paths if p.name == name + ".json"]
        if documents and subprocess.run(["scripts/validate-json", f"schemas/{name}.schema.json", *documents]).returncode:
            fails = 1
    for path in paths:
        try:
            faults = list(faults_of(path))
        except (ValueError, SyntaxError, py_compile.PyCompileError, xml.etree.ElementTree.ParseError) as e:
            faults = [repr(e)]
        for fault in faults:
            print(f"FAIL {path}: {fault}")
            fails = 1
    return fails


if sys.argv[1] == "models":
    models(pathlib.Path(sys.argv[2]))
else:
    sys.exit(check(sys.argv[2:]))
