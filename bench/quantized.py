#!/usr/bin/env python3
"""Quantized products and convolutions of the cpu target beside ONNX Runtime, one thread: processor time, least of many runs. The
integer peak of the processor is measured in the same run. Models are written here: as onnxruntime's quantizer does for dynamic
quantization, as Q/DQ pairs around float nodes, and as MatMulNBits. ONNXRUNTIME as in onnxruntime.mjs; without it the peer is
left out. CPU is the value of --cpu (generic). Usage: bench/quantized.py [PART OF A NAME ...]"""
import array
import os
import random
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests/support/python"))
from protobuf_wire import field  # noqa: E402

rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
cc = os.environ.get("CC", "gcc")
peer = os.environ.get("ONNXRUNTIME", "")
cpu = os.environ.get("CPU", "generic")
CODES = {"f32": (1, "f"), "u8": (2, "B"), "i8": (3, "b"), "u16": (4, "H"), "i32": (6, "i")}
values = random.Random(1)


class Model:
    """A graph under construction: operands are names, results get fresh ones."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.count, self.opset = [], [], [], 0, 17

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def typed(self, name, dtype, dims):
        shape = b"".join(field(1, field(1, d)) for d in dims)
        return field(1, name) + field(2, field(1, field(1, CODES[dtype][0]) + field(2, shape)))

    def input(self, dims, dtype="f32"):
        name = self.fresh()
        self.inputs.append((name, dtype, dims))
        return name

    def weight(self, dtype, dims, low, high):
        name, count = self.fresh(), size(dims)
        if dtype in ("u8", "i8") and (low, high) in ((0, 255), (-128, 127)):
            data = values.randbytes(count)
        elif dtype == "f32":
            data = array.array("f", [values.uniform(low, high) for _ in range(count)]).tobytes()
        else:
            data = array.array(CODES[dtype][1], [values.randint(low, high) for _ in range(count)]).tobytes()
        dims_text = b"".join(field(1, d) for d in dims)
        self.weights.append(field(5, dims_text + field(2, CODES[dtype][0]) + field(8, name) + field(9, data)))
        return name

    def numbers(self, values):
        """A vector of f32."""
        name = self.fresh()
        self.weights.append(field(5, field(1, len(values)) + field(2, CODES["f32"][0]) + field(8, name) +
                                  field(9, array.array("f", values).tobytes())))
        return name

    def scalar(self, dtype, value):
        return self.weight(dtype, [], value, value)

    def add(self, op, *operands, results=1, domain="", **attributes):
        def attribute(name, v):
            if isinstance(v, list):
                return field(5, field(1, name) + b"".join(field(8, i) for i in v) + field(20, 7))
            return field(5, field(1, name) + field(3, v) + field(20, 2))

        names = [self.fresh() for _ in range(results)]
        self.nodes.append(field(1, b"".join(field(1, v) for v in operands) + b"".join(field(2, v) for v in names) + field(4, op) +
                                b"".join(attribute(k, v) for k, v in attributes.items()) + field(7, domain)))
        return names[0] if results == 1 else names

    def save(self, path, output):
        graph = b"".join(self.nodes) + field(2, "g") + b"".join(self.weights)
        graph += b"".join(field(11, self.typed(*i)) for i in self.inputs) + field(12, field(1, output))
        imports = field(8, field(1, "") + field(2, self.opset)) + field(8, field(1, "com.microsoft") + field(2, 1))
        with open(path, "wb") as f:
            f.write(field(1, 10) + field(7, graph) + imports)


def size(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def run(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)} failed:\n{p.stdout}{p.stderr}")
    return p.stdout


def product(m, k, n):
    g = Model()
    x = g.input([m, k], "u8")
    return g, g.add("MatMulInteger", x, g.weight("i8", [k, n], -128, 127), g.scalar("u8", 117))


def dynamic(m, k, n):
    g = Model()
    q, scale, zero = g.add("DynamicQuantizeLinear", g.input([m, k]), results=3)
    sums = g.add("MatMulInteger", q, g.weight("i8", [k, n], -128, 127), zero, g.scalar("i8", 0))
    return g, g.add("Mul", g.add("Cast", sums, to=1), g.add("Mul", scale, g.scalar("f32", 0.003)))


def pair(g, x, scale, zero, dtype="u8"):
    if dtype == "u16":
        scale, zero, g.opset = scale / 256, zero * 256, 21
    operands = g.scalar("f32", scale), g.scalar(dtype, zero)
    return g.add("DequantizeLinear", g.add("QuantizeLinear", x, *operands), *operands)


def around_product(m, k, n, dtype="u8"):
    g = Model()
    w = g.add("DequantizeLinear", g.weight("i8", [k, n], -128, 127), g.weight("f32", [n], 0.001, 0.004), axis=1)
    return g, pair(g, g.add("MatMul", pair(g, g.input([m, k]), 0.0079, 126, dtype), w), 0.11, 131, dtype)


def around_conv(c, n, out, kernel, dtype="u8"):
    g = Model()
    step, steps = 0.0079, [values.uniform(0.001, 0.004) for _ in range(out)]
    w = g.add("DequantizeLinear", g.weight("i8", [out, c, kernel, kernel], -128, 127), g.numbers(steps), axis=0)
    bias = g.add("DequantizeLinear", g.weight("i32", [out], -20000, 20000), g.numbers([step * s for s in steps]), axis=0)
    x = pair(g, g.input([1, c, n, n]), step, 126, dtype)
    return g, pair(g, g.add("Conv", x, w, bias, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2), 0.11, 131, dtype)


def by_codes(m, level, layers=1, n=4096):
    """One matmul after the other; many layers leave no weight in the cache."""
    g = Model()
    x, level = g.input([m, n]), {"accuracy_level": level} if level else {}
    for _ in range(layers):
        w, scales = g.weight("u8", [n, n // 32, 16], 0, 255), g.weight("f32", [n * n // 32], 0.0002, 0.0009)
        x = g.add("MatMulNBits", x, w, scales, domain="com.microsoft", K=n, N=n, bits=4, block_size=32, **level)
    return g, x


def of_product(name, make, m, k, n, *more):
    return f"{name} {m}x{k}x{n}", 2 * m * k * n, make, (m, k, n, *more)


def of_conv(name, c, n, out, kernel, *more):
    return f"{name} {c}x{n}x{n}, {out}x{kernel}x{kernel}", 2 * c * n * n * out * kernel * kernel, around_conv, (c, n, out, kernel, *more)


SHAPES = ((128, 768, 3072), (512, 512, 512), (1024, 1024, 1024))
CASES = [of_product(name, make, *s)
         for name, make in (("MatMulInteger", product), ("dynamic", dynamic), ("Q/DQ MatMul", around_product)) for s in SHAPES]
WINDOWS = ((64, 56, 64, 3), (256, 56, 64, 1), (256, 14, 256, 3))
CASES += [of_conv("Q/DQ Conv", *w) for w in WINDOWS]
CASES += [of_product("16-bit Q/DQ MatMul", around_product, *s, "u16") for s in SHAPES]
CASES += [of_conv("16-bit Q/DQ Conv", *w, "u16") for w in WINDOWS]
CASES += [(f"MatMulNBits 4-bit {m}x4096x4096" + (f", accuracy_level {level}" if level else ""), 2 * m * 4096 * 4096, by_codes, (m, level))
          for m in (1, 128) for level in (4, 0)]
COLD = 12
CASES += [(f"{COLD} x 1x4096x4096, weights cold" + (f", accuracy_level {level}" if level else ""), COLD * 2 * 4096 * 4096, by_codes,
           (1, level, COLD)) for level in (4, 0)]
CODE_BYTES = 4096 * 4096 * (0.5 + 4 / 32)  # codes and scales of a weight


def write_inputs(g, folder):
    files = []
    for name, dtype, dims in g.inputs:
        files.append(os.path.join(folder, name + ".bin"))
        with open(files[-1], "wb") as f:
            f.write(values.randbytes(size(dims)) if dtype == "u8" else
                    array.array("f", [values.uniform(-1, 1) for _ in range(size(dims))]).tobytes())
    return files


def least(text):
    return float(re.search(r"processor min ([\d.]+)", text).group(1))


def main():
    with tempfile.TemporaryDirectory() as tmp:
        roof, model = os.path.join(tmp, "roof"), os.path.join(tmp, "m.onnx")
        run([cc, "-O2", "-march=native", "-o", roof, os.path.join(root, "bench/roof.c")])
        peak, _, integers, halves, reads = map(float, run(["taskset", "-c", "0", roof]).split())
        print(f"one thread: {integers:.1f} Gop/s of 8-bit integers, {halves:.1f} GFLOP/s of bf16, {peak:.1f} of f32; "
              f"{reads:.1f} GB/s read from memory; {run([cc, '--version']).splitlines()[0]}")
        print(f"{'case':44} {'rlxc ms':>9} {'Gop/s':>7} {'of roof':>8} {'ONNX Runtime ms':>16} {'ratio':>6}")
        for name, ops, make, arguments in CASES:
            if sys.argv[1:] and not any(a in name for a in sys.argv[1:]):
                continue
            g, output = make(*arguments)
            g.save(model, output)
            files = write_inputs(g, tmp)
            repeat = "300" if ops < 1e9 else "30"
            run([rlxc, "compile", model, "--target", "cpu", "--cpu", cpu, "--emit", "kernels", "-q", "-o", os.path.join(tmp, "out")])
            package = os.path.join(tmp, "out/kernels/cpu")
            run(["make", "-s", "-B", "-C", package, f"CC={cc}"])
            ms = least(run(["taskset", "-c", "0", "./run", "-m", tmp, "--threads", "1", "--repeat", repeat] + files, cwd=package))
            line = f"{name:44} {ms:9.4f} {ops / ms / 1e6:7.0f} " + (f"{100 * ops / ms / 1e6 / integers:7.0f}%" if integers else " " * 8)
            if peer:
                other = least(run(["taskset", "-c", "0", "node", os.path.join(root, "bench/onnxruntime.mjs"), model, "1", repeat] + files))
                line += f" {other:16.4f} {ms / other:6.2f}"
            if "cold" in name:
                rate = COLD * CODE_BYTES / ms / 1e6
                line += f"  {rate:.1f} GB/s, {100 * rate / reads:.0f}% of reads"
            print(line, flush=True)


main()
