"""The wire format of protocol buffers, as far as ONNX models need it."""
import struct


def varint(n):
    out, n = b"", n & 0xFFFFFFFFFFFFFFFF
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def fields(data):
    """Number and value of each field: bytes, or the integer."""
    at = 0

    def integer():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = integer()
        if key & 7 == 0:
            yield key >> 3, integer()
        else:
            size = integer() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
            yield key >> 3, data[at:at + size]
            at += size


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value
