#!/usr/bin/env python3
"""Full models, compiled to C and in ONNX Runtime, on one and two threads (THREADS), with random weights. Needs RLXC_TEST_MODELS
(models) and, for the peer, ONNXRUNTIME (see onnxruntime.mjs). ALONE is a command that runs another on one core ("taskset -c 0");
CPU is the value of --cpu (native); FLAGS are further options of the compile ("--fast-math"), BIND sizes of symbolic dims
("batch=1,sequence=128"). QUANTIZED=1, or the operators to
quantize, compares Q/DQ models instead (tests/support/python/quantized_model.py), and adds the float model.
Usage: bench/models.py [MODEL ...]"""
import os
import re
import subprocess
import sys
import tempfile

from model_data import difference, processor, write_inputs, write_weights

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
models = os.environ.get("RLXC_TEST_MODELS", "")
work = os.environ.get("BENCH_FOLDER", "")  # kept, so that a second run need not write weights again
peer = os.environ.get("ONNXRUNTIME", "")
repeat = os.environ.get("REPEAT", "10")
cpu = os.environ.get("CPU", "native")
quantized = os.environ.get("QUANTIZED", "").split()  # operators, or 1
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
        if quantized:
            forms["Q/DQ, "] = os.path.join(folder, "quantized.onnx")
            output([sys.executable, os.path.join(root, "tests/support/python/quantized_model.py"), model, forms["Q/DQ, "]] +
                   [o for o in quantized if o != "1"])
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
