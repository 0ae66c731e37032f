"""Writes small models of two layers in the forms that exporters give to well-known families: the TorchScript exporter, which looks
sizes up when the model runs, the later one, which knows them and has whole norms and activations, tf2onnx, and caches of keys and
values. `export_forms.py write FOLDER` writes FOLDER/NAME.onnx, `export_forms.py check FOLDER...` looks for what each must have in
FOLDER/NAME, made by `rlxc compile --emit fusion,lir`."""
import json
import math
import os
import sys

import numpy as np

import fusion_counts
import rlxc_graph
from export_blocks import C, D, H, LEAST, Form

FORMS = {}


def form(opset=17, open_sizes=False, **expected):
    def add(build):
        FORMS[build.__name__] = build, opset, open_sizes, expected
        return build
    return add


@form(opset=14, open_sizes=True, attention=2, layer_norm=5, gelu=2, launches=15)
def gpt2(m):
    x = m.tokens()
    triangle = m.constant(np.tril(np.ones((64, 64), bool))[None, None])
    for _ in range(2):
        q, k, v = (m.heads(t) for t in m.split(m.gemm(m.layer_norm(x), C, 3 * C), [C] * 3))
        s = m.scores(q, k)
        n = m.size(k, 2)
        keep = m("Slice", m("Slice", triangle, m("Sub", n, m.size(q, 2)), n, [2], [1]), [0], n, [3], [1])
        s = m("Where", keep, s, -3.4028234663852886e38)
        x = m.add(m.gemm(m.merge(m("MatMul", m("Softmax", s, axis=-1), v))), x)
        x = m.add(x, m.gemm(m.gelu_new(m.gemm(m.layer_norm(x), C, 48)), 48, C))
    return m.layer_norm(x)


@form(opset=14, attention=2, layer_norm=3, gelu=2, rope=2, launches=15)
def gpt_j(m):
    """Pairs of the first elements of each head are turned, [B,S,H,D]; attention and MLP beside each other."""
    x = m.tokens()
    angles = np.outer(np.arange(16), 10000.0 ** -(np.arange(0, 4, 2) / 4)).astype(np.float32)
    tables = [m.constant(np.repeat(f(angles), 2, axis=1)[None, :, None]) for f in (np.sin, np.cos)]

    def turn(t):
        t = m.reshape(t, (t, 0), (t, 1), H, D)
        part, rest = m.slice(t, 0, 4), m.slice(t, 4, 2**63 - 1)
        even, odd = m.slice(part, 0, 2**63 - 1, -1, 2), m.slice(part, 1, 2**63 - 1, -1, 2)
        pairs = m("Concat", m.axes("Unsqueeze", m("Neg", odd), -1), m.axes("Unsqueeze", even, -1), axis=-1)
        turned = m.reshape(pairs, 2, 16, H, 4)
        y = m("Add", m("Mul", part, tables[1]), m("Mul", turned, tables[0]))
        return m("Transpose", m("Concat", y, rest, axis=-1), perm=[0, 2, 1, 3])

    for _ in range(2):
        n = m.layer_norm(x)
        q, k, v = (m.linear(n, bias=False) for _ in range(3))
        s = m("Where", m.constant(np.tril(np.ones((1, 1, 16, 16), bool))), m.scores(turn(q), turn(k), "none"), -3.4028234663852886e38)
        p = m("Softmax", m("Div", s, math.sqrt(D)), axis=-1)
        x = m.add(m.linear(m.merge(m("MatMul", p, m.heads(v))), bias=False), m.mlp(n, m.gelu_new), x)
    return m.layer_norm(x)


@form(opset=14, open_sizes=True, attention=2, layer_norm=3, gelu=2, rope=4, launches=21)
def gpt_neox(m):
    """Queries, keys and values of one projection, head by head; a quarter of each head is turned."""
    x = m.tokens()
    tables = m.tables(x, 4)
    mask = m.causal(x)
    for _ in range(2):
        qkv = m.linear(m.layer_norm(x), C, 3 * C)
        qkv = m("Transpose", m.reshape(qkv, (qkv, 0), (qkv, 1), H, 3 * D), perm=[0, 2, 1, 3])
        q, k, v = m.split(qkv, [D] * 3)
        y = m.attend(m.rotate_part(q, tables, 4), m.rotate_part(k, tables, 4), v, mask, "mul")
        x = m.add(m.mlp(m.layer_norm(x), m.gelu), m.linear(m.merge(y)), x)
    return m.layer_norm(x)


@form(opset=17, attention=2, layer_norm=3, gelu=2, rope=2, launches=15)
def falcon_40b(m):
    """Whole norms, one for the attention and one for the MLP beside it."""
    x = m.tokens()
    tables = m.tables(x)
    for _ in range(2):
        q, k, v = m.projected(m.layer_norm(x))
        y = m.attend(m.rotate(q, tables), m.rotate(k, tables), v, m.causal(x))
        x = m.add(m.linear(m.merge(y), bias=False), m.mlp(m.layer_norm(x), m.gelu), x)
    return m.layer_norm(x)


@form(opset=20, attention=2, layer_norm=3, gelu=2, rope=2, launches=15)
def phi(m):
    x = m.tokens()
    tables = m.tables(x, 4)
    for _ in range(2):
        n = m.layer_norm(x)
        q, k, v = m.projected(n)
        y = m.attend(m.rotate_part(q, tables, 4), m.rotate_part(k, tables, 4), v, m.causal(x), "mul")
        x = m.add(m.linear(m.merge(y)), m.mlp(n, m.gelu_new), x)
    return m.layer_norm(x)


@form(opset=14, open_sizes=True, attention=2, layer_norm=3, gelu=2, rope=2, launches=19)
def falcon(m):
    """One head of keys and values for all queries, behind the queries in one projection."""
    x = m.tokens()
    tables = m.tables(x)
    for _ in range(2):
        n = m.layer_norm(x)
        qkv = m.linear(n, C, C + 2 * D, bias=False)
        qkv = m.reshape(qkv, (qkv, 0), (qkv, 1), H + 2, D)
        q, k, v = (m("Transpose", t, perm=[0, 2, 1, 3]) for t in m.split(qkv, [H, 1, 1], 2))
        y = m.attend(m.rotate(q, tables), m.rotate(k, tables), v, m.causal(x))
        x = m.add(m.linear(m.merge(y), bias=False), m.mlp(n, m.gelu), x)
    return m.layer_norm(x)


