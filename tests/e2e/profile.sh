#!/bin/bash
# A profile has a line for each node that runs, with a time that is no more than the whole; text and JSON tell the same nodes, on
# random inputs and on recorded ones, and also inside loops.
set -euo pipefail
out=$TMPDIR
"$RLXC" compile examples/bert.onnx --target cpu --emit kernels -o "$out/compiled" -q
"$RLXC" profile examples/bert.onnx --repeat 3 --json >"$out/random.json"
"$RLXC" profile examples/bert.onnx --repeat 3 --threads 2 --data examples/bert_data --top 3 >"$out/data.txt"
python3 - "$out/random.json" "$out/data.txt" <<'EOF'
import json, sys
p = json.load(open(sys.argv[1]))
nodes = p["nodes"]
assert p["runs"] == 3 and p["threads"] == 1
assert sum(n["op"] == "Attention" for n in nodes) == 2 and sum(n["op"] == "FusedResidualLN" for n in nodes) == 4, nodes
assert len({n["node"] for n in nodes}) == len(nodes)
assert all(n["ms"] >= 0 and n["launches"] > 0 for n in nodes) and 0 < sum(n["ms"] for n in nodes) <= p["run_ms"]
product = [n for n in nodes if n["op"] == "MatMul" and n["result"] == {"dtype": "f32", "dims": [2, 16, 192]}]
assert product and all(n["flops"] == 2 * 32 * 192 * 64 for n in product), product
text = open(sys.argv[2]).read()
assert "least of 3 runs on 2 threads" in text and f"in {len(nodes)} nodes" in text and f"and {len(nodes) - 3} more" in text, text
for op in {n["op"] for n in nodes}:
    assert op in text, op
EOF
"$RLXC" profile examples/bert.onnx --repeat 2 --json --trace "$out/trace.json" >"$out/traced.json"
python3 - "$out/traced.json" "$out/trace.json" <<'EOF'
import json, sys
nodes = json.load(open(sys.argv[1]))["nodes"]
process, *events = json.load(open(sys.argv[2]))["traceEvents"]
assert process["ph"] == "M" and [e["name"] for e in events] == [n["node"] for n in nodes]
for n, e, after in zip(nodes, events, events[1:]):
    assert e["ph"] == "X" and e["args"]["op"] == n["op"] and e["args"]["bytes"] == n["bytes"], e
    assert abs(e["dur"] - 1e3 * n["ms"]) < 2e-3 and abs(e["ts"] + e["dur"] - after["ts"]) < 5e-3, (n, e, after)
EOF
loop=/usr/share/libonnx-testdata/data/node/test_loop11
"$RLXC" profile $loop/model.onnx --data $loop/test_data_set_0 --repeat 2 | grep -q 'ms a run'
text=/usr/share/libonnx-testdata/data/node/test_strnormalizer_export_monday_casesensintive_lower
"$RLXC" profile $text/model.onnx --data $text/test_data_set_0 --repeat 2 | grep -q 'ms a run'
status=0
"$RLXC" profile examples/missing.onnx 2>"$out/missing" || status=$?
[ $status -eq 3 ] || { echo "a missing file must end with exit code 3, not $status"; exit 1; }
