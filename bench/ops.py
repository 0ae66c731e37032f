#!/usr/bin/env python3
"""Single operations of the cpu target beside ONNX Runtime, one thread: processor time, least of many runs, and the difference of
results as a share of the largest. It finds operations whose kernels are far from what the processor can do; kernels.py says how
far the others are. ONNXRUNTIME as in onnxruntime.mjs; without it the peer is left out. ALONE is a command that runs another on one
core ("taskset -c 0"). Usage: bench/ops.py [PART OF A NAME ...]"""
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests/support/python"))
try:
    import numpy as np
    from onnx_writer import Model
except ImportError:
    print("python3-numpy is missing")
    sys.exit(0)

rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
peer = os.environ.get("ONNXRUNTIME", "")
alone = os.environ.get("ALONE", "taskset -c 0").split()
repeat = os.environ.get("REPEAT", "15")
random = np.random.default_rng(0)
CASES = []  # name, operator or function of a model and inputs, inputs, constants, types of the results, opset, attributes


def real(*shape):
    return random.standard_normal(shape).astype(np.float32)


def indices(below, *shape):
    return random.integers(0, below, shape)


def case(name, op, inputs, *constants, results=("float32",), opset=18, **attributes):
    CASES.append((name, op, inputs, constants, results, opset, attributes))


