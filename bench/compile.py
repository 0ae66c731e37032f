#!/usr/bin/env python3
"""How fast compiles are, and how much memory they take: growth with the number of nodes, weights inside the file and beside it,
start-up. Each figure is the best of several whole processes. Usage: bench/compile.py [RLXC] [MAKE_MODEL]"""
import os
import re
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
make_model = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "build/make_model")
models = os.environ.get("RLXC_TEST_MODELS", "")


def run(args, times=10, stdin=None):
    """Best wall and CPU seconds and largest peak memory (MB) of `times` runs."""
    best = (1e9, 1e9, 0)
    for _ in range(times):
        source = open(stdin, "rb") if stdin else subprocess.DEVNULL
        start = time.perf_counter()
        p = subprocess.Popen(args, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        wall = time.perf_counter() - start
        if status != 0:
            sys.exit(f"{' '.join(args)} failed:\n{errors.decode()}")
        best = (min(best[0], wall), min(best[1], usage.ru_utime + usage.ru_stime), max(best[2], usage.ru_maxrss / 1024))
    return best


def compile_args(model, out):
    return [rlxc, "compile", model, "--target", "cuda", "-q", "-o", out,
            "--emit", "lir,plan,fusion,dispatch,precision"]


def passes(model, out):
    """Nodes of the model, and the best seconds that all passes took."""
    found = []
    for _ in range(3):
        p = subprocess.run([a for a in compile_args(model, out) if a != "-q"] + ["--time-passes"], capture_output=True, text=True)
        text = p.stdout + p.stderr
        found.append((int(re.search(r"cuda: (\d+) nodes", text)[1]), float(re.search(r"([\d.]+) ms +passes in all", text)[1]) / 1e3))
    return min(found)


subprocess.run(["cmake", "--build", os.path.dirname(make_model), "--target", "make_model"], check=True, stdout=subprocess.DEVNULL)
with tempfile.TemporaryDirectory() as tmp:
    out = os.path.join(tmp, "out")
    print(f"{'growth, synthetic transformer':32} {'nodes':>9} {'wall s':>8} {'cpu s':>8} {'nodes/s':>9} {'peak MB':>8}")
    seconds = {}
    for nodes in (1000, 10000, 100000, 1000000):
        model = os.path.join(tmp, f"t{nodes}.onnx")
        subprocess.run([make_model, "transformer", str(nodes), model], check=True)
        wall, cpu, peak = run(compile_args(model, out), 3 if nodes > 100000 else 10)
        seconds[nodes] = wall
        print(f"{'':32} {nodes:9} {wall:8.3f} {cpu:8.3f} {nodes / wall:9.0f} {peak:8.0f}")
    print(f"{'t(1M)/t(100k)':32} {seconds[1000000] / seconds[100000]:9.2f}")
    model = os.path.join(tmp, "chain.onnx")
    subprocess.run([make_model, "chain", "100000", model], check=True)
    wall, cpu, peak = run(compile_args(model, out))
    print(f"{'chain, 100,000 deep':32} {100000:9} {wall:8.3f} {cpu:8.3f} {100000 / wall:9.0f} {peak:8.0f}")

    model = os.path.join(tmp, "embedded.onnx")
    subprocess.run([make_model, "embedded", "400", model], check=True)
    wall, _, peak = run(compile_args(model, out))
    print(f"{'400 MB of weights in the file':32} {wall * 1e3:8.1f} ms, peak {peak:.0f} MB")

    wall, _, peak = run([rlxc, "--version"], 30)
    print(f"{'start-up, --version':32} {wall * 1e3:8.1f} ms, peak {peak:.0f} MB")
    model = os.path.join(tmp, "one.onnx")
    subprocess.run([make_model, "chain", "1", model], check=True)
    wall, _, peak = run(compile_args(model, out), 30)
    print(f"{'start-up, one node':32} {wall * 1e3:8.1f} ms, peak {peak:.0f} MB")

    full = os.path.join(models, "full") if models else ""
    if full and os.path.isdir(full):
        work = os.path.join(tmp, "models")
        subprocess.run([os.path.join(models, "make-weights.sh"), work], check=True)
        print(f"{'full models':32} {'nodes':>9} {'wall s':>8} {'passes':>7} {'peak MB':>8} {'protoc s':>9} {'ratio':>7}")
        for name in sorted(os.listdir(work)):
            model = os.path.join(work, name, "model.onnx")
            walls, decodes = [], []
            for _ in range(15):  # in turn: another process that takes a processor for a while slows both
                walls.append(run(compile_args(model, out), 1))
                decodes.append(run(["protoc", "--decode_raw"], 1, model))
            (wall, _, _), (protoc, _, _), peak = min(walls), min(decodes), max(peak for _, _, peak in walls)
            nodes, seconds = passes(model, out)
            print(f"  {name:30} {nodes:9} {wall:8.3f} {seconds / wall:7.0%} {peak:8.0f} {protoc:9.3f} {wall / protoc:7.2f}")
