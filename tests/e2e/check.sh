#!/bin/bash
# rlxc check: every unsupported thing at once, grouped, with names and counts.
set -uo pipefail
fails=0
fail() { echo "$1"; fails=1; }
# Relu -> Foo -> Foo -> ZipMap, of which only the first is supported.
python3 - "$TMPDIR/odd.onnx" <<'END'
import sys
def field(number, body):
    return bytes([number << 3 | 2, len(body)]) + body
def number(at, value):
    return bytes([at << 3, value])
def value(name):
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, field(1, number(1, 4)))))
def node(op, x, y, domain=b""):
    return field(1, field(1, x) + field(2, y) + field(3, b"n_" + y) + field(4, op) + (field(7, domain) if domain else b""))
graph = node(b"Relu", b"x", b"a") + node(b"Foo", b"a", b"b", b"my") + node(b"Foo", b"a", b"c", b"my") + node(b"ZipMap", b"a", b"y", b"ai.onnx.ml")
graph += field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
body = graph
def long_field(number, body):
    n, out = len(body), b""
    while n > 127:
        out += bytes([n & 127 | 128]); n >>= 7
    return bytes([number << 3 | 2]) + out + bytes([n]) + body
model = number(1, 8) + long_field(7, body)
for domain, version in ((b"", 17), (b"my", 1), (b"ai.onnx.ml", 3)):
    model += field(8, field(1, domain) + number(2, version))
open(sys.argv[1], "wb").write(model)
END
out=$("$RLXC" check "$TMPDIR/odd.onnx" --target cpu)
[ $? -eq 5 ] || fail "exit code is not 5"
grep -q 'cpu: 3 errors' <<<"$out" || fail "no count: $out"
grep -q 'my.Foo, opset 1: the operator is not supported (2 nodes)' <<<"$out" || fail "nodes of one reason are not together: $out"
grep -q 'at n_b, n_c' <<<"$out" || fail "no names: $out"
grep -q "zipmap" <<<"$out" || fail "no help: $out"
"$RLXC" check "$TMPDIR/odd.onnx" --target cpu,cuda --json >"$TMPDIR/check.json"
python3 - "$TMPDIR/check.json" <<'END' || fails=1
import json, sys
report = json.load(open(sys.argv[1]))
targets = report["targets"]
assert [t["target"] for t in targets] == ["cpu", "cuda"], targets
assert not targets[0]["ok"] and targets[0]["errors"] == 3
assert [(f["operator"], f["count"]) for f in targets[0]["findings"]] == [("my.Foo, opset 1", 2), ("ai.onnx.ml.ZipMap, opset 3", 1)], targets
END
[ "$("$RLXC" check examples/decoder.json --target cpu)" = "cpu: ok" ] || fail "a good model is not ok"
exit $fails
