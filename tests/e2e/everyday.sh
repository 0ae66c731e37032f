#!/bin/bash
# The everyday commands: info, run with files of NumPy, bench, extract, reduce, assertions, times, eval, standard input, dumps that
# are read back, foreign files that are named.
set -uo pipefail
. tests/support/commands.sh
bert=examples/bert.onnx mlp=examples/mlp.json

# info
try 0 "$RLXC" info $bert
said 'opset 18\|opset 2'
said 'input_ids  *i64\[2,16\]'
said 'layer_norm_4  *f32\[2,16,64\]'
said '^work  *[0-9.]* M flops a run'
try 0 "$RLXC" info $mlp
said 'batch .*--bind batch=N'
said 'with --bind batch=1'
"$RLXC" info $mlp --json | python3 -c 'import json, sys
j = json.load(sys.stdin)
assert j["format"] == "rlxc-info" and j["inputs"][0]["type"] == {"dtype": "f32", "dims": ["batch", 4]}, j
assert j["at_sizes"] == {"batch": 1} and j["peak_bytes"] > 0 and j["flops"] > 0, j' || fail "info --json"

# run: files of NumPy in and out, without NumPy
try 0 "$RLXC" run $bert --data examples/bert_data --save-outputs "$TMPDIR/saved.npz"
said '^passed (rtol 0.001, atol 1e-05)'
try 0 "$RLXC" run $mlp --random --seed 7 --size batch=3 --save-outputs "$TMPDIR/saved"
python3 - "$TMPDIR" <<'END' || fail "saved outputs"
import ast, os, struct, sys, zipfile
def array(b):
    assert b[:6] == b"\x93NUMPY"
    n = struct.unpack("<H", b[8:10])[0]
    assert (10 + n) % 64 == 0
    return ast.literal_eval(b[10:10 + n].decode()), b[10 + n:]
