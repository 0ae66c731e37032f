"""The operations of a model on mlx.core: one function for each kind, with the meaning that rlxc gives it.

Attributes are keyword arguments. Absent optional operands are None.
"""
from __future__ import annotations

import itertools
import math
from functools import partial
from typing import NamedTuple

try:
    import mlx.core as mx
except ImportError:
    raise ImportError("the Python module mlx is missing: pip install mlx (macOS on Apple silicon), or mlx[cpu] elsewhere") from None
import numpy as np

from rlxc_mlx_control import branch, iota, loop, non_max_suppression, non_zero, reshape_to, scan, unique
from rlxc_mlx_model import Formula, Model, Port, Sizes, main
from rlxc_mlx_weights import (Quantized, centred, channels_last, conv_codes, dequantized, flat, heads_table, integer_matmul, keep, per_channel, quantized,
                              swapped, transposed_kernel)

INTEGERS = (mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64)
compiled = partial(mx.compile, shapeless=True)  # of elementwise functions


class Narrow(NamedTuple):
    """An integer type that MLX lacks: its values are held in 8 bits."""
    bits: int
    signed: bool


I4, U4, I2, U2 = Narrow(4, True), Narrow(4, False), Narrow(2, True), Narrow(2, False)


def _f32(x):
    return x.astype(mx.float32)


def _shape(x):
    return list(x.shape)


def _wide(f):
    """Narrow floats are computed in f32."""
    def g(x, **attrs):
        return f(_f32(x), **attrs).astype(x.dtype) if x.dtype in (mx.float16, mx.bfloat16) else f(x, **attrs)
    return g


# Elementwise.
def _softplus(x):
    return mx.maximum(x, 0) + mx.log1p(mx.exp(-mx.abs(x)))


def _elu(x, alpha):
    return mx.where(x < 0, alpha * mx.expm1(mx.minimum(x, 0)), x)


def _tan(x):
    return mx.sin(x) / mx.cos(x)


gelu = _wide(lambda x: 0.5 * x * (1 + mx.erf(x * math.sqrt(0.5))))
gelu_approx = _wide(lambda x: 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))
silu = _wide(lambda x: x * mx.sigmoid(x))
swish = _wide(lambda x, alpha=1.0, beta=0.0: x * mx.sigmoid(alpha * x))
sigmoid, tanh, exp, expm1 = map(_wide, (mx.sigmoid, mx.tanh, mx.exp, mx.expm1))
log, log1p, sqrt, rsqrt = map(_wide, (mx.log, mx.log1p, mx.sqrt, mx.rsqrt))
sin, cos, tan = map(_wide, (mx.sin, mx.cos, _tan))
asin, acos, atan = map(_wide, (mx.arcsin, mx.arccos, mx.arctan))
sinh, cosh = map(_wide, (mx.sinh, mx.cosh))
asinh, acosh, atanh, erf = map(_wide, (mx.arcsinh, mx.arccosh, mx.arctanh, mx.erf))
softplus = _wide(_softplus)
softsign = _wide(lambda x: x / (1 + mx.abs(x)))
mish = _wide(lambda x: x * mx.tanh(_softplus(x)))
log_sigmoid = _wide(lambda x: -_softplus(-x))
hard_swish = _wide(lambda x: x * mx.clip(x / 6 + 0.5, 0, 1))
hard_sigmoid = _wide(lambda x, alpha, beta: mx.clip(alpha * x + beta, 0, 1))
elu = _wide(lambda x, alpha, beta=0.0: _elu(x, alpha))
selu = _wide(lambda x, alpha, beta: beta * _elu(x, alpha))
celu = _wide(lambda x, alpha, beta=0.0: mx.maximum(x, 0) + mx.minimum(alpha * mx.expm1(x / alpha), 0))
leaky_relu = _wide(lambda x, alpha, beta=0.0: mx.where(x < 0, alpha * x, x))
thresholded_relu = _wide(lambda x, alpha, beta=0.0: mx.where(x > alpha, x, 0))
shrink = _wide(lambda x, alpha, beta: mx.where(x < -alpha, x + beta, mx.where(x > alpha, x - beta, 0)))
recip = _wide(lambda x: 1 / x)
round_ = _wide(mx.round)
neg, abs_, sign, floor, ceil, is_nan = mx.negative, mx.abs, mx.sign, mx.floor, mx.ceil, mx.isnan
not_, bit_not = mx.logical_not, mx.bitwise_invert
add, sub, mul = mx.add, mx.subtract, mx.multiply
bit_and, bit_or, bit_xor = mx.bitwise_and, mx.bitwise_or, mx.bitwise_xor
and_, or_ = mx.logical_and, mx.logical_or
eq, ne, lt, le, gt, ge = mx.equal, mx.not_equal, mx.less, mx.less_equal, mx.greater, mx.greater_equal
max_, min_ = mx.maximum, mx.minimum
where, atan2 = mx.where, mx.arctan2


