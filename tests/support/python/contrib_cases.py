"""Cases of the operators of com.microsoft, as random_onnx.py writes them: contrib_cases.py FOLDER COUNT [FIRST SEED].

Each operator has a function below, which is called COUNT times with other seeds; FOLDER/OPERATOR-SEED/ holds a model of one node and
its inputs. Only operators that ONNX Runtime computes on the CPU can be compared."""
import pathlib
import sys

import numpy as np

import contrib_cases_attention  # noqa: F401, its functions
import contrib_cases_fused  # noqa: F401
from contrib_case import MAKERS, Case, maker
from onnx_writer import Model


@maker
def GatedRMSNorm(c):
    width, heads = 4, c.pick(1, 3)
    shape = c.pick((5, width * heads), (2, 3, width * heads))
    c.ms("GatedRMSNorm", c.real(*shape), c.real(width), c.real(*shape), epsilon=1e-5)


@maker
def LinearAttentionGate(c):
    c.ms("LinearAttentionGate", c.real(2, 3, 4), c.real(4), c.real(4), c.real(2, 3, 4), n=2)


@maker
def GatedAdd(c):
    c.ms("GatedAdd", c.real(2, 3, 4), c.real(2, 3, 4), c.real(2, 3, 1))


@maker
def MRotaryEmbedding(c):
    heads, half = 2, 6
    x = c.real(2, 3, heads * 2 * half) if c.pick(0, 1) else c.real(2, heads, 3, 2 * half)
    c.ms("MRotaryEmbedding", x, c.ints(0, 9, 3, 2, 3, dtype=np.int64), c.real(9, half), c.real(9, half), num_heads=heads,
         mrope_section=c.pick([2, 2, 2], [4, 1, 1], [0, 3, 3]), mrope_layout=c.pick(0, 1), interleaved=c.pick(0, 1))


@maker
def LinearAttention(c):
    rule = c.pick("linear", "gated", "delta", "gated_delta")
    qh, h, k, v, t = 4, c.pick(2, 4), 3, 5, c.pick(1, 4)
    c.ms("LinearAttention", c.real(2, t, qh * k, scale=.5), c.real(2, t, h * k, scale=.5), c.real(2, t, h * v),
         c.real(2, h, k, v) if c.pick(0, 1) else None, c.real(2, t, c.pick(h, h * k), scale=.3) if "gated" in rule else None,
         c.real(2, t, h, scale=.3) if "delta" in rule else None, n=2, q_num_heads=qh, kv_num_heads=h, update_rule=rule)


@maker
def CausalConvWithState(c):
    k, length = c.pick(2, 4), c.pick(1, 5)
    c.ms("CausalConvWithState", c.real(2, 3, length), c.real(3, 1, k), c.real(3) if c.pick(0, 1) else None,
         c.real(2, 3, k - 1) if c.pick(0, 1) else None, n=2, activation=c.pick("none", "silu"))


@maker
def NGramRepeatBlock(c):
    c.ms("NGramRepeatBlock", c.ints(0, 3, 2, c.pick(1, 3, 9), dtype=np.int64), c.real(2, 6), ngram_size=c.pick(1, 2, 3, 4))


@maker
def BifurcationDetector(c):
    size, match = c.pick(4, 9), c.pick(0, 2)
    source = c.random.integers(0, 4, size)
    guess = np.append(source[match:], 7)
    if c.pick(0, 1):
        guess[c.random.integers(len(guess))] = 9
    least = c.pick(1, 2)
    c.ms("BifurcationDetector", c.feed(source), c.ints(0, 4, c.pick(1, 5), dtype=np.int64), c.feed(np.array([match])),
         c.feed(guess) if c.pick(0, 1) else None, n=2, types=["int64"] * 2, min_ngram_size=least, max_ngram_size=least + c.pick(0, 2))


@maker
def MurmurHash3(c):
    positive = c.pick(0, 1)
    x = c.pick(lambda: c.ints(-9, 9, 5), lambda: c.ints(0, 2**31, 5, dtype=np.uint32), lambda: c.ints(-2**40, 2**40, 5, dtype=np.int64),
               lambda: c.real(5), lambda: c.feed(c.random.standard_normal(5)))()
    c.ms("MurmurHash3", x, types=["uint32" if positive else "int32"], positive=positive, seed=c.pick(0, 42))


