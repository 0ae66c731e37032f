"""Cases of fused and quantized operators of com.microsoft, as in contrib_cases.py."""
import numpy as np

from contrib_case import maker

byte = lambda c, *shape: c.random.integers(0, 255, shape).astype(np.uint8)
SCALE, ZERO = np.float32(0.02), np.uint8(120)
small = lambda v: np.array(v, np.float32)


def one(op, *shape, **attributes):
    """An operator of one real tensor."""
    def make(c):
        c.ms(op, c.real(*shape), **attributes)
    make.__name__ = op
    maker(make)


one("Gelu", 3, 8)
one("FastGelu", 3, 8)
one("Inverse", 2, 3, 3)
one("SampleOp", 3, 4)


def several(op, *shapes, **attributes):
    def make(c):
        c.ms(op, *(c.real(*s) for s in shapes), **attributes)
    make.__name__ = op
    maker(make)


several("BiasGelu", (3, 8), (8,))
several("TransposeMatMul", (3, 4), (5, 4), transB=1)


@maker
def SkipSimplifiedLayerNormalization(c):
    c.ms("SkipSimplifiedLayerNormalization", c.real(2, 3, 8), c.real(2, 3, 8), c.real(8), c.real(8) if c.pick(0, 1) else None, epsilon=1e-5)


@maker
def EmbedLayerNormalization(c):
    segments = c.pick(0, 1)
    c.ms("EmbedLayerNormalization", c.ints(0, 9, 2, 4), c.ints(0, 2, 2, 4) if segments else None, c.real(9, 8), c.real(6, 8),
         c.real(2, 8) if segments else None, c.real(8), c.real(8), c.ints(0, 2, 2, 4) if c.pick(0, 1) else None, n=2,
         types=["float32", "int32"], epsilon=1e-5)


@maker
def FusedConv(c):
    c.ms("FusedConv", c.real(1, 2, 5, 5), c.real(3, 2, 3, 3), c.real(3), c.real(1, 3, 3, 3) if c.pick(0, 1) else None,
         activation=c.pick("Relu", "Tanh", "Sigmoid"))