def relu(x): return mx.maximum(x, 0)


def clamp(x, min, max):
    number = int if x.dtype in INTEGERS else float
    x = mx.maximum(x, number(min)) if min > -math.inf else x
    return mx.minimum(x, number(max)) if max < math.inf else x


def is_inf(x, alpha=1.0, beta=1.0):
    up, down = x == math.inf, x == -math.inf
    return mx.logical_or(up, down) if alpha and beta else up if beta else down


def cast(x, to, saturate=True):
    if to == mx.bool_:
        return x != 0
    if isinstance(to, Narrow):
        low, half = mx.bitwise_and(x.astype(mx.int32), (1 << to.bits) - 1), 1 << to.bits - 1
        return (mx.bitwise_xor(low, half) - half).astype(mx.int8) if to.signed else low.astype(mx.uint8)
    return x.astype(to)


def bit_cast(x, to, saturate=True):
    x = x.astype(mx.uint8) if x.dtype == mx.bool_ else x
    return cast(x, to) if to == mx.bool_ or isinstance(to, Narrow) else x.view(to)


_UNSIGNED = {mx.int8: mx.uint8, mx.int16: mx.uint16, mx.int32: mx.uint32, mx.int64: mx.uint64}


def _magnitude(x):  # in a type without sign: signed ones lack that of their smallest integer
    return mx.where(x < 0, -x, x).astype(_UNSIGNED.get(x.dtype, x.dtype))


def div(a, b):
    if a.dtype not in INTEGERS:
        return a / b
    q = mx.floor_divide(_magnitude(a), _magnitude(mx.where(b == 0, 1, b))).astype(a.dtype)
    return mx.where(b == 0, 0, mx.where((a < 0) != (b < 0), -q, q))


def pow_(a, b):
    return mx.power(a, b.astype(a.dtype)).astype(a.dtype)


def fmod(a, b):
    r = mx.remainder(_magnitude(a), _magnitude(mx.where(b == 0, 1, b) if a.dtype in INTEGERS else b)).astype(a.dtype)
    return mx.where(a < 0, -r, r)


def mod(a, b):
    r = fmod(a, b)
    return mx.where(mx.logical_and(r != 0, (r < 0) != (b < 0)), r + b, r) if a.dtype in INTEGERS else mx.remainder(a, b)


def shl(a, b):
    return mx.where(b.astype(mx.int32) < a.itemsize * 8, mx.left_shift(a, b), 0)


def shr(a, b):
    return mx.where(b.astype(mx.int32) < a.itemsize * 8, mx.right_shift(a, b), 0)


def xor(a, b):
    return a != b


def prelu(a, b):
    return mx.where(a < 0, b * a, a)


def fma(a, b, c):
    return a * b + c


def _act(x, act):
    return x if act is None else act[0](x, **act[1])


# Movement.
def reshape(x, dims, scalar=False):
    return mx.reshape(x, dims)


def transpose(x, perm):
    return mx.transpose(x, perm)


def _along(x, axis, index):
    return x[(slice(None),) * axis + (index,)]


def narrow(x, axis, start, len):
    return _along(x, axis, slice(start, start + len))


def slice_(x, axis, start, len, step):
    if step < 0:
        return mx.take(x, mx.arange(start, start + len * step, step), axis=axis)
    return _along(x, axis, slice(start, start + (len - 1) * step + 1 if len else start, step))


def concat(*xs, axis):
    return mx.concatenate(list(xs), axis=axis)


def expand(x, dims, scalar=False):
    return mx.broadcast_to(x, dims)


def _wrapped(index, n):
    return mx.where(index < 0, index + n, index)


def gather(x, index, axis):
    return mx.take(x, index, axis=axis)


def gather_elements(x, index, axis):
    cut = tuple(slice(None) if d == axis else slice(0, n) for d, n in enumerate(index.shape))
    return mx.take_along_axis(x[cut], index, axis=axis)


def linear_index(index, dims):
    """Row-major positions of index tuples in the last axis."""
    at = 0
    for k, n in enumerate(dims):
        at = at * n + _wrapped(index[..., k], n)
    return at


