"""The data sets of gguf_models.py for a cache of fixed room: FOLDER/NAME_data as FOLDER/NAME_cache, and as FOLDER/NAME_cache16 with
keys and values in f16. Usage: gguf_cache.py FOLDER"""
import glob
import os
import sys

import numpy as np

ROOM = 40  # tokens


def main():
    rng = np.random.default_rng(1)
    for source in glob.glob(f"{sys.argv[1]}/*_data/test_data_set_*"):
        to = source.replace("_data/", "_cache/")
        narrow = source.replace("_data/", "_cache16/")
        os.makedirs(to)
        os.makedirs(narrow)
        arrays = {os.path.basename(f): np.load(f) for f in glob.glob(f"{source}/*.npy")}
        past = arrays["past_key_values.0.key.npy"].shape[2]
        for name, x in arrays.items():
            if name.startswith("past_key_values."):
                present = "present." + name.removeprefix("past_key_values.")
                cache = rng.standard_normal((*x.shape[:2], ROOM, x.shape[3])).astype(np.float32)
                cache[:, :, :past] = x
                np.save(f"{to}/{name}", cache)
                written = arrays[present]
                cache[:, :, past:written.shape[2]] = written[:, :, past:]
                np.save(f"{to}/{present}", cache)
            elif not name.startswith("present."):
                np.save(f"{to}/{name}", x)
        np.save(f"{to}/past_length.npy", np.array(past))
        for name in os.listdir(to):
            x = np.load(f"{to}/{name}")
            np.save(f"{narrow}/{name}", x.astype(np.float16) if name.startswith(("past_key", "present.")) else x)


main()
