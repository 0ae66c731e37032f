"""What a package for mlx does in a step, on the engine itself: mlx_step.py PACKAGE [attentions=N] [packed=N] [stream=TOKENS].

The graph of a step has no operation on weights alone (those on constants of up to 8 elements and MLX's own broadcasts, which are
views, aside), as many calls of fused attention and of quantized matmuls as said; a compiled step computes what one computes op by
op; a stream of a decoder gives the tokens that its steps on the whole text give.
"""
import os
import re
import sys
import tempfile

package, said = sys.argv[1], dict(a.split("=") for a in sys.argv[2:])
sys.path[0] = package  # not the folder of this file, which has a stand-in for MLX
import mlx.core as mx

import rlxc_mlx as ops
from model import Model

calls = {"attentions": 0, "packed": 0}


def counted(name, f):
    def g(*arguments, **keywords):
        calls[name] += 1
        return f(*arguments, **keywords)
    return g


mx.fast.scaled_dot_product_attention = counted("attentions", mx.fast.scaled_dot_product_attention)
mx.quantized_matmul = counted("packed", mx.quantized_matmul)
model, plain = Model(package), Model(package, compiled=False)
sizes = {s: 1 for port in model.inputs for d in port.shape for s in (d.symbols if isinstance(d, ops.Formula) else [d]) if isinstance(s, str)}


def given(port):
    shape = port.sizes(sizes)
    if port.dtype[0] in "iu":
        return mx.zeros(shape, mx.int64).astype(getattr(mx, {"i": "int", "u": "uint"}[port.dtype[0]] + port.dtype[1:]))
    return mx.random.normal(shape) if port.dtype == "f32" else mx.ones(shape).astype(mx.float16 if port.dtype == "f16" else mx.bool_)


inputs = [given(port) for port in model.inputs]
mx.eval(inputs)
outputs = plain(*inputs)
for name, count in calls.items():
    if name in said and count != int(said[name]):
        sys.exit(f"{count} {name}, not {said[name]}")

# The graph of what is not computed yet: weights and inputs are its sources.
file = os.path.join(tempfile.mkdtemp(), "step.dot")
def arrays(tree):
    return [x for part in tree for x in arrays(part)] if isinstance(tree, (list, tuple)) else [tree] if isinstance(tree, mx.array) else []


weights = {f"weight_{i}": w for i, w in enumerate(arrays(plain.weights)) if w.size > 8}
mx.export_to_dot(file, **weights, **{f"input_{i}": x for i, x in enumerate(inputs)}, **{f"output_{i}": y for i, y in enumerate(outputs)})
label, before = {}, {}
with open(file) as f:
    for line in f:
        if m := re.match(r'\{ (\d+) \[label ="(.*?)"', line):
            label[m[1]] = m[2]
        elif m := re.match(r'"?(\w+)"? -> "?(\w+)"?$', line.strip()):
            before.setdefault(m[2], []).append(m[1])
needs = {}  # whether a node depends on weights, on inputs


def kind(node):
    stack = [node]
    while stack:
        top = stack[-1]
        left = [b for b in before.get(top, []) if b not in needs]
        if left:
            stack += left
            continue
        parts = [needs[b] for b in before.get(top, [])]
        needs[top] = tuple(any(p[k] for p in parts) or top.startswith(name) for k, name in enumerate(("weight_", "input_")))
        stack.pop()
    return needs[node]


assert label, "no graph"
on_weights = sorted(label[n] for n in label if kind(n) == (True, False) and label[n] != "Broadcast")
if not any(w for w, _ in needs.values()):
    sys.exit("no weight is in the graph")
if on_weights:
    sys.exit(f"operations on weights alone: {on_weights}")


def same(a, b):
    return all(mx.allclose(x.astype(mx.float32), y.astype(mx.float32), rtol=1e-4, atol=1e-5, equal_nan=True).item() for x, y in zip(a, b))


model(*inputs)
if not same(model(*inputs), outputs):
    sys.exit("the compiled step computes something else")
if "stream" in said:
    prompt, most = [1, 7, 3], int(said["stream"])
    tokens = list(model.stream(prompt, most))
    text = list(prompt)
    for token in tokens:
        states = plain.start(batch=1)
        logits = plain.advance(states, input_ids=mx.array([text], mx.int64), past_length=mx.array(0, mx.int64))[0]
        if mx.argmax(logits[0, -1]).item() != token:
            sys.exit(f"the stream gives {tokens}, the whole text another token after {text}")
        text.append(token)
print(f"{len(label)} operations, {calls['attentions']} calls of attention")
