#!/bin/bash
# JSON graphs compile like ONNX models, lir.json reads back, and what the reports say agrees with the files that they speak of.
set -euo pipefail
python3 -c 'import jsonschema' 2>/dev/null || { echo "python3-jsonschema is not installed"; exit 77; }
scripts/validate-json schemas/graph.schema.json examples/mlp.json examples/decoder.json
for example in mlp decoder; do
  "$RLXC" compile examples/$example.json --target all -q --emit lir,plan,fusion,dispatch,precision,quant,svg -o "$TMPDIR/$example" --verify
done
"$RLXC" compile examples/mlp.json --bind batch=3 -q --emit lir,plan,fusion -o "$TMPDIR/bound" --verify
grep -q '"symbolic": false' "$TMPDIR/bound/plan.json"
# A model as a JSON graph compiles to the same module.
cp examples/bert.onnx "$TMPDIR"
"$RLXC" inspect "$TMPDIR/bert.onnx" --stage hir --json >"$TMPDIR/bert.json"
scripts/validate-json schemas/graph.schema.json "$TMPDIR/bert.json"
for file in bert.onnx bert.json; do "$RLXC" compile "$TMPDIR/$file" -q --emit lir -o "$TMPDIR/from-$file"; done
grep fingerprint "$TMPDIR/from-bert.onnx/lir.json" | diff - <(grep fingerprint "$TMPDIR/from-bert.json/lir.json")
# What was compiled is a graph again.
"$RLXC" compile "$TMPDIR/bound/lir.json" -q --emit lir,plan -o "$TMPDIR/again" --verify

python3 - "$TMPDIR"/{mlp,decoder}/* "$TMPDIR/bound" <<'END'
import hashlib, json, pathlib, sys
for folder in map(pathlib.Path, sys.argv[1:]):
    def load(name):
        return json.loads((folder / name).read_text())
    manifest, lir, fusion = load("manifest.json"), load("lir.json"), load("fusion.json")
    for f in manifest["files"]:
        content = (folder / f["path"]).read_bytes()
        assert len(content) == f["bytes"] and hashlib.sha256(content).hexdigest() == f["sha256"], f["path"]
    assert manifest["fingerprint"] == lir["fingerprint"]
    # Launches are nodes of lir.json; their bytes add up to the summary.
    nodes = {n["id"]: n for n in lir["graphs"][0]["nodes"]}
    launches = fusion["launches"]
    assert all(nodes[l["node"]]["op"] == l["op"] for l in launches if "graph" not in l)
    assert len(launches) == fusion["summary"]["launches"]["after"]
    assert sum(l["reads"] + l["writes"] for l in launches) == fusion["summary"]["traffic"]["after"]
    makes = {r["value"]: n["id"] for n in nodes.values() for r in n["results"]}
    for h in fusion["intermediate_values"]:
        assert "graph" in h or makes[h["value"]] == h["from"]
    counts = {}
    for n in nodes.values():
        counts[n["op"]] = counts.get(n["op"], 0) + 1
    if len(lir["graphs"]) == 1:
        assert counts == {o["op"]: o["after"] for o in fusion["ops"] if o["after"]}, folder
    assert all(fusion["summary"][k] == len(fusion[k]) for k in ("formed", "declined"))
    # The arena of the plan holds every slot, and no two slots that live at the same time overlap.
    plan = lir["graphs"][0]
    if isinstance(plan["arena_bytes"], int):
        slots = [b for b in plan["buffers"] if b["region"] == "activations" and b.get("root", b["value"]) == b["value"]]
        for i, a in enumerate(slots):
            assert a["offset"] + a["bytes"] <= plan["arena_bytes"]
END

# For people: golden text of the examples.
"$RLXC" compile examples/bert.onnx -q --emit fusion,dispatch -o "$TMPDIR/bert"
status=0
for example in mlp/cpu decoder/cpu bert; do
  for report in fusion.txt dispatch.txt; do
    golden=tests/golden/examples/${example%/*}/$report
    if [ "${RLXC_BLESS:-0}" = 1 ]; then
      mkdir -p "${golden%/*}"
      cp "$TMPDIR/$example/$report" "$golden"
    else
      diff -u "$golden" "$TMPDIR/$example/$report" || status=1
    fi
  done
done
exit $status
