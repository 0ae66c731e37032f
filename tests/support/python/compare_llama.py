"""Compares the logits of rlxc and llama.cpp: compare_llama.py RLXC FOLDER-OF-node_modules TEMPORARY-FOLDER [NAME...]"""
import json
import subprocess
import sys

import numpy as np

import gguf_models

TOKENS = [1, 17, 33, 90, 4, 208, 60, 5, 271, 99, 100, 3]
LEAST = {"f32": 0.99999, "blocks": 0.999}  # cosines of the logarithms of probabilities, without their mean


def theirs(rows):
    return np.array([json.loads(line) for line in rows.splitlines() if line.startswith("[-")])


def ours(rlxc, file, keys, folder):
    size = keys.get("attention.key_length", keys["embedding_length"] // keys["attention.head_count"])
    data = {"input_ids": np.array([TOKENS])}
    for i in range(keys["block_count"]):
        for part in ("key", "value"):
            data[f"past_key_values.{i}.{part}"] = np.zeros((1, keys["attention.head_count_kv"], 0, size), np.float32)
    np.savez(f"{folder}/in.npz", **data)
    subprocess.run([rlxc, "run", file, "--data", f"{folder}/in.npz", "--save-outputs", f"{folder}/out.npz"], check=True,
                   capture_output=True)
    x = np.load(f"{folder}/out.npz")["logits"][0].astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def main():
    rlxc, modules, folder, *names = sys.argv[1:]
    failed = 0
    print(f"{'model':16} {'weights':8} {'largest difference':>18} {'cosine':>10}")
    for name in names or [n for n in gguf_models.CASES if n != "mistral_window"]:  # llama.cpp ignores the window of llama
        for weights in LEAST:
            _, keys, w = gguf_models.model(name, ["f32"] if weights == "f32" else None)
            file = f"{folder}/{name}.gguf"
            w.save(file)
            made = subprocess.run(["node", "tests/support/llama_logits.mjs", modules, file, *map(str, TOKENS)], capture_output=True,
                                  text=True, check=False)
            a = theirs(made.stdout)
            if a.shape[0] != len(TOKENS):
                print(f"{name:16} {weights:8} llama.cpp fails: {made.stderr.strip().splitlines()[-1:]}")
                failed += 1
                continue
            b = ours(rlxc, file, keys, folder)
            x, y = (v - v.mean(-1, keepdims=True) for v in (a, b))
            cosine = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
            good = cosine >= LEAST[weights]
            failed += not good
            print(f"{name:16} {weights:8} {np.abs(a - b).max():18.6f} {cosine:10.7f} {'' if good else 'FAIL'}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
