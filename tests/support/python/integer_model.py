#!/usr/bin/env python3
"""Writes a model of integer products into a folder: integers.onnx, in_<i>.bin, and what it computes in expected_<i>.bin. Half of the
values are the least or the greatest of their type, zero points 0, 128, 255 and -128. Usage: integer_model.py FOLDER"""
import sys

import numpy as np

from onnx_writer import Model

folder, m, random = sys.argv[1], Model(17), np.random.default_rng(3)
inputs, outputs, expected = [], [], []


def values(dtype, *shape):
    info = np.iinfo(dtype)
    v = random.integers(info.min, info.max + 1, shape)
    return np.where(random.random(shape) < 0.5, random.choice([info.min, info.max], shape), v).astype(dtype)


def matmul(left, right, rows, terms, columns, left_zero, right_zero):
    a, b = values(left, rows, terms), values(right, terms, columns)
    inputs.append(a)
    zeros = np.array(left_zero, left), np.array(right_zero, right)
    y = m("MatMulInteger", m.input([rows, terms], np.dtype(left).name), m.constant(b), m.constant(zeros[0]), m.constant(zeros[1]))
    outputs.append(y)
    expected.append((a.astype(np.int64) - left_zero) @ (b.astype(np.int64) - np.array(right_zero)))


def convolution(dtype, channels, size, filters, zero):
    x, w = values(dtype, 1, channels, size, size), values(np.int8, filters, channels, 3, 3)
    inputs.append(x)
    y = m("ConvInteger", m.input(x.shape, np.dtype(dtype).name), m.constant(w), m.constant(np.array(zero, dtype)), pads=[1, 1, 1, 1])
    outputs.append(y)
    around = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [np.einsum("oc,ncij->noij", w[:, :, i, j].astype(np.int64), around[:, :, i:i + size, j:j + size])
            for i in range(3) for j in range(3)]
    expected.append(sum(taps))


matmul(np.uint8, np.int8, 37, 70, 45, 255, 0)
matmul(np.uint8, np.int8, 1, 128, 64, 0, list(range(-32, 32)))
matmul(np.int8, np.uint8, 20, 64, 70, -128, 128)
matmul(np.uint8, np.uint8, 41, 76, 36, 255, 255)
convolution(np.uint8, 6, 9, 20, 128)
convolution(np.int8, 8, 8, 5, 7)
m.save(f"{folder}/integers.onnx", *outputs, dtype="int32")
for i, (x, y) in enumerate(zip(inputs, expected)):
    x.tofile(f"{folder}/in_{i}.bin")
    y.astype(np.int32).tofile(f"{folder}/expected_{i}.bin")
