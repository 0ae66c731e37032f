"""What XLA makes of a package for tpu: xla_step.py PACKAGE [WEIGHTS].

Prints, as JSON, the operations of the program as it is written and optimised, and which of them move or convert a weight before it is
multiplied: each run would do them again. Steps of a model with states compute what calls compute, in the same memory.
"""
import collections
import json
import re
import sys

import numpy as np

sys.path[0] = sys.argv[1]  # not the folder of this file, which has a stand-in for JAX
import run

MOVES = ("transpose", "broadcast", "convert", "copy")
INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = (\([^=]*?\)|\S+) ([\w\-]+)\((.*)$")


def computations(hlo):
    """By name the lines (name, type, operation, operands, rest); the key "" is the entry."""
    all_of, lines = {}, None
    for line in hlo.split("\n"):
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            lines = all_of[head[2]] = []
            if head[1]:
                all_of[""] = lines
        elif (m := INSTRUCTION.match(line)) and lines is not None:
            depth, end = 1, 0
            while depth:  # operands may be tuples
                depth += {"(": 1, ")": -1}.get(m[4][end], 0)
                end += 1
            operands = re.findall(r"%([\w.\-]+)", m[4][:end - 1]) or [m[4][:end - 1]]
            lines.append((m[1], m[2], m[3], operands, m[4][end:]))
    return all_of


def weight_moves(hlo, inputs):
    """The operations between weights and products that read them."""
    all_of, found = computations(hlo), collections.Counter()

    def visit(name, given):
        """`given`: what happened to the weight that a parameter is, or None. Returns that of the result."""
        path = {}
        for value, kind, op, operands, rest in all_of[name]:
            first = path.get(operands[0]) if operands else None
            if op == "parameter":
                number = int(operands[0])
                path[value] = given[number] if given is not None else () if number >= inputs else None
            elif called := re.search(r"(?:calls|to_apply)=%?([\w.\-]+)", rest) if op in ("fusion", "call") else None:
                path[value] = visit(called[1], [path.get(o) for o in operands])
            elif op in ("dot", "convolution", "custom-call"):
                for o in operands:
                    found.update(path.get(o) or ())
                path[value] = None
            else:
                path[value] = (*first, op) if op in MOVES and first is not None else first if op in ("bitcast", "reshape") else None
        return path[value]

    visit("", None)
    return found


def written_moves(text):
    """The same in the program as it is written."""
    made = {v: (op, a) for v, op, a in re.findall(r'(%\d+) = "stablehlo\.(\w+)"\((%\w+)', text)}
    head = re.search(r"@main\((.*)\) -> ", text)[1]
    weights = set(re.findall(r"(%w?\d+): ", head))
    found = collections.Counter()
    for operands in re.findall(r'"stablehlo\.(?:dot_general|convolution)"\(([^)]*)\)', text):
        for v in operands.split(", "):
            path = []
            while v in made and made[v][0] in ("transpose", "broadcast_in_dim", "convert", "reshape"):
                path += [made[v][0]] if made[v][0] != "reshape" else []
                v = made[v][1]
            found.update(path if v in weights else ())
    return found


def check_states(model):
    """Three steps with inputs of ones: indices, and how many rows a cache has, are within their ranges."""
    ports, outputs = model.description["inputs"], model.description["outputs"]
    at = {i: k for k, (i, _) in enumerate(model.states)}
    after = {o for _, o in model.states}
    states, values, places = model.start(), [np.zeros(p["shape"], run.dtype(p["dtype"])) for p in ports], []
    for _ in range(3):
        given = {p["name"]: np.ones(p["shape"], run.dtype(p["dtype"])) for i, p in enumerate(ports) if i not in at}
        expected = model(*[values[i] if i in at else given[p["name"]] for i, p in enumerate(ports)])
        old = list(states)
        found = iter(model.advance(states, **given))
        for o in range(len(outputs)):
            if o not in after and not np.allclose(next(found), expected[o], rtol=1e-5, atol=1e-6):
                sys.exit(f"a step computes another output {o}")
        for k, (i, o) in enumerate(model.states):
            values[i] = expected[o]
            if not np.allclose(np.asarray(states[k]), expected[o], rtol=1e-5, atol=1e-6):
                sys.exit(f"a step computes another state {k}")
        if not all(x.is_deleted() for x in old):
            sys.exit("an old state stays")
        places.append([x.unsafe_buffer_pointer() for x in states])
    if places[1] != places[2]:
        sys.exit("states move")


with open(sys.argv[1] + "/model.mlir") as f:
    text = f.read()
made = dict(re.findall(r'(%\d+) = "stablehlo\.(\w+)"', text))
chains = sum(made.get(v) == "convert" for v in re.findall(r'"stablehlo\.convert"\((%\w+)\)', text))
written = collections.Counter(re.findall(r'"stablehlo\.(\w+)"', text))
model = run.Model(*sys.argv[2:])
if model.states:
    check_states(model)
hlo = model._program.hlo_modules()[0].to_string()
with open(sys.argv[1] + "/hlo.txt", "w") as f:
    f.write(hlo)
operations = collections.Counter(op for name, lines in computations(hlo).items() if name for _, _, op, _, _ in lines)
keys = ("dot_general", "broadcast_in_dim", "transpose", "convert")
print(json.dumps({"written": {k: written[k] for k in keys}, "chains": chains, "on_weights": dict(written_moves(text)),
                  "optimised_on_weights": dict(weight_moves(hlo, len(model.description["inputs"]))),
                  "optimised": {k: operations[k] for k in ("dot", "convolution", "broadcast", "transpose", "convert", "copy", "fusion")}}))
