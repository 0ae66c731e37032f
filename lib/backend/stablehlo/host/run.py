"""Runs model.mlir on the device that JAX finds: on raw files, or on arrays by the class Model.

python3 run.py WEIGHTS INPUT...: raw files in, output_<i>.bin and a line with its sizes out. WEIGHTS is the folder with the weights.
"""
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


def _load_weights(model, folder):
    files, weights = {}, []
    for row in model["weights"]:
        if row["file"] is None:
            raise ValueError(f'the model carries no data for "{row["name"]}": put its file and place into model.json')
        path = os.path.join(folder, row["file"])
        if row["bytes"] and path not in files:
            files[path] = np.memmap(path, np.uint8, "r")
            header = model["weights_header"].encode()
            if row["file"] == model["weights_file"] and files[path][:len(header)].tobytes() != header:
                raise ValueError(f"{path} belongs to another model")
        data = files[path][row["offset"]:row["offset"] + row["stored"]].tobytes() if row["bytes"] else b""
        data *= row["bytes"] // max(row["stored"], 1)  # fewer bytes are stored where all elements are equal
        weights.append(from_bytes(data, row["dtype"], row["shape"]))
    return weights


class Model:
    """Compiled and loaded once; a call takes an array for each input and returns a list of arrays."""

    def __init__(self, weights=None):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "model.json")) as f:
            self.description = json.load(f)
        if "mesh" in self.description:
            axes = ",".join(f"{a['axis']}={a['size']}" for a in self.description["mesh"])
            raise ValueError(f"the module is for the devices {axes}; this runner uses one. Compile it with num_partitions of all of them")
        with open(os.path.join(here, "model.mlir")) as f:
            text = f.read()
        self._client = backend.get_backend()
        if hasattr(self._client, "compile_and_load"):
            self._program = self._client.compile_and_load(text, self._client.local_devices()[:1])
        else:
            self._program = self._client.compile(text)
        self._weights = [self._buffer(w) for w in _load_weights(self.description, weights or here)]

    def _buffer(self, array):
        return self._client.buffer_from_pyval(array)

    def __call__(self, *inputs):
        ports = self.description["inputs"]
        if len(inputs) != len(ports):
            raise TypeError(f"the model has {len(ports)} inputs, got {len(inputs)}")
        buffers = []
        for x, port in zip(inputs, ports):
            x = np.ascontiguousarray(x)
            if x.dtype != dtype(port["dtype"]) or list(x.shape) != port["shape"]:
                raise TypeError(f'"{port["name"]}" is {port["dtype"]}{port["shape"]}, got {x.dtype}{list(x.shape)}')
            buffers.append(self._buffer(x))
        return [np.asarray(y) for y in self._program.execute(buffers + self._weights)]


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