def gather_rows(x, at, depth):
    """Rows of x whose first `depth` axes are one."""
    return mx.take(mx.reshape(x, [-1] + _shape(x)[depth:]), at, axis=0)


def gather_nd(x, index, batch_dims=0):
    depth, batch = index.shape[-1], math.prod(x.shape[:batch_dims])
    at = linear_index(index, x.shape[batch_dims:batch_dims + depth])
    if batch_dims:
        rows = math.prod(x.shape[batch_dims:batch_dims + depth])
        at = at + mx.reshape(mx.arange(batch) * rows, _shape(x)[:batch_dims] + [1] * (at.ndim - batch_dims))
    return gather_rows(x, at, batch_dims + depth)


def _scatter(flat, at, updates, reduction):
    slot = flat.at[at]
    if reduction == "none":
        flat[at] = updates
        return flat
    return {"add": slot.add, "mul": slot.multiply, "max": slot.maximum, "min": slot.minimum}[reduction](updates)


def scatter_elements(x, index, updates, axis, reduction):
    shape = _shape(x)
    grid = [mx.reshape(mx.arange(n), [n if k == d else 1 for k in range(len(shape))]) for d, n in enumerate(index.shape)]
    grid[axis] = _wrapped(index, shape[axis])
    at = 0
    for g, n in zip(grid, shape):
        at = at * n + g
    at = mx.reshape(mx.broadcast_to(at, index.shape), [-1])
    return mx.reshape(_scatter(mx.reshape(x, [-1]) + mx.zeros([1], x.dtype), at, mx.reshape(updates, [-1]), reduction), shape)


def put_slice(x, updates, start, axis):
    """x with updates in place of as many rows along the axis; MLX writes them into the memory of x if nobody else reads it."""
    return mx.slice_update(x, updates, mx.reshape(start, [1]), [axis])


def scatter_nd(x, index, updates, axis=0, reduction="none"):
    depth, shape = index.shape[-1], _shape(x)
    flat = mx.reshape(x, [math.prod(shape[:depth]), math.prod(shape[depth:])]) + mx.zeros([1, 1], x.dtype)
    at = mx.reshape(linear_index(index, shape[:depth]), [-1])
    return mx.reshape(_scatter(flat, at, mx.reshape(updates, [at.size, -1]), reduction), shape)


def pad(x, fill=None, before=(), after=(), mode="constant"):
    if mode == "constant":
        cut = tuple(slice(-b if b < 0 else 0, n + a if a < 0 else n) for b, a, n in zip(before, after, x.shape))
        widths = [(b if b > 0 else 0, a if a > 0 else 0) for b, a in zip(before, after)]
        return mx.pad(x[cut], widths, constant_values=mx.array(0, x.dtype) if fill is None else mx.reshape(fill, []).astype(x.dtype))
    for d, (b, a) in enumerate(zip(before, after)):
        n, at = x.shape[d], mx.arange(-b, x.shape[d] + a)
        if mode == "edge":
            at = mx.clip(at, 0, n - 1)
        elif mode == "wrap":
            at = mx.remainder(at, n)
        else:
            period = 2 * n - 2 if n > 1 else 1
            at = mx.remainder(at, period)
            at = mx.minimum(at, period - at) if n > 1 else mx.zeros_like(at)
        x = mx.take(x, at, axis=d)
    return x


def reverse(x, axes):
    for a in axes:
        x = mx.take(x, mx.arange(x.shape[a] - 1, -1, -1), axis=a)
    return x


def tile(x, dims, scalar=False):
    return mx.tile(x, dims)


def trilu(x, diagonal_given=None, upper=True, diagonal=0):
    d = diagonal if diagonal_given is None else diagonal_given.item()
    row, column = mx.arange(x.shape[-2])[:, None], mx.arange(x.shape[-1])[None]
    keep = column - row >= d if upper else column - row <= d
    return mx.where(keep, x, 0)


def range_(start, step, dims, scalar=False):
    return (start + mx.arange(dims[0]).astype(start.dtype) * step).astype(start.dtype)


def positions(dims, to):
    """0, 1, 2 and so on."""
    return mx.arange(dims[0]).astype(to)


def dim_value(dims, scalar=False):
    return mx.array(dims[0] if scalar else dims, mx.int64)


def one_hot(index, values, axis, depth):
    hot = mx.expand_dims(_wrapped(index, depth), axis) == mx.reshape(mx.arange(depth), [depth if d == axis else 1 for d in range(index.ndim + 1)])
    return mx.where(hot, values[1], values[0])


