#!/usr/bin/env python3
"""Whole models, compiled to C by rlxc and in the engines that scripts/setup-peers has installed, with the same weights and inputs.

    bench/peers.py [--json FILE] [--peers NAME,...] [--threads 1,2] [--repeat 20] [--rounds 3] [--flags "..."] MODEL...

MODEL is an ONNX file, or the name of a folder in full/ or tiny/ of RLXC_TEST_MODELS; models of full/ get random weights. BENCH_FOLDER
keeps what is written between runs. Each engine is a process of its own, pinned to as many processors as it has threads; the engines take
turns, so that all meet the same load. Prints a markdown table. Milliseconds of wall and processor time: the least and the median of all
rounds. First: from the start of the process to the first result, in the first round. Peak: resident memory of the process.
Prepared: time to convert or compile ahead. Deployed: what `prepare` leaves, or the model itself. Error: largest difference
from rlxc's reference evaluator, as a share of its largest value; above 0.01, the engine is listed as failed."""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from model_data import difference, processor, write_inputs, write_weights

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
runner = os.path.join(root, "bench/peer_runner.py")
KNOWN = ["onnxruntime", "openvino", "iree", "jax", "ncnn", "mnn", "torch", "tract"]
NPY_TYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "i64": "<i8", "i32": "<i4", "u8": "|u1", "i8": "|i1", "bool": "|b1"}


class Failed(Exception):
    pass


def call(command, cwd, environment=None, timeout=1800):
    """Output, seconds and peak bytes of a process and its children."""
    start = time.time()
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                             env={**os.environ, **(environment or {}), "START": repr(start)})
        deadline = start + timeout
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            if time.time() > deadline:
                p.kill()
            time.sleep(0.01)
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if p.returncode:
        lines = [line for line in text.splitlines() if line.strip()]
        raise Failed(f"exit code {p.returncode}: {lines[-1][:160] if lines else 'no output'}")
    return text, time.time() - start, usage.ru_maxrss * 1024


def size(*paths):
    files = [os.path.join(at, f) for path in paths for at, _, names in os.walk(path) for f in names]
    return sum(os.stat(f).st_size for f in files + [p for p in paths if os.path.isfile(p)] if os.path.exists(f))


def lay_model(name, folder):
    """The model in the folder: its path, the text of its graph, files of its inputs."""
    models = os.environ.get("RLXC_TEST_MODELS", "")
    source = name if os.path.isfile(name) else next(
        (p for p in (os.path.join(models, kind, name, "model.onnx") for kind in ("full", "tiny")) if os.path.isfile(p)), None)
    if source is None:
        sys.exit(f"no model {name}: neither a file nor a folder of RLXC_TEST_MODELS")
    os.makedirs(folder, exist_ok=True)
    model, weights = os.path.join(folder, "model.onnx"), os.path.join(folder, "weights.bin")
    inspect = [rlxc, "inspect", model, "--stage", "hir"]
    shutil.copyfile(source, model)
    table = os.path.join(os.path.dirname(os.path.dirname(source)), "weights.tsv")
    sizes = dict(line.split("\t")[:2] for line in open(table).readlines()[1:]) if os.path.exists(table) else {}
    random.seed(1)
    wanted = sizes.get(os.path.basename(os.path.dirname(source)))
    if wanted and not os.path.exists(weights):
        with open(weights, "wb") as f:
            f.truncate(int(wanted))
        write_weights(call(inspect, folder)[0], weights)
    text = call(inspect, folder)[0]
    return model, text, write_inputs(text, folder)


def describe(model, text, inputs):
    """What the runner and the reference evaluator need: names and types, and the inputs as .npy files."""
    ports = [[name, dtype, [int(d) for d in dims.split(",") if d]]
             for name, dtype, dims in re.findall(r'= input "([^"]*)"[^:]*: (\w+)\[([\d,]*)\]', text)]
    returned = re.findall(r"^ *return (.*)$", text, re.M)[-1]
    for suffix, value in (("inputs", ports), ("outputs", re.findall(r'"([^"]*)"', returned))):
        with open(f"{model}.{suffix}.json", "w") as f:
            json.dump(value, f)
    data = os.path.join(os.path.dirname(model), "data")
    os.makedirs(data, exist_ok=True)
    for i, ((_, dtype, shape), path) in enumerate(zip(ports, inputs)):
        head = repr({"descr": NPY_TYPES[dtype], "fortran_order": False, "shape": tuple(shape)}).encode()
        head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
        with open(os.path.join(data, f"input_{i}.npy"), "wb") as f, open(path, "rb") as values:
            f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + values.read())
    return data


def reference(model, data, folder):
    out = os.path.join(folder, "reference")
    os.makedirs(out, exist_ok=True)
    call([rlxc, "run", model, "--engine=reference", "--data", data, "--save-outputs", out], folder)
    with open(os.path.join(out, "output_0.npy"), "rb") as f:
        content = f.read()
    path = os.path.join(folder, "reference_0.bin")
    with open(path, "wb") as f:
        f.write(content[10 + int.from_bytes(content[8:10], "little"):])
    return path