@maker
def FusedConv_with_parameters(c):
    kind = c.pick(("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4]))
    c.ms("FusedConv", c.real(1, 2, 5, 5), c.real(3, 2, 3, 3), c.real(3), activation=kind[0], activation_params=kind[1])


@maker
def NhwcMaxPool(c):
    c.ms("NhwcMaxPool", c.feed(byte(c, 1, 5, 6, 3)), types=["uint8"], kernel_shape=[2, 3], strides=c.pick([1, 1], [2, 1]), pads=[0, 1, 1, 0])


@maker
def MatMulIntegerToFloat(c):
    signed = c.pick(np.uint8, np.int8)
    per_column = c.pick(0, 1)
    c.ms("MatMulIntegerToFloat", c.feed(byte(c, 3, 8)), c.random.integers(-100, 100, (8, 5)).astype(signed), SCALE,
         np.full(5 if per_column else (), .03, np.float32), ZERO, np.full(5 if per_column else (), 7, signed),
         c.real(5) if c.pick(0, 1) else None)


@maker
def QAttention(c):
    heads, d, s = 2, 4, 5
    mask = c.pick(None, lambda: c.ints(1, s + 1, 2), lambda: c.ints(0, 2, 2, s))
    c.ms("QAttention", c.feed(byte(c, 2, s, 6)), byte(c, 6, 3 * heads * d), c.real(3 * heads * d), small(.003), small(.003),
         mask() if mask else None, ZERO, ZERO, num_heads=heads, unidirectional=c.pick(0, 1))


@maker
def QGemm(c):
    rounded = c.pick(0, 1)
    c.ms("QGemm", c.feed(byte(c, 3, 8)), SCALE, ZERO, byte(c, 8, 5), SCALE, ZERO, c.random.integers(-999, 999, 5).astype(np.int32),
         np.float32(.05) if rounded else None, ZERO if rounded else None, types=["uint8" if rounded else "float32"])


def quantized_pair(op):
    def make(c):
        c.ms(op, c.feed(byte(c, 2, 3, 4)), SCALE, ZERO, c.feed(byte(c, *c.pick((2, 3, 4), (4,), (3, 1)))), np.float32(.03), np.uint8(99),
             np.float32(.05), np.uint8(128), types=["uint8"])
    make.__name__ = op
    maker(make)


quantized_pair("QLinearAdd")
quantized_pair("QLinearMul")


def quantized(op, *shape, **attributes):
    def make(c):
        c.ms(op, c.feed(byte(c, *shape)), SCALE, ZERO, np.float32(.013), np.uint8(100), types=["uint8"], **attributes)
    make.__name__ = op
    maker(make)


quantized("QLinearSigmoid", 3, 8)
quantized("QLinearLeakyRelu", 3, 8, alpha=.1)
quantized("QLinearAveragePool", 1, 3, 5, 5, kernel_shape=[2, 2], strides=[1, 2], pads=[0, 1, 1, 0], count_include_pad=1)
quantized("QLinearGlobalAveragePool", 2, 5, 5, 3, channels_last=1)


@maker
def QLinearSoftmax(c):
    c.ms("QLinearSoftmax", c.feed(byte(c, 3, 8)), SCALE, ZERO, np.float32(1 / 256), np.uint8(0), types=["uint8"], axis=-1, opset=13)


@maker
def QLinearConcat(c):
    c.ms("QLinearConcat", np.float32(.04), np.uint8(100), c.feed(byte(c, 2, 3)), SCALE, ZERO, c.feed(byte(c, 2, 4)), np.float32(.03),
         np.uint8(90), types=["uint8"], axis=1)


@maker
def QLinearWhere(c):
    c.ms("QLinearWhere", c.feed(c.random.random((3, 4)) < .5), c.feed(byte(c, 3, 4)), SCALE, ZERO, c.feed(byte(c, 3, 4)), np.float32(.03),
         np.uint8(99), np.float32(.04), np.uint8(110), types=["uint8"])


@maker
def DequantizeLinear(c):
    axis = c.pick(0, 1)
    c.ms("DequantizeLinear", c.feed(byte(c, 3, 8)), np.linspace(.01, .1, (3, 8)[axis]).astype(np.float32), byte(c, (3, 8)[axis]), axis=axis)


@maker
def GridSample(c):
    c.ms("GridSample", c.real(1, 2, 4, 5), c.real(1, 3, 3, 2), mode=c.pick("bilinear", "nearest", "bicubic"), align_corners=c.pick(0, 1),
         padding_mode=c.pick("zeros", "border", "reflection"))


@maker
def GatherND(c):
    c.ms("GatherND", c.real(3, 4, 5), c.feed(c.random.integers(0, 3, (2, 2))))


@maker
def Trilu(c):
    c.ms("Trilu", c.real(2, 4, 5), np.int64(c.pick(-1, 0, 2)), upper=c.pick(0, 1))


@maker
def ExpandDims(c):
    c.ms("ExpandDims", c.real(3, 4), np.int32(c.pick(0, 1, -1)))


@maker
def DecoderMaskedMultiHeadAttention(c):
    heads, d, room, rows = 2, 4, 7, 4
    beams, known = c.pick(1, 2), c.pick(1, 5)
    token = lambda: c.real(rows, 1, heads * d)
    keys = lambda: c.real(rows, heads, room, d)
    if c.pick(0, 1):  # attention to an encoder
        c.ms("DecoderMaskedMultiHeadAttention", token(), keys(), keys(), None, None, None, None, np.array([known], np.int32),
             np.array([1], np.int32), None, c.real(3 * heads * d) if c.pick(0, 1) else None, num_heads=heads, past_present_share_buffer=1)
        return
    beam = c.ints(0, beams, rows // beams, beams, room) if beams > 1 else None
    c.ms("DecoderMaskedMultiHeadAttention", token(), token(), token(), None, None, keys(), keys(), np.array([known], np.int32),
         np.array([beams], np.int32), beam, n=3, num_heads=heads, past_present_share_buffer=1)