z = zipfile.ZipFile(sys.argv[1] + "/saved.npz")
assert z.testzip() is None and z.namelist() == ["layer_norm_4.npy"], z.namelist()
head, body = array(z.read("layer_norm_4.npy"))
assert head["shape"] == (2, 16, 64) and head["descr"] == "<f4" and len(body) == 2 * 16 * 64 * 4
head, body = array(open(sys.argv[1] + "/saved/output_0.npy", "rb").read())
assert head["shape"] == (3, 4), head
def save(folder, name, descr, shape, body, fortran=False):
    os.makedirs(sys.argv[1] + "/" + folder)
    h = str({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    h += b" " * (63 - (10 + len(h)) % 64) + b"\n"
    open(f"{sys.argv[1]}/{folder}/{name}.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(h)) + h + body)
save("in", "x", "<f4", (2, 4), struct.pack("<8f", *range(8)))
save("columns", "input_0", "<f4", (2, 4), struct.pack("<8f", 0, 4, 1, 5, 2, 6, 3, 7), True)
save("wrong", "input_0", "<i8", (2,), struct.pack("<2q", 1, 2))
END
try 0 "$RLXC" run $mlp --data "$TMPDIR/in" --save-outputs "$TMPDIR/rows"
said 'not compared'
said '^nothing was compared'
try 8 "$RLXC" run $mlp --data "$TMPDIR/in"
said '^nothing was compared'
try 0 "$RLXC" run $mlp --data "$TMPDIR/columns" --save-outputs "$TMPDIR/cols"
cmp "$TMPDIR/rows/output_0.npy" "$TMPDIR/cols/output_0.npy" || fail "column-major input"
try 0 "$RLXC" run $mlp --data "$TMPDIR/in" --save-outputs "$TMPDIR/pb" --save-as pb
cp "$TMPDIR/in/x.npy" "$TMPDIR/pb/"
try 0 "$RLXC" run $mlp --data "$TMPDIR/pb"
said '^passed'
try 4 "$RLXC" run $mlp --data "$TMPDIR/wrong"
said 'holds i64\[2\], input "x" takes f32\[batch,4\]'
# A wrong expectation, and a precision that the given tolerance does not allow: the first value that differs is named.
cp -r "$TMPDIR/pb" "$TMPDIR/off"
python3 - "$TMPDIR/off/output_0.pb" <<'END'
import sys
b = bytearray(open(sys.argv[1], "rb").read()); b[-1] ^= 0x40; open(sys.argv[1], "wb").write(b)
END
try 1 "$RLXC" run $mlp --data "$TMPDIR/off"
said '^failed (rtol 0.001'
try 0 "$RLXC" run $bert --data examples/bert_data --precision f16
said 'passed (rtol 0.01, atol 0.01)'
try 1 "$RLXC" run $bert --data examples/bert_data --precision f16 --rtol 1e-7 --atol 1e-9
said 'first value that differs: .* element \[[0-9,]*\]: got [-0-9.e]*, expected'

for limit in 2 nan -1.5; do try 2 "$RLXC" run $mlp --random --min-cosine $limit; done

# Results that are wrong whatever the cosine fail in run, and in the checks of bisect and reduce.
python3 - "$TMPDIR" <<'END'
import shutil, struct, sys
where = sys.argv[1]
body = open(where + "/rows/output_0.npy", "rb").read()
head, values = body[:-32], struct.unpack("<8f", body[-32:])
mutants = {"not_finite": [float("nan")] * 8, "infinite": [float("inf")] * 8, "scaled": [3 * v for v in values],
           "negated": [-v for v in values], "permuted": values[::-1], "one": [*values[:7], values[7] + 5], "zero": [0] * 8}
for name, mutant in mutants.items():
    shutil.copytree(where + "/in", f"{where}/wrong_{name}")
    open(f"{where}/wrong_{name}/output_0.npy", "wb").write(head + struct.pack("<8f", *mutant))
END
for data in "$TMPDIR"/wrong_*; do
  check="'$RLXC' run {} --engine reference --weights int8 --data '$data'"
  try 1 "$RLXC" run $mlp --engine reference --data "$data"
  said 'FAIL'
  try 1 "$RLXC" run $mlp --engine reference --weights int8 --data "$data"
  said 'norm error at most 0.2'
  try 1 "$RLXC" bisect $mlp --check "${check/\{\}/$mlp}"
  said 'the check fails without any rewrite'
  try 1 "$RLXC" reduce $mlp --check "$check" -o "$TMPDIR/small.onnx"
  said 'nodes -> '
done

# bench
try 0 "$RLXC" bench $mlp --bind batch=2 --repeat 5 --warm-up 1 --against $mlp
said 'median'
said 'times as long as the second'
"$RLXC" bench $mlp --bind batch=2 --repeat 5 --json | python3 -c 'import json, sys
j = json.load(sys.stdin); c = j["candidates"][0]
assert j["runs"] == 5 and c["least_ms"] <= c["median_ms"] <= c["most_ms"], j' || fail "bench --json"
python3 -c 'import onnxruntime' 2>/dev/null || { try 9 "$RLXC" bench $bert --repeat 1 --against onnxruntime; said 'pip install onnxruntime'; }

# extract and reduce
try 0 "$RLXC" extract $bert --inputs embedding --outputs layer_norm -o "$TMPDIR/part.onnx"
try 0 "$RLXC" info "$TMPDIR/part.onnx"
said 'embedding  *f32\[2,16,64\]'
said 'layer_norm  *f32\[2,16,64\]'
try 0 "$RLXC" run "$TMPDIR/part.onnx" --random
try 4 "$RLXC" extract $bert --outputs layer_nrom -o "$TMPDIR/none.onnx"
said 'did you mean "layer_norm"'
try 1 "$RLXC" reduce $bert --check "! $RLXC inspect --stage hir {} | grep -q softmax" -o "$TMPDIR/small.json"
said ' -> 1 node that still fail'
try 0 "$RLXC" run "$TMPDIR/small.json" --random
try 1 "$RLXC" reduce $bert --check 'nosuchcommand {}' -o "$TMPDIR/small.json"
said 'RLX0304.*the check did not run'
try 1 "$RLXC" bisect $bert --check nosuchcommand
said 'RLX0304'
[ "$(grep -c 'rewrites:' "$TMPDIR/log")" -eq 0 ] || fail "bisect goes on without a check"

# assertions and times
try 0 "$RLXC" compile $bert -q --emit plan -o "$TMPDIR/out" --assert 'plan.peak<=8MiB' --assert 'fusion.misses.attention==0' --assert 'fusion.misses.transformer_layer==0'
try 1 "$RLXC" compile $bert -q --emit plan -o "$TMPDIR/out" --assert 'plan.peak<=1K'
said 'FAIL plan.peak<=1K (is 41024)'
try 2 "$RLXC" compile $bert -q --emit plan -o "$TMPDIR/out" --assert 'plan.paek<=1K'
said 'did you mean plan.peak'
"$RLXC" compile $bert -q --emit plan -o "$TMPDIR/out" --timing json | python3 -c 'import json, sys
j = json.load(sys.stdin); t = j["targets"][0]
assert [s["name"] for s in t["stages"]] == ["load", "passes", "plan", "write"] and len(t["passes"]) > 20, j' || fail "--timing json"
"$RLXC" compile $bert -q --emit plan -o "$TMPDIR/out" --timing trace | python3 -c 'import json, sys
e = json.load(sys.stdin)["traceEvents"]
assert any(x["name"] == "plan" and x["dur"] > 0 for x in e if x["ph"] == "X"), e' || fail "--timing trace"
grep -q '^Most bytes are live at step' "$TMPDIR/out/plan.txt" || fail "plan.txt"
try 0 "$RLXC" compile $mlp -q --range batch=1..64 --emit plan -o "$TMPDIR/dyn"
grep -q 'with batch=64: ' "$TMPDIR/dyn/plan.txt" || fail "plan.txt of a symbolic model"
python3 - "$TMPDIR/dyn/plan.json" <<'END' || fail "at_sizes"
import json, sys
low, high = json.load(open(sys.argv[1]))["at_sizes"]
assert low["sizes"] == {"batch": 1} and high["sizes"] == {"batch": 64} and 0 < low["peak"] < high["peak"] <= high["arena"], (low, high)
END
[ "$("$RLXC" eval '64*floordiv(seq+63,64)' seq=128)" = 128 ] || fail eval
try 2 "$RLXC" eval 'a+b' a=1
said 'a+b.* b=N'

# standard input, and dumps that are read back without the model
try 0 bash -c "cat $bert | '$RLXC' compile - -q -o '$TMPDIR/stdin'"
cmp <("$RLXC" inspect - --stage hir <$bert) <("$RLXC" inspect /dev/stdin --stage hir <$bert | sed 's/"stdin"/"-"/') || fail "standard input twice"
"$RLXC" compile $bert -q --dump -o "$TMPDIR/dumped"
mkdir "$TMPDIR/alone"
for dump in "$TMPDIR"/dumped/dump/*.txt; do
  cp "$dump" "$TMPDIR/alone/dump.txt"
  try 0 "$RLXC" compile "$TMPDIR/alone/dump.txt" -q --stop-after hir --emit lir,plan -o "$TMPDIR/again"
done
try 0 "$RLXC" run "$TMPDIR/alone/dump.txt" --random --stop-after hir
said 'random ones take their place'
cp "$TMPDIR/dumped/lir.json" "$TMPDIR/alone/lir.json"
try 0 "$RLXC" specialize "$TMPDIR/alone/lir.json" -q -o "$TMPDIR/again"
try 0 "$RLXC" compile "$TMPDIR/alone/lir.json" -q --stop-after hir --emit lir -o "$TMPDIR/again"
"$RLXC" inspect $bert --stage hir --json >"$TMPDIR/alone/graph.json"
try 0 "$RLXC" inspect "$TMPDIR/alone/graph.json" --stage hir
try 0 "$RLXC" compile $bert -q --start-from fuse_residual_ln --emit fusion -o "$TMPDIR/late"
try 2 "$RLXC" compile $bert -q --start-from fuse_residual_lm --emit fusion -o "$TMPDIR/late"
said 'did you mean fuse_residual_ln'

# foreign files
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n' >"$TMPDIR/lfs.onnx"
printf 'GGUF\3\0\0\0' >"$TMPDIR/x.gguf"
printf 'PK\3\4aaaa' >"$TMPDIR/x.pt"
for pair in 'lfs.onnx:git lfs pull' 'x.gguf:the GGUF file ends within the header' 'x.pt:torch.onnx.export'; do
  try 4 "$RLXC" compile "$TMPDIR/${pair%%:*}" -o "$TMPDIR/out"
  said "${pair#*:}"
done

# What is lost in f16 is said.
cat >"$TMPDIR/lossy.txt" <<'END'
module "lossy" mir {
graph @main {
  %0 = input "x" : f32[4]
  %1 = constant {data = splat 1e-09} : f32[4]
  %2 = constant {data = splat 70000} : f32[4]
  %3 = mul(%0, %1) "scaled" : f32[4]
  %4 = add(%3, %2) "shifted" : f32[4]
  return %4 "y"
}
}
END
try 0 "$RLXC" compile "$TMPDIR/lossy.txt" --precision f16 --emit precision -o "$TMPDIR/out"
said 'RLX0320.*constant 1e-09 .*became 0 in f16'
said 'RLX0320.*constant 70000 .*clamped'
exit $fails