def conv(channels, out, size, kernel, stride=1, groups=1, dilation=1, pads=None, op="Conv", **more):
    n = len(size)
    window = [kernel] * n if isinstance(kernel, int) else kernel
    pads = [dilation * (k - 1) // 2 for k in window] * 2 if pads is None else pads
    shape = (channels, out // groups, *window) if op == "ConvTranspose" else (out, channels // groups, *window)
    join = "x".join
    case(f"{op} {join(map(str, (channels, *size)))}, {join(map(str, (out, *window)))}/{stride}" + (f", {groups} groups" if groups > 1 else "") +
         (f", dilation {dilation}" if dilation > 1 else ""), op, [real(1, channels, *size)], real(*shape) / 8, real(out),
         kernel_shape=list(window), strides=[stride] * n, pads=pads, group=groups, dilations=[dilation] * n, **more)


def recurrent(op, gates, length, batch, inputs, hidden, directions=1):
    case(f"{op} {length}x{batch}x{inputs}, {hidden}" + (", both directions" if directions > 1 else ""), op, [real(length, batch, inputs)],
         real(directions, gates * hidden, inputs) / 8, real(directions, gates * hidden, hidden) / 8, real(directions, 2 * gates * hidden),
         hidden_size=hidden, direction="bidirectional" if directions > 1 else "forward")


def convolutions():
    for out in (1, 3, 64):
        conv(64, out, [128, 128], 3)
    conv(32, 3, [128, 128], 9), conv(128, 64, [4], 3, 2), conv(64, 64, [2], 3), conv(512, 512, [2, 2], 3), conv(512, 512, [1, 1], 3)
    conv(80, 512, [200], 7), conv(512, 512, [1000], 3, dilation=3), conv(64, 64, [16, 16, 16], 3), conv(64, 64, [56, 56], 3, groups=4)
    conv(256, 256, [28, 28], 3, dilation=4), conv(384, 384, [1000], 5, groups=384), conv(96, 96, [56, 56], 7, groups=96)
    conv(3, 768, [224, 224], 16, 16, pads=[0] * 4), conv(32, 64, [64, 64], [3, 1]), conv(64, 128, [64, 64], 3, 2)
    for kernel, pads in ((2, [0] * 4), (4, [1] * 4)):
        conv(64, 32, [32, 32], kernel, 2, op="ConvTranspose", pads=pads)
    conv(64, 32, [32, 32], 3, 2, op="ConvTranspose", output_padding=[1, 1])
    conv(256, 128, [200], 16, 8, op="ConvTranspose", pads=[4, 4]), conv(100, 512, [1, 1], 4, op="ConvTranspose", pads=[0] * 4)
    conv(64, 64, [32, 32], 3, op="ConvTranspose"), conv(32, 32, [32, 32], 4, 2, groups=32, op="ConvTranspose", pads=[1] * 4)


def images():
    x = real(1, 64, 112, 112)
    for op in ("MaxPool", "AveragePool"):
        for kernel, stride in ((2, 2), (3, 2), (3, 1)):
            case(f"{op} {kernel}x{kernel}/{stride}", op, [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2 if kernel == 3 else 0] * 4)
    case("MaxPool 13x13/1", "MaxPool", [real(1, 256, 20, 20)], kernel_shape=[13, 13], pads=[6] * 4)
    case("GlobalAveragePool", "GlobalAveragePool", [real(1, 512, 14, 14)])
    for mode in ("nearest", "linear", "cubic"):
        case(f"Resize {mode}", "Resize", [real(1, 64, 32, 32)], None, np.array([1, 1, 2, 2], np.float32), mode=mode)
    case("BatchNormalization", "BatchNormalization", [x], real(64), real(64), real(64), abs(real(64)))
    case("InstanceNormalization", "InstanceNormalization", [x], real(64), real(64))
    case("LRN", "LRN", [x], size=5)
    case("GridSample", "GridSample", [real(1, 16, 64, 64), np.clip(real(1, 64, 64, 2), -1, 1)])
    boxes = (abs(real(50, 2)).repeat(2, 1) * 10 + np.array([0, 0, 5, 5])).astype(np.float32)
    case("RoiAlign", "RoiAlign", [real(1, 64, 50, 50), boxes, indices(1, 50)], output_height=7, output_width=7, sampling_ratio=2)
    for axis in (1, 2, 3):
        case(f"Softmax of axis {axis}", "Softmax", [real(1, 21, 128, 128)], axis=axis)
        case(f"ArgMax of axis {axis}", "ArgMax", [real(1, 21, 128, 128)], results=("int64",), axis=axis)
    case("DepthToSpace", "DepthToSpace", [real(1, 256, 32, 32)], blocksize=2)


def rows():
    recurrent("LSTM", 4, 100, 1, 64, 128), recurrent("LSTM", 4, 100, 1, 256, 256, 2), recurrent("GRU", 3, 50, 8, 256, 256)
    recurrent("RNN", 1, 100, 1, 64, 64)
    for k, shape in ((100, (1, 8400)), (1, (64, 1000)), (300, (80, 8400))):
        case(f"TopK {k} of {shape[0]}x{shape[1]}", "TopK", [real(*shape)], np.array([k]), results=("float32", "int64"))
    for axis in (0, 1):
        case(f"CumSum of axis {axis}", "CumSum", [real(64, 1024)], np.array(axis))
        case(f"ReduceMean of axis {axis}", "ReduceMean", [real(512, 768)], np.array([axis]))
    case("LayerNormalization", "LayerNormalization", [real(197, 768)], real(768), real(768))
    case("NonMaxSuppression", "NonMaxSuppression", [np.sort(random.random((1, 1000, 4)).astype(np.float32)), random.random((1, 1, 1000)).astype(np.float32)],
         np.array([100]), np.array([0.5], np.float32), np.array([0.5], np.float32), results=("int64",))
    for a, b in (((1, 768), (768, 3072)), ((128, 768), (768, 2)), ((12, 128, 64), (12, 64, 128)), ((2000, 2000), (2000, 1)), ((33, 77), (77, 91))):
        case(f"MatMul {a} {b}", "MatMul", [real(*a), real(*b)])
    case("DynamicQuantizeLinear", "DynamicQuantizeLinear", [real(128, 768)], results=("uint8", "float32", "uint8"))


def elements():
    x = real(1, 64, 56, 56)
    for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Sin", "Cos", "Atan", "Softplus", "Elu", "HardSwish", "Mish", "Floor", "Round", "Reciprocal"):
        case(op, op, [x])
    case("Sqrt", "Sqrt", [abs(x)]), case("Log", "Log", [abs(x) + 0.1]), case("Acos", "Acos", [np.clip(x, -1, 1)])
    case("Pow", "Pow", [abs(real(197, 768)), real(197, 768)]), case("Mod of i64", "Mod", [indices(1000, 64, 1024), 1 + indices(99, 64, 1024)], results=("int64",))
    for axes in ([0, 2, 3, 1], [0, 1, 3, 2], [1, 0, 2, 3]):
        case(f"Transpose {axes}", "Transpose", [x], perm=axes)
    case("Gather", "Gather", [real(30000, 768), indices(30000, 1, 128)]), case("GatherElements", "GatherElements", [real(512, 768), indices(512, 64, 768)])
    case("ScatterND", "ScatterND", [real(4096, 64), indices(4096, 1000, 1), real(1000, 64)])
    case("Pad", "Pad", [x], np.array([0, 0, 1, 1, 0, 0, 1, 1])), case("Tile", "Tile", [real(1, 64, 14, 14)], np.array([1, 1, 4, 4]))
    case("Slice of every second", "Slice", [x], np.array([0, 0]), np.array([56, 56]), np.array([2, 3]), np.array([2, 2]))


def codes(dtype, *shape):
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


def scalar(dtype, value):
    return np.array(value, dtype)


def integers():
    for channels, out, size, kernel, stride, groups in (
            (512, 512, 7, 3, 1, 1), (512, 2048, 7, 1, 1, 1), (2048, 512, 7, 1, 1, 1), (64, 64, 56, 3, 1, 1), (256, 256, 14, 3, 1, 1), (256, 512, 28, 1, 2, 1),
            (3, 64, 224, 7, 2, 1), (96, 96, 56, 3, 1, 96), (480, 480, 14, 5, 1, 480), (960, 240, 1, 1, 1, 1)):
        name = f"QLinearConv {channels}x{size}x{size}, {out}x{kernel}x{kernel}/{stride}" + (f", {groups} groups" if groups > 1 else "")
        case(name, "QLinearConv", [codes(np.uint8, 1, channels, size, size)], scalar(np.float32, 0.02), scalar(np.uint8, 117),
             codes(np.int8, out, channels // groups, kernel, kernel), (0.002 * (1 + random.random(out))).astype(np.float32), np.zeros(out, np.int8),
             scalar(np.float32, 0.1), scalar(np.uint8, 128), random.integers(-5000, 5000, out).astype(np.int32), results=("uint8",), kernel_shape=[kernel] * 2,
             strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)
    for m, k, n in ((1, 768, 3072), (128, 768, 768), (128, 3072, 768)):
        case(f"QLinearMatMul {m}x{k}x{n}", "QLinearMatMul", [codes(np.uint8, m, k)], scalar(np.float32, 0.02), scalar(np.uint8, 117), codes(np.int8, k, n),
             scalar(np.float32, 0.003), scalar(np.int8, 0), scalar(np.float32, 0.5), scalar(np.uint8, 128), results=("uint8",))
        case(f"MatMulInteger {m}x{k}x{n}", "MatMulInteger", [codes(np.uint8, m, k)], codes(np.int8, k, n), scalar(np.uint8, 117), scalar(np.int8, 0),
             results=("int32",))
    x = real(1, 64, 56, 56)
    case("QuantizeLinear", "QuantizeLinear", [x], scalar(np.float32, 0.02), scalar(np.uint8, 117), results=("uint8",))
    case("DequantizeLinear", "DequantizeLinear", [codes(np.uint8, 1, 64, 56, 56)], scalar(np.float32, 0.02), scalar(np.uint8, 117))


def paired(op, *shapes, constants=(), **attributes):
    """An operation of floats between pairs of QuantizeLinear and DequantizeLinear."""
    def build(m, *inputs):
        return pair(m, m(op, *[pair(m, x, 0.02, 117) for x in inputs], *constants, **attributes), 0.05, 120)
    case(f"pairs around {op} {' '.join('x'.join(map(str, s)) for s in shapes)}", build, [real(*s) for s in shapes], opset=17)


def pair(m, x, scale, zero):
    operands = scalar(np.float32, scale), scalar(np.uint8, zero)
    return m("DequantizeLinear", m("QuantizeLinear", x, *operands), *operands)


def channel_scales(n):
    return (0.002 * (1 + random.random(n))).astype(np.float32)


def quantized():
    """Graphs as quantizers write them: pairs, dynamic quantization and weights of few bits."""
    image, rows = (1, 64, 56, 56), (128, 768)
    for op in ("Add", "Mul"):
        paired(op, image, image)
    for op, attributes in (("Sigmoid", {}), ("HardSwish", {}), ("LeakyRelu", {"alpha": 0.1}), ("Transpose", {"perm": [0, 2, 3, 1]}),
                           ("GlobalAveragePool", {}), ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
                           ("AveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4})):
        paired(op, image, **attributes)
    paired("Concat", image, image, axis=1), paired("Softmax", (12, 128, 128), axis=-1), paired("ReduceMean", rows, axes=[1])
    paired("MatMul", (12, 128, 64), (12, 64, 128)), paired("LayerNormalization", rows, constants=(real(768), real(768)))
    for mode in ("nearest", "linear"):
        paired("Resize", (1, 64, 32, 32), constants=(None, np.array([1, 1, 2, 2], np.float32)), mode=mode)
    for channels, out, size, kernel, stride, groups, op in (
            (3, 64, 224, 7, 2, 1, "Conv"), (256, 64, 56, 1, 1, 1, "Conv"), (96, 96, 56, 3, 1, 96, "Conv"), (64, 64, 56, 3, 1, 4, "Conv"),
            (64, 32, 32, 4, 2, 1, "ConvTranspose")):
        shape = (channels, out, kernel, kernel) if op == "ConvTranspose" else (out, channels // groups, kernel, kernel)
        w, bias, axis = codes(np.int8, *shape), random.integers(-5000, 5000, out).astype(np.int32), int(op == "ConvTranspose")

        def window(m, x, op=op, w=w, bias=bias, axis=axis, kernel=kernel, stride=stride, groups=groups, out=out):
            weight = m("DequantizeLinear", w, channel_scales(out), np.zeros(out, np.int8), axis=axis)
            y = m(op, pair(m, x, 0.02, 117), weight, m("DequantizeLinear", bias, scalar(np.float32, 4e-5)), group=groups,
                  kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[0 if axis else kernel // 2] * 4)
            return pair(m, y, 0.1, 128)
        case(f"pairs around {op} {channels}x{size}x{size}, {out}x{kernel}x{kernel}/{stride}" + (f", {groups} groups" if groups > 1 else ""), window,
             [real(1, channels, size, size)], opset=17)
    for m, k, n in ((1, 768, 3072), (8, 768, 3072), (128, 768, 768)):
        weight, bias = (codes(np.int8, k, n), channel_scales(n), np.zeros(n, np.int8)), real(n)
        case(f"DynamicQuantizeMatMul {m}x{k}x{n}", "DynamicQuantizeMatMul", [real(m, k)], *weight, bias, domain="com.microsoft")
    case("QAttention 128x768", "QAttention", [codes(np.uint8, 1, *rows)], codes(np.int8, 768, 2304), real(2304), scalar(np.float32, 0.02),
         scalar(np.float32, 0.003), None, scalar(np.uint8, 117), scalar(np.int8, 0), domain="com.microsoft", num_heads=12)
    for m in (1, 4, 32, 128):
        for bits, block, level in ((4, 32, 4), (4, 128, 4), (4, 32, 0), (8, 32, 4), (8, 128, 0)):
            k, n = 1024, 2048
            case(f"MatMulNBits {m}x{k}x{n}, {bits} bits, block {block}, level {level}", "MatMulNBits", [real(m, k)],
                 codes(np.uint8, n, k // block, block * bits // 8), channel_scales(n * k // block), domain="com.microsoft", K=k, N=n, bits=bits,
                 block_size=block, accuracy_level=level)


def output(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode != 0:
        sys.exit(f"{' '.join(args)} failed:\n{p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def measure(folder, op, inputs, constants, results, opset, attributes):
    """Milliseconds of a run here and of the peer, and the difference of the first result."""
    model, package = os.path.join(folder, "model.onnx"), os.path.join(folder, "out/kernels/cpu")
    m = Model(opset)
    named = [m.input(x.shape, x.dtype.name) for x in inputs]
    made = op(m, *named) if callable(op) else m(op, *named, *constants, n=len(results), **attributes)
    m.save(model, *zip([made] if len(results) == 1 else made, results))
    files = [os.path.join(folder, f"input_{i}.bin") for i in range(len(inputs))]
    for x, path in zip(inputs, files):
        x.tofile(path)
    output([rlxc, "compile", model, "--target", "cpu", "--cpu", "native", "--emit", "kernels", "-q", "-o", os.path.join(folder, "out")])
    output(["make", "-s", "-C", package])
    theirs = os.path.join(folder, "peer")
    os.makedirs(theirs)
    own = alone + [os.path.join(package, "run"), "-w", package, "-m", folder, "--threads", "1", "--repeat", repeat] + files
    other = alone + ["node", os.path.join(root, "bench/onnxruntime.mjs"), model, "1", repeat] + files
    best = [float("inf")] * 2
    for _ in range(2):
        for i, command in enumerate([own, other] if peer else [own]):
            text = output(command, cwd=folder, env=dict(os.environ, OUTPUTS=theirs))
            best[i] = min(best[i], float(re.search(r"processor min ([\d.]+)", text)[1]))
    if not peer:
        return best[0], None, None
    y, expected = (np.fromfile(os.path.join(d, "output_0.bin"), results[0]).astype(np.float64) for d in (folder, theirs))
    return *best, abs(y - expected).max() / (abs(expected).max() or 1) if y.shape == expected.shape else float("inf")


for group in (convolutions, images, rows, elements, integers, quantized):
    group()
print(f"{'one thread':50} {'ms':>9} {'ONNX Runtime':>13} {'ratio':>6}  difference")
for name, *rest in CASES:
    if len(sys.argv) > 1 and not any(part.lower() in name.lower() for part in sys.argv[1:]):
        continue
    with tempfile.TemporaryDirectory() as tmp:
        own, other, difference = measure(tmp, *rest)
    print(f"{name:50} {own:9.4f}" + (f" {other:13.4f} {own / other:6.2f}  {difference:.0e}" if peer else ""), flush=True)