@maker
def Unique(c):
    c.ms("Unique", c.feed(c.random.integers(0, 4, 9).astype(np.float32)), n=3, types=["float32", "int64", "int64"])


@maker
def UnfoldTensor(c):
    c.ms("UnfoldTensor", c.real(4, 7, 5), dim=c.pick(0, 1, 2, -1), size=c.pick(1, 2, 3), step=c.pick(1, 2))


@maker
def WordConvEmbedding(c):
    words = c.random.integers(1, 6, (4, 7)).astype(np.int32)
    for i, n in enumerate((7, 1, 0, 4)):
        words[i, n:] = 0
    words[2] = words[0] if c.pick(0, 1) else words[1]  # a word without characters has no defined result
    c.ms("WordConvEmbedding", c.feed(words), c.real(3, 1, 2, 5), c.real(3), c.real(6, 5))


@maker
def CropAndResize(c):
    boxes = np.sort(c.random.random((3, 2, 2)), 1).reshape(3, 4).astype(np.float32) * 1.1
    size = c.pick([1, 1], [3, 4], [2, 5])
    c.ms("CropAndResize", c.real(2, 3, 6, 5), c.feed(boxes), c.ints(0, 2, 3), np.array(size, np.int32),
         mode=c.pick("bilinear", "nearest"), extrapolation_value=c.pick(0.0, 0.5))


@maker
def Range(c):
    if c.pick(0, 1):
        c.ms("Range", c.feed(np.array(1.5, np.float32)), c.feed(np.array(9.0, np.float32)))
    else:
        c.ms("Range", np.array(2), np.array(11), np.array(3), types=["int64"])


@maker
def Pad(c):
    c.ms("Pad", c.real(3, 4), np.array([1, 0, 2, 1], np.int64), c.feed(np.float32(7)), mode=c.pick("constant", "reflect", "edge"))


@maker
def ConvTransposeWithDynamicPads(c):
    c.ms("ConvTransposeWithDynamicPads", c.real(1, 2, 5, 5), c.real(2, 3, 3, 3), np.array(c.pick([0, 0, 0, 0], [1, 0, 1, 1])),
         c.real(3) if c.pick(0, 1) else None, strides=c.pick([1, 1], [2, 2]))


@maker
def MatMulInteger16(c):
    c.ms("MatMulInteger16", c.ints(-99, 99, 3, 4, dtype=np.int16), c.ints(-99, 99, 4, 5, dtype=np.int16), types=["int32"])


@maker
def QLinearConv(c):
    last = c.pick(0, 1)
    x = c.ints(0, 255, *((1, 6, 5, 3) if last else (1, 3, 6, 5)), dtype=np.uint8)
    scales = np.array(0.02, np.float32)
    c.ms("QLinearConv", x, scales, np.array(120, np.uint8), c.random.integers(0, 255, (4, 3, 3, 3)).astype(np.uint8), scales,
         np.array(127, np.uint8), np.array(0.05, np.float32), np.array(128, np.uint8),
         c.random.integers(-99, 99, 4).astype(np.int32), types=["uint8"], channels_last=last, pads=c.pick([0, 0, 0, 0], [1, 1, 0, 1]))


@maker
def QEmbedLayerNormalization(c):
    segments = c.pick(0, 1)
    table = lambda *shape: c.random.integers(0, 255, shape).astype(np.uint8)
    scale, zero = lambda: np.array(0.02, np.float32), lambda: np.array(120, np.uint8)
    given = lambda make: make() if segments else None
    c.ms("QEmbedLayerNormalization", c.ints(0, 9, 2, 4), given(lambda: c.ints(0, 2, 2, 4)), table(9, 8), table(6, 8),
         given(lambda: table(2, 8)), table(8), table(8), c.ints(0, 2, 2, 4) if c.pick(0, 1) else None, scale(), scale(), given(scale),
         scale(), scale(), zero(), zero(), given(zero), zero(), zero(), n=2, types=["float32", "int32"], epsilon=1e-5)


