"""Runs a model in ONNX Runtime and writes inputs and outputs as a data set: run_onnxruntime.py MODEL FOLDER SIZE [DATA]. Inputs are those
of the folder DATA (input_0.pb, ...), or random. SIZE is the size of symbolic axes."""
import os
import sys

import numpy as np
import onnx
import onnxruntime

FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
            "tensor(int16)": np.int16, "tensor(uint16)": np.uint16, "tensor(uint32)": np.uint32, "tensor(uint64)": np.uint64}


def random_input(i, rng, size):
    shape = [d if isinstance(d, int) and d >= 0 else size for d in i.shape]
    if i.type in FLOATS:
        return rng.standard_normal(shape).astype(FLOATS[i.type])
    if i.type in INTEGERS:
        return rng.integers(0, 3, shape).astype(INTEGERS[i.type])
    if i.type == "tensor(bool)":
        return rng.integers(0, 2, shape).astype(bool)
    if i.type == "tensor(string)":
        return rng.choice(np.array(["a", "b c", "7"], dtype=object), shape)
    sys.exit(f"input {i.name} is {i.type}")


def write(value, name, path):
    if not isinstance(value, np.ndarray):
        sys.exit(f"{name} is not a tensor")
    with open(path, "wb") as f:
        f.write(onnx.numpy_helper.from_array(value, name).SerializeToString())


def main(model, folder, size, data=""):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    feeds = {}
    for k, i in enumerate(session.get_inputs()):
        path = os.path.join(data, f"input_{k}.pb")
        if data and os.path.exists(path):
            with open(path, "rb") as f:
                feeds[i.name] = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))
        else:
            feeds[i.name] = random_input(i, rng, size)
    os.makedirs(folder)
    for k, i in enumerate(session.get_inputs()):
        write(feeds[i.name], i.name, os.path.join(folder, f"input_{k}.pb"))
    for k, (o, value) in enumerate(zip(session.get_outputs(), session.run(None, feeds))):
        write(value, o.name, os.path.join(folder, f"output_{k}.pb"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *[a for a in sys.argv[4:] if a])
