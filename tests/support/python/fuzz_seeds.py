"""Seeds of scripts/fuzz for the forms that no file of the project has: fuzz_seeds.py FORM FOLDER.

pbtxt: ONNX models in text form, by protoc. onnxtxt: models in the syntax of ONNX's printer. arrays: files of NumPy. packed: gzip and
zip files of models and arrays, and streams of deflate. shard, config, tuning: rules of shardings, configurations, block sizes.
"""
import gzip
import io
import json
import pathlib
import struct
import subprocess
import sys
import zipfile
import zlib

PROTO = "/usr/include/onnx"
SMALL = 20000
PRINTED = [
    '''<ir_version: 7, opset_import: ["" : 17]>
g (float[N, 4] X) => (float[N, 4] Y) {
  A = Relu (X)
  [named] Y = Softmax <axis = -1> (A)
}
''',
    '''<ir_version: 8, # a comment
 opset_import: ["" : 18, "my" : 1], producer_name: "say \\"a\\""
>
g (float[2] X, float[2] B = {1, -2.5e0}, bool C) => (float[2] Y)
<int64[1] k = {-3}, float[2] w = {0.5, 1e3}>
{
  T = my.f <alpha = 2.0> (X, B)
  Y = If (C) <then_branch = h () => (float[2] z) { z = Neg (T) }, else_branch = e () => (float[2] u) { u = Abs (T) }>
}
<domain: "my", opset_import: ["" : 18]>
f <alpha> (x, b) => (y) { s = Add (x, b)  y = LeakyRelu <alpha: float = @alpha> (s) }
''',
    '''<ir_version: 7, opset_import: ["" : 13]>
g (int64[3] X, seq(float[N]) S, optional(int32) O) => (int64[3] Y) <float16[2, 2] h = {1, 2, 3, 4}>
{ c = Constant <value_ints: ints = [1, 2, 3]> ()  Y = Add (X, c) }
''']


def npy(descr, shape, body, columns=False, version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': {columns}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + body


def arrays():
    yield npy("<f4", "(2, 3)", bytes(24))
    yield npy("<f4", "(2, 3)", bytes(24), columns=True)
    yield npy("|u1", "()", b"a")
    yield npy("<i8", "(2,)", bytes(16), version=2)
    yield npy("<U3", "(2,)", "abcü\0\0".encode("utf-32-le"))
    yield npy("<c16", "(1, 1, 1)", bytes(16))
    yield npy("<V2", "(0, 4)", b"")
    yield npy("|b1", "(4,)", b"\0\1\0\1", version=3)


def zipped(files, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, body in files:
            z.writestr(zipfile.ZipInfo(name), body, compress_type=method)
    return out.getvalue()


def packed():
    model = pathlib.Path("tests/hostile/add_transpose.onnx").read_bytes()
    some = list(arrays())
    yield gzip.compress(model, mtime=0)
    yield gzip.compress(PRINTED[0].encode(), mtime=0) + gzip.compress(b"", mtime=0)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield zipped([("model.onnx", model)], method)
        yield zipped([(f"x{i}.npy", a) for i, a in enumerate(some[:4])], method)
    for text in (b"", b"abc" * 40, model, bytes(range(256)) * 8):
        for level, strategy in ((0, zlib.Z_DEFAULT_STRATEGY), (9, zlib.Z_DEFAULT_STRATEGY), (9, zlib.Z_FIXED)):
            c = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
            yield b"deflate:" + c.compress(text) + c.flush()


def pbtxt():
    models = sorted(pathlib.Path("/usr/share/libonnx-testdata/data").glob("*/*/model.onnx"))[::20]
    for path in models + sorted(pathlib.Path("tests/hostile").glob("*.onnx")):
        if path.stat().st_size < SMALL // 8:
            p = subprocess.run(["protoc", "--decode=onnx.ModelProto", f"-I{PROTO}", f"{PROTO}/onnx.proto"],
                               input=path.read_bytes(), capture_output=True)
            if p.returncode == 0 and len(p.stdout) < SMALL:
                yield p.stdout


def shard():
    for rules in ([("fc1.weight", "model:1"), (".*bias", "model:0")],
                  [("x", "data:0"), ("fc1.w[a-z]+", "data+model:1/2"), ("y", "whole")]):
        yield json.dumps({"format": "rlxc-shard-rules", "format_version": "1.0",
                          "rules": [{"name": n, "shard": s} for n, s in rules]}).encode()


def config():
    for options in ({"mesh": "data=2,model=2", "shard": ["fc1.weight=model:1", "x=data:0"], "bind": {"batch": 4}},
                    {"mesh": "data=2,model=2", "parallel": ["tensor", "data"], "bind": {"batch": 4}},
                    {"start-from": "fuse_matmul_bias_act", "disable-pass": ["fuse_swiglu"]}, {"bind": {"batch": 4}},
                    {"range": {"batch": [1, 64]}, "align": 128}, {"passes": ["constant_folding", "fuse_matmul_bias_act"]},
                    {"transform": ["grad y", "wrt params"]}, {"target": ["cpu", "metal"], "precision": "automixed"}):
        yield json.dumps({"format": "rlxc-config", "format_version": "1.0", "options": options}).encode()


def tuning():
    first = "fused_matmul_bias_act(f32[batch,4], f32[4,8], f32[8]) -> f32[batch,8]"
    second = "fused_matmul_bias_act(f32[batch,8], f32[8,4], none, f32[batch,4]) -> f32[batch,4]"
    for nodes in ({first: {"gemm_rows": 16, "gemm_depth": 64}, second: {"gemm_rows": 512, "window_bytes": 8192}},
                  {second: {"gemm_depth": 512, "packed_depth": 64, "conv_image_bytes": 16384, "attention_queries": 16, "attention_keys": 256}}, {}):
        yield json.dumps({"format": "rlxc-tuning", "format_version": "1.0", "cpu": "generic", "nodes": nodes}).encode()


def main(form, folder):
    makers = {"pbtxt": pbtxt, "onnxtxt": lambda: (t.encode() for t in PRINTED), "arrays": arrays, "packed": packed, "shard": shard,
              "config": config, "tuning": tuning}
    for i, body in enumerate(makers[form]()):
        (pathlib.Path(folder) / f"seed{i}").write_bytes(body)


if __name__ == "__main__":
    main(*sys.argv[1:])
