#!/bin/bash
# rlxc check: every unsupported thing at once, grouped, with names and counts.
set -uo pipefail
fails=0
fail() { echo "$1"; fails=1; }
# Relu -> Foo -> Foo -> Bar, of which only the first is supported; and a model that ends with maps.
python3 - "$TMPDIR/odd.onnx" "$TMPDIR/maps.onnx" <<'END'
import sys
def field(number, body):
    return bytes([number << 3 | 2, len(body)]) + body
def number(at, value):
    return bytes([at << 3, value])
def value(name):
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, field(1, number(1, 4)))))
def node(op, x, y, domain=b"", more=b""):
    return field(1, field(1, x) + field(2, y) + field(3, b"n_" + y) + field(4, op) + more + (field(7, domain) if domain else b""))
graph = node(b"Relu", b"x", b"a") + node(b"Foo", b"a", b"b", b"my") + node(b"Foo", b"a", b"c", b"my") + node(b"Bar", b"a", b"y")
keys = field(1, b"classlabels_int64s") + b"".join(number(8, k) for k in (3, 1, 2, 0)) + bytes([160, 1, 7])
maps = node(b"Relu", b"x", b"a") + node(b"ZipMap", b"a", b"y", b"ai.onnx.ml", field(5, keys))
def long_field(number, body):
    n, out = len(body), b""
    while n > 127:
        out += bytes([n & 127 | 128]); n >>= 7
    return bytes([number << 3 | 2]) + out + bytes([n]) + body
for path, body, output in (sys.argv[1], graph, value(b"y")), (sys.argv[2], maps, field(1, b"y")):
    model = number(1, 8) + long_field(7, body + field(2, b"g") + field(11, value(b"x")) + field(12, output))
    for domain, version in ((b"", 20), (b"my", 1), (b"ai.onnx.ml", 3)):
        model += field(8, field(1, domain) + number(2, version))
    open(path, "wb").write(model)
END
out=$("$RLXC" check "$TMPDIR/odd.onnx" --target cpu)
[ $? -eq 5 ] || fail "exit code is not 5"
grep -q 'cpu: 3 errors' <<<"$out" || fail "no count: $out"
grep -q 'my.Foo, opset 1: the operator is not supported (2 nodes)' <<<"$out" || fail "nodes of one reason are not together: $out"
grep -q 'at n_b, n_c' <<<"$out" || fail "no names: $out"
grep -q "may define it" <<<"$out" || fail "no help: $out"
"$RLXC" check "$TMPDIR/odd.onnx" --target cpu,cuda --json >"$TMPDIR/check.json"
python3 - "$TMPDIR/check.json" <<'END' || fails=1
import json, sys
report = json.load(open(sys.argv[1]))
targets = report["targets"]
assert [t["target"] for t in targets] == ["cpu", "cuda"], targets
assert not targets[0]["ok"] and targets[0]["errors"] == 3
assert [(f["operator"], f["count"]) for f in targets[0]["findings"]] == [("my.Foo, opset 1", 2), ("Bar, opset 20", 1)], targets
END
[ "$("$RLXC" check examples/decoder.json --target cpu)" = "cpu: ok" ] || fail "a good model is not ok"
[ "$("$RLXC" check "$TMPDIR/maps.onnx" --target cpu)" = "cpu: ok" ] || fail "a model that ends with maps is not ok"
out=$("$RLXC" compile "$TMPDIR/maps.onnx" --target cpu -o "$TMPDIR/maps" 2>&1) || fail "it does not compile: $out"
grep -q 'output "y".*f32\[1,4\], with a column for each key: 0, 1, 2, 3' <<<"$out" || fail "the columns are not named: $out"
# A warning about the model is printed, and --strict makes it an error.
printf '%s\n' '<ir_version: 8, opset_import: ["" : 17]>' 'g (float[2] x) => (float[2] y) { y = Elu <beta = 1.0> (x) }' >"$TMPDIR/elu.txt"
"$RLXC" check "$TMPDIR/elu.txt" --target cpu 2>"$TMPDIR/log" >/dev/null || fail "a warning is an error"
grep -q 'warning.*the attribute "beta" is not known' "$TMPDIR/log" || fail "no warning: $(cat "$TMPDIR/log")"
"$RLXC" check "$TMPDIR/elu.txt" --target cpu --strict >/dev/null 2>&1 && fail "--strict takes a model with a warning"
exit $fails
