"""Tiny models whose sizes grow beyond a memory limit: every command ends within the limit.

Arguments: the program, a folder for files.
"""
import os
import resource
import subprocess
import sys

LIMIT = 1 << 30
SLACK = 200 << 20  # for the program itself
SECONDS = 20  # of a processor
ONE = "float[1] x"
MODELS = {  # by name: inputs, outputs, initializers, nodes; an opset other than 17
    "pad": ("float[2] x", "float[A] y", "int64[2] p = {0, 1000000000}", "y = Pad(x, p)"),
    "tile": ("float[2,2] x", "float[A,B] y", "int64[2] r = {30000, 30000}", "y = Tile(x, r)"),
    "expand": ("int8[1] x", "int8[A] y", "int64[1] s = {3000000000}", "y = Expand(x, s)"),
    "expand_chain": ("float[1,1] x", "float[A,B] y", "int64[2] s = {15000, 15000}",
                     "a = Expand(x, s) b = Sin(a) c = Cos(a) d = Add(b, c) e = Mul(d, a) y = Sub(e, b)"),
    "range": (ONE, "float[A] y", "float a = {0}, float b = {900000000}, float c = {1}", "r = Range(a, b, c) y = Add(r, x)"),
    "constant_of_shape": (ONE, "float[A,B] y", "int64[2] s = {30000, 30000}", "c = ConstantOfShape(s) y = Add(c, x)"),
    "one_hot": ("int64[3000] x", "float[A,B] y", "int64 d = {300000}, float[2] v = {0, 1}", "y = OneHot(x, d, v)"),
    "resize": ("float[1,1,2,2] x", "float[1,1,A,B] y", "float[4] s = {1, 1, 7000, 7000}",
               'y = Resize<mode = "linear">(x, , s)'),
    "upsample": ("float[1,1,2,2] x", "float[1,1,A,B] y", "float[4] s = {1, 1, 15000, 15000}",
                 'y = Upsample<mode = "nearest">(x, s)', 9),
    "conv_transpose": ("float[1,1,2,2] x", "float[1,1,A,B] y", "float[1,1,1,1] w = {1}",
                       "y = ConvTranspose<strides = [15000, 15000]>(x, w)"),
    "conv": ("float[1,1,2,2] x", "float[1,1,A,B] y", "float[1,1,1,1] w = {1}",
             "y = Conv<pads = [7000, 7000, 7000, 7000]>(x, w)"),
    "non_zero": (ONE, "int64[2,N] y", "int64[2] s = {15000, 15000}", "e = Expand(x, s) y = NonZero(e)"),
    "gather_nd": ("float[2,1000] x", "float[A,B] y", "int64[2] s = {500000, 1}, int64[1,1] z = {1}",
                  "i = Expand(z, s) y = GatherND(x, i)"),
    "loop_growth": (ONE, "float[N] y", "int64 n = {40}, bool c = {1}",
                    "y = Loop(n, c, x) <body = b (int64 i, bool ci, float[M] v) => (bool co, float[P] w) "
                    "{ co = Identity(ci) w = Concat<axis = 0>(v, v) }>"),
    "loop_rows": (ONE, "float[N,A] y", "int64 n = {300000}, bool c = {1}, int64[1] s = {3000}",
                  "y = Loop(n, c) <body = b (int64 i, bool ci) => (bool co, float[P] w) { co = Identity(ci) w = Expand(x, s) }>"),
    "scan_rows": (ONE, "float[N,A] y", "int64[1] l = {300000}, int64[1] s = {3000}",
                  "q = Expand(x, l) y = Scan<num_scan_inputs = 1, body = b (float e) => (float[P] w) { w = Expand(e, s) }>(q)"),
    "matmul": (ONE, "float[A,B,C,D] y", "int64[4] p = {3000, 1, 10, 1}, int64[4] q = {1, 3000, 1, 10}",
               "a = Expand(x, p) b = Expand(x, q) y = MatMul(a, b)"),
    "einsum": ("float[1000] x", "float[A,B,C] y", "", 'y = Einsum<equation = "i,j,k->ijk">(x, x, x)'),
    "gemm": (ONE, "float[A,B] y", "int64[2] p = {12000, 1}, int64[2] q = {1, 12000}",
             "a = Expand(x, p) b = Expand(x, q) y = Gemm(a, b, x)"),
    "cumsum": (ONE, "float[A] y", "int64[1] s = {120000000}, int64 k = {0}", "a = Expand(x, s) y = CumSum(a, k)"),
    "top_k": (ONE, "float[A] y, int64[A] z", "int64[1] s = {100000000}, int64[1] k = {50000000}",
              "a = Expand(x, s) y, z = TopK(a, k)"),
    "col2im": ("float[1,25,4] x", "float[1,1,A,B] y", "int64[2] s = {30000, 30000}, int64[2] b = {5, 5}",
               "y = Col2Im<strides = [29995, 29995]>(x, s, b)", 18),
    "sequence": (ONE, "float[N] y", "int64[1] s = {100000000}",
                 "e = Expand(x, s) q = SequenceConstruct(e, e, e, e) y = ConcatFromSequence<axis = 0>(q)"),
    "doubling": (ONE, "float[N] y", "",
                 "a0 = Identity(x) " + " ".join(f"a{i + 1} = Concat<axis = 0>(a{i}, a{i})" for i in range(33)) + " y = Identity(a33)"),
    "dft": (ONE, "float[A,B,C] y", "int64[3] s = {1, 50000000, 1}", "e = Expand(x, s) y = DFT<axis = 1>(e)", 17),
    "lstm": (ONE, "float[A,B,C,D] y", "int64[3] s = {20000, 1, 1}, int64[3] w = {1, 4000, 1}, int64[3] r = {1, 4000, 1000}",
             "X = Expand(x, s) W = Expand(x, w) R = Expand(x, r) y = LSTM<hidden_size = 1000>(X, W, R)"),
}
COMMANDS = (["check"], ["inspect"], ["simplify", "-o", "simple.onnx"], ["compile", "-q", "-o", "package"],
            ["run", "--random", "--engine", "reference"], ["run", "--random", "--engine", "interpreter"])


def run(command, folder):
    """Exit code, seconds of a processor, bytes, text."""
    child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)))
    text = child.stdout.read().decode(errors="replace")
    _, status, used = os.wait4(child.pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, text


def main():
    program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    fails = 0
    for name, (inputs, outputs, given, nodes, *opset) in MODELS.items():
        path = os.path.join(folder, name + ".txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'<ir_version: 8, opset_import: ["" : {opset[0] if opset else 17}]>\n')
            f.write(f"g ({inputs}) => ({outputs}) {f'<{given}> ' if given else ''}{{ {nodes} }}\n")
        for command in COMMANDS:
            words = [program, command[0], os.path.abspath(path), *command[1:], "--max-memory", str(LIMIT)]
            status, seconds, size, text = run(words, folder)
            if not 0 <= status < 70 or status in (2, 3) or size > LIMIT + SLACK:
                print(f"{name}, {' '.join(command)}: exit code {status}, {seconds:.1f} s, {size >> 20} MiB: {text[-500:]}")
                fails = 1
    return fails


sys.exit(main())
