"""Cases of attention of com.microsoft and of what is around it, as in contrib_cases.py: each combines forms of inputs and attributes at
random."""
import numpy as np

from contrib_case import maker


def sometimes(c, **attributes):
    """Some of the attributes."""
    return {name: value for name, value in attributes.items() if c.pick(0, 0, 1)}


def shown(c, *shape):
    """A mask of zeros and ones, in which the last key is shown."""
    mask = (c.random.random(shape) < .7).astype(np.int32)
    mask[..., -1] = 1
    return c.feed(mask)


@maker
def Attention(c):
    heads, size, batch, rows, past = 2, c.pick(4, 8), 2, c.pick(1, 4, 5), c.pick(0, 0, 3)
    total = past + rows
    hidden = c.pick([heads * size] * 3, [heads * size, heads * size, heads * 6]) if not past else [heads * size] * 3
    mask = c.pick(lambda: None, lambda: c.ints(1, total + 1, batch), lambda: shown(c, batch, total), lambda: shown(c, batch, rows, total),
                  lambda: c.feed(np.array([total, max(total - 1, 1), 0, min(1, max(total - 2, 0))], np.int32)))()
    c.ms("Attention", c.real(batch, rows, 6), c.real(6, sum(hidden)), c.real(sum(hidden)), mask,
         c.real(2, batch, heads, past, size) if past else None,
         c.real(c.pick(1, batch), c.pick(1, heads), rows, total) if c.pick(0, 0, 1) and not past else None, n=2 if past else 1,
         num_heads=heads, qkv_hidden_sizes=hidden, unidirectional=c.pick(0, 1), rotary_embedding_dim=0,
         **sometimes(c, scale=.3, mask_filter_value=-1000.0))


@maker
def MultiHeadAttention(c):
    heads, size, batch, rows = 2, c.pick(4, 8), 2, c.pick(1, 3)
    width, past, split = heads * size, c.pick(0, 0, 2), c.pick(0, 1)
    keys = rows if past else c.pick(rows, 5)
    total = past + keys
    if split and not past:  # keys and values of an encoder
        q, k, v = c.real(batch, rows, width), c.real(batch, heads, keys, size), c.real(batch, heads, keys, size)
    else:
        q, k, v = c.real(batch, rows, width), c.real(batch, keys, width), c.real(batch, keys, width)
    bias = c.real(3 * width) if c.pick(0, 1) else None
    mask = c.pick(lambda: None, lambda: c.ints(1, total + 1, batch), lambda: shown(c, batch, total), lambda: shown(c, batch, rows, total))()
    scores = c.real(c.pick(1, batch), c.pick(1, heads), rows, total) if c.pick(0, 1) else None
    cache = [c.real(batch, heads, past, size) for _ in range(2)] if past else [None, None]
    c.ms("MultiHeadAttention", q, k, v, bias, mask, scores, *cache, n=3 if past else 1, num_heads=heads, unidirectional=c.pick(0, 0, 1),
         **sometimes(c, scale=.4, mask_filter_value=-500.0))


@maker
def GroupQueryAttention(c):
    heads, kv, size, batch, first, rotary = 4, c.pick(1, 2, 4), 16, c.pick(1, 2), c.pick(0, 1), c.pick(0, 1)
    rows, past = (c.pick(3, 5), 0) if first else (1, c.pick(4, 8))
    total = rows if first else past + 1
    last = np.full(batch, total - 1, np.int32)
    last[-1] -= 0 if first else c.pick(0, 2) * (batch - 1)
    if c.pick(0, 1):
        inputs = [c.real(batch, rows, (heads + 2 * kv) * size), None, None]
    else:
        inputs = [c.real(batch, rows, heads * size), c.real(batch, rows, kv * size), c.real(batch, rows, kv * size)]
    room = past if first else c.pick(past, total, total + 3)
    inputs += [None if first else c.real(batch, kv, room, size) for _ in range(2)]
    inputs += [c.feed(last), c.feed(np.array(total, np.int32))]
    inputs += [c.real(32, size // 2) if rotary else None for _ in range(2)]
    inputs += [c.feed(np.tile(np.arange(rows), (batch, 1))) if rotary and first and c.pick(0, 1) else None]
    inputs += [c.real(c.pick(1, batch), c.pick(1, heads), rows, total) if c.pick(0, 0, 1) else None]
    inputs += [c.real(heads) if c.pick(0, 0, 1) else None]
    smooth = {} if inputs[-1] else sometimes(c, smooth_softmax=1)
    c.ms("GroupQueryAttention", *inputs, n=3, num_heads=heads, kv_num_heads=kv, do_rotary=rotary, **smooth,
         **sometimes(c, rotary_interleaved=1, local_window_size=c.pick(2, 3, 100), softcap=5.0, scale=.2))


@maker
def RotaryEmbedding(c):
    heads, size, turned = 2, 8, c.pick(8, 4)
    x = c.real(2, 3, heads * size) if c.pick(0, 1) else c.real(2, heads, 3, size)
    at = c.feed(np.array([c.pick(0, 3)])) if c.pick(0, 1) else c.ints(0, 9, 2, 3, dtype=np.int64)
    c.ms("RotaryEmbedding", x, at, c.real(20, turned // 2), c.real(20, turned // 2), num_heads=heads, interleaved=c.pick(0, 1),
         **({"rotary_embedding_dim": turned} if turned < size else {}))


@maker
def MatMulNBits(c):
    n, k, bits, block = c.pick(6, 16), c.pick(32, 48, 64), c.pick(2, 4, 4, 8), c.pick(16, 32)
    blocks = -(-k // block)
    byte = lambda *shape: c.random.integers(0, 256, shape).astype(np.uint8)
    scale = (c.random.random((n, blocks) if c.pick(0, 1) else n * blocks) * .1).astype(np.float32)
    zeros = c.pick(None, byte(n, -(-blocks * bits // 8)), (c.random.random((n, blocks)) * 8).astype(np.float32))
    order = None
    if bits == 4 and zeros is None and c.pick(0, 1):
        order = c.random.permutation(np.arange(k) // block).astype(np.int32)
    c.ms("MatMulNBits", c.real(*c.pick((3, k), (2, 3, k), (1, k))), byte(n, blocks, block * bits // 8), scale, zeros, order,
         c.real(n) if c.pick(0, 1) else None, K=k, N=n, bits=bits, block_size=block, accuracy_level=c.pick(0, 0, 1, 4))
