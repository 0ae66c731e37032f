"""A compiled model as a class: its inputs and outputs, weights from files, runs, and decoding token by token."""
from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import mlx.core as mx
import numpy as np

from rlxc_weights import stored_weights

Sizes = dict[str, int]  # values of the symbols in shapes

_NUMPY = {
    "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_, "f64": np.float64,
}
# Types that MLX lacks: some integers have 2 or 4 bits, of which a byte holds several, the lowest bits first; 8-bit floats and a
# smaller one have a sign, an exponent with a bias, and a mantissa. Their values are held in wider types.
_INTEGER_BITS = {"i4": 4, "u4": 4, "i2": 2, "u2": 2}
_FLOATS = {  # bits, bits of the mantissa, bias
    "f8e4m3fn": (8, 3, 7), "f8e4m3fnuz": (8, 3, 8), "f8e5m2": (8, 2, 15), "f8e5m2fnuz": (8, 2, 16), "f4e2m1": (4, 1, 1),
}


def _codes(data: bytes, bits: int, count: int) -> np.ndarray:
    bytes_ = np.frombuffer(data, np.uint8)
    return (bytes_[:, None] >> np.arange(0, 8, bits) & (1 << bits) - 1).reshape(-1)[:count]


def _small_floats(dtype: str) -> np.ndarray:
    """The values of all codes."""
    bits, mantissa, bias = _FLOATS[dtype]
    code = np.arange(1 << bits - 1)
    exponent, fraction = code >> mantissa, (code & (1 << mantissa) - 1) / (1 << mantissa)
    value = np.ldexp(np.where(exponent > 0, 1 + fraction, fraction), np.maximum(exponent, 1) - bias)
    if dtype == "f8e4m3fn":
        value[0x7F] = math.nan
    elif dtype == "f8e5m2":
        value[0x7C:] = [math.inf, math.nan, math.nan, math.nan]
    both = np.concatenate([value, -value]).astype(np.float32)
    if dtype.endswith("fnuz"):
        both[0x80] = math.nan
    return both


def from_bytes(data: bytes, dtype: str, shape: Sequence[int]) -> mx.array:
    count = math.prod(shape)
    if dtype in _INTEGER_BITS:
        bits = _INTEGER_BITS[dtype]
        codes = _codes(data, bits, count)
        x = codes.astype(np.uint8) if dtype[0] == "u" else ((codes ^ 1 << bits - 1) - (1 << bits - 1)).astype(np.int8)
    elif dtype in _FLOATS:
        x = _small_floats(dtype)[_codes(data, _FLOATS[dtype][0], count)]
    else:
        x = np.frombuffer(data, _NUMPY[dtype])
    x = mx.array(x.reshape(shape))
    return x.view(mx.bfloat16) if dtype == "bf16" else x