# Products. Weights come as rlxc_mlx_weights.py arranges them.
def matmul(a, b):
    return integer_matmul(a, b) if a.dtype in INTEGERS else mx.matmul(a, b)


def fused_matmul_bias_act(a, b, bias=None, residual=None, act=None):
    y = mx.addmm(bias, a, b) if bias is not None and b.ndim == 2 and bias.dtype == a.dtype and a.dtype not in INTEGERS else None
    y = y if y is not None else matmul(a, b) if bias is None else matmul(a, b) + bias
    return _act(y if residual is None else y + residual, act)


def rounded_rows(x, block):
    """x rounded to 8 bits with a scale for each block of a row."""
    parts = mx.reshape(_f32(x), [*x.shape[:-1], -1, block or x.shape[-1]])
    scale = mx.max(mx.abs(parts), axis=-1, keepdims=True) / 127
    codes = mx.round(parts * mx.where(scale == 0, 0.0, 1 / scale))
    return mx.reshape(codes * scale, x.shape).astype(x.dtype)


def dequant_matmul(x, w, bias=None, residual=None, act=None):
    """w of type Quantized, [N, K]."""
    y = mx.quantized_matmul(x, *w.arrays, transpose=True, group_size=w.group, bits=w.bits, mode=w.mode)
    y = y if bias is None else y + bias
    return _act(y if residual is None else y + residual, act)


def dot_general(a, b, lhs_batch, rhs_batch, lhs_contracting, rhs_contracting):
    def arranged(x, batch, contracting, last):
        free = [d for d in range(x.ndim) if d not in batch and d not in contracting]
        order = [*batch, *free, *contracting] if last else [*batch, *contracting, *free]
        sizes = [math.prod(x.shape[d] for d in part) for part in (free, contracting)]
        return mx.reshape(mx.transpose(x, order), [x.shape[d] for d in batch] + (sizes if last else sizes[::-1])), [x.shape[d] for d in free]
    left, m = arranged(a, lhs_batch, lhs_contracting, True)
    right, n = arranged(b, rhs_batch, rhs_contracting, False)
    return mx.reshape(matmul(left, right), [a.shape[d] for d in lhs_batch] + m + n)


def q_matmul(a, b, a_zero=None):
    """b less its zero point."""
    if a_zero is not None and a_zero.ndim == 1 and a_zero.size > 1:
        a_zero = mx.expand_dims(a_zero, -1)
    return integer_matmul(centred(a, a_zero), b, small=True)


def _conv(x, w, strides, begin, end, dilations, groups, input_dilation=1, flip=False):
    """x [N,C,...] as in ONNX, w [O,...,I] as in MLX; the result has the channels last."""
    x = mx.moveaxis(x, 1, -1)
    run = partial(mx.conv_general, stride=strides, padding=(begin, end), kernel_dilation=dilations, input_dilation=input_dilation, flip=flip)
    if groups == 1 or x.ndim < 5:
        return run(x, w, groups=groups)
    # MLX has no groups in 3 dimensions.
    return mx.concatenate([run(a, b) for a, b in zip(mx.split(x, groups, axis=-1), mx.split(w, groups, axis=0))], axis=-1)


def _channels_first(y, bias):
    return mx.moveaxis(y if bias is None else y + bias, -1, 1)


def conv(x, w, bias=None, strides=(), pads_begin=(), pads_end=(), dilations=(), output_padding=(), groups=1):
    return _channels_first(_conv(x, w, list(strides), list(pads_begin), list(pads_end), list(dilations), groups), bias)


def fused_conv_bias_act(x, w, bias=None, residual=None, act=None, **attrs):
    y = conv(x, w, bias, **attrs)
    return _act(y if residual is None else y + residual, act)


def conv_transpose(x, w, bias=None, strides=(), pads_begin=(), pads_end=(), dilations=(), output_padding=(), groups=1):
    extra = output_padding or [0] * (x.ndim - 2)
    reach = [(k - 1) * d for k, d in zip(w.shape[1:-1], dilations)]
    begin = [r - b for r, b in zip(reach, pads_begin)]
    end = [r - e + o for r, e, o in zip(reach, pads_end, extra)]
    return _channels_first(_conv(x, w, 1, begin, end, list(dilations), groups, list(strides), True), bias)


def q_conv(x, w, x_zero=None, **attrs):
    """w in f32, less its zero points. Exact up to 2^24."""
    return conv(centred(x, x_zero), w, **attrs).astype(mx.int32)


