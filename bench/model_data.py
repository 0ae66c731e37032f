"""Weights and inputs for models without data of their own, and how results and processors are named, for the benchmarks of whole
models. `text` is what `rlxc inspect --stage hir` prints."""
import array
import math
import os
import random
import re


def elements(dims):
    return math.prod(int(d) for d in dims.split(",") if d)


MOVES = ("reshape", "transpose", "cast", "expand", "narrow", "slice", "identity")


def roles(text):
    """What each value of the graph serves as: the ops and operand numbers that read it, through those that only move elements."""
    readers, moved = {}, {}
    for result, op, operands, rest in re.findall(r"^\s*%(\d+)[^=\n]* = (\w+)\(([^)]*)\)(.*)$", text, re.M):
        for i, v in enumerate(re.findall(r"%(\d+)|_", operands)):
            readers.setdefault(v, []).append((op, i, "trans_b = true" in rest))
            if op in MOVES and i == 0:
                moved[v] = result
    while any(to in moved for to in moved.values()):
        moved = {v: moved.get(to, to) for v, to in moved.items()}
    return lambda v: readers.get(v, []) + readers.get(moved.get(v), [])


def spread(readers, dims):
    """Mean and largest distance from it that keep the activations near 1: +-sqrt(3 / fan-in) for products, norms near 1."""
    dims = [int(d) for d in dims.split(",") if d]
    for op, i, transposed in readers:
        if "norm" in op:
            return (1, 0.1) if i in (1, 4) else (0, 0.1)
        if op.startswith("conv") and i == 1:
            return 0, math.sqrt(3 / max(math.prod(dims[1:]), 1))
        if op.startswith(("matmul", "dot")) and len(dims) > 1:
            return 0, math.sqrt(3 / dims[-1 if transposed else -2])
        if op in ("gather", "gather_elements"):
            return 0, math.sqrt(3)
    if any(op in ("mul", "div") for op, *_ in readers):
        return 1, 0.1
    return (0, 0.1) if len(dims) < 2 else (0, math.sqrt(3 / dims[-1]))


def write_weights(text, path):
    """Values of its own for every f32 tensor (ONNX Runtime shares equal tensors); the rest stays zero."""
    pool = [random.uniform(-1, 1) for _ in range(1 << 18)]
    readers = roles(text)
    with open(path, "r+b") as f:
        for v, offset, dims in re.findall(r'%(\d+) = \w+ {data = file "weights.bin" (\d+)\}[^:\n]*: f32\[([\d,]*)\]', text):
            mean, most = spread(readers(v), dims)
            first, left = random.randrange(len(pool)), elements(dims)
            values = pool[first:first + left]
            values += pool[:min(left - len(values), first)]
            block = array.array("f", [mean + most * x for x in values]).tobytes()
            f.seek(int(offset))
            left *= 4
            while left > 0:
                left -= f.write(block[:min(left, len(block))])


def write_inputs(text, folder):
    files = []
    for dtype, dims in re.findall(r'= input [^:]*: (\w+)\[([\d,]*)\]', text):
        n = elements(dims)
        values = array.array("q", [1] * n) if dtype == "i64" else array.array("f", [random.gauss(0, 1) for _ in range(n)])
        files.append(os.path.join(folder, f"input_{len(files)}.bin"))
        with open(files[-1], "wb") as f:
            values.tofile(f)
    return files


def difference(a, b):
    """Largest difference of two files of f32, as a share of the largest value."""
    x, y = (array.array("f", open(path, "rb").read()) for path in (a, b))
    if len(x) != len(y):
        return math.inf
    largest = max((abs(v) for v in y), default=0)
    return max((abs(v - w) for v, w in zip(x, y)), default=0) / (largest or 1)


def processor():
    names = re.findall(r"model name\s*: (.*)|cpu family\s*: (.*)|model\s*: (.*)", open("/proc/cpuinfo").read())[:3]
    return ", ".join("".join(n) for n in (names[2], names[0], names[1]))
