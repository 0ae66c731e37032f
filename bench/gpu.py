#!/usr/bin/env python3
"""Kernels and models of the cuda target on an NVIDIA GPU, beside PyTorch (cuBLAS, cuDNN, its attention) and a copy of memory.

Two steps, because the machine with the GPU need not build rlxc:
    python3 bench/gpu.py prepare FOLDER [NAME ...]   compiles the packages of the cases, and builds them if there is nvcc
    python3 bench/gpu.py run FOLDER [NAME ...]       builds what is not built, compares results, measures, prints a table
The second step needs nvcc (scripts/setup-device-compilers fetches it: `. build/cuda/env`), PyTorch and, for the models,
transformers. MODELS names a folder with full/*/model.onnx for the first step; without it the models are left out. Weights are
random. ARCHS (90a) is the kind of GPU."""
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
arch = os.environ.get("ARCHS", "90a")
BITS = {"f32": 32, "f16": 16, "bf16": 16, "i8": 8, "i32": 32, "i64": 64, "u8": 8, "u4": 4, "f8e4m3fn": 8, "f8e5m2": 8}


def ir(operands, result, node):
    """IR text of a graph of one node. Operands and result are (element type, dims). Operands with a third entry are constants: its
    value, or none yet (None)."""
    text = lambda t: f"{t[0]}[{','.join(map(str, t[1]))}]"

    def operand(i, t):
        if len(t) == 2:
            return f'  %{i} = input "x{i}" : {text(t)}'
        data = 'file "none" 0' if t[2] is None else f"splat_hex {t[2]:02x}" if t[0][0] == "u" else f"splat {t[2]}"
        return f"  %{i} = constant {{data = {data}}} : {text(t)}"

    lines = [operand(i, t) for i, t in enumerate(operands)]
    names = ", ".join(f"%{i}" for i in range(len(operands)))
    n = len(operands)
    op, _, attrs = node.partition(" ")
    return f'module "m" hir {{\ngraph @main {{\n' + "\n".join(lines) + f'\n  %{n} = {op}({names}) {attrs} "y" : {text(result)}\n  return %{n} "y"\n}}\n}}\n'


class Case:
    """An operation. `torch` is an expression of x0, x1, ... and F (torch.nn.functional); `exact` of its result, if PyTorch rounds
    more; w1, w2, ... are constants, made by `decoded`. `flops` of a run; if 0, what counts is the bytes of operands and result;
    `terms` of its longest sum."""

    def __init__(self, name, operands, result, node, torch, flops=0, terms=1, exact=None, decoded=()):
        self.name, self.operands, self.result, self.node, self.torch, self.flops, self.terms = name, operands, result, node, torch, flops, terms
        self.exact, self.decoded = exact or torch, decoded

    def bytes(self):
        count = lambda t: BITS[t[0]] * __import__("math").prod(t[1]) // 8
        return sum(map(count, self.operands)) + count(self.result)


def matmul(t, m, n, k):
    product = "torch._int_mm(x0, x1)" if t == "i8" else "x0 @ x1"
    result = "i32" if t == "i8" else t
    return Case(f"matmul-{t}-{m}x{n}x{k}", [(t, [m, k]), (t, [k, n])], (result, [m, n]), "q_matmul" if t == "i8" else "matmul", product, 2 * m * n * k, k)


def linear(t, m, n, k):
    """A matmul by a weight [n, k]."""
    return Case(f"linear-{t}-{m}x{n}x{k}", [(t, [m, k]), (t, [n, k])], (t, [m, n]), "matmul {trans_b = true}", "x0 @ x1.t()", 2 * m * n * k, k)


def linear_i8(m, n, k):
    """A product by a weight, which either side may lay out as it likes."""
    return Case(f"linear-i8-{m}x{n}x{k}", [("i8", [m, k]), ("i8", [k, n], None)], ("i32", [m, n]), "q_matmul", "torch._int_mm(x0, w1)", 2 * m * n * k, k,
                decoded=("w1 = w1.t().contiguous().t()",))


