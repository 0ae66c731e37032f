"""A stand-in for mlx.core on NumPy, as far as rlxc_mlx.py needs it: the meaning of the functions, none of their speed."""
import math

import numpy as np


class _Slot:
    def __init__(self, x, at):
        self.x, self.at = x, at

    def _apply(self, f, updates):
        y = np.array(self.x)
        f.at(y, np.asarray(self.at), np.asarray(updates))
        return array(y)

    def add(self, u): return self._apply(np.add, u)
    def multiply(self, u): return self._apply(np.multiply, u)
    def maximum(self, u): return self._apply(np.maximum, u)
    def minimum(self, u): return self._apply(np.minimum, u)


class _At:
    def __init__(self, x): self.x = x
    def __getitem__(self, at): return _Slot(self.x, at)


class array(np.ndarray):
    def __new__(cls, data, dtype=None):
        x = np.array(data, dtype=dtype)
        if dtype is None and isinstance(data, float):
            x = x.astype(np.float32)
        if dtype is None and isinstance(data, (int, list)) and not isinstance(data, bool) and x.dtype == np.int64:
            x = x.astype(np.int32)
        return x.view(cls)

    @property
    def at(self): return _At(self)

    def view(self, kind=None, *rest):
        """NumPy has no bfloat16: such values are f32, and their bits the upper halves, rounded to even."""
        if isinstance(kind, np.dtype) and (self.dtype, kind) == (np.float32, np.uint16):
            bits = np.frombuffer(np.ascontiguousarray(self).tobytes(), np.uint32).astype(np.uint64)
            bits = np.where(bits & 0x7FFFFFFF > 0x7F800000, 0x7FC0, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
            return bits.astype(np.uint16).reshape(self.shape).view(array)
        if isinstance(kind, np.dtype) and (self.dtype, kind) == (np.uint16, np.float32):
            return np.frombuffer(np.left_shift(self, 16, dtype=np.uint32, casting="unsafe").tobytes(), np.float32).reshape(self.shape).view(array)
        return super().view(kind, *rest) if kind is not None else super().view()


float32, float16, bfloat16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.float32)
int8, int16, int32, int64 = map(np.dtype, (np.int8, np.int16, np.int32, np.int64))
complex64, iinfo = np.dtype(np.complex64), np.iinfo
uint8, uint16, uint32, uint64, bool_ = map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64, np.bool_))


def _binary(f):
    """A Python number takes the type of the array, as in MLX."""
    def g(a, b):
        if not isinstance(a, np.ndarray): a = np.asarray(a, dtype=b.dtype)
        if not isinstance(b, np.ndarray): b = np.asarray(b, dtype=a.dtype)
        with np.errstate(all="ignore"):
            return np.asarray(f(a, b)).view(array)
    return g


def _unary(f):
    def g(x):
        with np.errstate(all="ignore"):
            return np.asarray(f(x)).astype(x.dtype).view(array)
    return g


add, subtract, multiply, remainder, power, arctan2, floor_divide = map(_binary, (np.add, np.subtract, np.multiply, np.remainder, np.power, np.arctan2, np.floor_divide))
bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift = map(_binary, (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift))
logical_and, logical_or, equal, not_equal = map(_binary, (np.logical_and, np.logical_or, np.equal, np.not_equal))
less, less_equal, greater, greater_equal, maximum, minimum = map(_binary, (np.less, np.less_equal, np.greater, np.greater_equal, np.maximum, np.minimum))
exp, expm1, log, log1p, sqrt, sin, cos, tanh = map(_unary, (np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.sin, np.cos, np.tanh))
arcsin, arccos, arctan, sinh, cosh, arcsinh, arccosh, arctanh = map(_unary, (np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.arcsinh, np.arccosh, np.arctanh))
negative, abs, sign, floor, ceil, round, square = map(_unary, (np.negative, np.abs, np.sign, np.floor, np.ceil, np.round, np.square))
rsqrt = _unary(lambda x: 1 / np.sqrt(x))
sigmoid = _unary(lambda x: 1 / (1 + np.exp(-x)))
erf = _unary(np.vectorize(math.erf, otypes=[np.float64]))
isnan = lambda x: np.isnan(x).view(array)
isinf = lambda x: np.isinf(x).view(array)
logical_not = lambda x: np.logical_not(x).view(array)
bitwise_invert = lambda x: np.invert(x).view(array)
real, imag = lambda x: np.real(x).view(array), lambda x: np.imag(x).view(array)


