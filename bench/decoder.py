#!/usr/bin/env python3
"""A language model with 4-bit weights and a key-value cache beside ONNX Runtime, one thread: processor time of a step after 511
words and of a prompt of 128, least of many runs. The cache has room for 512 positions and is a state, which a run updates in place;
ONNX Runtime is given one buffer for past and present. The model is that of genai_decoder.py: 8 layers of 1024, 16 heads of queries
and 8 of keys, 32,000 words. ONNXRUNTIME as in onnxruntime.mjs; without it the peer is left out. ALONE is a command that runs another
on one core. Usage: bench/decoder.py [ACCURACY_LEVEL]"""
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests/support/python"))
from genai_decoder import Decoder  # noqa: E402

rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
cc = os.environ.get("CC", "gcc")
peer = os.environ.get("ONNXRUNTIME", "")
alone = os.environ.get("ALONE", "taskset -c 0").split()
ROOM = 512
CASES = {"a step after 511 words": (1, 511, 40), "a prompt of 128 words": (128, 0, 5)}


def run(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)[:2000]} failed:\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def least(text):
    return float(re.search(r"processor min ([\d.]+)", text).group(1))


def main():
    level = int(sys.argv[1]) if sys.argv[1:] else 4
    print(f"{'accuracy_level ' + str(level):26} {'launches':>8} {'rlxc ms':>9} {'ONNX Runtime ms':>16} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as tmp:
        model, package = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "out/kernels/cpu")
        for name, (length, past, repeat) in CASES.items():
            sizes = {"batch_size": 1, "sequence_length": length, "past_sequence_length": ROOM, "total_sequence_length": ROOM}
            d = Decoder(accuracy_level=level, sizes=sizes)
            d.save(model)
            files = []
            for array in d.inputs(length, past, ROOM):
                files.append(os.path.join(tmp, f"input_{len(files)}.bin"))
                array.tofile(files[-1])
            states = [f"past_key_values.{o.removeprefix('present.')}={o}" for o in d.outputs]
            text = run([rlxc, "compile", model, "--target", "cpu", "--emit", "kernels", "--state", ",".join(states), "-o",
                        os.path.join(tmp, "out")])
            run(["make", "-s", "-B", "-C", package, f"CC={cc}"])
            times = [], []
            for _ in range(3):
                times[0].append(least(run(alone + ["./run", "-m", tmp, "--threads", "1", "--repeat", str(repeat)] + files, cwd=package)))
                if peer:
                    command = ["node", os.path.join(root, "bench/onnxruntime.mjs"), model, "1", str(repeat)]
                    times[1].append(least(run(alone + command + files)))
            launches = re.search(r"-> \d+ nodes, (\d+) launches", text).group(1)
            line = f"{name:26} {launches:>8} {min(times[0]):9.3f}"
            print(line + (f" {min(times[1]):16.3f} {min(times[0]) / min(times[1]):6.2f}" if peer else ""), flush=True)


main()
