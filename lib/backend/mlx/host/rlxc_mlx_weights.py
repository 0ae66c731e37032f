"""Weights as MLX's operations read them: arranged, centred and packed once, when a model is loaded; products of integers."""
from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx
import numpy as np


def swapped(w: mx.array) -> mx.array:
    """The last two axes exchanged. MLX's matmul takes such a view as it is."""
    return mx.swapaxes(w, -1, -2)


def channels_last(w: mx.array) -> mx.array:
    """The weight of a convolution, [O,I,...] as in ONNX, as [O,...,I]."""
    return mx.contiguous(mx.moveaxis(w, 1, -1))


def transposed_kernel(w: mx.array, groups: int) -> mx.array:
    """The weight of a transposed convolution, [I,O/groups,...] as in ONNX, as [O,...,I/groups]."""
    w = mx.reshape(w, [groups, w.shape[0] // groups, *w.shape[1:]])
    w = mx.swapaxes(w, 1, 2)
    return channels_last(mx.reshape(w, [w.shape[0] * w.shape[1], *w.shape[2:]]))


def flat(t: mx.array) -> mx.array:
    return mx.reshape(t, [-1])


def per_channel(t: mx.array, rank: int) -> mx.array:
    """A vector as the first of `rank` axes, to broadcast."""
    return mx.reshape(t, [-1] + [1] * (rank - 1))


def heads_table(t: mx.array, axis: int) -> mx.array:
    """A table of rotations, or a factor by head, with an axis to broadcast along the heads or the tokens."""
    return mx.expand_dims(t, axis)


def keep(mask: mx.array) -> mx.array:
    return mask if mask.dtype == mx.bool_ else mask != 0


def centred(x: mx.array, zero: mx.array | None = None) -> mx.array:
    """Integers of 8 bits less their zero point, in f32."""
    x = x.astype(mx.float32)
    return x if zero is None else x - (mx.reshape(zero, []) if zero.size == 1 else zero).astype(mx.float32)


def conv_codes(w: mx.array, zero: mx.array | None = None) -> mx.array:
    """Codes [O,I,...] less their zero points, one or one for each of O, as the weight of a convolution in f32."""
    return channels_last(centred(w, zero if zero is None or zero.size == 1 else per_channel(zero, w.ndim)))


# Products of integers by MLX's matmul of floats, in which sums of up to 256 products of 8 bits are exact.
_TERMS = 256


def _sums(a: mx.array, b: mx.array) -> mx.array:
    """a [...,M,K] times b [...,K,N] in i32, of integers in f32 with |a|, |b| <= 255."""
    k, total = a.shape[-1], None
    for first in range(0, max(k, 1), _TERMS):
        part = mx.matmul(a[..., first:first + _TERMS], b[..., first:first + _TERMS, :]).astype(mx.int32)
        total = part if total is None else total + part
    return total


def integer_matmul(a: mx.array, b: mx.array, small: bool = False) -> mx.array:
    """`small`: in i32, of integers in f32 with |a|, |b| <= 255. Others are split in digits to the base 256; sums wrap around."""
    if a.ndim == 1:
        return integer_matmul(a[None], b, small)[..., 0, :]
    if b.ndim == 1:
        return integer_matmul(a, b[:, None], small)[..., 0]
    if small:
        return _sums(a, b)
    size, dtype = a.itemsize, a.dtype
    digit = lambda x, i: mx.bitwise_and(mx.right_shift(x, mx.array(8 * i, x.dtype)), mx.array(255, x.dtype) if size > 1 else x).astype(mx.uint8).astype(mx.float32)
    wide = mx.int64 if size == 8 else mx.int32
    total = mx.zeros([1], wide)
    for i in range(size):
        for j in range(size - i):
            total = total + mx.left_shift(_sums(digit(a, i), digit(b, j)).astype(wide), mx.array(8 * (i + j), wide))
    return total.astype(dtype)


class Quantized(NamedTuple):
    """A weight [N,K] in MLX's form: packed codes, scales, and in mode "affine" biases. w = code * scale + bias."""
    arrays: tuple[mx.array, ...]
    group: int
    bits: int
    mode: str


_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])  # twice the values of the codes of MXFP4


def _packed(codes: mx.array, bits: int) -> mx.array:
    """Codes in rows, the lowest bits first: 8 codes take `bits` bytes."""
    eight = mx.reshape(codes.astype(mx.uint64), [codes.shape[0], -1, 8])
    words = mx.sum(mx.left_shift(eight, mx.arange(8).astype(mx.uint64) * bits), axis=-1, keepdims=True)
    bytes_ = mx.bitwise_and(mx.right_shift(words, mx.arange(bits).astype(mx.uint64) * 8), mx.array(255, mx.uint64)).astype(mx.uint8)
    return mx.contiguous(mx.reshape(bytes_, [codes.shape[0], -1])).view(mx.uint32)


def _by_group(t: mx.array, rows: int, groups: int) -> mx.array:
    """An entry for each group from one for each block, row, or all."""
    t = mx.repeat(t, groups // t.shape[1], axis=1)
    return mx.contiguous(mx.broadcast_to(t, [rows, groups]))


def quantized(codes: mx.array, scale: mx.array, zero: mx.array | None = None, *, trans_b: bool = False, group: int, to: mx.Dtype) -> Quantized:
    """(codes - zero) * scale, [K,N], or [N,K] with trans_b. The entries of scale and zero are for whole groups of K."""
    if not trans_b:
        codes, scale, zero = swapped(codes), swapped(scale), None if zero is None else swapped(zero)
    rows, groups = codes.shape[0], codes.shape[1] // group
    scale = _by_group(scale.astype(mx.float32), rows, groups)
    if zero is None and group == 32:
        values, factors = np.array(codes).astype(np.int64), np.array(scale)
        power = np.log2(np.where(factors > 0, factors, 0.3))
        if np.all(power == np.round(power)) and np.abs(power).max() < 120 and np.isin(values, _E2M1).all() and np.abs(values).max() > 8:
            table = np.zeros(25, np.uint8)
            table[_E2M1 + 12] = np.arange(16)
            table[12] = 0
            packed = _packed(mx.array(table[values + 12]), 4)
            return Quantized((packed, mx.array((power + 128).astype(np.uint8))), group, 4, "mxfp4")  # 2^(code - 127), of half the value
    low, high = mx.min(codes.astype(mx.int32)).item(), mx.max(codes.astype(mx.int32)).item()
    bits = next(b for b in (2, 3, 4, 5, 6, 8) if high - low < 1 << b)
    bias = scale * (low if zero is None else low - _by_group(zero.astype(mx.float32), rows, groups))
    return Quantized((_packed(codes.astype(mx.int32) - low, bits), scale.astype(to), bias.astype(to)), group, bits, "affine")


def dequantized(codes: mx.array, scale: mx.array, zero: mx.array | None = None, *, trans_b: bool = False, block: int = 0, to: mx.Dtype) -> mx.array:
    """(codes - zero) * scale as [K,N]: for blocks that MLX has no groups for."""
    axis = 1 if trans_b else 0
    spread = lambda t: t if t.shape[axis] == 1 else mx.take(mx.repeat(t, block, axis=axis), mx.arange(codes.shape[axis]), axis=axis)
    w = codes.astype(mx.float32)
    w = w if zero is None else w - spread(zero.astype(mx.float32))
    w = (w * spread(scale.astype(mx.float32))).astype(to)
    return swapped(w) if trans_b else w