def linear_u8(m, n, k):
    """The same of u8 times i8, beside a product of i8, since PyTorch has none of mixed types."""
    operands = [("u8", [m, k]), ("i8", [k, n], None)]
    return Case(f"linear-u8-{m}x{n}x{k}", operands, ("i32", [m, n]), "q_matmul", "torch._int_mm(signed, w1)", 2 * m * n * k, k,
                "(x0.double() @ w1.double()).int()", ("signed = x0.view(torch.int8)", "w1 = w1.t().contiguous().t()"))


def linear_f8(m, n, k, of_x="f8e4m3fn", name="f8"):
    operands = [(of_x, [m, k]), (of_x, [n, k], None), ("f32", [1, 1], None)]
    return Case(f"linear-{name}-{m}x{n}x{k}", operands, ("f32", [m, n]), "dequant_matmul {trans_b = true}",
                "torch._scaled_mm(of_peer, w1.to(torch.float8_e4m3fn).t(), scale_a=one, scale_b=w2, out_dtype=torch.bfloat16)", 2 * m * n * k, k,
                "(x0.float() @ w1.float().t()) * w2", ("one = torch.ones([1, 1], device='cuda')", "of_peer = x0.to(torch.float8_e4m3fn)"))


def decoding(t, bits, m, n, k, block=32):
    """A matmul by a weight of few bits. PyTorch multiplies by the decoded weight."""
    zero = 1 << bits - 1
    operands = [(t, [m, k]), (f"u{bits}", [n, k], None), (t, [n, k // block], None), (f"u{bits}", [n, k // block], zero)]
    codes = "torch.stack([w1 & 15, w1 >> 4], 2).reshape" if bits == 4 else "w1.reshape"
    decoded = f"exact = (({codes}({n}, {k // block}, {block}).float() - {zero}) * w2.float()[:, :, None]).reshape({n}, {k})"
    return Case(f"u{bits}-{t}-{m}x{n}x{k}", operands, (t, [m, n]), f"dequant_matmul {{trans_b = true, block = {block}}}", "x0 @ w.t()",
                2 * m * n * k if m > 4 else 0, k, "x0.float() @ exact.t()", (decoded, "w = exact.to(x0.dtype)"))


def attention(t, heads, length, width, causal):
    dims = [1, heads, length, width]
    return Case(f"attention-{t}-{heads}x{length}x{width}{'-causal' if causal else ''}", [(t, dims)] * 3, (t, dims),
                f'attention {{num_heads = {heads}, num_kv_heads = {heads}, layout = "bhsd", out_layout = "bhsd", mask = "{"causal" if causal else "none"}"}}',
                f"F.scaled_dot_product_attention(x0, x1, x2, is_causal={causal})", 4 * heads * length * length * width // (2 if causal else 1), length)


def rows(name, t, count, length, node, torch, extra=0):
    return Case(f"{name}-{t}-{count}x{length}", [(t, [count, length])] + [(t, [length])] * extra, (t, [count, length]), node, torch)


def conv(t, c, size, out, kernel, stride, batch):
    after = (size - 1) // stride + 1
    pads = kernel // 2
    integers = t == "i8"  # beside a convolution of f16
    conv2d = lambda x, w: f"F.conv2d({x}, {w}, stride={stride}, padding={pads})"
    return Case(f"conv-{t}-{batch}x{c}x{size}-{out}x{kernel}x{kernel}-{stride}", [(t, [batch, c, size, size]), (t, [out, c, kernel, kernel], None)],
                ("i32" if integers else t, [batch, out, after, after]), f"{'q_conv' if integers else 'conv'} {{strides = [{stride}, {stride}], pads_begin = [{pads}, {pads}], pads_end = [{pads}, {pads}], dilations = [1, 1], groups = 1}}",
                conv2d("x0_f16", "w1_f16") if integers else conv2d("x0", "w1"), 2 * batch * out * after * after * c * kernel * kernel, c * kernel * kernel,
                conv2d("x0.double()", "w1.double()") + ".int()" if integers else None, ("x0_f16 = x0.half()", "w1_f16 = w1.half()") if integers else ())


CASES = [
    matmul("bf16", 4096, 4096, 4096), matmul("bf16", 8192, 8192, 8192), matmul("bf16", 512, 4096, 4096), matmul("bf16", 128, 768, 3072),
    linear("bf16", 4096, 4096, 4096), linear("bf16", 8192, 8192, 8192), linear("bf16", 512, 4096, 4096), linear("bf16", 128, 768, 3072),
    linear("bf16", 16, 4096, 4096), linear("bf16", 1, 14336, 4096), linear("f32", 1, 14336, 4096), matmul("bf16", 1, 14336, 4096),
    linear("f16", 4096, 4096, 4096), matmul("f32", 4096, 4096, 4096), matmul("i8", 4096, 4096, 4096),
    linear_i8(4096, 4096, 4096), linear_i8(512, 4096, 4096), linear_i8(128, 3072, 768),
    linear_f8(4096, 4096, 4096), linear_f8(512, 4096, 4096), linear_f8(128, 3072, 768),
    linear_u8(512, 4096, 4096), linear_f8(512, 4096, 4096, "f8e5m2", "f8e5m2"),
    *(decoding(t, bits, m, 14336 if m == 1 else 4096, 4096) for t in ("f16", "bf16") for bits in (4, 8) for m in (1, 16, 512)),
    attention("bf16", 16, 4096, 128, False), attention("bf16", 16, 4096, 128, True), attention("bf16", 16, 4096, 64, False),
    attention("f32", 16, 2048, 64, False),
    rows("layer_norm", "f32", 32768, 4096, "layer_norm {axis = 1, eps = 1e-05}", "F.layer_norm(x0, x1.shape, x1, x2)", 2),
    rows("layer_norm", "bf16", 65536, 4096, "layer_norm {axis = 1, eps = 1e-05}", "F.layer_norm(x0, x1.shape, x1, x2)", 2),
    rows("layer_norm", "bf16", 262144, 768, "layer_norm {axis = 1, eps = 1e-05}", "F.layer_norm(x0, x1.shape, x1, x2)", 2),
    rows("rms_norm", "bf16", 65536, 4096, "rms_norm {axis = 1, eps = 1e-05}", "F.rms_norm(x0, x1.shape, x1, 1e-5)", 1),
    rows("softmax", "f32", 32768, 4096, "softmax {axis = 1}", "F.softmax(x0, 1)"),
    rows("softmax", "f32", 8192, 16384, "softmax {axis = 1}", "F.softmax(x0, 1)"),
    rows("gelu", "f32", 32768, 4096, "gelu", "F.gelu(x0)"), rows("gelu", "bf16", 65536, 4096, "gelu", "F.gelu(x0)"),
    Case("transpose-f32-16384x8192", [("f32", [16384, 8192])], ("f32", [8192, 16384]), "transpose {perm = [1, 0]}", "x0.t().contiguous()"),
    Case("reduce-f32-32768x4096", [("f32", [32768, 4096])], ("f32", [32768]), 'reduce {op = "sum", axes = [1]}', "x0.sum(1)", terms=4096),
    Case("reduce-f32-columns-32768x4096", [("f32", [32768, 4096])], ("f32", [4096]), 'reduce {op = "sum", axes = [0]}', "x0.sum(0)", terms=32768),
    *(conv(t, *sizes) for t in ("bf16", "i8", "f32") for sizes in ((64, 56, 64, 3, 1, 16), (256, 14, 256, 3, 1, 16), (256, 56, 64, 1, 1, 16), (128, 28, 128, 3, 2, 16))),
]

# Models: the folder's name, outputs (all, if empty), and how PyTorch computes the same.
MODELS = {
    "bert": ("bert_base_s128", "", "bert"),
    "llama": ("llama3_8b_s512", "node_add_26", "llama"),  # four layers
    "resnet50": ("timm_resnet50", "", "resnet50"),
}
PRECISIONS = {"f32": "f32", "f16": "automixed", "bf16": "automixed-bf16"}
QUANTIZED = {"bert", "resnet50"}  # also as Q/DQ models of 8 bits, beside f16


def precisions(name):
    return [*PRECISIONS, *(["int8"] if name in QUANTIZED else [])]


def run(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return p.returncode, p.stdout


def must(args, **more):
    code, text = run(args, **more)
    if code != 0:
        sys.exit(f"{' '.join(args)} failed:\n{text}")
    return text


def build(folder):
    if not os.path.exists(folder + "/run") and shutil.which("nvcc"):
        code, text = run(["make", "-s", "ARCHS=" + arch], cwd=folder)
        if code != 0:
            print(f"{folder}: {text}", file=sys.stderr)
    return folder


def prepare(folder, wanted):
    """FOLDER/NAME: the files of a cuda package."""
    def compile_model(name, model, *flags):
        print(name, file=sys.stderr)
        place = os.path.join(folder, name)
        shutil.rmtree(place, ignore_errors=True)
        must([rlxc, "compile", model, "--target", "cuda", "--emit", "kernels", "-q", "-o", place + ".out", *flags])
        shutil.move(place + ".out/kernels/cuda", place)
        shutil.rmtree(place + ".out")
        build(place)

    os.makedirs(folder, exist_ok=True)
    for c in CASES:
        if wanted(c.name):
            model = os.path.join(folder, c.name + ".txt")
            with open(model, "w") as f:
                f.write(ir(c.operands, c.result, c.node))
            compile_model(c.name, model, "--allow-missing-weights")
            os.remove(model)
    models = os.environ.get("MODELS")
    for name, (source, outputs, _) in MODELS.items() if models else ():
        for precision in precisions(name):
            if not wanted(f"{name}-{precision}"):
                continue
            model = os.path.join(models, "full", source, "model.onnx")
            if precision == "int8":
                made = os.path.join(folder, name + ".onnx")
                must([sys.executable, os.path.join(root, "tests/support/python/quantized_model.py"), model, made])
                os.remove(os.path.join(folder, "codes.bin"))
                compile_model(f"{name}-int8", made, "--allow-missing-weights")
                os.remove(made)
                continue
            if outputs:
                part = os.path.join(folder, name + ".json")
                must([rlxc, "extract", model, "--allow-missing-weights", "--outputs", outputs, "-q", "-o", part])
                model = part
            compile_model(f"{name}-{precision}", model, "--allow-missing-weights", "--precision", PRECISIONS[precision])
            if outputs:
                os.remove(part)


def measure(folder, wanted):
    sys.path.pop(0)  # this folder, whose modules have names of packages
    import torch
    import torch.nn.functional as F
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64,
             "u8": torch.uint8, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
    tolerance = {"f32": (1e-4, 1e-5), "f16": (1e-3, 2.5e-3), "bf16": (1e-2, 2e-2)}

    def save(path, x):
        x.contiguous().view(torch.uint8).cpu().numpy().tofile(path)

    def time(f, least_ms=60):
        """Milliseconds of a call: replays of a recorded graph, the median of five groups."""
        for _ in range(3):
            f()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            f()
        event = lambda: torch.cuda.Event(enable_timing=True)

        def group(n):
            a, b = event(), event()
            a.record()
            for _ in range(n):
                graph.replay()
            b.record()
            b.synchronize()
            return a.elapsed_time(b) / n

        group(3)
        n = max(3, int(least_ms / 5 / max(group(3), 1e-3)))
        return sorted(group(n) for _ in range(5))[2]

    def ours(place, inputs, ms):
        args = ["./run", "--repeat", str(max(5, int(60 / ms))), "."] + inputs
        code, text = run(args, cwd=place)
        if code != 0:
            return None, text.strip()
        return float(text.split("mean ")[1]), text

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    copied = 2 * x.numel() * 4 / time(lambda: torch.mul(x, 1.0, out=y)) / 1e9
    del x, y
    name = torch.cuda.get_device_name()
    print(f"{name}, PyTorch {torch.__version__}, TF32 off. A copy by a kernel moves {copied:.2f} TB/s, counting bytes read and written.")
    packages = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if wanted(n) and os.path.isfile(os.path.join(folder, n, "launch.json"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, packages))
    print(f"\n| operation | rlxc ms | PyTorch ms | ratio | rlxc | PyTorch | results |\n|---|---|---|---|---|---|---|")
    for c in CASES:
        place = os.path.join(folder, c.name)
        if not wanted(c.name) or not os.path.exists(place + "/run"):
            continue
        torch.manual_seed(1)
        data = {}
        inputs = [i for i, t in enumerate(c.operands) if len(t) == 2]
        for i in inputs:
            t, dims = c.operands[i]
            data[f"x{i}"] = torch.randint(-128, 128, dims, device="cuda", dtype=torch.int8).view(types[t]) if t in ("i8", "u8") else torch.randn(dims, device="cuda").to(types[t])
            save(f"{place}/x{i}.bin", data[f"x{i}"])
        random_weights(place)
        weights = iter(stored_weights(place))
        for i, t in enumerate(c.operands):
            if len(t) > 2 and t[2] is None:
                raw = torch.frombuffer(bytearray(next(weights)), dtype=torch.uint8).cuda()
                data[f"w{i}"] = raw.reshape(*t[1][:-1], -1) if BITS[t[0]] < 8 else raw.view(types[t[0]]).reshape(t[1])
        names = {"torch": torch, "F": F, **data}
        for line in c.decoded:
            exec(line, names)
        f = lambda: eval(c.torch, names)
        theirs = time(f)
        ms, said = ours(place, [f"x{i}.bin" for i in inputs], theirs)
        if ms is None:
            print(f"| {c.name} | {said} | {theirs:.4f} | | | | FAIL |", flush=True)
            continue
        result = torch.frombuffer(bytearray(open(place + "/output_0.bin", "rb").read()), dtype=types[c.result[0]]).reshape(c.result[1]).cuda()
        expected = eval(c.exact, names)
        if result.dtype.is_floating_point:
            rtol, atol = tolerance[c.result[0]]
            longer = c.terms ** 0.5
            bad = (result.float() - expected.float()).abs() > longer * (rtol * expected.float().abs() + atol)
            verdict = "agree" if not bad.any() and not result.isnan().any() else f"{int(bad.sum())} of {bad.numel()} differ"
        else:
            verdict = "equal" if torch.equal(result, expected) else f"{int((result != expected).sum())} differ"
        rate = (lambda t: f"{c.flops / t / 1e9:.0f} TFLOP/s") if c.flops else (lambda t: f"{c.bytes() / t / 1e9:.2f} TB/s")
        print(f"| {c.name} | {ms:.4f} | {theirs:.4f} | {ms / theirs:.2f} | {rate(ms)} | {rate(theirs)} | {verdict} |", flush=True)
        for i in inputs:
            os.remove(f"{place}/x{i}.bin")
        os.remove(place + "/output_0.bin")
        del data, names, expected, result

    print("\n| model | rlxc ms | PyTorch ms | ratio |\n|---|---|---|---|")
    for model, (_, _, kind) in MODELS.items():
        for precision in precisions(model):
            place = os.path.join(folder, f"{model}-{precision}")
            if not wanted(f"{model}-{precision}") or not os.path.exists(place + "/run"):
                continue
            theirs = time(torch_model(kind, types.get(precision, torch.float16)))
            random_weights(place)
            ms, said = ours(place, random_inputs(place), theirs)
            print(f"| {model} {precision} | {said if ms is None else f'{ms:.4f}'} | {theirs:.4f} | {'' if ms is None else f'{ms / theirs:.2f}'} |", flush=True)
            torch.cuda.empty_cache()


def torch_model(kind, dtype):
    """A function that runs the model as PyTorch has it, with random weights."""
    import torch
    torch.set_grad_enabled(False)
    if kind == "resnet50":
        import timm
        model = timm.create_model("resnet50").eval().cuda().to(dtype)
        x = torch.randn(1, 3, 224, 224, device="cuda", dtype=dtype)
        return lambda: model(x)
    import transformers
    if kind == "bert":
        model = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa")).eval().cuda().to(dtype)
        ids = torch.randint(0, 1000, (1, 128), device="cuda")
        return lambda: model(ids)
    config = transformers.LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=4, num_attention_heads=32,
                                      num_key_value_heads=8, max_position_embeddings=8192, attn_implementation="sdpa")
    with torch.device("cuda"):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        model = transformers.LlamaModel(config).eval()
        torch.set_default_dtype(before)
    ids = torch.randint(0, 1000, (1, 512), device="cuda")
    return lambda: model(ids, use_cache=False)


def random_weights(place):
    """Gives weights without contents random numbers."""
    import numpy
    rng = numpy.random.default_rng(1)
    block = (1 << 20) + 256  # elements, repeated
    floats = (0.04 * rng.standard_normal(block)).astype(numpy.float32)
    codes = rng.integers(0, 256, block, numpy.uint8)
    files = {"f32": floats.tobytes(), "f16": floats.astype(numpy.float16).tobytes(), "bf16": (floats.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes(),
             "f8e4m3fn": (codes & 0xbf).tobytes(), "f8e5m2": (codes & 0xbf).tobytes(), **{t: codes.tobytes() for t in ("u4", "u8", "i8")}}
    with open(place + "/launch.json") as f:
        launch = json.load(f)
    used = set()
    for w in launch["weights"]:
        if w["stored"] or not w["bytes"]:
            continue
        t = w["dtype"] if w["dtype"] in files else "zeros"
        used.add(t)
        size = len(files.get(t, bytes(block)))
        w.update(file=t + ".random", offset=0, stored=min(w["bytes"], size))
    for t in used:
        with open(f"{place}/{t}.random", "wb") as f:
            f.write(files.get(t, bytes(block)))
    with open(place + "/launch.json", "w") as f:
        json.dump(launch, f)


def random_inputs(place):
    """Writes inputs. Returns the names of their files."""
    import numpy
    rng = numpy.random.default_rng(1)
    with open(place + "/launch.json") as f:
        launch = json.load(f)
    names = []
    for i, x in enumerate(launch["inputs"]):
        count = x["bytes"] * 8 // BITS.get(x["dtype"], 8)
        if x["dtype"] == "i64":
            data = numpy.ones(count, numpy.int64) if "mask" in x["name"] else rng.integers(0, 1000, count)
        else:
            data = rng.standard_normal(count).astype(numpy.float32)
        data.tofile(f"{place}/input_{i}.bin")
        names.append(f"input_{i}.bin")
    return names


def stored_weights(place):
    """The bytes of the weights that random_weights made, in order."""
    with open(place + "/launch.json") as f:
        weights = json.load(f)["weights"]
    for w in weights:
        if w["file"].endswith(".random"):
            with open(f"{place}/{w['file']}", "rb") as f:
                data = f.read(w["stored"])
            yield (data * (w["bytes"] // len(data) + 1))[:w["bytes"]]


if len(sys.argv) < 3 or sys.argv[1] not in ("prepare", "run"):
    sys.exit(__doc__)
names = sys.argv[3:]
(prepare if sys.argv[1] == "prepare" else measure)(os.path.abspath(sys.argv[2]), lambda n: not names or any(part in n for part in names))
