"""Parts of models as exporters write them: norms, activations, heads, masks, rotations. With `open_sizes`, batch and sequence are
symbols and shapes are looked up when the model runs, as the TorchScript exporter does; else they are known. Which operators there
are follows from the opset."""
import math

import numpy as np

from onnx_writer import Model

C, H, D = 32, 4, 8  # elements of a token, heads, elements of a head
LEAST = -3.4028234663852886e38


class Form(Model):
    def __init__(self, opset, open_sizes):
        super().__init__(opset)
        self.open = open_sizes
        self.B, self.S = ("batch", "seq") if open_sizes else (2, 16)

    def tokens(self, c=C):
        return self.input([self.B, self.S, c])

    def axes(self, op, x, *axes, **attributes):
        """An op whose axes are an attribute, and later an operand."""
        since = {"Unsqueeze": 13, "Squeeze": 13, "ReduceSum": 13}.get(op, 18)
        return self(op, x, list(axes), **attributes) if self.opset >= since else self(op, x, axes=list(axes), **attributes)

    def size(self, x, axis):
        """A vector of one size that is looked up."""
        return self.axes("Unsqueeze", self("Gather", self("Shape", x), axis, axis=0), 0)

    def reshape(self, x, *dims):
        """Sizes are numbers, or a value and an axis of it."""
        if all(isinstance(d, int) for d in dims):
            return self("Reshape", x, list(dims))
        known = {0: 2, 1: 16}
        if not self.open:
            return self("Reshape", x, [d if isinstance(d, int) else known[d[1]] for d in dims])
        return self("Reshape", x, self("Concat", *([d] if isinstance(d, int) else self.size(*d) for d in dims), axis=0))

    def slice(self, x, start, end, axis=-1, step=1):
        return self("Slice", x, [start], [end], [axis], [step])

    def split(self, x, sizes, axis=-1):
        return self("Split", x, list(sizes), n=len(sizes), axis=axis)

    def linear(self, x, i=C, o=C, bias=True):
        return self.linear_of(x, (self.w(i, o), self.w(o) if bias else None))

    def linear_of(self, x, weights):
        w, bias = weights
        y = self("MatMul", x, w)
        return self("Add", bias, y) if bias else y

    def gemm(self, x, i=C, o=C):
        """Rows of all batches, and back: Conv1D of GPT-2."""
        y = self("Gemm", self.reshape(x, -1, i), self.w(i, o), self.w(o))
        return self.reshape(y, (x, 0), (x, 1), o)

    def layer_norm(self, x, c=C, bias=True):
        if self.opset >= 17:
            return self("LayerNormalization", x, self.w(c), self.w(c) if bias else None, axis=-1, epsilon=1e-5)
        d = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        s = self("Sqrt", self("Add", self("ReduceMean", self("Pow", d, 2.0), axes=[-1]), 1e-5))
        y = self("Mul", self("Div", d, s), self.w(c))
        return self("Add", y, self.w(c)) if bias else y

    def rms_norm(self, x, c=C, one=False):
        mean = self.axes("ReduceMean", self("Pow", x, 2.0), -1)
        root = self("Sqrt", self("Add", mean, 1e-6))
        y = self("Mul", x, self("Reciprocal", root) if self.opset >= 18 else self("Div", 1.0, root))
        return self("Mul", y, self("Add", self.w(c), 1.0)) if one else self("Mul", self.w(c), y)

    def gelu(self, x):
        if self.opset >= 20:
            return self("Gelu", x)
        return self("Mul", self("Mul", x, self("Add", self("Erf", self("Div", x, math.sqrt(2))), 1.0)), 0.5)

    def gelu_new(self, x):
        if self.opset >= 20:
            return self("Gelu", x, approximate="tanh")
        inner = self("Mul", self("Add", x, self("Mul", self("Pow", x, 3.0), 0.044715)), math.sqrt(2 / math.pi))
        return self("Mul", self("Mul", x, 0.5), self("Add", self("Tanh", inner), 1.0))

    def silu(self, x):
        return self("Mul", x, self("Sigmoid", x))

    def add(self, *terms):
        total = terms[0]
        for t in terms[1:]:
            total = self("Add", total, t)
        return total

    def heads(self, x, h=H, d=D):
        return self("Transpose", self.reshape(x, (x, 0), (x, 1), h, d), perm=[0, 2, 1, 3])

    def merge(self, y, c=C):
        y = self("Transpose", y, perm=[0, 2, 1, 3])
        return self.reshape(y, (y, 0), (y, 1), c)

    def projected(self, n):
        """Heads of queries, keys and values, each by a layer of its own."""
        return tuple(self.heads(self.linear(n)) for _ in range(3))

    def scores(self, q, k, scale="div", d=D):
        kt = self("Transpose", k, perm=[0, 1, 3, 2])
        if scale == "sdpa":  # each side takes the root of the scale, which comes from the size of a head
            root = self("Sqrt", self("Cast", self.slice(self("Shape", q), -1, 2**31), to=1))
            root = self("Sqrt", self("Div", 1.0, root))
            return self("MatMul", self("Mul", q, root), self("Mul", kt, root))
        s = self("MatMul", q, kt)
        return self("Div", s, math.sqrt(d)) if scale == "div" else self("Mul", s, d**-0.5) if scale == "mul" else s

    def attend(self, q, k, v, mask=None, scale="div", d=D):
        s = self.scores(q, k, scale, d)
        s = self("Add", s, mask) if mask is not None else s
        return self("MatMul", self("Softmax", s, axis=-1), v)

    def repeat_kv(self, k, groups, d=D):
        """Heads of keys for several heads of queries."""
        wide = self.axes("Unsqueeze", k, 2)
        if self.open:
            to = self("Concat", self.size(k, 0), [H // groups], [groups], self.size(k, 2), [d], axis=0)
            wide = self("Expand", wide, self("Where", self("Equal", to, [-1]), [1], to))
            return self("Reshape", wide, self("Concat", self.size(k, 0), [H], self.size(k, 2), [d], axis=0))
        return self.reshape(self("Expand", wide, [2, H // groups, groups, 16, d]), 2, H, 16, d)

    def positions(self, x):
        """0, 1, .. of the rows of x, as a vector."""
        return self("Range", 0, self("Gather", self("Shape", x), 1, axis=0), 1) if self.open else self.constant(np.arange(16))

    def tables(self, x, d=D, pairs=False):
        """Cosines and sines [1,S,d] of rotary positions, computed in the model."""
        frequency = self.constant((10000.0 ** -(np.arange(0, d, 2) / d)).astype(np.float32)[None, :, None])
        at = self("Cast", self.axes("Unsqueeze", self.positions(x), 0, 1), to=1)
        angles = self("Transpose", self("MatMul", frequency, at), perm=[0, 2, 1])
        both = angles if pairs else self("Concat", angles, angles, axis=-1)
        return self("Cos", both), self("Sin", both)

    def rotate(self, x, tables, d=D):
        """x*cos + rotate_half(x)*sin, heads outside."""
        cos, sin = (self.axes("Unsqueeze", t, 1) for t in tables)
        low, high = self.slice(x, 0, d // 2), self.slice(x, d // 2, 2**63 - 1)
        turned = self("Concat", self("Neg", high), low, axis=-1)
        return self("Add", self("Mul", x, cos), self("Mul", turned, sin))

    def rotate_part(self, x, tables, rotated):
        turned = self.rotate(self.slice(x, 0, rotated), tables, rotated)
        return self("Concat", turned, self.slice(x, rotated, 2**63 - 1), axis=-1)

    def causal(self, x, window=None):
        """A mask that is added: 0, or the least number for keys that come later (or lie further back than the window)."""
        keys = self.positions(x)
        rows = self.axes("Unsqueeze", keys, 1)
        hidden = self("Greater", keys, rows)
        if window:
            hidden = self("Or", hidden, self("LessOrEqual", keys, self("Sub", rows, window)))
        return self.axes("Unsqueeze", self("Where", hidden, LEAST, 0.0), 0, 1)

    def causal_by_positions(self, x, past=None, seen=None):
        """The same, as a triangle times what lies behind positions that are counted, expanded for the batch; where `seen` is 0, tokens
        that only fill a row up are hidden as well."""
        rows = self.size(x, 1) if self.open else self.constant(np.array([16]))
        total = self("Add", rows, self.size(past, 2)) if past is not None else rows
        triangle = self("Trilu", self("Expand", LEAST, self("Concat", rows, total, axis=0)), 1, upper=1)
        mask = self.times_late(triangle, x, rows, total)
        return mask if seen is None else self.padded(mask, seen)

    def times_late(self, mask, x, rows, total, window=None):
        """A mask [rows,total] times 1 for keys behind the row (or further back than the window), else 0, for the batch of x."""
        keys = self("Range", 0, self.axes("Squeeze", total, 0), 1)
        at = self("Range", self.axes("Squeeze", self("Sub", total, rows), 0), self.axes("Squeeze", total, 0), 1)
        at = self("Reshape", at, [-1, 1])
        late = self("Greater", keys, at)
        if window:
            late = self("Or", late, self("LessOrEqual", keys, self("Sub", at, window)))
        mask = self.axes("Unsqueeze", self("Mul", mask, self("Cast", late, to=1)), 0, 1)
        batch = self.size(x, 0) if self.open else [2]
        return self("Expand", mask, self("Concat", batch, [1], rows, total, axis=0))

    def padded(self, mask, seen, product=False):
        """The mask with more hidden: what it lets through where `seen` is 0, by a sum or by both."""
        seen = self.axes("Unsqueeze", seen, 1, 2)
        hide = (self("And", self("Equal", mask, 0.0), self("Equal", self("Cast", seen, to=1), 0.0)) if product else
                self("Equal", self("Add", mask, self("Cast", seen, to=1)), 0.0))
        return self("Where", hide, LEAST, mask)

    def causal_written_back(self, x, seen, write, window=None, product=False):
        """The padded mask is assigned to a slice of the causal one that is as long as `seen`, which is all of it."""
        rows, total = self.size(x, 1), self.size(seen, 1)
        mask = self("Expand", LEAST, self("Concat", rows, total, axis=0))
        if not window:
            mask = self("Trilu", mask, 1, upper=1)
        mask = self.times_late(mask, x, rows, total, window)
        return write(self, mask, self.padded(self.cut(mask, 3, total), seen, product), total)

    def cut(self, x, axis, end):
        """The first positions of an axis, as one Slice for each axis up to it."""
        for k in range(axis):
            x = self("Slice", x, [0], [2**63 - 1], [k], [1])
        return self("Slice", x, [0], end, [axis], [1])

    def expand(self, x, shape):
        """Expand, whose sizes may be -1."""
        ones = self("ConstantOfShape", self("Shape", shape), value=np.array([1], np.int64))
        return self("Expand", x, self("Where", self("Equal", shape, self("Mul", ones, [-1])), ones, shape))

    def assigned(self, x, fresh, end):
        """x[:, :, :, :end] = fresh as the TorchScript exporter writes it: to every element by its position."""
        fresh = self.expand(fresh, self("Shape", self.cut(x, 3, end)))
        at = []
        for k in range(4):
            all_of = self("Range", 0, self("Gather", self("Shape", x), k, axis=0), 1)
            own = self("Slice", all_of, [0], end if k == 3 else [2**63 - 1], [0], [1])
            at.append(self("Reshape", own, [-1] + [1] * (3 - k)))
        shape = self("Shape", self.add(*at))
        at = self("Concat", *(self.axes("Unsqueeze", self.expand(k, shape), -1) for k in at), axis=-1)
        rest = self("Slice", self("Shape", x), [4], [2**63 - 1], [0])
        return self("ScatterND", x, at, self("Reshape", fresh, self("Concat", shape, rest, axis=0)))

    def assigned_rows(self, x, fresh, end):
        """The same as one slice_scatter for each axis: the axis is turned to the front, and its positions are written as rows."""
        for axis in (3, 2, 1, 0):
            at = self("Slice", self("Range", 0, self("Gather", self("Shape", x), axis, axis=0), 1), [0], end, [0], [1])
            at = self("Reshape", at, [-1, 1])
            turn = [axis if k == 0 else 0 if k == axis else k for k in range(4)]
            rows = [self("Transpose", t, perm=turn) if axis else t for t in (x, fresh)]
            fresh = self("ScatterND", rows[0], at, rows[1])
            fresh, end = self("Transpose", fresh, perm=turn) if axis else fresh, [2**63 - 1]
        return fresh

    def assigned_elements(self, x, fresh, end):
        """And by an index for each element along the keys."""
        at = self("Expand", self("Range", 0, self.axes("Squeeze", end, 0), 1), self("Shape", fresh))
        return self("ScatterElements", x, at, fresh, axis=3)

    def swiglu(self, x, act=None, inner=48, bias=False):
        gate = (act or self.silu)(self.linear(x, C, inner, bias))
        return self.linear(self("Mul", gate, self.linear(x, C, inner, bias)), inner, C, bias)

    def mlp(self, x, act, inner=48):
        return self.linear(act(self.linear(x, C, inner)), inner, C)
