"""Writes nets with random weights whose values inside are larger than what enters and leaves: convolutional nets (mobilenet_v2,
resnet, densenet, inception, dilated, shuffle, unet, segments, upscale), and layers of tokens (mlp, ratio, parts, reader).
Usage: conv_nets.py NAME FILE [SIZE [BATCH]]. SIZE: rows and columns of the image, or tokens."""
import sys

import numpy as np

from onnx_writer import Model


class Net(Model):
    def conv(self, x, channels_in, channels_out, kernel=3, stride=1, groups=1, pads=None, dilation=1, act="Relu"):
        fan_in = channels_in // groups * kernel * kernel
        scale = np.sqrt((2 if act else 1) / fan_in)
        shape = (channels_out, channels_in // groups, kernel, kernel)
        weight = (self.random.standard_normal(shape) * scale).astype(np.float32)
        bias = (self.random.standard_normal(channels_out) / 8).astype(np.float32)
        reach = dilation * (kernel - 1)
        pads = pads or [reach // 2, reach // 2, reach - reach // 2, reach - reach // 2]
        y = self("Conv", x, self.constant(weight), self.constant(bias), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                 group=groups, pads=pads, dilations=[dilation] * 2)
        if act == "Relu6":
            return self("Clip", y, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self(act, y) if act else y

    def pool(self, op, x, kernel, stride, pads, **more):
        return self(op, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, **more)

    def head(self, x, channels, classes):
        mean = self("Flatten", self("GlobalAveragePool", x))
        return self("Gemm", mean, self.w(channels, classes), self.w(classes))


def mobilenet_v2(m, x):
    """Sandler et al., arXiv 1801.04381, table 2."""
    y, channels = m.conv(x, 3, 32, stride=2, act="Relu6"), 32
    for expansion, width, count, first_stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                  (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            stride, wide, before = first_stride if i == 0 else 1, channels * expansion, y
            if expansion > 1:
                y = m.conv(y, channels, wide, 1, act="Relu6")
            y = m.conv(y, wide, wide, 3, stride, wide, act="Relu6")
            y = m.conv(y, wide, width, 1, act=None)
            if stride == 1 and channels == width:
                y = m("Add", before, y)
            channels = width
    return m.head(m.conv(y, 320, 1280, 1, act="Relu6"), 1280, 1000)


def resnet(m, x):
    y, channels = m.pool("MaxPool", m.conv(x, 3, 32, 7, 2), 3, 2, [1, 1, 1, 1]), 32
    for width, count, first_stride in [(16, 3, 1), (32, 2, 2)]:
        for i in range(count):
            stride = first_stride if i == 0 else 1
            shortcut = y if i > 0 else m.conv(y, channels, 4 * width, 1, stride, act=None)
            y = m.conv(m.conv(m.conv(y, channels, width, 1), width, width, 3, stride), width, 4 * width, 1, act=None)
            y, channels = m("Relu", m("Add", y, shortcut)), 4 * width
    return m.head(y, channels, 10)


def densenet(m, x):
    y, channels = m.conv(x, 3, 24, 7, 2), 24
    for block in range(2):
        for _ in range(4):
            new = m.conv(m.conv(m("Relu", y), channels, 48, 1), 48, 12, 3, act=None)
            y, channels = m("Concat", y, new, axis=1), channels + 12
        y, channels = m.pool("AveragePool", m.conv(y, channels, channels // 2, 1), 2, 2, [0, 0, 0, 0]), channels // 2
    return m.head(y, channels, 10)


def inception(m, x):
    y, channels = m.conv(m.conv(x, 3, 16, 3, 2, pads=[0, 0, 0, 0]), 16, 32), 32
    for i in range(2):
        branches = [m.conv(y, channels, 16, 1), m.conv(m.conv(y, channels, 24, 1), 24, 24, 5),
                    m.conv(m.conv(m.conv(y, channels, 16, 1), 16, 24), 24, 24),
                    m.conv(m.pool("AveragePool", y, 3, 1, [1, 1, 1, 1], count_include_pad=i), channels, 16, 1)]
        y, channels = m("Concat", *branches, axis=1), 80
    y = m("Concat", m.conv(y, channels, 32, 3, 2, pads=[0, 0, 0, 0]), m.pool("MaxPool", y, 3, 2, [0, 0, 0, 0]), axis=1)
    return m.head(y, 32 + channels, 10)


def dilated(m, x):
    y = m.conv(x, 3, 32, 4, pads=[0, 1, 2, 1])
    for dilation in (2, 3):
        y = m.conv(y, 32, 32, 3, dilation=dilation)
    y = m.pool("MaxPool", m.conv(y, 32, 32, 3, groups=4), 3, 2, [0, 0, 0, 0], ceil_mode=1)
    return m.head(m.conv(y, 32, 8, 2, 3, pads=[1, 0, 0, 1]), 8, 10)


def shuffle(m, x):
    rows = int(m.size) // 2
    y = m.conv(x, 3, 32, stride=2)
    for _ in range(2):
        wide = m.conv(y, 32, 64, 1, groups=4)
        split = m("Reshape", wide, [-1, 4, 16, rows, rows])
        y = m("Add", y, m.conv(m("Reshape", m("Transpose", split, perm=[0, 2, 1, 3, 4]), [-1, 64, rows, rows]), 64, 32, 3))
    return m.head(m.conv(y, 32, 8, 3, 2), 8, 10)


def unet(m, x):
    """Images that a later part of the net reads stay whole."""
    levels, y, channels = [], x, 3
    for width in (16, 32, 64):
        y, channels = m.conv(m.conv(y, channels, width), width, width), width
        levels.append((y, width))
        y = m.pool("MaxPool", y, 2, 2, [0, 0, 0, 0])
    for before, width in reversed(levels):
        sizes = m.constant(np.array([1, 1, 2, 2], np.float32))
        y = m("Resize", y, None, sizes, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        y, channels = m.conv(m("Concat", y, before, axis=1), channels + width, width), width
    return m.conv(y, channels, 2, 1, act=None)


def segments(m, x):
    """Two results of the large part, gates between the images, and normalisation of the input."""
    x = m("Mul", m("Sub", x, m.w(3, 1, 1)), m.w(3, 1, 1))
    y = m.conv(x, 3, 48)
    low, high = m.conv(y, 48, 4, 3, 2), m.conv(y, 48, 6, 5, 2)
    gate = m("Sigmoid", m.conv(m("GlobalAveragePool", low), 4, 6, 1, act=None))
    gated = m.conv(m.conv(m("Mul", high, gate), 6, 48, 1), 48, 8, 3, 2)
    return m("Add", m.head(gated, 8, 10), m.head(low, 4, 10))


def upscale(m, x):
    """Images that grow by transposed convolutions and interpolation."""
    y = m("Relu", m("ConvTranspose", m.conv(x, 3, 16), m.w(16, 16, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]))
    y = m("ConvTranspose", y, m.w(16, 16, 3, 3), m.w(16), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    y = m("Resize", y, None, m.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear")
    return m.pool("MaxPool", m.conv(y, 16, 2, 3, 2), 4, 4, [0, 0, 0, 0])


def mlp(m, x):
    return m("MatMul", m("Relu", m("MatMul", x, m.w(64, 512))), m.w(512, 64))


def ratio(m, x):
    """A reduction between steps, whose result is read by steps again."""
    y = m("MatMul", x, m.w(64, 512))
    low, high = m("ReduceMin", y, axes=[2], keepdims=1), m("ReduceMax", y, axes=[2], keepdims=1)
    return m("MatMul", m("Div", m("Sub", y, low), m("Sub", high, low)), m.w(512, 64))


def parts(m, x):
    """Different steps on values that are concatenated along the last axis."""
    y = m("Concat", m("Tanh", m("MatMul", x, m.w(64, 256))), m("Abs", m("MatMul", x, m.w(64, 256))), axis=2)
    return m("MatMul", m("Relu", y), m.w(512, 64))


def reader(m, x):
    """Queries made of x read keys and values of other tokens."""
    keys, values = m.w(4, 32, 16), m.w(4, 16, 32)
    q = m("Transpose", m("Reshape", m("MatMul", x, m.w(64, 64)), m.constant(np.array([0, 0, 4, 16], np.int64))), perm=[0, 2, 1, 3])
    scores = m("Softmax", m("MatMul", q, m("Transpose", keys, perm=[0, 2, 1])), axis=3)
    return m("MatMul", scores, m("Transpose", values, perm=[0, 2, 1]))


TOKENS = (mlp, ratio, parts, reader)  # these read [1, SIZE, 64]
IMAGES = (mobilenet_v2, resnet, densenet, inception, dilated, shuffle, unet, segments, upscale)
NETS = {f.__name__: f for f in IMAGES + TOKENS}

if __name__ == "__main__":
    name, path = sys.argv[1:3]
    size, batch = (int(v) for v in (sys.argv[3:] + ["224", "1"][len(sys.argv) - 3:])[:2])
    net = Net(17)
    net.size = size
    shape = [1, size, 64] if NETS[name] in TOKENS else [batch, 3, size, size]
    net.save(path, NETS[name](net, net.input(shape)))
