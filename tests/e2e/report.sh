#!/bin/bash
# The HTML report: one file without references to others, small, and alive in headless Chromium.
set -uo pipefail
fails=0
fail() { echo "FAIL $*"; fails=1; }
"$RLXC" compile examples/bert.onnx -q --emit report -o "$TMPDIR/one" || exit 1
"$RLXC" compile examples/bert.onnx -q --dump -o "$TMPDIR/cpu" || exit 1
"$RLXC" compile examples/bert.onnx -q --precision automixed --target metal --dump -o "$TMPDIR/metal" || exit 1
"$RLXC" compile examples/decoder.json -q -o "$TMPDIR/decoder" || exit 1
"$RLXC" compile examples/mlp.json -q -o "$TMPDIR/mlp" || exit 1
"$RLXC" report "$TMPDIR/cpu" "$TMPDIR/metal" -o "$TMPDIR/two.html" 2>/dev/null || fail "two compiles"
for model in decoder mlp; do "$RLXC" report "$TMPDIR/$model" -o "$TMPDIR/$model.html" 2>/dev/null || fail $model; done
cmp <("$RLXC" report "$TMPDIR/cpu" -o -) <("$RLXC" report "$TMPDIR/cpu" -o -) || fail "the page differs from run to run"
"$RLXC" report "$TMPDIR" -o "$TMPDIR/none.html" 2>"$TMPDIR/log" && fail "a folder without reports"
"$RLXC" compile examples/mlp.json -q --target cpu,cuda --emit lir,plan -o "$TMPDIR/many" || exit 1
"$RLXC" report "$TMPDIR/many" -o "$TMPDIR/none.html" 2>"$TMPDIR/log" && fail "a folder of several targets"
grep -q 'give one of them' "$TMPDIR/log" || fail "no advice: $(cat "$TMPDIR/log")"
pages=("$TMPDIR/one/report.html" "$TMPDIR/two.html" "$TMPDIR/decoder.html" "$TMPDIR/mlp.html")
for page in "${pages[@]}"; do
  if grep -qE '<(script|link|img)[^>]* (src|href)=|@import|url\(' "$page"; then fail "$page refers to another file"; fi
done
if [ -n "${RLXC_TEST_MODELS:-}" ]; then
  "$RLXC" compile "$RLXC_TEST_MODELS/full/llama3_8b_s512/model.onnx" --allow-missing-weights -q --emit report -o "$TMPDIR/llama" 2>/dev/null || fail llama
  [ "$(stat -c %s "$TMPDIR/llama/report.html")" -le 3145728 ] || fail "the report of Llama 8B has $(stat -c %s "$TMPDIR/llama/report.html") bytes"
  pages+=("$TMPDIR/llama/report.html")
fi
command -v chromium >/dev/null && command -v node >/dev/null || { echo "no chromium or node"; [ $fails -eq 0 ] && exit 77; exit 1; }
for page in "${pages[@]}"; do node scripts/click-report.mjs chromium "$page" || fail "$page"; done
exit $fails