def to_bytes(x: mx.array, dtype: str) -> bytes:
    if dtype in _INTEGER_BITS:
        bits, codes = _INTEGER_BITS[dtype], np.array(x).reshape(-1).astype(np.uint8)
        codes = np.pad(codes & (1 << bits) - 1, (0, -codes.size % (8 // bits)))
        return np.bitwise_or.reduce(codes.reshape(-1, 8 // bits) << np.arange(0, 8, bits), axis=1).astype(np.uint8).tobytes()
    if dtype == "bf16":
        x = x.view(mx.uint16)
    return np.array(x).astype(_NUMPY[dtype]).tobytes()


@dataclass(frozen=True)
class Formula:
    """A size that is computed from symbols."""
    symbols: tuple[str, ...]
    of: Callable[[Sizes], int]


@dataclass(frozen=True)
class Port:
    """An input or output. `largest`: of the indices that an input holds."""
    name: str
    dtype: str
    shape: tuple[int | str | Formula, ...]
    largest: Callable[[Sizes], int] | None = None

    def sizes(self, known: Sizes) -> list[int]:
        return [d.of(known) if isinstance(d, Formula) else known[d] if isinstance(d, str) else d for d in self.shape]

    def check_indices(self, x: mx.array, known: Sizes) -> None:
        if self.largest is None or x.size == 0:
            return
        least, most, limit = mx.min(x).item(), mx.max(x).item(), self.largest(known)
        if least < 0 or most > limit:
            raise ValueError(f'"{self.name}" holds {least if least < 0 else most}, which is not within 0..{limit}')


def sizes_of(inputs: Sequence[mx.array], ports: Sequence[Port]) -> Sizes:
    """Values of the symbols in the shapes of inputs."""
    actual = [(d, size) for x, port in zip(inputs, ports) for d, size in zip(port.shape, x.shape)]
    known = {d: size for d, size in actual if isinstance(d, str)}
    unsolved = [(d, size) for d, size in actual if isinstance(d, Formula)]
    while unsolved:
        later = []
        for d, size in unsolved:
            unknown = [s for s in d.symbols if s not in known]
            if not unknown:
                continue
            zero, one = (d.of({**known, unknown[0]: value}) for value in (0, 1)) if len(unknown) == 1 else (0, 0)
            if one != zero and (size - zero) % (one - zero) == 0:
                known[unknown[0]] = (size - zero) // (one - zero)
            else:
                later.append((d, size))
        if len(later) == len(unsolved):
            raise ValueError("the sizes of the inputs do not tell all symbols")
        unsolved = later
    return known


def load_weights(folder: str) -> list[mx.array]:
    """The weights that the package's model.json lists, from files of the folder."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.json")) as f:
        model = json.load(f)
    return [from_bytes(data, row["dtype"], row["shape"]) for row, data in stored_weights(model, folder)]


def _arrays(tree: object) -> list[mx.array]:
    if isinstance(tree, (list, tuple)):
        return [x for part in tree for x in _arrays(part)]
    return [tree] if isinstance(tree, mx.array) else []


class Model:
    """A model with its weights. model.py derives a class that defines the rest.

        model = Model("folder with the weights")
        logits, *rest = model(ids, mask)

    A call is lazy, as everything of MLX. The first call with some sizes runs op by op; the second one compiles the step for these
    sizes, and later ones reuse it. `compiled=False` leaves that out.
    """
    inputs: ClassVar[tuple[Port, ...]]
    outputs: ClassVar[tuple[Port, ...]]
    states: ClassVar[tuple[tuple[int, int], ...]] = ()  # inputs, and the outputs that are their next values
    traceable: ClassVar[bool] = True  # False: sizes or branches depend on data, which a compiled function can't read

    @staticmethod
    def prepare(raw: list[mx.array]) -> list:
        """The weights in the form in which step reads them, computed once."""
        raise NotImplementedError

    @staticmethod
    def step(n: Sizes, w: list, *inputs: mx.array) -> tuple[mx.array, ...]:
        raise NotImplementedError

    def __init__(self, folder: str, compiled: bool = True) -> None:
        self.weights = self.prepare(load_weights(folder))
        mx.eval(_arrays(self.weights))
        self._seen: set[tuple] = set()
        self._compiled = mx.compile(self._run) if compiled and self.traceable else None

    def _run(self, *inputs: mx.array) -> tuple[mx.array, ...]:
        return self.step(sizes_of(inputs, self.inputs), self.weights, *inputs)

    def __call__(self, *inputs: mx.array) -> tuple[mx.array, ...]:
        known = sizes_of(inputs, self.inputs)
        for x, port in zip(inputs, self.inputs):
            port.check_indices(x, known)
        shapes = tuple(x.shape for x in inputs)
        if self._compiled and shapes in self._seen:
            return self._compiled(*inputs)
        self._seen.add(shapes)
        return self._run(*inputs)

    def start(self, **sizes: int) -> list[mx.array]:
        """Zeros for the states, with these values of symbols; other symbols are 0."""
        known = {s: 0 for port in self.inputs for d in port.shape for s in (d.symbols if isinstance(d, Formula) else [d]) if isinstance(s, str)}
        known.update(sizes)
        ports = [self.inputs[i] for i, _ in self.states]
        return [from_bytes(bytes(math.prod(s) * np.dtype(_NUMPY[p.dtype]).itemsize), p.dtype, s) for p in ports for s in [p.sizes(known)]]

    def advance(self, states: list[mx.array], **given: mx.array) -> list[mx.array]:
        """All outputs for inputs by name. `states` gets its next values; the old ones are dropped, so that MLX reuses their memory."""
        at = {i: k for k, (i, _) in enumerate(self.states)}
        outputs = list(self(*[states[at[i]] if i in at else given[port.name] for i, port in enumerate(self.inputs)]))
        states[:] = [outputs[o] for _, o in self.states]
        return outputs

    def stream(self, prompt: Sequence[int], most: int = 128, choose: Callable[[mx.array], mx.array] | None = None) -> Iterator[int]:
        """Yields the tokens that follow the prompt: a decoder with the inputs input_ids [1, tokens], its states, and of past_length,
        position_ids and attention_mask those that it has. `choose` picks a token from the last logits; by default the likeliest."""
        batch = next(p.shape[0] for p in self.inputs if p.name == "input_ids")
        states = self.start(**({batch: 1} if isinstance(batch, str) else {}))
        tokens, past = list(prompt), 0
        for _ in range(most):
            new = len(tokens)
            outputs = self.advance(
                states, input_ids=mx.array([tokens], mx.int64), past_length=mx.array(past, mx.int64),
                position_ids=mx.arange(past, past + new).astype(mx.int64)[None], attention_mask=mx.ones([1, past + new], mx.int64))
            last = outputs[next(i for i, p in enumerate(self.outputs) if p.name == "logits")][0, -1]
            token = mx.argmax(last) if choose is None else choose(last)
            del outputs
            mx.eval(token, states)
            past, tokens = past + new, [token.item()]
            yield tokens[0]


def main(model: type[Model], arguments: list[str]) -> None:
    """WEIGHTS [SIZE=VALUE...] INPUT...: raw files in, output_<i>.bin and a line with its sizes out. WEIGHTS is the folder with the
    weights."""
    sizes = {a.rsplit("=", 1)[0]: int(a.rsplit("=", 1)[1]) for a in arguments[1:] if "=" in a}
    inputs = []
    for path, port in zip([a for a in arguments[1:] if "=" not in a], model.inputs):
        with open(path, "rb") as f:
            inputs.append(from_bytes(f.read(), port.dtype, port.sizes(sizes)))
    for i, (y, port) in enumerate(zip(model(arguments[0])(*inputs), model.outputs)):
        with open(f"output_{i}.bin", "wb") as f:
            f.write(to_bytes(y, port.dtype))
        print(f"output_{i}.bin [{','.join(map(str, y.shape))}]")
    sys.stdout.flush()