def alibi(m):
    slopes = 2.0 ** -(8 * (np.arange(H) + 1) / H)
    return m.constant((slopes[:, None, None] * np.arange(16)).astype(np.float32))  # [H,1,S]


@form(opset=14, attention=2, layer_norm=5, gelu=2, launches=15)
def falcon_alibi(m):
    x = m.tokens()
    bias = m.axes("Unsqueeze", alibi(m), 0)
    mask = m.causal(x)
    for _ in range(2):
        qkv = m.linear(m.layer_norm(x), C, 3 * C)
        qkv = m.reshape(qkv, (qkv, 0), (qkv, 1), H, 3, D)
        q, k, v = (m("Transpose", m("Gather", qkv, i, axis=3), perm=[0, 2, 1, 3]) for i in range(3))
        s = m("Mul", m("Add", m.scores(q, k, "none"), bias), D**-0.5)
        y = m("MatMul", m("Softmax", m("Add", s, mask), axis=-1), v)
        x = m.add(m.linear(m.merge(y)), x)
        x = m.add(x, m.mlp(m.layer_norm(x), m.gelu))
    return m.layer_norm(x)


@form(opset=14, attention=2, layer_norm=6, gelu=2, launches=15)
def bloom(m):
    """baddbmm of folded heads; its GELU has the cube written as products."""
    x = m.layer_norm(m.tokens())
    mask = m.constant(np.triu(np.ones((1, 1, 16, 16), bool), 1))
    bias = m.constant(np.tile((2.0 ** -np.arange(1, H + 1))[:, None, None] * np.arange(16), (2, 1, 1)).astype(np.float32))

    def gelu(t):
        inner = m("Mul", m("Mul", t, 0.79788456), m("Add", m("Mul", m("Mul", t, 0.044715), t), 1.0))
        return m("Mul", m("Mul", t, 0.5), m("Add", m("Tanh", inner), 1.0))

    for _ in range(2):
        qkv = m.reshape(m.linear(m.layer_norm(x), C, 3 * C), 2, 16, H, 3, D)
        q, k, v = (m("Gather", qkv, i, axis=3) for i in range(3))
        q, v = (m.reshape(m("Transpose", t, perm=[0, 2, 1, 3]), 2 * H, 16, D) for t in (q, v))
        k = m.reshape(m("Transpose", k, perm=[0, 2, 3, 1]), 2 * H, D, 16)
        s = m("Add", m("Mul", bias, 1.0), m("Mul", m("MatMul", q, k), D**-0.5))
        s = m("Where", mask, -3.4028234663852886e38, m.reshape(s, 2, H, 16, 16))
        p = m.reshape(m("Softmax", s, axis=-1), 2 * H, 16, 16)
        y = m.reshape(m("MatMul", p, v), 2, H, 16, D)
        x = m.add(m.linear(m.merge(y)), x)
        n = m.layer_norm(x)
        x = m.add(m.linear(gelu(m.linear(n, C, 48)), 48, C), x)
    return m.layer_norm(x)


@form(opset=14, open_sizes=True, attention=2, layer_norm=5, launches=15)
def opt(m):
    """Scaled queries, folded heads that are unfolded for the mask, whose sum has a lower limit."""
    x = m.tokens()
    mask = m.causal(x)
    for _ in range(2):
        n = m.layer_norm(x)
        q, k, v = m("Mul", m.linear(n), D**-0.5), m.linear(n), m.linear(n)
        q, k, v = (m("Transpose", m.reshape(t, (t, 0), -1, H, D), perm=[0, 2, 1, 3]) for t in (q, k, v))
        rows = m.size(q, 2)
        fold = m("Concat", m("Mul", m.size(x, 0), [H]), [-1], [D], axis=0)
        q, k, v = (m("Reshape", t, fold) for t in (q, k, v))
        s = m("MatMul", q, m("Transpose", k, perm=[0, 2, 1]))
        wide = m("Concat", m.size(x, 0), [H], rows, m.size(k, 1), axis=0)
        s = m("Max", m("Add", m("Reshape", s, wide), mask), -3.4028234663852886e38)
        s = m("Reshape", s, m("Concat", m("Mul", m.size(x, 0), [H]), rows, m.size(k, 1), axis=0))
        y = m("MatMul", m("Softmax", s, axis=-1), v)
        y = m.merge(m("Reshape", y, m("Concat", m.size(x, 0), [H], rows, [D], axis=0)))
        x = m.add(x, m.linear(y))
        n = m.reshape(m.layer_norm(x), -1, C)
        y = m("Gemm", m("Relu", m("Gemm", n, m.w(48, C), m.w(48), transB=1)), m.w(C, 48), m.w(C), transB=1)
        x = m.add(x, m.reshape(y, (x, 0), (x, 1), C))
    return m.layer_norm(x)


@form(opset=14, attention=2, layer_norm=5, launches=15)
def clip_text(m):
    x = m.tokens()
    mask = m.constant(np.triu(np.full((1, 1, 16, 16), -3.4028234663852886e38, np.float32), 1))
    for _ in range(2):
        n = m.layer_norm(x)
        q, k, v = m("Mul", m.linear(n), D**-0.5), m.linear(n), m.linear(n)
        q, k, v = (m.reshape(m.heads(t), 2 * H, 16, D) for t in (q, k, v))
        s = m("Add", m.reshape(m("MatMul", q, m("Transpose", k, perm=[0, 2, 1])), 2, H, 16, 16), mask)
        p = m("Softmax", m.reshape(s, 2 * H, 16, 16), axis=-1)
        x = m.add(x, m.linear(m.merge(m.reshape(m("MatMul", p, v), 2, H, 16, D))))
        x = m.add(x, m.mlp(m.layer_norm(x), lambda t: m("Mul", t, m("Sigmoid", m("Mul", t, 1.702)))))
    return m.layer_norm(x)


