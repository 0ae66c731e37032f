"""Greedy tokens of the models that tests/e2e/talk.sh talks to, without a cache of fixed room.

talk_reference.py gguf NAME COUNT TOKEN...       prints the tokens that follow, by NumPy
talk_reference.py prompt FOLDER TOKEN...         the inputs of the genai model for all tokens at once, with an empty cache
talk_reference.py likeliest FOLDER COUNT         prints the likeliest token after each of the last COUNT + 1 tokens but the last
"""
import os
import sys

import numpy as np

import gguf_models


def follow(name, count, tokens):
    architecture, keys, w = gguf_models.model(name)
    size = keys.get("attention.key_length", keys["embedding_length"] // keys["attention.head_count"])
    past = [tuple(np.zeros((1, keys["attention.head_count_kv"], 0, size), np.float32) for _ in "kv") for _ in range(keys["block_count"])]
    for _ in range(count):
        logits, past = gguf_models.run(architecture, keys, w.weights, np.array([tokens]), past)
        tokens = [int(logits[0, -1].argmax())]
        yield tokens[0]


def write_prompt(folder, tokens):
    os.makedirs(folder)
    np.save(f"{folder}/input_ids.npy", np.array([tokens]))
    np.save(f"{folder}/attention_mask.npy", np.ones((1, len(tokens)), np.int64))
    for i in range(2):
        for kind in ("key", "value"):
            np.save(f"{folder}/past_key_values.{i}.{kind}.npy", np.zeros((1, 2, 0, 16), np.float32))


def main():
    command, name, *numbers = sys.argv[1:]
    numbers = [int(n) for n in numbers]
    if command == "gguf":
        print(*follow(name, numbers[0], numbers[1:]))
    elif command == "prompt":
        write_prompt(name, numbers)
    else:
        logits = np.load(f"{name}/output_0.npy")[0]
        print(*logits[-numbers[0] - 1:-1].argmax(-1))


main()
