"""A model of one operator of com.microsoft with its inputs, and the list of functions that make one."""
import numpy as np

from onnx_writer import Model, tensor

MAKERS = []


class Case(Model):
    def __init__(self, seed):
        super().__init__(21)
        self.random, self.feeds, self.outputs = np.random.default_rng(seed), [], []

    def feed(self, array):
        array = np.asarray(array)
        name = self.input(list(array.shape), array.dtype.name)
        self.feeds.append((name, array))
        return name

    def real(self, *shape, scale=1.0):
        return self.feed((self.random.standard_normal(shape) * scale).astype(np.float32))

    def ints(self, low, high, *shape, dtype=np.int32):
        return self.feed(self.random.integers(low, high, shape, dtype))

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def ms(self, op, *inputs, n=1, types=None, **attributes):
        made = self(op, *inputs, n=n, domain="com.microsoft", **attributes)
        self.outputs += list(zip([made] if n == 1 else made, types or ["float32"] * n))

    def write(self, folder):
        data = folder / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        self.save(folder / "model.onnx", *self.outputs)
        for i, (name, array) in enumerate(self.feeds):
            (data / f"input_{i}.pb").write_bytes(tensor(array, name))


def maker(f):
    MAKERS.append(f)
    return f
