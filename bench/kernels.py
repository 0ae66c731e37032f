#!/usr/bin/env python3
"""Kernels of the cpu target on one thread: time of a run of a package of one node (processor time, best of several), beside it
what the machine's multiply-adds or memory allow, measured in the same run. Rows named *cold* have several nodes with weights of
their own, more than the second cache holds, as in a model: products of one operand, or convolutions of one another.
ALONE is a command that runs another on one core ("taskset -c 0"); CPU is the value of --cpu (native) and MARCH that of the
compiler's -march (native), for the kernels and the roof; FLAGS are further options of the compile ("--fast-math").
Usage: bench/kernels.py [PART OF A NAME ...]"""
import array
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
cc = os.environ.get("CC", "gcc")
cpu = os.environ.get("CPU", "native")
march = "-march=" + os.environ.get("MARCH", "native")
alone = os.environ.get("ALONE", "taskset -c 0").split()
flags = os.environ.get("FLAGS", "").split()
COLD_BYTES = 48 << 20  # of weights


def run(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)} failed:\n{p.stdout}{p.stderr}")
    return p.stdout


def one_node(op, operands, results, attrs):
    """A graph of one node; operands are (dims, "input" | "weight" [, element type: f32]) or None, results dims."""
    nodes, constants, ids, inputs = [], [], [], []
    for i, operand in enumerate(operands):
        if operand is None:
            ids.append(-1)
            continue
        dims, kind, dtype = (*operand, "f32")[:3]
        node = {"op": "Input", "results": [[i, f"{dtype}[{','.join(map(str, dims))}]", f"x{i}"]]}
        if kind == "weight":
            constants.append({"id": len(constants), "dtype": dtype, "dims": dims, **({"splat": 0.01} if dtype == "f32" else {"splat_base64": "Mw=="})})
            node.update(op="Param", attrs={"data": len(constants) - 1})
        else:
            inputs.append(dims)
        nodes.append(node)
        ids.append(i)
    first = len(operands)
    nodes.append({"op": op, "operands": ids, "attrs": attrs, "results": list(range(first, first + results))})
    graph = {"name": "main", "nodes": nodes, "outputs": [[first, "y"]]}
    return {"format": "rlxc-graph", "format_version": "1.0", "module": "m", "constants": constants, "graphs": [graph]}, inputs


def many_nodes(op, operands, result, attrs, count):
    """`count` nodes, each with weights of its own. Products read one input; convolutions read one another, the first one that of
    eight channels, and a mean reads the last."""
    dims, weights = operands[0][0], operands[1][0]
    constants, nodes, outputs, last = [], [], [], 0

    def add(op, operands, attrs):
        nonlocal last
        last += 1
        nodes.append({"op": op, "operands": operands, "attrs": attrs, "results": [last]})
        return last

    def node(x, dims, attrs):
        nonlocal last
        number, last = len(constants), last + 1
        constants.append({"id": number, "dtype": "f32", "dims": dims, "splat": 0.01 + 1e-5 * number})
        nodes.append({"op": "Param", "attrs": {"data": number}, "results": [[last, f"f32[{','.join(map(str, dims))}]", f"w{number}"]]})
        return add(op, [x, last], attrs)

    x = 0
    if op == "Conv":
        channels, dims = dims[1], [1, 8, *dims[2:]]
    nodes.append({"op": "Input", "results": [[0, f"f32[{','.join(map(str, dims))}]", "x0"]]})
    if op == "Conv":
        x = node(x, [channels, 8, 1, 1], {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]})
    for i in range(count):
        y = node(x, weights, attrs)
        if op == "Conv":
            x = y
        else:
            outputs.append([y, f"y{i}"])
    if op == "Conv":
        outputs.append([add("Reduce", [x], {"op": "mean", "axes": [2, 3], "keep_dim": True}), "y"])
    graph = {"name": "main", "nodes": nodes, "outputs": outputs}
    return {"format": "rlxc-graph", "format_version": "1.0", "module": "m", "constants": constants, "graphs": [graph]}, [dims]


