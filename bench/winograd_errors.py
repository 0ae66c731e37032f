#!/usr/bin/env python3
"""Rounding errors of Winograd's algorithm for 3x3 convolutions in f32, beside those of plain sums: largest and root mean square
error, by the square root of the number of terms, for values between -1 and 1. Needs NumPy.
Usage: bench/winograd_errors.py [CHANNELS]"""
import sys
from fractions import Fraction

try:
    import numpy as np
except ImportError:
    sys.exit("NumPy is not installed")

f32 = np.float32


def product(polynomials):
    p = [Fraction(1)]
    for q in polynomials:
        p = [sum(p[i] * q[n - i] for i in range(len(p)) if 0 <= n - i < len(q)) for n in range(len(p) + len(q) - 1)]
    return p


def transforms(tile, points):
    """Matrices for results, weights and images (Toom and Cook; the last point is infinity)."""
    points, n = [Fraction(p) for p in points], tile + 2
    rest = [product([-b, 1] for b in points if b != a) for a in points]
    scale = [product([[a - b] for b in points if b != a])[0] for a in points]
    results = [[a**k for a in points] + [int(k == tile - 1)] for k in range(tile)]
    weights = [[a**k / s for k in range(3)] for a, s in zip(points, scale)] + [[0, 0, 1]]
    images = [r + [0] * (n - len(r)) for r in rest] + [product([-b, 1] for b in points)]
    return [np.array([[float(x) for x in row] for row in m]) for m in (results, weights, images)]


def one_axis(matrix, x):
    """Along the last axis, term by term in f32."""
    columns = []
    for row in matrix.astype(f32):
        total = None
        for k, factor in enumerate(row):
            if factor != 0:
                total = factor * x[..., k] if total is None else total + factor * x[..., k]
        columns.append(total)
    return np.stack(columns, -1)


def both_axes(matrix, x):
    return one_axis(matrix, np.swapaxes(one_axis(matrix, np.swapaxes(x, -1, -2)), -1, -2))


def windows(image, tile):
    return [(i, j, image[:, :, i:i + 3, j:j + 3]) for i in range(tile) for j in range(tile)]


def errors(tile, points, channels):
    results, weights, images = transforms(tile, points)
    random = np.random.default_rng(1)
    image = random.uniform(-1, 1, (40, channels, tile + 2, tile + 2)).astype(f32)
    weight = random.uniform(-1, 1, (8, channels, 3, 3)).astype(f32)
    exact = np.zeros((40, 8, tile, tile))
    plain = np.zeros((40, 8, tile, tile), f32)
    for i, j, window in windows(image, tile):
        exact[:, :, i, j] = np.einsum("tcab,ocab->to", window.astype(float), weight.astype(float))
        for c in range(channels):
            for tap in range(9):
                plain[:, :, i, j] += window[:, None, c, tap // 3, tap % 3] * weight[None, :, c, tap // 3, tap % 3]
    u = np.einsum("ia,ocab,jb->ocij", weights, weight.astype(float), weights).astype(f32)
    v = both_axes(images, image)
    sums = np.zeros((40, 8, tile + 2, tile + 2), f32)
    for c in range(channels):
        sums += v[:, None, c] * u[None, :, c]
    fast = both_axes(results, sums)
    root = np.sqrt(9 * channels)
    return [f(np.abs(y - exact)) / root for y in (plain, fast) for f in (np.max, lambda e: np.sqrt((e**2).mean()))]


count = int(sys.argv[1]) if sys.argv[1:] else 64
print(f"{count} channels{'':24} {'plain max':>10} {'rms':>10} {'max':>10} {'rms':>10}")
for tile, points in ((2, [0, 1, -1]), (4, [0, Fraction(3, 4), -Fraction(3, 4), Fraction(3, 2), -Fraction(3, 2)]),
                     (4, [0, 1, -1, 2, -2])):
    name = f"F({tile}x{tile}), points {', '.join(map(str, points))}"
    print(f"{name:36} " + " ".join(f"{e:10.1e}" for e in errors(tile, points, count)))