def where(c, a, b):
    if not isinstance(a, np.ndarray): a = np.asarray(a, dtype=b.dtype)
    if not isinstance(b, np.ndarray): b = np.asarray(b, dtype=a.dtype)
    return np.where(c, a, b).view(array)


def clip(x, low, high): return np.clip(x, low, high).astype(x.dtype).view(array)
def zeros(shape, dtype=float32): return np.zeros(shape, dtype).view(array)
def ones(shape, dtype=float32): return np.ones(shape, dtype).view(array)
def zeros_like(x): return np.zeros_like(x)
def ones_like(x): return np.ones_like(x)
def arange(*n): return np.arange(*n, dtype=np.int32).view(array)
def reshape(x, shape): return np.reshape(x, [int(n) for n in shape])
def transpose(x, perm): return np.transpose(x, perm)
def swapaxes(x, a, b): return np.swapaxes(x, a, b)
def moveaxis(x, a, b): return np.moveaxis(x, a, b)
def expand_dims(x, axis): return np.expand_dims(x, axis)
def concatenate(xs, axis): return np.concatenate(xs, axis=axis).view(array)
def stack(xs, axis=0): return np.stack(xs, axis=axis).view(array)
def broadcast_to(x, shape): return np.broadcast_to(x, [int(n) for n in shape]).view(array)
def tile(x, n): return np.tile(x, n).view(array)
def repeat(x, n, axis): return np.repeat(x, n, axis=axis).view(array)
def take(x, at, axis): return np.take(x, np.asarray(at), axis=axis).view(array)
def take_along_axis(x, at, axis): return np.take_along_axis(x, np.asarray(at), axis=axis).view(array)
def pad(x, widths, constant_values=0): return np.pad(x, widths, constant_values=np.asarray(constant_values).item()).view(array)


def split(x, parts, axis): return [part.view(array) for part in np.split(x, parts, axis=axis)]
def contiguous(x): return np.ascontiguousarray(x).view(array)
def any(x, axis, keepdims=False): return np.any(x, axis=axis, keepdims=keepdims).view(array)
def eval(*trees): pass


def slice_update(x, updates, start, axes):
    y, at = np.array(x), [slice(None)] * x.ndim
    for axis, first in zip(axes, np.asarray(start)):
        at[axis] = slice(int(first), int(first) + updates.shape[axis])
    y[tuple(at)] = updates
    return y.view(array)


def matmul(a, b): return np.matmul(a, b).view(array)
def addmm(c, a, b): return (np.matmul(a, b) + c).view(array)


def quantized_matmul(x, w, scales, biases=None, transpose=True, group_size=64, bits=4, mode="affine"):
    """Codes of w [N,K] are in rows, the lowest bits first."""
    assert transpose
    stream = np.unpackbits(np.ascontiguousarray(w).view(np.ndarray).view(np.uint8), axis=-1, bitorder="little")
    codes = np.sum(stream.reshape(w.shape[0], -1, bits) << np.arange(bits), axis=-1)
    spread = lambda t: np.repeat(np.asarray(t, np.float32), group_size, axis=-1)
    if mode == "mxfp4":
        table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
        dense = np.concatenate([table, -table])[codes] * spread(2.0 ** (np.asarray(scales, np.float32) - 127))
    else:
        dense = codes * spread(scales) + spread(biases)
    return (x.astype(np.float32) @ dense.T).astype(x.dtype).view(array)


def _reduction(f):
    def g(x, axis=None, keepdims=False):
        axis = tuple(axis) if isinstance(axis, list) else axis
        return np.asarray(f(x, axis=axis, keepdims=keepdims)).astype(x.dtype).view(array)
    return g


sum, mean, max, min, prod = map(_reduction, (np.sum, np.mean, np.max, np.min, np.prod))


def logsumexp(x, axis, keepdims=False):
    axis = tuple(axis) if isinstance(axis, list) else axis
    top = np.max(x, axis=axis, keepdims=True)
    y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return (y if keepdims else np.squeeze(y, axis)).view(array)


