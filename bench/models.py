#!/usr/bin/env python3
"""Full models, compiled to C and in ONNX Runtime, on one and two threads (THREADS), with random weights. Needs RLXC_TEST_MODELS
(models) and, for the peer, ONNXRUNTIME (see onnxruntime.mjs). ALONE is a command that runs another on one core ("taskset -c 0");
CPU is the value of --cpu (native); FLAGS are further options of the compile ("--fast-math"), BIND sizes of symbolic dims
("batch=1,sequence=128"). QUANTISED=1, or the operators to
quantise, compares Q/DQ models instead (tests/support/python/quantised_model.py), and adds the float model.
Usage: bench/models.py [MODEL ...]"""
import array
import math
import os
import random
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
models = os.environ.get("RLXC_TEST_MODELS", "")
work = os.environ.get("BENCH_FOLDER", "")  # kept, so that a second run need not write weights again
peer = os.environ.get("ONNXRUNTIME", "")
repeat = os.environ.get("REPEAT", "10")
cpu = os.environ.get("CPU", "native")
quantised = os.environ.get("QUANTISED", "").split()  # operators, or 1
alone = os.environ.get("ALONE", "taskset -c 0").split()
flags = os.environ.get("FLAGS", "").split()
bind = ["--bind", os.environ["BIND"]] if os.environ.get("BIND") else []
thread_counts = os.environ.get("THREADS", "1 2").split()
names = sys.argv[1:] or ["bert_base_s128", "timm_resnet50", "timm_mobilenetv3_large_100"]


def output(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)} failed:\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


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
    for op, i, turned in readers:
        if "norm" in op:
            return (1, 0.1) if i in (1, 4) else (0, 0.1)
        if op.startswith("conv") and i == 1:
            return 0, math.sqrt(3 / max(math.prod(dims[1:]), 1))
        if op.startswith(("matmul", "dot")) and len(dims) > 1:
            return 0, math.sqrt(3 / dims[-1 if turned else -2])
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


ROUNDS = 3  # in which the programs take turns, so that both meet the same load


def best(commands, cwd):
    """By command: wall min, median and processor min over all rounds."""
    found = {}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            wall, middle, busy, _ = map(float, re.findall(r"(?:min|median) ([\d.]+)", output(command, cwd=cwd)))
            found[name] = [min(pair) for pair in zip(found.get(name, [wall, middle, busy]), [wall, middle, busy])]
    for name, (wall, middle, busy) in found.items():
        print(f"  {name:30} {wall:9.2f} {middle:9.2f} {busy:9.2f}", flush=True)
    return found


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


if not models:
    print("RLXC_TEST_MODELS is not set")
    sys.exit(0)
print(f"processor: {processor()}")
print(f"{'ms':32} {'wall min':>9} {'median':>9} {'cpu min':>9}")
with tempfile.TemporaryDirectory() as tmp:
    base = work or tmp
    sizes = dict(line.split("\t")[:2] for line in open(os.path.join(models, "full/weights.tsv")).readlines()[1:])
    for name in names:
        folder = os.path.join(base, name)
        os.makedirs(folder, exist_ok=True)
        model, weights = os.path.join(folder, "model.onnx"), os.path.join(folder, "weights.bin")
        subprocess.run(["cp", os.path.join(models, "full", name, "model.onnx"), model], check=True)
        text = output([rlxc, "inspect", model, "--stage", "hir", *bind]) if os.path.exists(weights) else ""
        if not text:
            with open(weights, "wb") as f:
                f.truncate(int(sizes[name]))
            text = output([rlxc, "inspect", model, "--stage", "hir", *bind])
            write_weights(text, weights)
            for missing, size in re.findall(r'external data "([^"]*)": cannot open.*, (\d+) bytes', text):
                with open(os.path.join(folder, missing), "wb") as f:
                    f.truncate(int(size))
        inputs = write_inputs(text, folder)
        forms = {"": model}
        if quantised:
            forms["Q/DQ, "] = os.path.join(folder, "quantised.onnx")
            output([sys.executable, os.path.join(root, "tests/support/python/quantised_model.py"), model, forms["Q/DQ, "]] +
                   [o for o in quantised if o != "1"])
        packages = {}
        for form, path in forms.items():
            out = path.removesuffix(".onnx") + ".out"
            output([rlxc, "compile", path, "--target", "cpu", "--cpu", cpu, "--emit", "kernels", "-q", "-o", out, *bind, *flags])
            packages[form] = os.path.join(out, "kernels/cpu")
            output(["make", "-s", "-C", packages[form]])
        print(name)
        for threads in thread_counts:
            pin = alone if threads == "1" else []
            commands = {f"rlxc, {form}{threads} threads": pin + [os.path.join(package, "run"), "-w", package, "-m", folder,
                                                                "--threads", threads, "--repeat", repeat] + inputs
                        for form, package in packages.items()}
            own, other = list(commands)[-1], f"ONNX Runtime, {list(forms)[-1]}{threads} threads"
            theirs = os.path.join(folder, "onnxruntime")
            os.makedirs(theirs, exist_ok=True)
            os.environ["OUTPUTS"] = theirs
            if peer:
                commands[other] = pin + ["node", os.path.join(root, "bench/onnxruntime.mjs"), list(forms.values())[-1], threads,
                                         repeat] + inputs
            found = best(commands, folder)
            if peer:
                print(f"  {'difference of results':40} {difference(os.path.join(folder, 'output_0.bin'), os.path.join(theirs, 'output_0.bin')):9.1e}")
            for base_name in [c for c in found if c != own]:
                print(f"  {'ratio of cpu min to':20} {base_name:30} {found[own][2] / found[base_name][2]:5.2f}", flush=True)
