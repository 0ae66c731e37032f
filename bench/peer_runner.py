"""Prepares and runs a model in one of the engines of scripts/setup-peers, each as its documentation says for the lowest latency in f32.

    build/peers/NAME/bin/python bench/peer_runner.py prepare NAME MODEL FOLDER         leaves in FOLDER what a program deploys
    build/peers/NAME/bin/python bench/peer_runner.py run NAME MODEL FOLDER THREADS REPEAT INPUT.bin...

MODEL has files MODEL.inputs.json, a list of [name, type, shape], MODEL.outputs.json, a list of names, and for jax the package of target tpu in MODEL.tpu. `run` prints the
line that the main of a cpu package prints, then the time of the first result since START (seconds of the clock, in the environment),
and writes output_<i>.bin."""
import glob
import json
import os
import subprocess
import sys
import time

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "i8": np.int8,
         "bool": np.bool_}


def ports(model):
    with open(model + ".inputs.json") as f:
        return json.load(f)


def tool(*command):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if p.returncode:
        sys.exit(p.stdout[-1000:] or f"{command[0]} ended with {p.returncode}")


def module(*command):
    tool(sys.executable, "-m", *command)


class Engine:
    """prepare leaves files in a folder; load returns a function from arrays, in the order of the inputs, to arrays."""

    def __init__(self, model, folder, threads=1):
        self.model, self.folder, self.threads = model, folder, threads

    def file(self, name):
        return os.path.join(self.folder, name)

    def prepare(self):
        pass


class OnnxRuntime(Engine):
    def load(self):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = self.threads, 1, 3
        session = ort.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        return lambda *x: session.run(None, dict(zip(names, x)))


class OpenVino(Engine):
    def prepare(self):
        import openvino as ov
        ov.save_model(ov.Core().read_model(self.model), self.file("model.xml"), compress_to_fp16=False)

    def load(self):
        import openvino as ov
        program = ov.Core().compile_model(self.file("model.xml"), "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1})
        request = program.create_infer_request()

        def run(*x):
            found = request.infer(list(x), share_inputs=True, share_outputs=True)
            return [found[port] for port in program.outputs]
        return run


class Iree(Engine):
    def prepare(self):
        from iree.compiler.tools import compile_file
        module("iree.compiler.tools.import_onnx", self.model, "-o", self.file("model.mlir"))
        compile_file(self.file("model.mlir"), target_backends=["llvm-cpu"], input_type="onnx", output_file=self.file("model.vmfb"),
                     extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"])
        os.remove(self.file("model.mlir"))

    def load(self):
        import iree.runtime as rt
        driver = "local-sync" if self.threads == 1 else "local-task"
        program = rt.load_vm_flatbuffer_file(self.file("model.vmfb"), driver=driver)
        function = program[next(n for n in program.vm_module.function_names if not n.startswith("__") and not n.endswith("$async"))]

        def run(*x):
            found = function(*x)
            return [r.to_host() for r in (found if isinstance(found, (tuple, list)) else [found])]
        return run


class Jax(Engine):
    """XLA by the module of rlxc's target tpu. Its threads are as many as the processors that the process may use."""

    def load(self):
        sys.path.insert(0, self.model + ".tpu/kernels/tpu")
        import run
        return run.Model(os.path.dirname(self.model) if not glob.glob(self.model + ".tpu/kernels/tpu/*.weights") else None)


class Ncnn(Engine):
    def prepare(self):
        shapes = ",".join(f"[{','.join(map(str, shape))}]{dtype}" for _, dtype, shape in ports(self.model))
        link = self.file("model.onnx")
        os.symlink(self.model, link)
        for path in glob.glob(os.path.join(os.path.dirname(self.model), "*.bin")):
            os.symlink(path, self.file(os.path.basename(path)))
        binary = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/pnnx/pnnx"))[0]
        tool(binary, link, "inputshape=" + shapes, "fp16=0")
        for path in glob.glob(self.file("*")):
            if not path.endswith(("model.ncnn.param", "model.ncnn.bin")):
                os.remove(path)

    def load(self):
        import ncnn
        if any(shape[:1] != [1] for _, _, shape in ports(self.model)):
            sys.exit("ncnn has no batches: the first extent of each input must be 1")
        net = ncnn.Net()
        net.opt.num_threads = self.threads
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_bf16_storage = False
        if net.load_param(self.file("model.ncnn.param")) or net.load_model(self.file("model.ncnn.bin")):
            sys.exit("ncnn cannot load the model")

        def run(*x):
            with net.create_extractor() as extractor:
                for name, value in zip(net.input_names(), x):
                    extractor.input(name, ncnn.Mat(value[0] if value.ndim > 1 else value).clone())
                return [np.array(extractor.extract(name)[1]) for name in net.output_names()]
        return run


class Mnn(Engine):
    def prepare(self):
        module("MNN.tools.mnnconvert", "-f", "ONNX", "--modelFile", self.model, "--MNNModel", self.file("model.mnn"), "--bizCode", "rlxc")

    def load(self):
        import MNN
        runtime = MNN.nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "memory": "normal", "numThread": self.threads},))
        names, outputs = [name for name, *_ in ports(self.model)], output_names(self.model)
        net = MNN.nn.load_module_from_file(self.file("model.mnn"), names, outputs, runtime_manager=runtime)
        def run(*x):
            variables = []
            for value in x:
                value = value.astype(np.int32) if value.dtype == np.int64 else value
                v = MNN.expr.placeholder(list(value.shape), MNN.expr.NCHW,
                                         MNN.expr.int if value.dtype == np.int32 else MNN.expr.float)
                v.write(value)
                variables.append(v)
            found = net.forward(variables)
            return [np.array(MNN.expr.convert(v, MNN.expr.NCHW).read()) for v in (found if isinstance(found, list) else [found])]
        return run


