"""Writes small GGUF files of each architecture with data sets, and states the architectures and block formats in NumPy.

gguf_models.py FOLDER [NAME...]: for each case FOLDER/NAME.gguf, and inputs and expected outputs in FOLDER/NAME_data."""
import os
import struct
import sys

import numpy as np

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13,
         "q6_k": 14, "iq4_nl": 20, "iq4_xs": 23, "bf16": 30, "tq2_0": 35, "mxfp4": 39}
# Elements and bytes of a block, and where its f16 scales are.
BLOCKS = {"q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]), "q8_0": (32, 34, [0]),
          "q2_k": (256, 84, [80, 82]), "q3_k": (256, 110, [108]), "q4_k": (256, 144, [0, 2]), "q5_k": (256, 176, [0, 2]),
          "q6_k": (256, 210, [208]), "iq4_nl": (32, 18, [0]), "iq4_xs": (256, 136, [0]), "tq2_0": (256, 66, [64]),
          "mxfp4": (32, 17, [])}
# The largest magnitude that a code times the scales within a block reaches, for a choice of the f16 scales.
REACH = {"q4_0": 8, "q4_1": 16, "q5_0": 16, "q5_1": 32, "q8_0": 128, "q2_k": 45, "q3_k": 128, "q4_k": 900, "q5_k": 1900,
         "q6_k": 4000, "iq4_nl": 120, "iq4_xs": 3800, "tq2_0": 1}
TABLE = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def decode(kind, blocks):
    """u8 [n, bytes] -> f32 [n, elements]; the fields as in ggml-common.h."""
    n = len(blocks)
    half = lambda at: blocks[:, at:at + 2].copy().view(np.float16).astype(np.float32)
    nibbles = lambda b: np.concatenate([b & 15, b >> 4], 1)

    def by_halves(b, size):  # the low halves of `size` bytes, then their high halves
        b = b.reshape(n, -1, size)
        return np.concatenate([b & 15, b >> 4], 2).reshape(n, -1)

    def bit_pairs(b):  # of 32 bytes: four fields of two bits
        b = b.reshape(n, -1, 1, 32)
        return ((b >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)) & 3).reshape(n, -1)

    if kind in ("q4_0", "q4_1", "q5_0", "q5_1"):
        at = 4 if kind[3] == "1" else 2
        q = nibbles(blocks[:, -16:]).astype(np.int32)
        if kind[1] == "5":
            q |= np.unpackbits(blocks[:, at:at + 4], axis=1, bitorder="little").astype(np.int32) << 4
        return q * half(0) + half(2) if kind[3] == "1" else (q - (16 if kind[1] == "5" else 8)) * half(0)
    if kind == "q8_0":
        return blocks[:, 2:].copy().view(np.int8) * half(0)
    if kind == "iq4_nl":
        return TABLE[nibbles(blocks[:, 2:])] * half(0)
    if kind == "mxfp4":
        return FP4[nibbles(blocks[:, 1:])] * np.exp2(blocks[:, :1].astype(np.float32) - 127)
    if kind == "tq2_0":
        return (bit_pairs(blocks[:, :64]).astype(np.float32) - 1) * half(64)
    if kind == "q2_k":
        s, q = blocks[:, :16], bit_pairs(blocks[:, 16:80]).reshape(n, 16, 16)
        return ((s & 15) * half(80))[:, :, None] * q - ((s >> 4) * half(82))[:, :, None]
    if kind == "q3_k":
        a = blocks[:, 96:108].astype(np.int32)
        low = np.concatenate([a[:, :8] & 15, a[:, :8] >> 4], 1)
        high = np.concatenate([(a[:, 8:] >> s) & 3 for s in (0, 2, 4, 6)], 1)
        scale = (low | high << 4) - 32
        bits = np.concatenate([(blocks[:, :32] >> s) & 1 for s in range(8)], 1).astype(np.int32)
        q = (bit_pairs(blocks[:, 32:96]).astype(np.int32) | bits << 2) - 4
        return (scale * half(108))[:, :, None] * q.reshape(n, 16, 16)
    if kind in ("q4_k", "q5_k"):
        a, b, c = (blocks[:, i:i + 4].astype(np.int32) for i in (4, 8, 12))
        scale = np.concatenate([a & 63, c & 15 | (a >> 6) << 4], 1)
        low = np.concatenate([b & 63, c >> 4 | (b >> 6) << 4], 1)
        q = by_halves(blocks[:, -128:], 32).astype(np.int32)
        if kind == "q5_k":
            q |= np.concatenate([(blocks[:, 16:48] >> s) & 1 for s in range(8)], 1).astype(np.int32) << 4
        return (scale * half(0))[:, :, None] * q.reshape(n, 8, 32) - (low * half(2))[:, :, None]
    if kind == "q6_k":
        q = by_halves(blocks[:, :128], 64).astype(np.int32) | bit_pairs(blocks[:, 128:192]).astype(np.int32) << 4
        return (blocks[:, 192:208].copy().view(np.int8) * half(208))[:, :, None] * (q.reshape(n, 16, 16) - 32)
    assert kind == "iq4_xs"
    low = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], 2).reshape(n, 8).astype(np.int32)
    high = blocks[:, 2:4].copy().view(np.uint16).astype(np.int32) >> (2 * np.arange(8)) & 3
    scale = ((low | high << 4) - 32) * half(0)
    return scale[:, :, None] * TABLE[by_halves(blocks[:, 8:], 16)].reshape(n, 8, 32)