@form(opset=18, attention=2, rms_norm=9, swiglu=2, rope=2, launches=17)
def gemma2(m):
    """Scores with a soft limit, norms before and after, a window in every other layer."""
    x = m("Mul", m.tokens(), math.sqrt(C))
    tables = m.tables(x)
    for window in (4, None):
        n = m.rms_norm(x, one=True)
        q, k, v = m.heads(m.linear(n, bias=False)), *(m.heads(m.linear(n, C, C // 2, False), H // 2) for _ in range(2))
        k, v = m.repeat_kv(m.rotate(k, tables), 2), m.repeat_kv(v, 2)
        s = m.scores(m.rotate(q, tables), k, "mul")
        s = m("Mul", m("Tanh", m("Div", s, 50.0)), 50.0)
        y = m("MatMul", m("Softmax", m("Add", s, m.causal(x, window)), axis=-1), v)
        x = m.add(x, m.rms_norm(m.linear(m.merge(y), bias=False), one=True))
        x = m.add(x, m.rms_norm(m.swiglu(m.rms_norm(x, one=True), m.gelu_new), one=True))
    return m.rms_norm(x, one=True)


def llama_layers(m, bias=False, scale="mul", window=None, mask=None):
    x = m.tokens()
    tables = m.tables(x)
    mask = mask(x) if mask else m.causal(x, window)
    for _ in range(2):
        n = m.rms_norm(x)
        q, k, v = m.heads(m.linear(n, bias=bias)), *(m.heads(m.linear(n, C, C // 2, bias), H // 2) for _ in range(2))
        k, v = m.repeat_kv(m.rotate(k, tables), 2), m.repeat_kv(v, 2)
        x = m.add(x, m.linear(m.merge(m.attend(m.rotate(q, tables), k, v, mask, scale)), bias=False))
        x = m.add(x, m.swiglu(m.rms_norm(x)))
    return m.rms_norm(x)


@form(opset=14, open_sizes=True, attention=2, rms_norm=5, swiglu=2, rope=2, launches=21)
def qwen2(m):
    return llama_layers(m, bias=True, scale="sdpa")


@form(opset=14, open_sizes=True, attention=2, causal=2, rms_norm=5, swiglu=2, rope=2, launches=21)
def llama_positions(m):
    return llama_layers(m, mask=m.causal_by_positions)


@form(opset=17, open_sizes=True, attention=2, causal=2, rms_norm=5, swiglu=2, rope=2, launches=22)
def llama_padded(m):
    seen = m.input(["batch", "seq"], "int64")
    return llama_layers(m, mask=lambda x: m.causal_by_positions(x, seen=seen))


def written_back(name, opset, open_sizes, launches, **how):
    def build(m):
        seen = m.input([m.B, m.S], "int64")
        return llama_layers(m, mask=lambda x: m.causal_written_back(x, seen, **how))

    build.__name__ = f"{name}_{'open' if open_sizes else 'known'}"
    form(opset, open_sizes, attention=2, causal=2, rms_norm=5, swiglu=2, rope=2, launches=launches)(build)


for sizes, count in ((True, 22), (False, 18)):
    written_back("llama_assigned", 14, sizes, count, write=Form.assigned)
    written_back("llama_assigned_both", 17, sizes, count, write=Form.assigned, product=True)
    written_back("llama_assigned_rows", 18, sizes, count, write=Form.assigned_rows)
    written_back("llama_assigned_elements", 18, sizes, count, write=Form.assigned_elements)
    written_back("mistral_assigned", 14, sizes, count, write=Form.assigned, window=4)


@form(opset=14, open_sizes=True, attention=2, rms_norm=5, swiglu=2, rope=2, launches=26)
def llama_buffered(m):
    """The mask is cut from one for the longest sequence, of which only the part that is cut is assigned."""
    seen = m.input([m.B, m.S], "int64")
    triangle = m.constant(np.triu(np.ones((1, 1, 64, 64), bool), 1))

    def mask(x):
        each = m("Tile", triangle, m("Concat", m.size(x, 0), [1], [1], [1], axis=0))
        whole, end = m("Mul", m("Cast", each, to=1), LEAST), m.size(seen, 1)
        whole = m.assigned(whole, m.padded(m.cut(whole, 3, end), seen, product=True), end)
        return m("Gather", m("Slice", whole, [0], m.size(x, 1), [3], [1]), m.positions(x), axis=2)

    return llama_layers(m, mask=mask)


@form(opset=17, open_sizes=True, attention=1, causal=1, launches=8)
def cached_assigned(m):
    """Keys and values of earlier tokens come in, with what to see of them and the tokens."""
    x, past, values = m.tokens(), m.input(["batch", H, "past", D]), m.input(["batch", H, "past", D])
    seen = m.input(["batch", "past + seq"], "int64")
    q, k, v = m.projected(x)
    k, v = m("Concat", past, k, axis=-2), m("Concat", values, v, axis=-2)
    mask = m.causal_written_back(x, seen, Form.assigned)
    return m.linear(m.merge(m.attend(q, k, v, mask, "mul"))), k, v


@form(opset=18, attention=2, rms_norm=5, swiglu=2, rope=2, launches=17)
def mistral(m):
    return llama_layers(m, window=4)


@form(opset=17, open_sizes=True, attention=2, rms_norm=5, swiglu=2, rope=2, launches=25)
def llama_cache(m):
    """Keys and values of earlier tokens come in, all of them go out."""
    x, position = m.tokens(), m.input(["batch", "seq"], "int64")
    frequency = m.constant((10000.0 ** -(np.arange(0, D, 2) / D)).astype(np.float32)[None, :, None])
    shape = m("Concat", m.size(position, 0), [-1], [1], axis=0)
    wide = m("Expand", frequency, m("Where", m("Equal", shape, [-1]), [1], shape))
    angles = m("Transpose", m("MatMul", wide, m("Cast", m.axes("Unsqueeze", position, 1), to=1)), perm=[0, 2, 1])
    both = m("Concat", angles, angles, axis=-1)
    tables = m("Cos", both), m("Sin", both)
    outputs = []
    mask = None
    for _ in range(2):
        n = m.rms_norm(x)
        q, k, v = m.heads(m.linear(n, bias=False)), *(m.heads(m.linear(n, C, C // 2, False), H // 2) for _ in range(2))
        k = m("Concat", m.input(["batch", H // 2, "past", D]), m.rotate(k, tables), axis=-2)
        v = m("Concat", m.input(["batch", H // 2, "past", D]), v, axis=-2)
        outputs += [k, v]
        if mask is None:
            total = m("Gather", m("Shape", k), 2, axis=0)
            rows = m("Gather", m("Shape", x), 1, axis=0)
            late = m("Greater", m("Range", 0, total, 1), m.axes("Unsqueeze", m("Range", m("Sub", total, rows), total, 1), 1))
            mask = m.axes("Unsqueeze", m("Mul", m("Cast", late, to=1), -3.4028234663852886e38), 0, 1)
        y = m.attend(m.rotate(q, tables), m.repeat_kv(k, 2), m.repeat_kv(v, 2), mask, "sdpa")
        x = m.add(x, m.linear(m.merge(y), bias=False))
        x = m.add(x, m.swiglu(m.rms_norm(x)))
    return m.rms_norm(x), *outputs


@form(opset=17, open_sizes=True, attention=1, causal=1, launches=7)
def cached_positions(m):
    """Keys and values of earlier tokens come in."""
    x, past, values = m.tokens(), m.input(["batch", H, "past", D]), m.input(["batch", H, "past", D])
    q, k, v = m.projected(x)
    k, v = m("Concat", past, k, axis=-2), m("Concat", values, v, axis=-2)
    return m.linear(m.merge(m.attend(q, k, v, m.causal_by_positions(x, past), "mul"))), k, v


@form(opset=14, attention=2, layer_norm=4, gelu=2, launches=28)
def deberta(m):
    """Scores of contents and of distances: two products whose columns are picked by how far apart the tokens are."""
    x = m.tokens()
    far = m.w(32, C)
    apart = (np.arange(16)[:, None] - np.arange(16) + 16)[None].repeat(2 * H, 0)
    for _ in range(2):
        q, k, v = (m.reshape(m.heads(m.linear(x)), -1, 16, D) for _ in range(3))
        pk, pq = (m("Tile", m.reshape(m("Transpose", m.reshape(m.linear(far), 1, 32, H, D), perm=[0, 2, 1, 3]), H, 32, D), [2, 1, 1])
                  for _ in range(2))
        by = math.sqrt(3 * D)
        s = m("MatMul", q, m("Div", m("Transpose", k, perm=[0, 2, 1]), by))
        c2p = m("GatherElements", m("MatMul", q, m("Transpose", pk, perm=[0, 2, 1])), m.constant(apart), axis=-1)
        p2c = m("GatherElements", m("MatMul", k, m("Transpose", pq, perm=[0, 2, 1])), m.constant(apart), axis=-1)
        s = m.add(s, m.add(m("Div", c2p, by), m("Div", m("Transpose", p2c, perm=[0, 2, 1]), by)))
        s = m.reshape(s, -1, H, 16, 16)
        y = m("MatMul", m.reshape(m("Softmax", s, axis=-1), -1, 16, 16), v)
        y = m.merge(m.reshape(y, -1, H, 16, D))
        x = m.layer_norm(m.add(m.linear(y), x))
        x = m.layer_norm(m.add(m.mlp(x, m.gelu), x))
    return x


def deberta_layers(m, span=8, longest=32):
    """Version 3: distances in buckets that grow, computed in the model, one projection for tokens and distances, padding."""
    x, seen = m.tokens(), m.input([m.B, m.S], "int64")
    at = m.positions(x)
    apart = m("Sub", m.axes("Unsqueeze", at, 1), m("Reshape", at, [1, -1]))
    near = m("And", m("Less", apart, span // 2), m("Greater", apart, -(span // 2)))
    far = m("Where", near, span // 2 - 1, m("Abs", apart))
    log = m("Div", m("Log", m("Div", m("Cast", far, to=1), span / 2)), math.log((longest - 1) / (span / 2)))
    log = m("Mul", m("Add", m("Ceil", m("Mul", log, span / 2 - 1)), span / 2), m("Cast", m("Sign", apart), to=1))
    bucket = m("Where", m("LessOrEqual", far, span // 2), m("Cast", apart, to=1), log)
    apart = m.axes("Unsqueeze", m("Cast", bucket, to=7), 0, 1)
    both = m.axes("Unsqueeze", seen, 1, 2)
    both = m("Mul", both, m.axes("Unsqueeze", m.axes("Squeeze", both, 2), 3))
    hide = m("Not", m("Cast", both, to=9))
    table = m.axes("Unsqueeze", m.slice(m.layer_norm(m.w(2 * span, C)), 0, 2 * span, 0), 0)
    by = math.sqrt(3 * D)

    def heads(t, weights):
        t = m.linear_of(t, weights)
        t = m("Transpose", m.reshape(t, 0, 0, H, D), perm=[0, 2, 1, 3])
        return m("Reshape", t, m("Concat", [-1], m.size(t, 2), m.size(t, 3), axis=0))

    for _ in range(2):
        wq, wk, wv = ((m.w(C, C), m.w(C)) for _ in range(3))
        q, k, v = (heads(x, w) for w in (wq, wk, wv))
        s = m("MatMul", q, m("Div", m("Transpose", k, perm=[0, 2, 1]), by))
        times = m("Concat", m("Div", m.size(q, 0), [H]), [1], [1], axis=0)
        pq, pk = (m("Tile", heads(table, w), times) for w in (wq, wk))

        def picked(t, positions, index):
            to = m("Concat", m.size(t, 0), m.size(t, 1), m.size(apart, 3), axis=0)
            index = m.expand(m.axes("Squeeze", m("Clip", m("Add", index, span), 0, 2 * span - 1), 0), to)
            return m("GatherElements", m("MatMul", t, m("Transpose", positions, perm=[0, 2, 1])), index, axis=2)

        c2p = m("Div", picked(q, pk, apart), by)
        p2c = m("Div", m("Transpose", picked(k, pq, m("Neg", apart)), perm=[0, 2, 1]), by)
        s = m("Add", s, m("Add", c2p, p2c))
        s = m("Reshape", s, m("Concat", [-1], [H], m.size(s, 1), m.size(s, 2), axis=0))
        p = m("Where", hide, 0.0, m("Softmax", m("Where", hide, LEAST, s), axis=-1))
        p = m("Reshape", p, m("Concat", [-1], m.size(p, 2), m.size(p, 3), axis=0))
        y = m("MatMul", p, v)
        y = m("Reshape", y, m("Concat", [-1], [H], m.size(y, 1), m.size(y, 2), axis=0))
        x = m.layer_norm(m.add(m.linear(m.merge(y)), x))
        x = m.layer_norm(m.add(m.mlp(x, m.gelu), x))
    return x


@form(opset=17, open_sizes=True, attention=2, layer_norm=5, gelu=2, launches=32)
def deberta_v3_open(m):
    return deberta_layers(m)


@form(opset=17, attention=2, layer_norm=5, gelu=2, launches=29)
def deberta_v3_known(m):
    return deberta_layers(m)


@form(opset=14, attention=2, layer_norm=4, gelu=2, launches=36)
def xlnet(m):
    """[S,B,..] and products by their letters; scores of distances are shifted row by row."""
    x = m("Transpose", m.tokens(), perm=[1, 0, 2])
    r = m.w(32, 2, C)
    for _ in range(2):
        q, k, v = (m("Einsum", x, m.w(C, H, D), equation="ibh,hnd->ibnd") for _ in range(3))
        kr = m("Einsum", r, m.w(C, H, D), equation="ibh,hnd->ibnd")
        ac = m("Einsum", m("Add", q, m.w(H, D)), k, equation="ibnd,jbnd->bnij")
        bd = m("Einsum", m("Add", q, m.w(H, D)), kr, equation="ibnd,jbnd->bnij")
        bd = m.reshape(m.slice(m.reshape(bd, 2, H, 32, 16), 1, 2**31 - 1, 2), 2, H, 16, 31)
        s = m("Mul", m("Add", ac, m("Gather", bd, np.arange(16), axis=3)), D**-0.5)
        y = m("Einsum", m("Softmax", s, axis=3), v, equation="bnij,jbnd->ibnd")
        x = m.layer_norm(m.add(m("Einsum", y, m.w(C, H, D), equation="ibnd,hnd->ibh"), x))
        x = m.layer_norm(m.add(m.mlp(x, m.gelu), x))
    return m("Transpose", x, perm=[1, 0, 2])


@form(opset=17, attention=2, layer_norm=4, gelu=2, launches=26)
def sam(m):
    """Distances of rows and of columns, as products with the queries, added over split axes."""
    x = m.input([2, 4, 4, C])
    for _ in range(2):
        qkv = m("Transpose", m.reshape(m.linear(m.layer_norm(x), C, 3 * C), 2, 16, 3, H, D), perm=[2, 0, 3, 1, 4])
        q, k, v = (m.axes("Squeeze", t, 0) for t in m.split(m.reshape(qkv, 3, 2 * H, 16, D), [1] * 3, 0))
        s = m("MatMul", m("Mul", q, D**-0.5), m("Transpose", k, perm=[0, 2, 1]))
        rq = m.reshape(q, 2 * H, 4, 4, D)
        rel_h = m("Einsum", rq, m.w(4, 4, D), equation="bhwc,hkc->bhwk")
        rel_w = m("Einsum", rq, m.w(4, 4, D), equation="bhwc,wkc->bhwk")
        s = m("Add", m.reshape(s, 2 * H, 4, 4, 4, 4), m.axes("Unsqueeze", rel_h, 4))
        s = m.reshape(m("Add", s, m.axes("Unsqueeze", rel_w, 3)), 2 * H, 16, 16)
        y = m("MatMul", m("Softmax", s, axis=-1), v)
        y = m.reshape(m("Transpose", m.reshape(y, 2, H, 4, 4, D), perm=[0, 2, 3, 1, 4]), 2, 4, 4, C)
        x = m.add(x, m.linear(y))
        x = m.add(x, m.mlp(m.layer_norm(x), m.gelu))
    return x


@form(opset=14, attention=3, layer_norm=4, launches=17)
def detr(m):
    """nn.MultiheadAttention: rows before the batch, heads folded into it; an encoder layer and a decoder layer with two attentions."""
    x = m("Transpose", m.reshape(m.input([2, C, 4, 4]), 2, C, 16), perm=[2, 0, 1])
    place, queries = m.w(16, 1, C), m.w(10, 1, C)

    def attention(q, k, v, nq, nk):
        q, k, v = (m.linear(t) for t in (q, k, v))
        q = m("Mul", q, D**-0.5)
        q, k, v = (m("Transpose", m.reshape(t, n, 2 * H, D), perm=[1, 0, 2]) for t, n in ((q, nq), (k, nk), (v, nk)))
        y = m("MatMul", m("Softmax", m("MatMul", q, m("Transpose", k, perm=[0, 2, 1])), axis=-1), v)
        y = m.reshape(m("Transpose", y, perm=[1, 0, 2]), nq * 2, C)
        return m.reshape(m("Gemm", y, m.w(C, C), m.w(C), transB=1), nq, 2, C)

    p = m("Add", x, place)
    x = m.layer_norm(m.add(x, attention(p, p, x, 16, 16)))
    x = m.layer_norm(m.add(x, m.mlp(x, lambda t: m("Relu", t))))
    y = m("Expand", m.constant(np.zeros((10, 1, C), np.float32)), [10, 2, C])
    p = m("Add", y, queries)
    y = m.layer_norm(m.add(y, attention(p, p, y, 10, 10)))
    return m.layer_norm(m.add(y, attention(m("Add", y, queries), m("Add", x, place), x, 10, 16)))


@form(opset=17, attention=2, launches=12)
def levit(m):
    """Keys are shorter than values, the bias is picked from a table, norms are folded, the activation comes before the projection."""
    x = m.tokens()
    at = (np.abs(np.arange(16)[:, None] - np.arange(16))).astype(np.int64)
    for _ in range(2):
        qkv = m("Add", m.linear(x, C, H * 16, False), m.w(H * 16))
        q, k, v = m.split(m.reshape(qkv, 2, 16, H, 16), [4, 4, 8], 3)
        q, v = (m("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        bias = m("Gather", m.w(H, 16), at, axis=1)
        s = m("Add", m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 2, 3, 1])), 0.5), bias)
        y = m("HardSwish", m.merge(m("MatMul", m("Softmax", s, axis=-1), v)))
        x = m.add(x, m.linear(y))
        x = m.add(x, m.mlp(x, lambda t: m("HardSwish", t)))
    return x


@form(opset=17, attention=2, layer_norm=5, gelu=2, launches=15)
def beit(m):
    """Biases of queries and values around zeros, a table of distances, factors for each channel before additions."""
    x = m.tokens()
    at = np.random.default_rng(1).integers(0, 60, 16 * 16)
    for _ in range(2):
        qkv = m("Add", m("MatMul", m.layer_norm(x), m.w(C, 3 * C)), m("Concat", m.w(C), m.constant(np.zeros(C, np.float32)), m.w(C), axis=0))
        qkv = m("Transpose", m.reshape(qkv, 2, 16, 3, H, D), perm=[2, 0, 3, 1, 4])
        q, k, v = (m("Gather", qkv, i, axis=0) for i in range(3))
        bias = m("Transpose", m.reshape(m("Gather", m.w(60, H), at, axis=0), 16, 16, H), perm=[2, 0, 1])
        y = m.attend(m("Mul", q, D**-0.5), k, v, m.axes("Unsqueeze", bias, 0), "none")
        x = m.add(x, m("Mul", m.w(C), m.linear(m.merge(y))))
        x = m.add(x, m("Mul", m.w(C), m.mlp(m.layer_norm(x), m.gelu)))
    return m.layer_norm(x)


@form(opset=17, attention=2, layer_norm=10, silu=6, launches=47)
def conformer(m):
    """Half steps, attention with shifted scores of distances, a gated convolution with a norm of batches."""
    x = m.tokens()
    for _ in range(2):
        x = m.add(x, m("Mul", m.mlp(m.layer_norm(x), m.silu), 0.5))
        n = m.layer_norm(x)
        q, k, v = m.reshape(m.linear(n), 2, 16, H, D), m.heads(m.linear(n)), m.heads(m.linear(n))
        p = m("Transpose", m.reshape(m.linear(m.w(1, 31, C), bias=False), 1, 31, H, D), perm=[0, 2, 1, 3])
        u, w = (m("Transpose", m("Add", q, m.w(H, D)), perm=[0, 2, 1, 3]) for _ in range(2))
        ac = m("MatMul", u, m("Transpose", k, perm=[0, 1, 3, 2]))
        bd = m("Pad", m("MatMul", w, m("Transpose", p, perm=[0, 1, 3, 2])), [0, 0, 0, 1, 0, 0, 0, 0])
        bd = m.reshape(m.slice(m.reshape(bd, 2, H, 32, 16), 1, 2**31 - 1, 2), 2, H, 16, 31)
        s = m("Div", m("Add", ac, m.slice(bd, 0, 16)), math.sqrt(D))
        x = m.add(x, m.linear(m.merge(m("MatMul", m("Softmax", s, axis=-1), v))))
        n = m("Transpose", m.layer_norm(x), perm=[0, 2, 1])
        a, b = m.split(m("Conv", n, m.w(2 * C, C, 1), m.w(2 * C)), [C, C], 1)
        n = m("Conv", m("Mul", a, m("Sigmoid", b)), m.w(C, 1, 7), m.w(C), group=C, pads=[3, 3])
        n = m("BatchNormalization", n, m.w(C), m.w(C), m.w(C), m("Abs", m.w(C)))
        n = m("Conv", m.silu(n), m.w(C, C, 1), m.w(C))
        x = m.add(x, m("Transpose", n, perm=[0, 2, 1]))
        x = m.add(x, m("Mul", m.mlp(m.layer_norm(x), m.silu), 0.5))
        x = m.layer_norm(x)
    return x


@form(opset=14, attention=2, layer_norm=3, group_norm=3, silu=2, swiglu=1, launches=21)
def unet_block(m):
    """A residual block and a transformer block of a diffusion model: norms of groups by InstanceNormalization, GEGLU."""
    x, text = m.input([2, C, 4, 4]), m.input([2, 7, 24])

    def group_norm(t):
        t = m("InstanceNormalization", m.reshape(t, 2, 8, -1), m.constant(np.ones(8, np.float32)),
              m.constant(np.zeros(8, np.float32)), epsilon=1e-5)
        return m("Add", m("Mul", m.reshape(t, 2, C, 4, 4), m.w(C, 1, 1)), m.w(C, 1, 1))

    def attention(n, other, c):
        q, k, v = m.linear(n, bias=False), m.linear(other, c, C, False), m.linear(other, c, C, False)
        rows = 7 if c == 24 else 16
        q, k, v = (m.reshape(m("Transpose", m.reshape(t, 2, r, H, D), perm=[0, 2, 1, 3]), 2 * H, r, D)
                   for t, r in ((q, 16), (k, rows), (v, rows)))
        s = m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 2, 1])), D**-0.5)
        y = m.reshape(m("MatMul", m("Softmax", s, axis=-1), v), 2, H, 16, D)
        return m.linear(m.reshape(m("Transpose", y, perm=[0, 2, 1, 3]), 2, 16, C))

    h = m("Conv", m.silu(group_norm(x)), m.w(C, C, 3, 3), m.w(C), pads=[1] * 4)
    h = m("Add", h, m.axes("Unsqueeze", m.w(2, C), 2, 3))
    x = m("Add", x, m("Conv", m.silu(group_norm(h)), m.w(C, C, 3, 3), m.w(C), pads=[1] * 4))
    y = m("Conv", group_norm(x), m.w(C, C, 1, 1), m.w(C))
    y = m.reshape(m("Transpose", y, perm=[0, 2, 3, 1]), 2, 16, C)
    n = m.layer_norm(y)
    y = m.add(attention(n, n, C), y)
    y = m.add(attention(m.layer_norm(y), text, 24), y)
    up, gate = m.split(m.linear(m.layer_norm(y), C, 96), [48, 48])
    y = m.add(m.linear(m("Mul", up, m.gelu(gate)), 48, C), y)
    y = m("Transpose", m.reshape(y, 2, 4, 4, C), perm=[0, 3, 1, 2])
    return m("Add", m("Conv", y, m.w(C, C, 1, 1), m.w(C)), x)


@form(opset=17, attention=2, layer_norm=5, swiglu=2, launches=15)
def dinov2_giant(m):
    x = m.tokens()
    for _ in range(2):
        n = m.layer_norm(x)
        x = m.add(m("Mul", m.linear(m.merge(m.attend(*m.projected(n)))), m.w(C)), x)
        a, b = m.split(m.linear(m.layer_norm(x), C, 96), [48, 48])
        x = m.add(m("Mul", m.linear(m("Mul", m.silu(a), b), 48, C), m.w(C)), x)
    return m.layer_norm(x)


@form(opset=17, attention=2, layer_norm=5, swiglu=2, launches=15)
def geglu_of_two(m):
    """Up and gate are layers of their own, with biases."""
    x = m.tokens()
    for _ in range(2):
        n = m.layer_norm(x)
        x = m.add(m.linear(m.merge(m.attend(*m.projected(n)))), x)
        x = m.add(m.swiglu(m.layer_norm(x), m.gelu, bias=True), x)
    return m.layer_norm(x)


@form(opset=17, attention=0, layer_norm=2, launches=26)
def linear_attention(m):
    """Products of keys and values first, no softmax."""
    x = m.tokens()
    for _ in range(2):
        n = m.layer_norm(x)
        q, k, v = m.projected(n)
        q, k = (m("Add", m("Elu", t), 1.0) for t in (q, k))
        z = m("MatMul", q, m.axes("Unsqueeze", m.axes("ReduceSum", k, 2, keepdims=0), -1))
        y = m("MatMul", q, m("MatMul", m("Transpose", k, perm=[0, 1, 3, 2]), v))
        x = m.add(x, m.linear(m.merge(m("Div", y, m("Add", z, 1e-6)))))
    return x


@form(opset=17, layer_norm=2, gelu=2, launches=16)
def convnext_v2(m):
    """Responses of channels, relative to their mean."""
    x = m.input([2, C, 8, 8])
    for _ in range(2):
        y = m("Transpose", m("Conv", x, m.w(C, 1, 7, 7), m.w(C), group=C, pads=[3] * 4), perm=[0, 2, 3, 1])
        y = m.gelu(m.linear(m.layer_norm(y), C, 64))
        size = m("ReduceL2", y, axes=[1, 2])
        size = m("Div", size, m("Add", m("ReduceMean", size, axes=[-1]), 1e-6))
        y = m("Add", m("Add", m("Mul", m.w(64), m("Mul", y, size)), m.w(64)), y)
        x = m("Add", x, m("Transpose", m.linear(y, 64, C), perm=[0, 3, 1, 2]))
    return x


@form(opset=17, attention=1, layer_norm=2, gelu=3, launches=12)
def efficientformer(m):
    """A block that pools and one that attends with a bias for each pair of places, both scaled for each channel."""
    x = m.input([2, C, 4, 4])
    pooled = m("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1], count_include_pad=0)
    x = m("Add", x, m("Mul", m.w(C, 1, 1), m("Sub", pooled, x)))
    y = m.gelu(m("Conv", x, m.w(48, C, 1, 1), m.w(48)))
    x = m("Add", x, m("Mul", m.w(C, 1, 1), m("Conv", y, m.w(C, 48, 1, 1), m.w(C))))
    x = m("Transpose", m.reshape(x, 2, C, 16), perm=[0, 2, 1])
    qkv = m("Transpose", m.reshape(m.linear(m.layer_norm(x), C, H * 24), 2, 16, H, 24), perm=[0, 2, 1, 3])
    q, k, v = m.split(qkv, [4, 4, 16], 3)
    s = m("Add", m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2])), 0.5), m.w(H, 16, 16))
    y = m.linear(m.merge(m("MatMul", m("Softmax", s, axis=-1), v), 4 * 16), 4 * 16, C)
    x = m.add(x, m("Mul", m.w(C), y))
    x = m.add(x, m("Mul", m.w(C), m.mlp(m.layer_norm(x), m.gelu)))
    return m.gelu(x)


@form(opset=14, open_sizes=True, attention=2, rms_norm=5, launches=19)
def t5(m):
    """Distances are sorted into buckets in the model; nothing scales the scores."""
    x = m.tokens()
    at = m.positions(x)
    apart = m("Sub", m.axes("Unsqueeze", at, 0), m.axes("Unsqueeze", at, 1))
    far = m("Abs", apart)
    late = m("Mul", m("Cast", m("Greater", apart, 0), to=7), 16)
    log = m("Div", m("Log", m("Div", m("Cast", far, to=1), 8.0)), math.log(16))
    large = m("Min", m("Add", m("Cast", m("Mul", log, 8.0), to=7), 8), 15)
    bucket = m("Add", late, m("Where", m("Less", far, 8), far, large))
    bias = m.axes("Unsqueeze", m("Transpose", m("Gather", m.w(32, H), bucket, axis=0), perm=[2, 0, 1]), 0)
    for _ in range(2):
        n = m.rms_norm(x)
        q, k, v = (m.heads(m.linear(n, bias=False)) for _ in range(3))
        x = m.add(x, m.linear(m.merge(m.attend(q, k, v, bias, "none")), bias=False))
        n = m("Relu", m.linear(m.rms_norm(x), C, 48, False))
        x = m.add(x, m.linear(n, 48, C, False))
    return m.rms_norm(x)


@form(opset=17, attention=4, layer_norm=7, gelu=2, launches=24)
def whisper_decoder(m):
    x, sound = m.tokens(), m.input([2, 20, C])
    mask = m.causal(x)

    def attention(n, other, rows, mask):
        q, k, v = m("Mul", m.linear(n), D**-0.5), m.linear(other, bias=False), m.linear(other)
        q, k, v = (m("Transpose", m.reshape(t, 2, r, H, D), perm=[0, 2, 1, 3]) for t, r in ((q, 16), (k, rows), (v, rows)))
        return m.linear(m.merge(m.attend(q, k, v, mask, "none")))

    for _ in range(2):
        n = m.layer_norm(x)
        x = m.add(x, attention(n, n, 16, mask))
        x = m.add(x, attention(m.layer_norm(x), sound, 20, None))
        x = m.add(x, m.mlp(m.layer_norm(x), m.gelu))
    return m.layer_norm(x)


@form(opset=20, attention=2, layer_norm=5, swiglu=2, rope=2, launches=16)
def modernbert(m):
    """Norms without bias, all three of one projection, GeGLU of one projection, near tokens only in every other layer."""
    x = m.layer_norm(m.tokens(), bias=False)
    tables = m.tables(x)
    far = np.abs(np.arange(16)[:, None] - np.arange(16)) > 3
    local = m.constant(np.where(far, np.finfo(np.float32).min, 0).astype(np.float32)[None, None])
    for mask in (None, local):
        qkv = m.reshape(m.linear(m.layer_norm(x, bias=False), C, 3 * C, False), 2, 16, 3, H, D)
        qkv = m("Transpose", qkv, perm=[0, 3, 2, 1, 4])
        q, k, v = (m.axes("Squeeze", t, 2) for t in m.split(qkv, [1] * 3, 2))
        x = m.add(x, m.linear(m.merge(m.attend(m.rotate(q, tables), m.rotate(k, tables), v, mask, "mul")), bias=False))
        up, gate = m.split(m.linear(m.layer_norm(x, bias=False), C, 96, False), [48, 48])
        x = m.add(x, m.linear(m("Mul", m.gelu(up), gate), 48, C, False))
    return x


@form(opset=14, attention=2, layer_norm=4, gelu=2, launches=15)
def keras_bert(m):
    """tf2onnx: rows are flattened, norms are a scale and a shift of all, the mask is (1 - mask) * -10000."""
    x, seen = m.tokens(), m.input([2, 16], "int64")
    mask = m.axes("Unsqueeze", m("Mul", m("Sub", 1.0, m("Cast", seen, to=1)), -10000.0), 1, 2)

    def dense(t, i, o):
        return m("Add", m.reshape(m("MatMul", m.reshape(t, -1, i), m.w(i, o)), 2, 16, o), m.w(o))

    def norm(t):
        mean = m("ReduceMean", t, axes=[-1], keepdims=1)
        d = m("Sub", t, mean)
        root = m("Reciprocal", m("Sqrt", m("Add", m("ReduceMean", m("Mul", d, d), axes=[-1], keepdims=1), 1e-12)))
        scale = m("Mul", root, m.w(C))
        return m("Add", m("Mul", t, scale), m("Sub", m.w(C), m("Mul", mean, scale)))

    for _ in range(2):
        q, k, v = (m("Transpose", m.reshape(dense(x, C, C), 2, 16, H, D), perm=[0, 2, 1, 3]) for _ in range(3))
        s = m("Add", m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2])), D**-0.5), mask)
        x = norm(m("Add", dense(m.merge(m("MatMul", m("Softmax", s, axis=-1), v)), C, C), x))
        h = dense(x, C, 48)
        h = m("Mul", m("Mul", h, 0.5), m("Add", m("Erf", m("Mul", h, 1 / math.sqrt(2))), 1.0))
        x = norm(m("Add", dense(h, 48, C), x))
    return x


def mixture(m, shares, experts=8):
    """A layer of experts, all of them for all tokens: shares(logits) is a matrix, or a function of the number of an expert."""
    x = m.input([2, C])
    by = shares(m.linear(x, C, experts, False))
    total = None
    for e in range(experts):
        own = by(e) if callable(by) else m.slice(by, e, e + 1, 1)
        term = m("Mul", m.linear(m("Relu", m.linear(x, C, 64)), 64, C), own)
        total = term if total is None else m("Add", total, term)
    return total


@form(opset=17, mixtures=1, launches=14)
def moe_masked(m):
    """All but the chosen scores are hidden before the softmax."""
    def shares(logits):
        _, who = m("TopK", logits, [2], n=2, axis=-1)
        hidden = m("ConstantOfShape", m("Shape", logits), value=np.array([-np.inf], np.float32))
        return m("Softmax", m("ScatterElements", hidden, who, m("GatherElements", logits, who, axis=1), axis=1), axis=-1)

    return mixture(m, shares)


@form(opset=17, mixtures=1, launches=11)
def moe_each(m):
    """The share of an expert is the sum over the choices that are that expert."""
    def shares(logits):
        share, who = m("TopK", m("Softmax", logits, axis=-1), [2], n=2, axis=-1)
        return lambda e: m("ReduceSum", m("Mul", share, m("Cast", m("Equal", who, e), to=1)), [-1], keepdims=1)

    return mixture(m, shares)


@form(opset=17, mixtures=0, ties=1, launches=22)
def moe_threshold(m):
    """Chosen by comparison with the least of the best values, of which there may be more: they stay as they are."""
    def shares(logits):
        best, _ = m("TopK", logits, [2], n=2, axis=-1)
        keep = m("GreaterOrEqual", logits, m.slice(best, 1, 2, 1))
        return m("Softmax", m("Where", keep, logits, -np.inf), axis=-1)

    return mixture(m, shares)


@form(opset=18, mixtures=1, launches=11)
def moe_sent(m, experts=8):
    """Each expert is sent the tokens that have it among their choices."""
    x = m.input([2, C])
    share, who = m("TopK", m("Softmax", m.linear(x, C, experts, False), axis=-1), [2], n=2, axis=-1)
    total = m("ConstantOfShape", m("Shape", x), value=np.zeros(1, np.float32))
    for e in range(experts):
        chosen = m("Equal", who, e)
        some = m("ReduceMax", m("Cast", chosen, to=6), [-1], keepdims=0)
        rows = m("Squeeze", m("NonZero", m("Cast", some, to=9)), [0])
        own = m("ReduceSum", m("Where", chosen, share, 0.0), [-1], keepdims=0)
        y = m.linear(m("Relu", m.linear(m("Gather", x, rows, axis=0), C, 64)), 64, C)
        y = m("Mul", y, m("Unsqueeze", m("Gather", own, rows, axis=0), [-1]))
        total = m("ScatterND", total, m("Unsqueeze", rows, [-1]), y, reduction="add")
    return total


def write(folder):
    for name, (build, opset, open_sizes, _) in FORMS.items():
        m = Form(opset, open_sizes)
        outputs = build(m)
        m.save(os.path.join(folder, name + ".onnx"), *([outputs] if isinstance(outputs, str) else outputs))


def found(folder):
    """What was recognised in the result of a compile."""
    with open(os.path.join(folder, "fusion.json")) as f:
        report = json.load(f)
    graphs = rlxc_graph.load(os.path.join(folder, "lir.json"))
    count = fusion_counts.recognised(graphs)
    groups = {p["pattern"]: p["formed"] for p in report["patterns"]}
    count["rms_norm"] += groups.get("norm_rope", 0)  # of heads, part of a rotation
    count["mixtures"] = groups.get("mixture_of_experts", 0)
    count["ties"] = sum(miss["reason"] == "ties" for miss in report["declined"])
    count["group_norm"] = sum(n.op == "GroupNorm" or "group_norm" in str(n.attrs.get("steps")) for g in graphs for n in g.nodes)
    count["causal"] = sum(n.op == "Attention" and n.attrs.get("mask") in ("causal", "sliding_window") for g in graphs for n in g.nodes)
    count["launches"] = report["summary"]["launches"]["after"]
    return count


def check(folders):
    faults = []
    for name, (_, _, _, expected) in FORMS.items():
        for folder in folders:
            count = found(os.path.join(folder, name))
            for what, want in expected.items():
                if count[what] > want if what == "launches" else count[what] != want:
                    faults.append(f"{folder}/{name}: {what} is {count[what]}, not {want}")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(write(sys.argv[2]) if sys.argv[1] == "write" else check(sys.argv[2:]))