class Torch(Engine):
    def load(self):
        import onnx2torch
        import torch
        import torch._inductor.config as inductor
        torch.set_num_threads(self.threads)
        inductor.freezing = True
        inductor.compile_threads = 1
        net = torch.compile(onnx2torch.convert(self.model).eval())

        def run(*x):
            with torch.inference_mode():
                found = net(*map(torch.from_numpy, x))
            return [r.numpy() for r in (found if isinstance(found, (tuple, list)) else [found])]
        return run


class Tract(Engine):
    def load(self):
        if self.threads > 1:
            sys.exit("runs on one thread only")
        import tract
        net = tract.onnx().load(self.model).into_model().into_runnable()
        return lambda *x: [y.to_numpy() for y in net.run(list(x))]


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "iree": Iree, "jax": Jax, "ncnn": Ncnn, "mnn": Mnn, "torch": Torch,
           "tract": Tract}


def output_names(model):
    with open(model + ".outputs.json") as f:
        return json.load(f)


def measure(function, repeat, inputs):
    wall, busy = [], []
    for _ in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        function(*inputs)
        wall.append((time.perf_counter() - start) * 1e3)
        busy.append((time.process_time() - used) * 1e3)
    wall.sort()
    busy.sort()
    middle = repeat // 2
    print(f"ms of {repeat} runs: wall min {wall[0]:.4f} median {wall[middle]:.4f}, "
          f"processor min {busy[0]:.4f} median {busy[middle]:.4f}")


def main(step, name, model, folder, *rest):
    if step == "prepare":
        ENGINES[name](model, folder).prepare()
        return
    threads, repeat, files = int(rest[0]), int(rest[1]), rest[2:]
    inputs = [np.fromfile(path, TYPES[dtype]).reshape(shape) for path, (_, dtype, shape) in zip(files, ports(model))]
    function = ENGINES[name](model, folder, threads).load()
    results = function(*inputs)
    first = time.time() - float(os.environ["START"])
    for i, result in enumerate(results):
        np.ascontiguousarray(result).tofile(f"output_{i}.bin")
    if repeat:
        measure(function, repeat, inputs)
    print(f"first result {first * 1e3:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
