#!/usr/bin/env python3
"""Full models, compiled to C and in ONNX Runtime, on one and two threads, with random weights. Needs RLXC_TEST_MODELS (models)
and, for the peer, ONNXRUNTIME (see onnxruntime.mjs). Usage: bench/models.py [MODEL ...]"""
import array
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
names = sys.argv[1:] or ["bert_base_s128", "timm_resnet50", "timm_mobilenetv3_large_100"]


def output(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)} failed:\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def elements(dims):
    n = 1
    for d in dims.split(","):
        n *= int(d) if d else 1
    return n


def write_weights(text, path):
    """Random values where f32 weights are, the rest stays zero."""
    block = array.array("f", [random.uniform(-0.03, 0.03) for _ in range(1 << 18)]).tobytes()
    with open(path, "r+b") as f:
        for offset, dims in re.findall(r'data = file "weights.bin" (\d+)\}[^:]*: f32\[([\d,]*)\]', text):
            f.seek(int(offset))
            left = 4 * elements(dims)
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


def times(line):
    return [float(x) for x in re.findall(r"(?:min|median) ([\d.]+)", line)]


def report(name, text):
    wall_min, wall, busy_min, _ = times(text)
    print(f"  {name:24} {wall_min:9.2f} {wall:9.2f} {busy_min:9.2f}", flush=True)
    return busy_min


if not models:
    print("RLXC_TEST_MODELS is not set")
    sys.exit(0)
print(f"{'ms':26} {'wall min':>9} {'median':>9} {'cpu min':>9}")
with tempfile.TemporaryDirectory() as tmp:
    base = work or tmp
    sizes = dict(line.split("\t")[:2] for line in open(os.path.join(models, "full/weights.tsv")).readlines()[1:])
    for name in names:
        folder = os.path.join(base, name)
        os.makedirs(folder, exist_ok=True)
        model, weights = os.path.join(folder, "model.onnx"), os.path.join(folder, "weights.bin")
        subprocess.run(["cp", os.path.join(models, "full", name, "model.onnx"), model], check=True)
        text = output([rlxc, "inspect", model, "--stage", "hir"]) if os.path.exists(weights) else ""
        if not text:
            with open(weights, "wb") as f:
                f.truncate(int(sizes[name]))
            text = output([rlxc, "inspect", model, "--stage", "hir"])
            write_weights(text, weights)
            for missing, size in re.findall(r'external data "([^"]*)": cannot open.*, (\d+) bytes', text):
                with open(os.path.join(folder, missing), "wb") as f:
                    f.truncate(int(size))
        inputs = write_inputs(text, folder)
        output([rlxc, "compile", model, "--target", "cpu", "--emit", "kernels", "-q", "-o", os.path.join(folder, "out")])
        package = os.path.join(folder, "out/kernels/cpu")
        output(["make", "-s", "-C", package])
        print(name)
        for threads in ("1", "2"):
            pin = ["taskset", "-c", "0"] if threads == "1" else []
            own = output(pin + [os.path.join(package, "run"), "-w", package, "-m", folder, "--threads", threads,
                                "--repeat", repeat] + inputs, cwd=folder)
            report(f"rlxc, {threads} threads", own)
            if peer:
                other = output(pin + ["node", os.path.join(root, "bench/onnxruntime.mjs"), model, threads, repeat] + inputs)
                report(f"ONNX Runtime, {threads} threads", other)
                print(f"  {'ratio of wall min':24} {times(own)[0] / times(other)[0]:9.2f}", flush=True)
