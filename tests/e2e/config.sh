#!/bin/bash
# Configuration files: saved, printed, read back; flags win over them, and they win over the environment.
set -euo pipefail
model=examples/bert.onnx
fail() { echo "$1"; exit 1; }
flags=(--precision automixed --max-packed 200000 --no-reorder --disable-pass sccp --emit plan,fusion --lint --target metal)
"$RLXC" compile $model "${flags[@]}" --save-config "$TMPDIR/config.json" -q -o "$TMPDIR/flags"
scripts/validate-json schemas/config.schema.json "$TMPDIR/config.json"
"$RLXC" compile $model --config "$TMPDIR/config.json" -q -o "$TMPDIR/file"
diff -r "$TMPDIR/flags" "$TMPDIR/file" || fail "a configuration file does not stand for its flags"
cmp <("$RLXC" compile $model --config "$TMPDIR/config.json" --print-config) "$TMPDIR/config.json"

RLX_ARENA_ALIGN=256 "$RLXC" compile $model --emit plan -q -o "$TMPDIR/env"
echo '{"format": "rlxc-config", "options": {"align": 512, "precision": "f16"}}' > "$TMPDIR/align.json"
RLX_ARENA_ALIGN=256 "$RLXC" compile $model --config "$TMPDIR/align.json" --emit plan -q -o "$TMPDIR/over"
RLX_ARENA_ALIGN=256 "$RLXC" compile $model --config "$TMPDIR/align.json" --align 1024 --emit plan -q -o "$TMPDIR/flag"
python3 - "$TMPDIR" <<'END'
import json, sys
options = lambda name: json.load(open(f"{sys.argv[1]}/{name}/manifest.json"))["options"]
assert [options(name)["align"] for name in ("env", "over", "flag")] == [256, 512, 1024]
assert options("flag")["precision"] == "f16"
flags = options("flags")
assert flags["lint"] is True and flags["bound"] == {} and flags["reorder"] is False and flags["max-packed"] == 200000
assert flags["emit"] == ["plan", "fusion"] and flags["disable-pass"] == ["sccp"] and flags["fuse-attn-threshold"] is None
END
scripts/validate-json schemas/manifest.schema.json "$TMPDIR"/*/manifest.json

echo '{"format": "rlxc-config", "options": {"precison": "f16"}}' > "$TMPDIR/typo.json"
if errors=$("$RLXC" compile $model --config "$TMPDIR/typo.json" -o "$TMPDIR/none" 2>&1); then fail "a wrong option is accepted"; fi
grep -q "did you mean precision" <<<"$errors" || fail "$errors"
errors=$(RLX_BISECT_LIMIT=many "$RLXC" compile $model --emit plan -o "$TMPDIR/warned" 2>&1)
grep -q "RLX_BISECT_LIMIT is ignored" <<<"$errors" || fail "$errors"
"$RLXC" list options --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)["items"]) > 60'
