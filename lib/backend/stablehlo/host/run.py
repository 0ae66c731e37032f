"""Runs model.mlir on the device that JAX finds: on raw files, or on arrays by the class Model.

python3 run.py WEIGHTS INPUT...: raw files in, output_<i>.bin and a line with its sizes out. WEIGHTS is the folder with the weights.
"""
from __future__ import annotations

import json
import os
import sys

try:
    from jax.extend import backend
except ImportError:
    MISSING = "the Python module jax is missing: pip install jax (jax[tpu] for a TPU)"
    if __name__ == "__main__":
        sys.exit(MISSING)
    raise ImportError(MISSING) from None
import numpy as np

from rlxc_weights import stored_weights

_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bool": "bool", "c64": "complex64"}
_NAMES.update({letter + str(bits): kind + str(bits) for letter, kind in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)})
# Types that NumPy lacks come from the module ml_dtypes, which JAX needs.
_ML_NAMES = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "i4": "int4", "u4": "uint4"}


def dtype(name):
    """The NumPy type of an element type."""
    if name in _NAMES:
        return np.dtype(_NAMES[name])
    import ml_dtypes
    return np.dtype(getattr(ml_dtypes, _ML_NAMES[name]))


def from_bytes(data, name, shape):
    if name in ("i4", "u4"):  # two in a byte, the first in the low bits
        codes = np.stack([np.frombuffer(data, np.uint8) & 15, np.frombuffer(data, np.uint8) >> 4], 1).reshape(-1)
        codes = codes[:int(np.prod(shape))].astype(np.int8)
        return (codes if name == "u4" else (codes ^ 8) - 8).astype(dtype(name)).reshape(shape)
    return np.frombuffer(data, dtype(name)).reshape(shape)


def to_bytes(x, name):
    if name in ("i4", "u4"):
        codes = np.asarray(x).astype(np.int8).astype(np.uint8).reshape(-1) & 15
        codes = np.pad(codes, (0, codes.size % 2)).reshape(-1, 2)
        return (codes[:, 0] | codes[:, 1] << 4).tobytes()
    return np.ascontiguousarray(x, dtype(name)).tobytes()


class Model:
    """Compiled and loaded once; a call takes an array for each input and returns a list of arrays.

    With states (inputs and outputs that share a buffer), `start` and `advance` keep them on the device between runs.
    """

    def __init__(self, weights: str | None = None):
        self._folder = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(self._folder, "model.json")) as f:
            self.description = json.load(f)
        if "mesh" in self.description:
            axes = ",".join(f"{a['axis']}={a['size']}" for a in self.description["mesh"])
            raise ValueError(f"the module is for the devices {axes}; this runner uses one. Compile it with num_partitions of all of them")
        self._client = backend.get_backend()
        self.states = [(s["input"], s["output"]) for s in self.description.get("states", [])]
        self._program = self._compiled("model.mlir")
        self._weights = self._load(weights or self._folder)

    def _compiled(self, name: str):
        with open(os.path.join(self._folder, name)) as f:
            text = f.read()
        if hasattr(self._client, "compile_and_load"):
            return self._client.compile_and_load(text, self._client.local_devices()[:1])
        return self._client.compile(text)

    def _load(self, folder: str) -> list:
        """The parameters after the inputs: weights as they are stored, and what weights.mlir makes of others, once."""
        rows = self.description["weights"]
        parameters = self.description.get("parameters", list(range(len(rows))))
        prepared = self.description.get("prepared", [])
        needed = sorted({n for n in parameters if n < len(rows)} | set(prepared))
        stored = stored_weights({**self.description, "weights": [rows[n] for n in needed]}, folder)
        values = {n: self._buffer(from_bytes(data, row["dtype"], row["shape"])) for n, (row, data) in zip(needed, stored)}
        if prepared:
            made = self._compiled("weights.mlir").execute([values[n] for n in prepared])
            values.update({len(rows) + i: value for i, value in enumerate(made)})
        return [values[n] for n in parameters]

    def _buffer(self, array: np.ndarray):
        if hasattr(self._client, "buffer_from_pyval"):
            return self._client.buffer_from_pyval(array)
        import jax
        with jax.enable_x64(True):  # else elements of 64 bits become 32
            return jax.device_put(array, self._client.local_devices()[0])

    def _checked(self, x, port: dict) -> np.ndarray:
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        if x.dtype != dtype(port["dtype"]) or list(x.shape) != port["shape"]:
            raise TypeError(f'"{port["name"]}" is {port["dtype"]}{port["shape"]}, got {x.dtype}{list(x.shape)}')
        if "largest" in port and x.size and (x.min() < 0 or x.max() > port["largest"]):
            raise ValueError(f'"{port["name"]}" holds {x.min() if x.min() < 0 else x.max()}, which is not within 0..{port["largest"]}')
        return x

    def __call__(self, *inputs) -> list[np.ndarray]:
        ports = self.description["inputs"]
        if len(inputs) != len(ports):
            raise TypeError(f"the model has {len(ports)} inputs, got {len(inputs)}")
        buffers = [self._buffer(self._checked(x, port)) for x, port in zip(inputs, ports)]
        return [np.asarray(y) for y in self._program.execute(buffers + self._weights)]

    def start(self, **given) -> list:
        """The states before the first run, on the device: zeros, or these arrays by name."""
        ports = [self.description["inputs"][i] for i, _ in self.states]
        if unknown := given.keys() - {port["name"] for port in ports}:
            raise TypeError(f"there is no state {sorted(unknown)}")
        return [self._buffer(self._checked(given.get(port["name"], np.zeros(port["shape"], dtype(port["dtype"]))), port)) for port in ports]

    def advance(self, states: list, **given) -> list[np.ndarray]:
        """Outputs that are no states, for inputs by name. `states` gets its next values, in the memory of the old ones."""
        at = {i: k for k, (i, _) in enumerate(self.states)}
        ports = self.description["inputs"]
        if (names := {port["name"] for i, port in enumerate(ports) if i not in at}) != given.keys():
            raise TypeError(f"the inputs are {sorted(names)}, got {sorted(given)}")
        buffers = [states[at[i]] if i in at else self._buffer(self._checked(given[port["name"]], port)) for i, port in enumerate(ports)]
        outputs = self._program.execute(buffers + self._weights)
        states[:] = [outputs[o] for _, o in self.states]
        kept = {o for _, o in self.states}
        return [np.asarray(y) for o, y in enumerate(outputs) if o not in kept]


def main(arguments):
    if not arguments:
        sys.exit("usage: python3 run.py WEIGHTS INPUT...")
    model = Model(arguments[0])
    inputs = []
    for path, port in zip(arguments[1:], model.description["inputs"]):
        with open(path, "rb") as f:
            inputs.append(from_bytes(f.read(), port["dtype"], port["shape"]))
    for i, (y, port) in enumerate(zip(model(*inputs), model.description["outputs"])):
        with open(f"output_{i}.bin", "wb") as f:
            f.write(to_bytes(y, port["dtype"]))
        print(f"output_{i}.bin [{','.join(map(str, y.shape))}]")


if __name__ == "__main__":
    main(sys.argv[1:])
