#!/usr/bin/env python3
"""A GGUF file with Q4_0 weights beside llama.cpp, one thread: time and tokens per second of a step after 511 words and of a prompt of
128, least of many runs, programs in turn: processor time of rlxc, llama.cpp as llama.mjs measures it. The model is a Llama of 8
layers of 1024, 16 heads of queries and 8 of keys, 32,000 words, with random weights. The cache has room for 512 words of f16, as
that of llama.cpp. Both compute the logits of the last word, and both times leave loading out. Needs NumPy, and for the peer a
folder in which `npm i --ignore-scripts node-llama-cpp` was run: build/llama, where scripts/compare-llama puts it, or LLAMA;
without it the peer is left out. CPU is the value of --cpu (native), ALONE a command that runs another on one core. Usage:
bench/llama.py [int8|float|model], the value of --activations (int8, as llama.cpp computes)."""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests/support/python"))
import gguf_models  # noqa: E402

rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
cc = os.environ.get("CC", "gcc")
cpu = os.environ.get("CPU", "native")
llama = os.path.abspath(os.environ.get("LLAMA", os.path.join(root, "build/llama")))
peer = os.path.isdir(os.path.join(llama, "node_modules/node-llama-cpp"))
alone = os.environ.get("ALONE", "taskset -c 0").split()
LAYERS, WIDTH, HEADS, KV_HEADS, WORDS = 8, 1024, 16, 8, 32000
KEYS = {"block_count": LAYERS, "embedding_length": WIDTH, "feed_forward_length": 2816, "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS}
ROOM = 512
CASES = {"a step after 511 words": (1, 511, 40), "a prompt of 128 words": (128, 0, 5)}


def run(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)[:2000]} failed:\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def least(text):
    return float(re.search(r"processor min ([\d.]+)", text).group(1))


def write_model(path):
    gguf_models.build("decoder", "llama", ["q4_0"], KEYS, ["output"], WORDS)[2].save(path)


def write_inputs(folder, length, past):
    """The words that llama.mjs evaluates, how many are in the cache, and its first contents; the files in the order of the inputs."""
    cache = np.random.default_rng(1).standard_normal((1, KV_HEADS, ROOM, WIDTH // HEADS)).astype(np.float16)
    files = []
    for array in [259 + np.arange(length, dtype=np.int64) * 7919 % 10000, np.array(past)] + [cache] * (2 * LAYERS):
        files.append(os.path.join(folder, f"input_{len(files)}.bin"))
        array.tofile(files[-1])
    return files


def main():
    activations = sys.argv[1] if sys.argv[1:] else "int8"
    if not peer:
        print(f"llama.cpp is left out: {llama} has no node_modules/node-llama-cpp (scripts/compare-llama fetches it)")
    heads = f"{'launches':>8} {'rlxc ms':>8} {'tokens/s':>9}" + (f" {'llama.cpp ms':>13} {'tokens/s':>9} {'ratio':>6}" if peer else "")
    print(f"{'activations ' + activations:23} {heads}")
    with tempfile.TemporaryDirectory() as tmp:
        model, package = os.path.join(tmp, "m.gguf"), os.path.join(tmp, "out/kernels/cpu")
        write_model(model)
        for name, (length, past, repeat) in CASES.items():
            files = write_inputs(tmp, length, past)
            text = run([rlxc, "compile", model, "--target", "cpu", "--cpu", cpu, "--emit", "kernels", "--activations", activations,
                        "--kv-cache", str(ROOM), "--kv-type", "f16", "--last-logits", "--bind", f"batch=1,sequence={length}", "-o", os.path.join(tmp, "out")])
            run(["make", "-s", "-B", "-C", package, f"CC={cc}"])
            command = ["./run", "-m", tmp, "--threads", "1", "--repeat", str(repeat)] + files
            other = ["node", os.path.join(root, "bench/llama.mjs"), llama, model, str(length), str(past), str(repeat)]
            times = [], []
            for _ in range(3):
                times[0].append(least(run(alone + command, cwd=package)))
                if peer:
                    times[1].append(least(run(alone + other)))
            ours, theirs = min(times[0]), min(times[1], default=0)
            launches = re.search(r"-> \d+ nodes, (\d+) launches", text).group(1)
            line = f"{name:23} {launches:>8} {ours:8.3f} {1000 * length / ours:9.1f}"
            print(line + (f" {theirs:13.3f} {1000 * length / theirs:9.1f} {ours / theirs:6.2f}" if peer else ""), flush=True)


main()
