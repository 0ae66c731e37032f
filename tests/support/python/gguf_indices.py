"""Data sets like one of gguf_cache.py, with indices at the ends of their range and beyond, as arrays and as the files of a package.
Usage: gguf_indices.py DATA_SET FOLDER"""
import glob
import os
import sys

import numpy as np

ROOM = 40  # of the cache


def order(name):
    kind = name.removeprefix("past_key_values.").removesuffix(".npy").split(".")
    return (0,) if name.startswith("input_ids") else (1,) if name.startswith("past_length") else (2, int(kind[0]), kind[1])


def main():
    source, folder = sys.argv[1:]
    arrays = {os.path.basename(f): np.load(f) for f in glob.glob(f"{source}/*.npy")}
    ids = arrays["input_ids.npy"]
    vocabulary = arrays["logits.npy"].shape[-1]
    last = ROOM - ids.shape[1]

    def with_token(token):
        changed = ids.copy()
        changed.reshape(-1)[-1] = token
        return changed

    cases = {"valid_last": {"past_length": last}, "full": {"past_length": ROOM}, "beyond": {"past_length": last + 1},
             "negative": {"past_length": -1}, "valid_token": {"input_ids": with_token(vocabulary - 1)},
             "token": {"input_ids": with_token(vocabulary)}, "negative_token": {"input_ids": with_token(-1)}}
    for name, changes in cases.items():
        to = f"{folder}/{name}_set"
        os.makedirs(to)
        changed = arrays | {f"{key}.npy": np.array(x, np.int64) for key, x in changes.items()}
        for file, x in changed.items():
            np.save(f"{to}/{file}", x)
        inputs = sorted((f for f in changed if f.startswith(("input_ids", "past_"))), key=order)
        for i, file in enumerate(inputs):
            changed[file].tofile(f"{to}/input_{i}.bin")
        with open(f"{to}/arguments", "w") as f:
            print(f"batch={ids.shape[0]} sequence={ids.shape[1]}", *(f"input_{i}.bin" for i in range(len(inputs))), file=f)


main()