def size(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def milliseconds(graph, inputs, folder, repeat):
    with open(os.path.join(folder, "m.json"), "w") as f:
        json.dump(graph, f)
    files = []
    for i, dims in enumerate(inputs):
        files.append(os.path.join(folder, f"input_{i}.bin"))
        with open(files[-1], "wb") as f:
            values = array.array("f", [random.uniform(-1, 1) for _ in range(min(size(dims), 1 << 16))])
            array.array("f", (values * (size(dims) // len(values) + 1))[:size(dims)]).tofile(f)
    run([rlxc, "compile", "m.json", "--target", "cpu", "--cpu", cpu, "--emit", "kernels", "-q", "-o", "out",
         "--disable-pass", "fuse_shared_input_matmul", *flags], cwd=folder)
    package = os.path.join(folder, "out/kernels/cpu")
    run(["make", "-s", "-B", "-C", package, f"CC={cc}", f"CFLAGS=-O3 {march}"])
    text = run(alone + ["./run", "--threads", "1", "--repeat", str(repeat)] + files, cwd=package)
    return float(re.search(r"processor min ([\d.]+)", text).group(1))


def product(m, n, k, weights):
    name = f"gemm {m}x{n}x{k}" + (", packed weights" if weights else "")
    return name, 2 * m * n * k, 0, ("MatMul", [([m, k], "input"), ([k, n], "weight" if weights else "input")], 1, {})


def quantized_weights(m, n, k, dtype, block=32):
    """A matmul with a quantized weight: a scale for each column and group."""
    moved = n * k * int(dtype[1:]) // 8 + 4 * n * k // block if m == 1 else 0
    operands = [([m, k], "input"), ([n, k], "weight", dtype), ([n, k // block], "weight")]
    name = f"{'gemv ' if m == 1 else f'gemm {m}x'}{n}x{k}, {dtype} weights"
    return name, 2 * m * n * k, moved, ("DequantMatMul", operands, 1, {"trans_b": True, "block": block})


def conv(c, n, out, kernel, stride, groups=1):
    pad = kernel // 2
    y = (n + 2 * pad - kernel) // stride + 1
    attrs = {"strides": [stride] * 2, "pads_begin": [pad] * 2, "pads_end": [pad] * 2, "dilations": [1, 1], "groups": groups}
    flops = 2 * out * y * y * (c // groups) * kernel * kernel
    kind = "depthwise conv" if groups > 1 else "conv"
    operands = [([1, c, n, n], "input"), ([out, c // groups, kernel, kernel], "weight")]
    moved = 4 * (c * n * n + out * y * y) if groups > 1 else 0
    return f"{kind} {c}x{n}x{n}, {out}x{kernel}x{kernel}/{stride}", flops, moved, ("Conv", operands, 1, attrs)


def rowwise(op, rows, length, attrs, weights=0):
    operands = [([rows, length], "input")] + [([length], "weight")] * weights
    return f"{op} {rows}x{length}", 0, 8 * rows * length, (op, operands, 1, attrs)


def fourier(length):
    flops = 5 * 64 * length * math.log2(length)  # as for powers of two
    return f"Fft 64x{length}", flops, 0, ("Fft", [([64, length, 2], "input")], 1, {"axis": 1})


def attention(heads, length, width, mask=None):
    """Of the products of a causal mask only those of visible keys count."""
    operands = [([1, heads, length, width], "input")] * 3 + [([1, heads, length, length], "input")] * (mask == "bias")
    keys = (length + 1) / 2 if mask == "causal" else length
    return (f"Attention {heads} heads, {length}x{width}" + (f", {mask}" if mask else ""), 4 * heads * length * keys * width, 0,
            ("Attention", operands, 1, {"mask": mask} if mask else {}))


CASES = [product(n, n, n, False) for n in (64, 128, 256, 512, 1024, 2048)] + [
    product(128, 768, 768, True), product(128, 3072, 768, True), product(128, 768, 3072, True), product(197, 2304, 768, True),
    conv(64, 56, 64, 3, 1), conv(256, 14, 256, 3, 1), conv(3, 224, 64, 7, 2), conv(256, 56, 64, 1, 1), conv(512, 7, 2048, 1, 1),
    attention(192, 16, 64), *(attention(12, n, 64) for n in (64, 128, 197, 1024)),
    *(attention(12, n, 64, "causal") for n in (128, 1024)), attention(12, 4096, 64),
    *(attention(heads, n, 32) for heads, n in ((192, 16), (256, 49), (12, 512))), attention(256, 49, 32, "bias"),
    attention(192, 16, 128), attention(12, 512, 128),
    ("gemv 4096x4096, packed weights", 0, 4 * 4096 * 4096,
     ("MatMul", [([1, 4096], "input"), ([4096, 4096], "weight")], 1, {})),
    *(quantized_weights(m, n, k, t) for m, n, k in ((1, 4096, 4096), (128, 3072, 768)) for t in ("i8", "i4")),
    conv(240, 28, 240, 3, 1, 240), conv(72, 56, 72, 5, 2, 72),
    rowwise("LayerNorm", 128, 768, {"axis": 1, "eps": 1e-5}, 2), rowwise("LayerNorm", 8192, 1024, {"axis": 1, "eps": 1e-5}, 2),
    rowwise("Softmax", 1536, 128, {"axis": 1}), rowwise("Softmax", 8192, 1024, {"axis": 1}),
    rowwise("Gelu", 128, 3072, {}), rowwise("Tanh", 128, 3072, {}), rowwise("Relu", 8192, 1024, {}),
    ("MaxPool 64x112x112, 3x3/2", 0, 4 * 64 * (112 * 112 + 56 * 56),
     ("Pool", [([1, 64, 112, 112], "input")], 1, {"op": "max", "kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 1],
                                                 "pads_end": [1, 1], "dilations": [1, 1]})),
    *(fourier(n) for n in (256, 1024, 4096, 400, 1000, 3600)),
]

# Convolutions have as many results as channels, so that each can read the one before.
COLD = [product(128, 768, 768, True), product(128, 3072, 768, True), product(128, 768, 3072, True), product(197, 2304, 768, True),
        *(conv(c, n, c, 3, 1) for c, n in ((64, 56), (128, 28), (256, 14), (512, 7))),
        *(conv(c, n, c, 1, 1) for c, n in ((256, 56), (512, 28), (1024, 14), (2048, 7))),
        *(conv(c, n, c, k, 1, c) for c, n, k in ((960, 7, 5), (672, 14, 5), (240, 28, 3), (64, 112, 3)))]


def line(name, ms, flops, moved):
    rate, roof, unit = (moved / ms / 1e6, memory, "GB/s") if moved else (flops / ms / 1e6, peak, "GFLOP/s")
    print(f"{name:44} {ms:9.4f} {rate:7.1f} {unit:7} {100 * rate / roof:7.0f}%", flush=True)


with tempfile.TemporaryDirectory() as tmp:
    run([cc, "-O2", march, "-o", os.path.join(tmp, "roof"), os.path.join(root, "bench/roof.c")])
    peak, memory, *_ = map(float, run(alone + [os.path.join(tmp, "roof")]).split())
    print(f"one thread: {peak:.1f} GFLOP/s, {memory:.1f} GB/s; {run([cc, '--version']).splitlines()[0]}")
    print(f"{'kernel':44} {'ms':>9} {'achieved':>15} {'of roof':>8}")
    wanted = lambda name: not sys.argv[1:] or any(a in name for a in sys.argv[1:])
    for name, flops, moved, node in CASES:
        if wanted(name):
            line(name, milliseconds(*one_node(*node), tmp, 200 if max(flops / 1e9, moved / 1e7) < 0.5 else 20), flops, moved)
    for name, flops, _, node in COLD:
        if wanted(name := f"{name}, cold"):
            count = min(max(COLD_BYTES // (4 * size(node[1][1][0])), 8), 32)
            line(name, milliseconds(*many_nodes(*node, count), tmp, 10) / count, flops, 0)