def prepare(names, model, folder, flags):
    """By name: the command that runs it, where it deploys from, seconds of preparing; or why it cannot."""
    found, failed = {}, {}
    package = os.path.join(folder, "rlxc")
    built = call([rlxc, "compile", model, "--target", "cpu", "--cpu", "native", "--emit", "kernels", "-q", "-o", package, *flags], folder)
    kernels = os.path.join(package, "kernels/cpu")
    made = call(["make", "-s", "-C", kernels], folder)
    deployed = [os.path.join(kernels, f) for f in os.listdir(kernels) if f == "run" or f.endswith((".so", ".weights"))]
    beside = [os.path.join(folder, f) for f in os.listdir(folder) if f == "weights.bin"]
    found["rlxc"] = dict(command=lambda threads, repeat, inputs: [
        os.path.join(kernels, "run"), "-w", kernels, "-m", folder, "--threads", str(threads), "--repeat", str(repeat), *inputs],
        deployed=size(*deployed, *beside), seconds=built[1] + made[1])
    for name in names:
        try:
            home = os.path.join(folder, name)
            shutil.rmtree(home, ignore_errors=True)
            os.makedirs(home)
            if name == "jax":
                call([rlxc, "compile", model, "--target", "tpu", "--emit", "kernels", "-q", "-o", model + ".tpu"], folder)
            python = os.path.join(root, "build/peers", name, "bin/python")
            _, seconds, _ = call([python, runner, "prepare", name, model, home], folder)
            found[name] = dict(
                command=lambda threads, repeat, inputs, name=name, home=home, python=python: [
                    python, runner, "run", name, model, home, str(threads), str(repeat), *inputs],
                deployed=size(home) or size(model, *beside), seconds=seconds if os.listdir(home) else 0)
        except Failed as e:
            failed[name] = str(e)
    return found, failed


def measure(found, failed, threads, options, folder, inputs, expected):
    rows = {}
    for turn in range(options.rounds):
        for name, engine in found.items():
            if (name, threads) in failed:
                continue
            cwd = os.path.join(folder, f"run_{name}")
            os.makedirs(cwd, exist_ok=True)
            pin = ["taskset", "-c", ",".join(map(str, range(threads)))]
            limits = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
            try:
                text, _, peak = call(pin + engine["command"](threads, options.repeat, inputs), cwd, limits)
                numbers = list(map(float, re.findall(r"wall min ([\d.]+) median ([\d.]+), processor min ([\d.]+) median ([\d.]+)", text)[0]))
                first = re.search(r"first result ([\d.]+)", text)
                if first is None and turn == 0:  # a package of rlxc: its process for one result
                    first = call(pin + engine["command"](threads, 0, inputs), cwd, limits)[1] * 1e3
                elif first:
                    first = float(first[1])
            except (Failed, IndexError) as e:
                failed[name, threads] = str(e)
                continue
            error = difference(os.path.join(cwd, "output_0.bin"), expected)
            if not error <= 1e-2:  # NaN too
                failed[name, threads] = f"the results differ by {error:.1e} of the largest"
                continue
            row = rows.setdefault(name, dict(engine=name, threads=threads, wall=[], busy=[], peak=0, first=first,
                                             deployed=engine["deployed"], prepared=engine["seconds"],
                                             error=error))
            row["wall"].append(numbers[:2])
            row["busy"].append(numbers[2:])
            row["peak"] = max(row["peak"], peak)
    for row in rows.values():
        for key in ("wall", "busy"):
            pairs = row.pop(key)
            row[key + "_min"], row[key + "_median"] = min(p[0] for p in pairs), sorted(p[1] for p in pairs)[len(pairs) // 2]
    return list(rows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--peers", default="", help="those that are installed")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="", help="further options of rlxc's compile")
    options = parser.parse_args()
    names = [n for n in options.peers.split(",") if n] or [
        n for n in KNOWN if os.path.exists(os.path.join(root, "build/peers", n, "installed"))]
    unknown = [n for n in names if n not in KNOWN]
    if unknown:
        sys.exit(f"no peer {', '.join(unknown)}; there are {', '.join(KNOWN)}")
    print(f"processor: {processor()}\n")
    print("| model | engine | threads | wall min | median | processor min | median | ratio of processor time | first | peak MB | prepared s "
          "| deployed MB | error |")
    print("|---|---|" + "---:|" * 11)
    document = {"processor": processor(), "rows": [], "failures": []}
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models:
            label = os.path.basename(os.path.dirname(os.path.abspath(name))) if os.path.isfile(name) else name
            folder = os.path.join(os.path.abspath(os.environ.get("BENCH_FOLDER") or scratch), label)
            model, text, inputs = lay_model(name, folder)
            expected = reference(model, describe(model, text, inputs), folder)
            found, failed = prepare(names, model, folder, options.flags.split())
            for threads in map(int, options.threads.split(",")):
                rows = measure(found, failed, threads, options, folder, inputs, expected)
                own = next((r["busy_min"] for r in rows if r["engine"] == "rlxc"), None)
                for row in rows:
                    ratio = own / row["busy_min"] if own else float("nan")
                    print(f"| {label} | {row['engine']} | {threads} | {row['wall_min']:.2f} | {row['wall_median']:.2f} "
                          f"| {row['busy_min']:.2f} | {row['busy_median']:.2f} | {ratio:.2f} | {row['first']:.0f} "
                          f"| {row['peak'] / 1e6:.0f} | {row['prepared']:.1f} | {row['deployed'] / 1e6:.1f} | {row['error']:.1e} |", flush=True)
                    document["rows"].append({"model": label, **row})
            document["failures"] += [{"model": label, "engine": " ".join(map(str, key)) if isinstance(key, tuple) else key, "why": why}
                                     for key, why in failed.items()]
    if document["failures"]:
        print("\nDid not run:")
        for failure in document["failures"]:
            print(f"- {failure['model']}, {failure['engine']}: {failure['why']}")
    if options.json:
        with open(options.json, "w") as f:
            json.dump(document, f, indent=1)


main()