def _windows(x, kernel, strides, begin, end, dilations, fill):
    """All windows of the spatial axes, one behind the other in a last axis."""
    rank = len(kernel)
    x = mx.pad(x, [(0, 0), (0, 0)] + list(zip(begin, end)), constant_values=mx.array(fill, x.dtype))
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], kernel, dilations, strides)]
    parts = []
    for offset in itertools.product(*(range(k) for k in kernel)):
        cut = tuple(slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in zip(offset, dilations, out, strides))
        parts.append(x[(slice(None),) * 2 + cut])
    return mx.stack(parts, axis=-1)


def _ceil_end(x, kernel, strides, begin, end, dilations):
    """What ceil_mode adds at the end: windows must begin inside the input or its padding at the start."""
    more = []
    for n, k, s, b, e, d in zip(x.shape[2:], kernel, strides, begin, end, dilations):
        reach = (k - 1) * d + 1
        count = -(-(n + b + e - reach) // s) + 1
        count -= (count - 1) * s >= n + b
        extra = (count - 1) * s + reach - n - b
        more.append(extra if extra > e else e)
    return more


def pool(x, op, kernel, strides, pads_begin, pads_end, dilations, ceil_mode, count_include_pad, column_major=False, p=2):
    given = pads_end
    end = _ceil_end(x, kernel, strides, pads_begin, pads_end, dilations) if ceil_mode else pads_end
    arguments = (kernel, strides, pads_begin, end, dilations)
    if op == "max":
        low = -math.inf if x.dtype not in INTEGERS else np.iinfo(np.array(mx.zeros([1], x.dtype)).dtype).min
        return mx.max(_windows(x, *arguments, low), axis=-1)
    w = _windows(_f32(x), *arguments, 0)
    if op == "mean":
        inside = mx.ones([1, 1] + _shape(x)[2:])
        if count_include_pad:
            inside = mx.pad(inside, [(0, 0), (0, 0)] + list(zip(pads_begin, given)), constant_values=mx.array(1.0))
            rest = [e - g for e, g in zip(end, given)]
            count = mx.sum(_windows(inside, kernel, strides, [0] * len(kernel), rest, dilations, 0), axis=-1)
        else:
            count = mx.sum(_windows(inside, *arguments, 0), axis=-1)
        y = mx.sum(w, axis=-1) / count
    elif op == "l2":
        y = mx.power(mx.sum(mx.power(mx.abs(w), p), axis=-1), 1 / p)
    elif op == "sum":
        y = mx.sum(w, axis=-1)
    else:
        raise NotImplementedError(f"pool {op}")
    return y.astype(x.dtype)


# Reductions and norms.
def reduce(x, op, axes, keep_dim):
    f = _f32(x) if x.dtype in (mx.float16, mx.bfloat16) else x
    if x.dtype in (mx.int8, mx.int16, mx.uint8, mx.uint16):  # counts and sums need more bits
        f = x.astype(mx.int32)
    axes = list(axes)
    if op == "log_sum_exp":
        return mx.logsumexp(f, axis=axes, keepdims=keep_dim).astype(x.dtype)
    before = {"l1": mx.abs, "l2": mx.square, "sum_square": mx.square}.get(op)
    f = f if before is None else before(f)
    if op == "mean" and x.dtype in INTEGERS:
        return div(mx.sum(f, axis=axes, keepdims=keep_dim), mx.array(math.prod(x.shape[a] for a in axes), f.dtype)).astype(x.dtype)
    combine = {"mean": mx.mean, "max": mx.max, "min": mx.min, "prod": mx.prod}.get(op, mx.sum)
    y = combine(f, axis=axes, keepdims=keep_dim) if axes else f
    y = mx.sqrt(y) if op == "l2" else mx.log(y) if op == "log_sum" else y
    return y.astype(x.dtype)


def arg_reduce(x, axis, largest, keep_dim, select_last):
    y = reverse(x, [axis]) if select_last else x
    i = (mx.argmax if largest else mx.argmin)(y, axis=axis, keepdims=keep_dim).astype(mx.int64)
    return x.shape[axis] - 1 - i if select_last else i


@_wide
def cumsum(x, axis, exclusive=False, reverse=False):
    return mx.cumsum(x, axis=axis, reverse=reverse, inclusive=not exclusive).astype(x.dtype)


def topk(x, k, axis, largest, sorted):
    key = x
    if largest:  # a stable ascending order, so that ties go to the smaller index
        key = -x if x.dtype not in INTEGERS else -x.astype(mx.int64)
    i = narrow(mx.argsort(key, axis=axis), axis, 0, k)
    return mx.take_along_axis(x, i, axis=axis), i.astype(mx.int64)


def fft(x, axis, inverse=False, onesided=False, norm="none", length=0):
    z = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    n = length or z.shape[axis]
    half = inverse and onesided  # the second half of the spectrum is the conjugate of the first
    y = (mx.fft.irfft if half else mx.fft.ifft if inverse else mx.fft.fft)(z, n=n, axis=axis)
    y = y * {"none": n if inverse else 1, "inverse_n": 1 if inverse else 1 / n, "unitary": math.sqrt(n) if inverse else 1 / math.sqrt(n)}[norm]
    if half:
        return mx.expand_dims(y, -1).astype(x.dtype)
    y = narrow(y, axis, 0, n // 2 + 1) if onesided else y
    return mx.stack([mx.real(y), mx.imag(y)], axis=-1).astype(x.dtype)


def softmax(x, axis):
    return mx.softmax(x, axis=axis, precise=True)


def log_softmax(x, axis):
    f = _f32(x)
    return (f - mx.logsumexp(f, axis=axis, keepdims=True)).astype(x.dtype)


def _rows(x, axis):
    """The axes from `axis` on as one."""
    return x if axis in (-1, x.ndim - 1) else mx.reshape(x, _shape(x)[:axis] + [-1])


def _as(y, x):
    """y in the shape and the type of x: MLX's norms widen their result to the type of gamma and beta."""
    return (y if y.ndim == x.ndim else mx.reshape(y, x.shape)).astype(x.dtype)


def layer_norm(x, gamma=None, beta=None, axis=-1, eps=1e-5):
    return _as(mx.fast.layer_norm(_rows(x, axis), gamma, beta, eps), x)


def rms_norm(x, gamma=None, beta=None, axis=-1, eps=1e-5):
    y = mx.fast.rms_norm(_rows(x, axis), gamma, eps)
    return _as(y if beta is None else y + beta, x)


def fused_residual_ln(x, residual, bias=None, gamma=None, beta=None, axis=-1, eps=1e-5):
    s = x + residual if bias is None else x + residual + bias
    return layer_norm(s, gamma, beta, axis, eps), s


def fused_residual_rms_norm(x, residual, bias=None, gamma=None, beta=None, axis=-1, eps=1e-5):
    s = x + residual if bias is None else x + residual + bias
    return rms_norm(s, gamma, beta, axis, eps), s


def group_norm(x, gamma=None, beta=None, groups=1, eps=1e-5):
    """gamma and beta [C,1,...]."""
    y = mx.reshape(mx.fast.layer_norm(mx.reshape(x, [x.shape[0], groups, -1]), None, None, eps), x.shape)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def batch_norm_inference(x, gamma, beta, mean, var, axis=1, eps=1e-5):
    c = lambda t: per_channel(t, x.ndim - axis)
    return (x - c(mean)) * c(mx.rsqrt(var + eps)) * c(gamma) + c(beta)


def lrn(x, size, alpha, beta, bias):
    channels = x.shape[1]
    low, high = min((size - 1) // 2, channels - 1), min(size // 2, channels - 1)  # a window has no more than all channels
    square = mx.pad(mx.square(x), [(0, 0), (low, high)] + [(0, 0)] * (x.ndim - 2))
    total = sum(narrow(square, 1, i, channels) for i in range(low + 1 + high))
    return x / mx.power(bias + alpha / size * total, beta)


# Resize (ONNX operator Resize, opset 19): along an axis, every result coordinate is a weighted sum of a few source coordinates.
def _source_coordinates(coord, n, out, scale, start, end):
    """One quotient whose parts are exact."""
    x, last = np.arange(out, dtype=np.float64), n - 1
    p, q = (scale, 1) if scale else (out, n)  # scale = p / q
    if coord == "asymmetric":
        return x * q / p
    if coord == "align_corners":
        length = scale * n if scale else out
        return x * last / (length - 1) if length != 1 else x * 0
    if coord == "tf_crop_and_resize":
        return start * last + x * (end - start) * last / (out - 1) if out > 1 else 0.5 * (start + end) * last + x
    if coord == "pytorch_half_pixel" and out == 1:
        return x
    low = 0 if coord == "tf_half_pixel_for_nn" else n * p - out * q - p if coord == "half_pixel_symmetric" else -p
    return ((2 * x + 1) * q + low) / (2 * p)


def _resize_kernel(mode, a, x):
    """A tent, or Keys' cubic (1981)."""
    x = np.abs(x)
    if mode == "linear":
        return np.maximum(0, 1 - x)
    return np.where(x <= 1, ((a + 2) * x - (a + 3)) * x * x + 1, np.where(x < 2, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, 0))


_NEAREST = {"round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5), "floor": np.floor, "ceil": np.ceil}


def resize(x, sizes, scales, roi, mode, coord, nearest, cubic_a, extrapolation, exclude_outside, antialias):
    y = x if mode == "nearest" else _f32(x)
    for d, (n, out) in enumerate(zip(x.shape, sizes)):
        scale = scales[d] if scales else None
        if n == out and scale in (1, None) and coord != "tf_crop_and_resize":
            continue
        start, end = (roi[d], roi[x.ndim + d]) if roi else (0, 1)
        source = _source_coordinates(coord, n, out, scale, start, end)
        def taken(at):
            return mx.take(y, mx.array(np.clip(at, 0, n - 1).astype(np.int32)), axis=d)
        if mode == "nearest":
            y = taken(_NEAREST[nearest](source))
        else:
            # An antialiasing filter is as wide as the source pixels that one result pixel covers.
            shrink = min(scale or out / n, 1.0) if antialias else 1.0
            first = math.floor(-(1 if mode == "linear" else 2) / shrink) + 1
            base = np.ceil(source) - 1
            at = [base + i for i in range(first, 2 - first)]
            weights = np.stack([_resize_kernel(mode, cubic_a, (place - source) * shrink) for place in at])
            if exclude_outside:
                weights *= [(place >= 0) & (place < n) for place in at]
            total = weights.sum(axis=0)
            weights /= np.where(total == 0, 1, total)  # nothing counts far outside
            y = sum(taken(place) * per_channel(mx.array(w), x.ndim - d) for place, w in zip(at, weights.astype(np.float32)))
        if coord == "tf_crop_and_resize":
            outside = per_channel(mx.array((source < 0) | (source > n - 1)), x.ndim - d)
            y = mx.where(outside, mx.array(extrapolation).astype(y.dtype), y)
    return y.astype(x.dtype)


# Attention.
def _visible(mask, rows, keys, window, given):
    """Whether a query sees a key, as a boolean mask; None: it sees all."""
    seen = None
    if mask in ("causal", "sliding_window"):
        row, key = mx.arange(keys - rows, keys)[:, None], mx.arange(keys)[None]
        seen = key <= row
        seen = mx.logical_and(seen, key >= row - window) if mask == "sliding_window" else seen
    return seen if given is None else given if seen is None else mx.logical_and(seen, given)


def _capped_attention(q, k, v, scale, softcap, seen, bias):
    """With scores softcap * tanh(s / softcap), which MLX's attention lacks."""
    repeat = q.shape[1] // k.shape[1]
    q = mx.reshape(q, [q.shape[0], k.shape[1], repeat, *q.shape[2:]])  # heads that share keys
    k, v = mx.expand_dims(k, 2), mx.expand_dims(v, 2)
    grouped = lambda m: m if m.ndim < 3 or m.shape[-3] == 1 and m.ndim == 3 else (
        mx.expand_dims(m, 2) if m.shape[-3] == 1 else mx.reshape(m, [*m.shape[:-3], k.shape[1], repeat, *m.shape[-2:]]))
    s = softcap * mx.tanh(_f32(mx.matmul(q, mx.swapaxes(k, -1, -2))) * (scale / softcap))
    s = s if bias is None else s + grouped(bias)
    s = s if seen is None else mx.where(grouped(seen), s, -3.4028234e38)
    y = mx.matmul(mx.softmax(s, axis=-1).astype(v.dtype), v)
    return mx.reshape(y, [y.shape[0], -1, *y.shape[3:]])


def attention(q, k, v, mask_or_bias=None, num_heads=0, num_kv_heads=0, layout="bhsd", out_layout="bhsd", mask="none", window=0, scale=0.0, softcap=0.0,
              k_transposed=False, finite_mask=False, whole=False):
    """`mask_or_bias` is boolean unless mask is "bias". `whole`: every query sees a key."""
    def heads(x, n):
        if layout == "packed":
            x = mx.reshape(x, [x.shape[0], x.shape[1], n, -1])
        return x if layout == "bhsd" else mx.swapaxes(x, 1, 2)
    k, v = k.astype(q.dtype), v.astype(q.dtype)
    q, v = heads(q, num_heads), heads(v, num_kv_heads or num_heads)
    k = mx.swapaxes(k, -1, -2) if k_transposed else heads(k, num_kv_heads or num_heads)
    scale = scale or 1 / math.sqrt(q.shape[-1])
    rows, keys = q.shape[2], k.shape[2]
    bias, given = (mask_or_bias, None) if mask == "bias" else (None, mask_or_bias)
    causal = mask == "causal" and given is None and not softcap and rows <= keys
    seen = None if causal else _visible(mask, rows, keys, window, given)
    if keys == 0:
        y = mx.zeros(_shape(q)[:3] + _shape(v)[3:], q.dtype)
    elif softcap:
        y = _capped_attention(q, k, v, scale, softcap, seen, bias)
    else:
        form = "causal" if causal else seen if bias is None else bias.astype(q.dtype)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=form)
    if keys and seen is not None and not whole and not (given is None and rows <= keys):
        # A query without keys: MLX leaves open what it gets.
        none = mx.mean(v, axis=2, keepdims=True) if finite_mask else mx.zeros([1], v.dtype)
        none = mx.repeat(none, q.shape[1] // v.shape[1], axis=1) if finite_mask else none
        y = mx.where(mx.any(seen, axis=-1, keepdims=True), y, none)
    if out_layout == "bhsd":
        return y
    y = mx.swapaxes(y, 1, 2)
    return mx.reshape(y, [y.shape[0], y.shape[1], -1]) if out_layout == "packed" else y


def rope(x, cos, sin, gamma=None, head_dim=0, n_rot=0, style="neox", layout="bhsd", eps=0.0):
    """Tables of n_rot / 2 or n_rot columns, and gamma, with axes that broadcast to x."""
    shape, dtype = x.shape, x.dtype
    if layout == "packed":
        x = mx.reshape(x, [shape[0], shape[1], -1, head_dim])
    if gamma is not None:
        x = mx.fast.rms_norm(x, gamma, eps) if gamma.ndim == 1 else mx.fast.rms_norm(x, None, eps) * gamma
    n = n_rot or x.shape[-1]
    rotary, half = x if n == x.shape[-1] else x[..., :n], n // 2
    a, b = (rotary[..., :half], rotary[..., half:]) if style == "neox" else (rotary[..., ::2], rotary[..., 1::2])
    joined = lambda low, high: mx.concatenate([low, high], axis=-1) if style == "neox" else mx.reshape(mx.stack([low, high], axis=-1), rotary.shape)
    y = joined(a * cos - b * sin, b * cos + a * sin) if cos.shape[-1] == half else rotary * cos + joined(-b, a) * sin
    y = y if n == x.shape[-1] else mx.concatenate([y.astype(dtype), x[..., n:]], axis=-1)
    return mx.reshape(y.astype(dtype), shape) if layout == "packed" else y.astype(dtype)


def fused_swiglu(x, gate_first=False, act=None):
    half = x.shape[-1] // 2
    up, gate = (x[..., half:], x[..., :half]) if gate_first else (x[..., :half], x[..., half:])
    return up * (silu(gate) if act is None else _act(gate, act))


def fused_matmul_swiglu(x, w, bias=None, gate_first=False, act=None):
    y = mx.matmul(x, w)
    return fused_swiglu(y if bias is None else y + bias, gate_first, act)


def selective_scan(x, delta, a, b, c):
    state, rows = 0, []
    for t in range(x.shape[1]):
        d = delta[:, t, :, None]
        state = mx.exp(d * a) * state + d * b[:, t, None, :] * x[:, t, :, None]
        rows.append(mx.sum(state * c[:, t, None, :], axis=-1))
    return mx.stack(rows, axis=1).astype(x.dtype)


# Quantization.
def _blocked(t, x, axis, block):
    if t is None or t.ndim == 0 or t.size == 1:
        return t if t is None else mx.reshape(t, [])
    return mx.repeat(t, block, axis=axis)[tuple(slice(0, n) for n in x.shape)] if block else per_channel(t, x.ndim - axis)


def quantize(x, scale, zero=None, axis=0, block=0, to=mx.int8, saturate=True):
    y = mx.round(_f32(x) / _f32(_blocked(scale, x, axis, block)))
    y = y if zero is None else y + _f32(_blocked(zero, x, axis, block))
    limits = mx.iinfo(to)
    return mx.clip(y, float(limits.min), float(limits.max)).astype(to)


def dequantize(x, scale, zero=None, axis=0, block=0, to=mx.float32, saturate=True):
    q = x.astype(mx.int32)
    q = q if zero is None else q - _blocked(zero, x, axis, block).astype(mx.int32)
    return (_f32(q) * _f32(_blocked(scale, x, axis, block))).astype(to)