class Writer:
    """Collects keys and tensors; `weights` are the tensors' real values."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.keys, self.tensors, self.weights = [], [], {}

    def key(self, name, value):
        self.keys.append((name, value))

    def tensor(self, name, kind, shape, spread=None, around=0.0):
        spread = spread or shape[-1] ** -0.5
        if kind in BLOCKS:
            elements, size, scales = BLOCKS[kind]
            blocks = self.random.integers(0, 256, (int(np.prod(shape)) // elements, size), np.uint8)
            for at in scales:
                d = self.random.uniform(0.5, 1.5, len(blocks)) * spread / REACH[kind] * 1.7
                if at == scales[0] + 2 and kind in ("q4_1", "q5_1"):
                    d *= -REACH[kind] / 2
                if at == 82:
                    d *= 1.5
                if at == 2 and kind in ("q4_k", "q5_k"):
                    d *= 7 if kind == "q4_k" else 15
                blocks[:, at:at + 2] = d.astype(np.float16)[:, None].view(np.uint8)
            if kind == "mxfp4":
                blocks[:, 0] = 127 + int(np.log2(spread / 3)) + self.random.integers(-1, 2, len(blocks))
            data, real = blocks.tobytes(), decode(kind, blocks).reshape(shape)
        else:
            x = (self.random.standard_normal(shape) * spread + around).astype(np.float32)
            if kind == "bf16":
                raw = (x.view(np.uint32) >> 16).astype(np.uint16)
                data, real = raw.tobytes(), (raw.astype(np.uint32) << 16).view(np.float32)
            else:
                x = x.astype(np.float16 if kind == "f16" else np.float32)
                data, real = x.tobytes(), x.astype(np.float32)
        self.add(name, kind, shape, data, real)

    def add(self, name, kind, shape, data, real):
        self.tensors.append((name, kind, shape, data))
        self.weights[name] = real.astype(np.float64)

    def save(self, path):
        text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()
        with open(path, "wb") as f:
            f.write(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)))
            for name, value in self.keys:
                f.write(text(name) + typed(value, text))
            at = 0
            for name, kind, shape, data in self.tensors:
                dims = b"".join(struct.pack("<Q", d) for d in reversed(shape))
                f.write(text(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", TYPES[kind], at))
                at += (len(data) + 31) // 32 * 32
            for _, _, _, data in self.tensors:
                f.write(b"\0" * (-f.tell() % 32) + data)


def typed(value, text):
    if isinstance(value, list):
        first = typed(value[0], text)
        return struct.pack("<I", 9) + first[:4] + struct.pack("<Q", len(value)) + b"".join(typed(v, text)[4:] for v in value)
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, np.int32):
        return struct.pack("<Ii", 5, value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def frequencies(keys, base, rotated, factors, scaled=True):
    """Frequencies and the factor of cos and sin."""
    pair = np.arange(rotated // 2)
    f = base ** (-2.0 * pair / rotated) / (1 if factors is None else factors)
    kind, factor = keys.get("rope.scaling.type", "linear"), keys.get("rope.scaling.factor", 1.0)
    magnitude = keys.get("rope.scaling.attn_factor", 1.0)
    if not scaled or kind == "none":
        return f, 1.0
    if kind != "yarn":
        return f / factor, magnitude
    edge = lambda turns: rotated * np.log(keys["rope.scaling.original_context_length"] / (turns * 2 * np.pi)) / (2 * np.log(base))
    low, high = max(0, np.floor(edge(32))), min(rotated - 1, np.ceil(edge(1)))
    whole = 1 - np.clip((pair - low) / max(0.001, high - low), 0, 1)
    return f * (whole + (1 - whole) / factor), magnitude * (1 + 0.1 * np.log(factor))


def rotate(x, angles, magnitude, adjacent):
    """x [batch, heads, length, size]; angles [length, rotated/2]."""
    c, s, half = np.cos(angles) * magnitude, np.sin(angles) * magnitude, angles.shape[1]
    y = x.copy()
    a, b = (x[..., 0:2 * half:2], x[..., 1:2 * half:2]) if adjacent else (x[..., :half], x[..., half:2 * half])
    first, second = a * c - b * s, a * s + b * c
    if adjacent:
        y[..., 0:2 * half:2], y[..., 1:2 * half:2] = first, second
    else:
        y[..., :half], y[..., half:2 * half] = first, second
    return y


def run(architecture, keys, w, tokens, past):
    """Logits, and keys and values of each layer. `past`: those of earlier tokens."""
    gemma = architecture.startswith("gemma")
    width, heads, eps = keys["embedding_length"], keys["attention.head_count"], keys["attention.layer_norm_rms_epsilon"]
    kv_heads, size = keys["attention.head_count_kv"], keys.get("attention.key_length", width // heads)
    rotated, adjacent = keys.get("rope.dimension_count", size), architecture == "llama"
    batch, length = tokens.shape
    before = past[0][0].shape[2]
    norm = lambda x, name: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + ".weight"]
    linear = lambda x, name: x @ w[name + ".weight"].T + w.get(name + ".bias", 0)
    cap = lambda x, limit: np.tanh(x / limit) * limit if limit else x
    silu = lambda x: x / (1 + np.exp(-x))
    gelu = lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
    split = lambda x, n: x.reshape(batch, length, n, -1).transpose(0, 2, 1, 3)
    far = before + length > keys.get("rope.scaling.original_context_length", keys["context_length"])
    factors = w.get("rope_freqs.weight", w.get("rope_factors_long.weight" if far else "rope_factors_short.weight"))
    period = {"gemma2": 2, "gemma3": 6}.get(architecture, 1)
    x = w["token_embd.weight"][tokens] * (np.sqrt(width) if gemma else 1)
    position, key_position = before + np.arange(length), np.arange(before + length)
    present = []
    for i in range(keys["block_count"]):
        at = f"blk.{i}."
        window = keys.get("attention.sliding_window", 0)
        local = window > 0 and (period == 1 or i % period < period - 1)
        base = 10000.0 if local and architecture == "gemma3" else keys.get("rope.freq_base", 10000.0)
        f, magnitude = frequencies(keys, base, rotated, factors, not (local and architecture == "gemma3"))
        h = norm(x, at + "attn_norm")
        if at + "attn_qkv.weight" in w:
            q, k, v = np.split(linear(h, at + "attn_qkv"), [heads * size, (heads + kv_heads) * size], -1)
        else:
            q, k, v = (linear(h, at + "attn_" + part) for part in "qkv")
        q, k, v = split(q, heads), split(k, kv_heads), split(v, kv_heads)
        if at + "attn_q_norm.weight" in w:
            q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
        angles = position[:, None] * f
        q, k = rotate(q, angles, magnitude, adjacent), rotate(k, angles, magnitude, adjacent)
        k, v = np.concatenate([past[i][0], k], 2), np.concatenate([past[i][1], v], 2)
        present.append((k, v))
        repeat = lambda x: np.repeat(x, heads // kv_heads, 1)
        scores = cap(q @ repeat(k).swapaxes(2, 3) / np.sqrt(size), keys.get("attn_logit_softcapping"))
        distance = position[:, None] - key_position
        scores = np.where((distance >= 0) & ((distance < window) | (not local)), scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        y = (p / p.sum(-1, keepdims=True)) @ repeat(v)
        y = linear(y.transpose(0, 2, 1, 3).reshape(batch, length, -1), at + "attn_output")
        post = at + "post_attention_norm"
        x = x + (norm(y, post) if post + ".weight" in w else y)
        h = norm(x, at + "ffn_norm")
        up = linear(h, at + "ffn_up")
        gate, up = np.split(up, 2, -1) if architecture == "phi3" else (linear(h, at + "ffn_gate"), up)
        y = linear((gelu if gemma else silu)(gate) * up, at + "ffn_down")
        post = at + "post_ffw_norm"
        x = x + (norm(y, post) if post + ".weight" in w else y)
    head = "output" if "output.weight" in w else "token_embd"
    return cap(linear(norm(x, "output_norm"), head), keys.get("final_logit_softcapping")), present


# Name: architecture, formats of the weights in turn, keys that differ, names of optional tensors.
CASES = {
    "llama_q4_k": ("llama", ["q4_k", "q6_k"], {}, []),
    "llama_scaled": ("llama", ["q8_0", "f16"], {"rope.freq_base": 500000.0}, ["rope_freqs", "output"]),
    "mistral_window": ("llama", ["q5_k", "q3_k"], {"attention.key_length": 48, "attention.value_length": 48,
                                                    "rope.dimension_count": 48, "attention.sliding_window": 5}, ["output"]),
    "qwen2_yarn": ("qwen2", ["q4_0", "q5_0", "q5_1"], {"rope.freq_base": 1000000.0, "rope.scaling.type": "yarn",
                                                       "rope.scaling.factor": 4.0,
                                                       "rope.scaling.original_context_length": 1024}, ["qkv_bias"]),
    "qwen3": ("qwen3", ["iq4_xs", "iq4_nl", "mxfp4"], {"attention.key_length": 32, "attention.value_length": 32}, ["head_norms"]),
    "packed_long": ("phi3", ["q4_1", "q2_k", "bf16"], {"rope.scaling.original_context_length": 8, "rope.dimension_count": 48,
                                                     "rope.scaling.attn_factor": 1.25}, ["packed", "rope_factors", "output"]),
    "gemma": ("gemma", ["q8_0", "tq2_0"], {"attention.key_length": 32, "attention.value_length": 32}, []),
    "gemma2": ("gemma2", ["q6_k", "q4_0"], {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                                            "attention.sliding_window": 4}, ["post_norms"]),
    "gemma3": ("gemma3", ["q4_k", "f32"], {"attention.sliding_window": 4, "rope.freq_base": 1000000.0, "block_count": 7,
                                           "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
               ["post_norms", "head_norms"]),
}


def model(name, formats=None):
    architecture, kinds, changed, parts = CASES[name]
    return build(name, architecture, formats or kinds, changed, parts)


def build(name, architecture, kinds, changed, parts, vocabulary=288):
    """A model of random weights, whose matrices have the formats `kinds` in turn."""
    keys = {"block_count": 2, "context_length": 4096, "embedding_length": 256, "feed_forward_length": 512,
            "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5} | changed
    w = Writer(7)
    w.key("general.architecture", architecture)
    w.key("general.name", name)
    for key, value in keys.items():
        w.key(f"{architecture}.{key}", value)
    w.key("tokenizer.ggml.model", "llama")
    w.key("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] +
          [f"\u2581w{i}" for i in range(vocabulary - 259)])
    w.key("tokenizer.ggml.scores", [0.0] * vocabulary)
    w.key("tokenizer.ggml.token_type", [np.int32(kind) for kind in [2, 3, 3] + [6] * 256 + [1] * (vocabulary - 259)])
    w.key("tokenizer.ggml.bos_token_id", 1)
    w.key("tokenizer.ggml.eos_token_id", 2)
    w.key("tokenizer.ggml.add_bos_token", False)
    width, heads, kv_heads = keys["embedding_length"], keys["attention.head_count"], keys["attention.head_count_kv"]
    size, hidden = keys.get("attention.key_length", width // heads), keys["feed_forward_length"]
    turn = 0

    def matrix(tensor, rows, columns):
        nonlocal turn
        fits = [k for k in kinds if columns % BLOCKS.get(k, (1,))[0] == 0] or ["q8_0"]
        w.tensor(tensor + ".weight", fits[turn % len(fits)], (rows, columns))
        turn += 1

    gain = lambda tensor, n: w.tensor(tensor + ".weight", "f32", (n,), 0.1, 1.0)
    matrix("token_embd", vocabulary, width)
    gain("output_norm", width)
    if "output" in parts:
        matrix("output", vocabulary, width)
    rotated = keys.get("rope.dimension_count", size)
    for tensor, wanted in (("rope_freqs", "rope_freqs"), ("rope_factors_long", "rope_factors"), ("rope_factors_short", "rope_factors")):
        if wanted in parts:
            x = w.random.uniform(1, 8 if tensor != "rope_factors_short" else 1.5, rotated // 2).astype(np.float32)
            w.add(tensor + ".weight", "f32", (rotated // 2,), x.tobytes(), x)
    for i in range(keys["block_count"]):
        at = f"blk.{i}."
        gain(at + "attn_norm", width)
        rows = {"attn_q": heads * size, "attn_k": kv_heads * size, "attn_v": kv_heads * size}
        if "packed" in parts:
            matrix(at + "attn_qkv", sum(rows.values()), width)
        else:
            for part, n in rows.items():
                matrix(at + part, n, width)
                if "qkv_bias" in parts:
                    w.tensor(at + part + ".bias", "f32", (n,), 0.1)
        if "head_norms" in parts:
            gain(at + "attn_q_norm", size)
            gain(at + "attn_k_norm", size)
        matrix(at + "attn_output", width, heads * size)
        gain(at + "ffn_norm", width)
        if "packed" not in parts:
            matrix(at + "ffn_gate", hidden, width)
        matrix(at + "ffn_up", hidden * (2 if "packed" in parts else 1), width)
        matrix(at + "ffn_down", width, hidden)
        if "post_norms" in parts:
            gain(at + "post_attention_norm", width)
            gain(at + "post_ffw_norm", width)
    return architecture, keys, w


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(CASES)
    for name in names:
        architecture, keys, w = model(name)
        w.save(f"{folder}/{name}.gguf")
        random = np.random.default_rng(3)
        size = keys.get("attention.key_length", keys["embedding_length"] // keys["attention.head_count"])
        for step, (batch, length, before) in enumerate([(2, 7, 0), (2, 1, 9)]):
            tokens = random.integers(0, 288, (batch, length))
            past = [tuple(random.standard_normal((batch, keys["attention.head_count_kv"], before, size)).astype(np.float32)
                          for _ in "kv") for _ in range(keys["block_count"])]
            logits, present = run(architecture, keys, w.weights, tokens, past)
            data = {"input_ids": tokens, "logits": logits.astype(np.float32)}
            for i in range(keys["block_count"]):
                for part, was, now in zip(("key", "value"), past[i], present[i]):
                    data[f"past_key_values.{i}.{part}"] = was
                    data[f"present.{i}.{part}"] = now.astype(np.float32)
            where = f"{folder}/{name}_data/test_data_set_{step}"
            os.makedirs(where, exist_ok=True)
            for file, array in data.items():
                np.save(f"{where}/{file}.npy", array)


if __name__ == "__main__":
    main()
