"""A language model as the model builder of onnxruntime-genai writes it: 4-bit MatMulNBits in blocks of 32, GroupQueryAttention
with rotary embedding and a cache, SkipSimplifiedLayerNormalization between the blocks; symbolic dims. As a program: a small one, its inputs, and a comparison of its outputs
(tests/e2e/decoder.sh)."""
import os
import sys

import numpy as np

from onnx_writer import Model

MS = "com.microsoft"


class Decoder:
    def __init__(self, layers=8, hidden=1024, heads=16, kv_heads=8, inner=2816, words=32000, room=4096, accuracy_level=4, packed=True,
                 sizes={}):
        self.layers, self.kv_heads, self.size = layers, kv_heads, hidden // heads
        self.dims = lambda *names: [sizes.get(d, d) for d in names]  # `sizes` of symbolic dims
        self.m = m = Model(21)
        self.level = {"accuracy_level": accuracy_level} if accuracy_level else {}
        ids = m.input(self.dims("batch_size", "sequence_length"), "int64", "input_ids")
        mask = m.input(self.dims("batch_size", "total_sequence_length"), "int64", "attention_mask")
        cache = self.dims("batch_size", kv_heads, "past_sequence_length", self.size)
        past = [[m.input(cache, name=f"past_key_values.{i}.{kind}") for kind in ("key", "value")] for i in range(layers)]
        last = m("Cast", m("Sub", m("ReduceSum", mask, [1], keepdims=1), [1]), to=6)
        total = m("Cast", m("Gather", m("Shape", mask), m.constant(1), axis=0), to=6)
        angles = np.outer(np.arange(room), 10000.0 ** (-np.arange(0, self.size, 2) / self.size)).astype(np.float32)
        cos, sin = m.constant(np.cos(angles)), m.constant(np.sin(angles))

        x = m("Gather", m.w(words, hidden), ids, axis=0)
        y = m("SimplifiedLayerNormalization", x, self.near_one(hidden), axis=-1, epsilon=1e-5, stash_type=1)
        self.outputs = []
        for i in range(layers):
            kv = kv_heads * self.size
            widths = [hidden + 2 * kv] if packed else [hidden, kv, kv]
            qkv = [self.product(y, hidden, n) for n in widths] + [None] * (3 - len(widths))
            present = [f"present.{i}.key", f"present.{i}.value"]
            y = m("GroupQueryAttention", *qkv, *past[i], last, total, cos, sin, domain=MS, results=[m.fresh("gqa"), *present],
                  num_heads=heads, kv_num_heads=kv_heads, scale=self.size**-0.5, do_rotary=1, rotary_interleaved=0)[0]
            self.outputs += present
            x, y = self.skip_norm(x, self.product(y, hidden, hidden), hidden)
            gate, up = self.product(y, hidden, inner), self.product(y, hidden, inner)
            act = m("Mul", gate, m("Sigmoid", gate))
            y = self.product(m("Mul", act, up), inner, hidden)
            x, y = self.skip_norm(x, y, hidden)
        self.logits = self.product(y, hidden, words)

    def near_one(self, n):
        return self.m.constant((1 + 0.1 * self.m.random.standard_normal(n)).astype(np.float32))

    def product(self, x, k, n):
        """x times 4-bit codes of weights of about 1 / sqrt(k)."""
        codes = self.m.random.integers(0, 256, (n, k // 32, 16), np.uint8)
        scales = (self.m.random.uniform(0.5, 1.5, n * k // 32) * k**-0.5 / 4.6).astype(np.float32)
        return self.m("MatMulNBits", x, self.m.constant(codes), self.m.constant(scales), domain=MS, K=k, N=n, bits=4, block_size=32,
                      **self.level)

    def skip_norm(self, x, y, n):
        """The sum and its norm."""
        m = self.m
        norm, total = m.fresh("norm"), m.fresh("sum")
        m("SkipSimplifiedLayerNormalization", x, y, self.near_one(n), domain=MS, results=[norm, "", "", total], epsilon=1e-5)
        return total, norm

    def save(self, path):
        m = self.m
        cache = self.dims("batch_size", self.kv_heads, "total_sequence_length", self.size)
        m.save(path, self.logits, *[(name, "float32", cache) for name in self.outputs])

    def inputs(self, length, past, room):
        """A prompt (or a step) of `length` words after `past`, with a cache of `room` positions."""
        r = np.random.default_rng(1)
        ids = r.integers(0, 1000, (1, length))
        mask = (np.arange(max(room, past + length)) < past + length).astype(np.int64)[None]
        cache = np.zeros((1, self.kv_heads, room, self.size), np.float32)
        cache[:, :, :past] = r.standard_normal((1, self.kv_heads, past, self.size))
        return [ids, mask] + [cache] * (2 * self.layers)


def small(accuracy_level):
    return Decoder(layers=2, hidden=64, heads=4, kv_heads=2, inner=96, words=100, room=128, accuracy_level=accuracy_level)


def write_prompt(folder, room, length):
    """The inputs of a prompt for a small decoder, with an empty cache: NAME.npy."""
    os.makedirs(folder)
    np.save(f"{folder}/input_ids.npy", np.arange(length)[None] * 7 % 100)
    np.save(f"{folder}/attention_mask.npy", (np.arange(room) < length).astype(np.int64)[None])
    for i in range(2):
        for kind in ("key", "value"):
            np.save(f"{folder}/past_key_values.{i}.{kind}.npy", np.zeros((1, 2, room, 16), np.float32))


def write_next(folder, room, length):
    """The inputs of the next word: the cache is what the step before left."""
    np.save(f"{folder}/input_ids.npy", np.array([[(length - 1) * 7 % 100]]))
    np.save(f"{folder}/attention_mask.npy", (np.arange(room) < length).astype(np.int64)[None])
    for i in range(2):
        for k, kind in enumerate(("key", "value")):
            os.replace(f"{folder}/out/output_{1 + 2 * i + k}.npy", f"{folder}/past_key_values.{i}.{kind}.npy")


def same(steps, whole, tolerance):
    """Whether the last logits and the caches of two folders of outputs agree."""
    for i in range(5):
        a, b = (np.load(f"{folder}/output_{i}.npy") for folder in (steps, whole))
        b = b[:, -1:] if i == 0 else b
        if a.shape != b.shape or np.abs(a - b).max() > tolerance:
            sys.exit(f"output {i}: {a.shape} differs from {b.shape} by {np.abs(a - b).max()}")


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "write":
        small(int(words[1])).save(words[0])
    elif command == "same":
        same(words[0], words[1], float(words[2]))
    else:
        (write_prompt if command == "prompt" else write_next)(words[0], int(words[1]), int(words[2]))