@maker
def MatMulBnb4(c):
    n, k, block = 6, c.pick(16, 24), c.pick(16, 32)
    c.ms("MatMulBnb4", c.real(3, k), c.random.integers(0, 256, (n * k + 1) // 2).astype(np.uint8),
         c.random.random((n * k + block - 1) // block).astype(np.float32), N=n, K=k, block_size=block, quant_type=c.pick(0, 1))


@maker
def MatMulFpQ4(c):
    kind, n, k = c.pick(0, 1), 5, c.pick(32, 40, 96)
    block, head = 32, 4 + kind
    rows = []
    for _ in range(n * -(-k // block)):
        zero = c.random.integers(0, 16, head - 4).astype(np.uint8)
        rows.append(np.concatenate([np.frombuffer(np.float32(c.random.random()).tobytes(), np.uint8), zero,
                                    c.random.integers(0, 256, block // 2).astype(np.uint8)]))
    c.ms("MatMulFpQ4", c.real(3, k), np.concatenate(rows), np.array([k, n]), blk_quant_type=kind)


def packed_weight(c, n, k, block, bits):
    blocks = -(-k // block)
    return (c.random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
            c.random.standard_normal((n, blocks)).astype(np.float32) / 8,
            c.random.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8))


@maker
def GatherBlockQuantized(c):
    bits = c.pick(4, 8)
    data = c.random.integers(0, 256, (6, 32 * bits // 8)).astype(np.uint8)
    c.ms("GatherBlockQuantized", data, c.ints(0, 6, 3), c.random.random((6, 2)).astype(np.float32), block_size=16, bits=bits,
         quantize_axis=1)


@maker
def MoE(c):
    experts, hidden, inter, kind = 4, 8, 6, c.pick("relu", "gelu", "silu", "identity", "swiglu")
    fused = 2 if kind == "swiglu" else 1
    c.ms("MoE", c.real(5, hidden), c.real(5, experts), c.w(experts, fused * inter, hidden), c.w(experts, fused * inter),
         c.w(experts, hidden, inter), c.w(experts, hidden), k=c.pick(1, 2), activation_type=kind,
         normalize_routing_weights=c.pick(0, 1), **({"swiglu_fusion": 1} if fused == 2 else {}))


@maker
def QMoE(c):
    experts, hidden, inter, bits = 4, 16, 32, c.pick(4, 8)
    pack = 8 // bits
    w = lambda *shape: c.random.integers(0, 256, shape).astype(np.uint8)
    scale = lambda *shape: (c.random.random(shape) / 32).astype(np.float32)
    zero = c.pick(0, 1)
    c.ms("QMoE", c.real(5, hidden), c.real(5, experts), w(experts, inter, hidden // pack), scale(experts, inter), None,
         w(experts, hidden, inter // pack), scale(experts, hidden), None, None, None, None,
         w(experts, inter // pack) if zero else None, w(experts, hidden // pack) if zero else None, k=2, expert_weight_bits=bits,
         activation_type=c.pick("relu", "silu"), normalize_routing_weights=1)


@maker
def SkipLayerNormalization(c):
    c.ms("SkipLayerNormalization", c.real(2, 3, 8), c.real(*c.pick((2, 3, 8), (1, 3, 8), (3, 8))), c.real(8), c.real(8),
         c.real(8) if c.pick(0, 1) else None, epsilon=1e-5)


@maker
def FusedGemm(c):
    c.ms("FusedGemm", c.real(3, 4), c.real(4, 5), c.real(5), activation=c.pick("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu"),
         activation_alpha=0.2)


@maker
def FusedMatMul(c):
    c.ms("FusedMatMul", c.real(2, 3, 4), c.real(2, 5, 4), transB=1, alpha=c.pick(1.0, 0.5))


@maker
def DynamicQuantizeMatMul(c):
    c.ms("DynamicQuantizeMatMul", c.real(3, 8), c.random.integers(0, 255, (8, 5)).astype(np.uint8), np.array(0.02, np.float32),
         np.array(128, np.uint8), c.real(5))


@maker
def QuantizeLinear(c):
    c.ms("QuantizeLinear", c.real(3, 8), np.array(0.02, np.float32), np.array(3, np.int16), types=["int16"])


@maker
def CDist(c):
    c.ms("CDist", c.real(3, 8), c.real(4, 8), metric=c.pick("euclidean", "sqeuclidean"))


@maker
def QuickGelu(c):
    c.ms("QuickGelu", c.real(3, 8), alpha=1.5)


def gpt(c, words, heads=2, size=4):
    """A decoder alone: its logits depend on tokens, positions, mask and past."""
    g = Model(17)
    g.random = c.random
    ids, at, mask = (g.input(["batch", length], "int32", name) for name, length in
                     (("input_ids", "length"), ("position_ids", "length"), ("attention_mask", "total")))
    past = g.input([2, "batch", heads, "past", size], name="past_0")
    table = g.constant((c.random.standard_normal((words, heads * size)) * 2).astype(np.float32))
    x = g("Add", g("Gather", table, ids), g("Gather", g.w(64, heads * size), at))  # [N,S,H*D]
    split = g("Transpose", g("Reshape", x, [0, 0, heads, size]), perm=[0, 2, 1, 3])
    now = g("Unsqueeze", split, [0])
    present = g("Concat", past, g("Concat", now, now, axis=0), axis=3, results=["present_0"])
    seen = g("Unsqueeze", g("Cast", mask, to=1), [1, 3])
    keys = g("Squeeze", g("Slice", present, [0], [1], [0]), [0])
    mean = g("ReduceMean", g("Mul", keys, seen), [2], keepdims=1)
    mixed = g("Add", split, mean)
    flat = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), [0, 0, heads * size])
    g("MatMul", flat, g.constant(c.random.standard_normal((heads * size, words)).astype(np.float32)), results=["logits"])
    return g.graph("logits", "present_0")


def prompt(c, words, pad):
    ids = c.random.integers(1, words, (2, 4)).astype(np.int32)
    if c.pick(0, 1):
        ids[1, :2] = pad
    return c.feed(ids)


@maker
def GreedySearch(c):
    words = 12
    c.ms("GreedySearch", prompt(c, words, 0), np.array([c.pick(7, 12)], np.int32), None,
         np.array([c.pick(1.0, 1.5)], np.float32), c.feed((c.random.random(words) < .9).astype(np.int32)) if c.pick(0, 1) else None,
         types=["int32"], decoder=gpt(c, words), eos_token_id=99,  # what follows an end is not defined
         pad_token_id=0, no_repeat_ngram_size=c.pick(0, 2), model_type=0)


@maker
def Sampling(c):
    words = 12
    c.ms("Sampling", prompt(c, words, 0), np.array([c.pick(7, 12)], np.int32), None, np.array([c.pick(1.0, 1.5)], np.float32),
         c.feed((c.random.random(words) < .9).astype(np.int32)) if c.pick(0, 1) else None, None, None, None,
         np.array([c.random.integers(1, 1000)], np.int32), types=["int32"], decoder=gpt(c, words), eos_token_id=99, pad_token_id=0,
         model_type=0, top_p=c.pick(0.2, 0.6, 0.95), temperature=c.pick(1.0, 2.0), custom=c.pick(0, 1), min_tokens_to_keep=1)


@maker
def BeamSearch(c):
    words, beams = 12, c.pick(1, 2, 4)
    c.ms("BeamSearch", prompt(c, words, 0), np.array([c.pick(7, 12)], np.int32), np.array([c.pick(0, 9)], np.int32),
         np.array([beams], np.int32), np.array([min(beams, 2)], np.int32), np.array([c.pick(1.0, 0.6)], np.float32),
         np.array([c.pick(1.0, 1.5)], np.float32), n=2, types=["int32", "float32"], decoder=gpt(c, words), eos_token_id=3, pad_token_id=0,
         no_repeat_ngram_size=c.pick(0, 2), early_stopping=c.pick(0, 1), model_type=0)


def speech_step(c, words, tables, encoder, states, heads=2, size=4):
    """The encoder of sound with the first step of its decoder, or the other steps."""
    g = Model(17)
    width = heads * size
    kept = lambda name, length: (name, "float32", ["batch", heads, length, size])
    if encoder:
        sound = g.input(["batch", 3, "frames"], name="encoder_input_ids")
        ids = g.input(["batch", "length"], "int32", "decoder_input_ids")
        hidden = g("MatMul", g("Transpose", sound, perm=[0, 2, 1]), g.constant(tables[0]), results=["encoder_hidden_states"])
        split = g("Reshape", hidden, [0, 0, heads, size])
        cross = [g("Transpose", split, perm=[0, 2, 1, 3], results=[f"present_{what}_cross_0"]) for what in ("key", "value")]
    else:
        ids = g.input(["batch", 1], "int32", "input_ids")
        if states:
            g.input(["batch", "frames", width], name="encoder_hidden_states")
        past = [g.input(["batch", heads, "past", size], name=f"past_{what}_self_0") for what in ("key", "value")]
        cross = [g.input(["batch", heads, "frames", size], name=f"past_{what}_cross_0") for what in ("key", "value")]
    now = g("Transpose", g("Reshape", g("Gather", g.constant(tables[1]), ids), [0, 0, heads, size]), perm=[0, 2, 1, 3])
    names = [f"present_{what}_self_0" for what in ("key", "value")]
    own = [g("Identity", now, results=[n]) if encoder else g("Concat", p, now, axis=2, results=[n])
           for n, p in zip(names, [now, now] if encoder else past)]
    mixed = g("Add", now, g("Add", g("ReduceMean", own[0], [2], keepdims=1), g("ReduceMean", cross[1], [2], keepdims=1)))
    flat = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), [0, 0, width])
    g("MatMul", flat, g.constant(tables[2]), results=["logits"])
    made = [("logits", "float32", ["batch", "length", words]), ("encoder_hidden_states", "float32", ["batch", "frames", width])]
    made = made[:1 + encoder] + [kept(n, "past") for n in names] + [kept(n, "frames") for n in cross] * encoder
    return g.graph(*made)


@maker
def WhisperBeamSearch(c):
    end, begin = 20, 27
    words, beams, rules = begin + 60, c.pick(1, 3), c.pick(0, 1, 1)
    table = lambda *shape: (c.random.standard_normal(shape) * c.pick(1, 2)).astype(np.float32)
    tables = table(3, 8), table(words, 8), table(8, words)
    encoder, decoder = (speech_step(c, words, tables, first, states) for first, states in ((True, True), (False, c.pick(0, 1))))
    start = c.feed(np.array([[end + 1, 5], [end + 1, begin + 3]], np.int32)) if c.pick(0, 1) else None
    scalar = lambda v: np.array([v], np.int32 if isinstance(v, int) else np.float32)
    c.ms("WhisperBeamSearch", c.real(2, 3, 6), scalar(c.pick(8, 14)), scalar(c.pick(0, 6)), scalar(beams), scalar(min(beams, 2)),
         scalar(c.pick(1.0, 0.6)), scalar(c.pick(1.0, 1.5)),
         c.feed((c.random.random(words) < .9).astype(np.int32)) if c.pick(0, 1) else None, None, None, start, scalar(rules), None, None,
         scalar(c.pick(1.0, 0.7)), n=2, types=["int32", "float32"], encoder=encoder, decoder=decoder, eos_token_id=end,
         pad_token_id=end, decoder_start_token_id=end + 1, translate_token_id=end + 2, transcribe_token_id=end + 3,
         start_of_lm_token_id=end + 4, no_speech_token_id=end + 5, no_timestamps_token_id=end + 6,
         beginning_timestamp_token_id=begin, model_type=2, early_stopping=c.pick(0, 1), no_repeat_ngram_size=c.pick(0, 3))


def main(folder, count, first=1):
    for make in MAKERS:
        for seed in range(first, first + count):
            c = Case(seed)
            make(c)
            c.write(pathlib.Path(folder) / f"{make.__name__}-{seed}")


if __name__ == "__main__":
    main(sys.argv[1], *[int(a) for a in sys.argv[2:]])