def softmax(x, axis, precise=False):
    e = np.exp(x.astype(np.float32) - np.max(x, axis=axis, keepdims=True))
    return (e / np.sum(e, axis=axis, keepdims=True)).astype(x.dtype).view(array)


def argmax(x, axis, keepdims): return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims)).view(array)
def argmin(x, axis, keepdims): return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims)).view(array)
def argsort(x, axis): return np.argsort(x, axis=axis, kind="stable").view(array)


def cumsum(x, axis, reverse=False, inclusive=True):
    y = np.flip(x, axis) if reverse else x
    s = np.cumsum(y, axis=axis, dtype=x.dtype)
    s = s if inclusive else s - y
    return (np.flip(s, axis) if reverse else s).view(array)


def conv_general(x, w, stride=1, padding=0, kernel_dilation=1, input_dilation=1, groups=1, flip=False):
    """x [N,...,C], w [O,...,C/groups]: by the definition."""
    rank = x.ndim - 2
    spread = lambda v: [v] * rank if isinstance(v, int) else list(v)
    stride, dilation, spacing = spread(stride), spread(kernel_dilation), spread(input_dilation)
    begin, end = (spread(padding), spread(padding)) if isinstance(padding, int) else map(list, padding)
    wide = np.zeros([x.shape[0]] + [(n - 1) * s + 1 for n, s in zip(x.shape[1:-1], spacing)] + [x.shape[-1]], x.dtype)
    wide[(slice(None),) + tuple(slice(None, None, s) for s in spacing)] = x
    for d in range(rank):
        for amount, front in ((begin[d], True), (end[d], False)):
            if amount < 0:
                cut = [slice(None)] * wide.ndim
                cut[d + 1] = slice(-amount, None) if front else slice(None, amount)
                wide = wide[tuple(cut)]
    wide = np.pad(wide, [(0, 0)] + [(b if b > 0 else 0, e if e > 0 else 0) for b, e in zip(begin, end)] + [(0, 0)])
    if flip:
        w = np.flip(w, tuple(range(1, rank + 1)))
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(wide.shape[1:-1], w.shape[1:-1], dilation, stride)]
    y = np.zeros([x.shape[0]] + out + [w.shape[0]], x.dtype)
    o, c = w.shape[0] // groups, w.shape[-1]
    for offset in np.ndindex(*w.shape[1:-1]):
        cut = (slice(None),) + tuple(slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(offset, dilation, out, stride))
        part, weight = wide[cut], w[(slice(None),) + offset]
        for g in range(groups):
            y[..., g * o:(g + 1) * o] += part[..., g * c:(g + 1) * c] @ weight[g * o:(g + 1) * o].T
    return y.view(array)


def compile(f, shapeless=False): return f


class fast:
    @staticmethod
    def layer_norm(x, weight, bias, eps):
        f = x.astype(np.float32)
        y = (f - f.mean(-1, keepdims=True)) / np.sqrt(f.var(-1, keepdims=True) + eps)
        y = y if weight is None else y * weight
        return (y if bias is None else y + bias).astype(x.dtype).view(array)

    @staticmethod
    def rms_norm(x, weight, eps):
        f = x.astype(np.float32)
        y = f / np.sqrt((f * f).mean(-1, keepdims=True) + eps)
        return (y if weight is None else y * weight).astype(x.dtype).view(array)

    @staticmethod
    def scaled_dot_product_attention(q, k, v, scale, mask=None):
        n = q.shape[1] // k.shape[1]
        s = q.astype(np.float32) @ np.swapaxes(np.repeat(k, n, axis=1), -1, -2) * scale
        if isinstance(mask, str):
            assert mask == "causal"
            mask = np.arange(s.shape[-1]) <= np.arange(s.shape[-2])[:, None] + s.shape[-1] - s.shape[-2]
        if mask is not None:
            s = np.where(mask, s, np.finfo(np.float32).min) if mask.dtype == np.bool_ else s + mask
        return (softmax(s, -1) @ np.repeat(v, n, axis=1)).astype(q.dtype).view(array)


class fft:
    fft = staticmethod(lambda x, n, axis: np.fft.fft(x, n=n, axis=axis).view(array))
    irfft = staticmethod(lambda x, n, axis: np.fft.irfft(x, n=n, axis=axis).view(array))
    ifft = staticmethod(lambda x, n, axis: np.fft.ifft(x, n=n, axis=axis).view(array))
