#!/bin/bash
# Results for continuous integration: JSON and JUnit XML of run, check, diff and bench, tables for a comment, and examples/ci on two
# commits of a project.
set -uo pipefail
fails=0
fail() { echo "FAIL $*"; fails=1; }
root=$PWD
cd "$TMPDIR" || exit 1
# junit FILE TESTS FAILURES SKIPPED
junit() {
  python3 - "$@" <<'PY' || fail "JUnit of $1"
import sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot()
cases = suites.findall("testsuite/testcase")
found = [len(cases), len(suites.findall(".//failure")), len(suites.findall(".//skipped"))]
assert found == [int(n) for n in sys.argv[2:]], found
for level in (suites, suites.find("testsuite")):
    assert [int(level.get(key)) for key in ("tests", "failures", "skipped")] == found, level.attrib
PY
}
bert=$root/examples/bert.onnx
"$RLXC" run "$bert" --data "$root/examples/bert_data" --engine reference --json --junit run.xml > run.json || fail "run"
python3 -c 'import json; r = json.load(open("run.json")); assert r["passed"] == 1 and r["sets"][0]["outputs"][0]["max_abs"] < 1e-4' || fail "run.json"
junit run.xml 1 0 0
"$RLXC" run "$bert" --data "$root/examples/bert_data" --engine reference --rtol 0 --atol 0 --json --junit run.xml > run.json
[ $? -eq 1 ] || fail "exit code of a failed run"
python3 -c 'import json; r = json.load(open("run.json")); assert r["failed"] == 1' || fail "run.json of a failure"
junit run.xml 1 1 0
mkdir data && cp "$root"/examples/bert_data/test_data_set_0/input_*.pb data || fail "data"
"$RLXC" run "$bert" --data data --engine reference --junit run.xml > /dev/null
[ $? -eq 8 ] || fail "exit code without expected values"
junit run.xml 1 0 1
"$RLXC" check "$bert" --target cpu,tpu --junit check.xml > /dev/null || fail "check"
junit check.xml 2 0 0
"$RLXC" bench "$root/examples/mlp.json" --repeat 3 --junit bench.xml > /dev/null || fail "bench"
junit bench.xml 1 0 0
"$RLXC" run "$bert" --data "$root/examples/bert_data" --engine reference --junit /nowhere/run.xml > /dev/null 2>&1
[ $? -eq 6 ] || fail "exit code of a file that cannot be written"

# Two commits of a project: the second has a larger model, and another that is new.
mkdir project && cd project && git init -q . || exit 1
git config user.name test && git config user.email test@localhost
cp "$root/examples/mlp.json" model.json && git add . && git commit -qm first || fail "first commit"
base=$(git rev-parse HEAD)
"$RLXC" extract "$bert" --outputs layer_norm -o model.json > /dev/null 2>&1 || fail "extract"
cp "$root/examples/mlp.json" new.json
OUT=../out "$root/examples/ci/compare.sh" "$base" model.json new.json > ../log 2>&1 || { cat ../log; fail "compare.sh"; }
grep -q '^| fusion.launches | ' ../out/comment.md || fail "no launches in the comment"
grep -q 'A new model, which compiles' ../out/comment.md || fail "the new model"
FAIL_ON='fusion.traffic>+0 fusion.launches>1000000' OUT=../out "$root/examples/ci/compare.sh" "$base" model.json > ../log 2>&1
[ $? -eq 1 ] || { cat ../log; fail "a condition that fails"; }
grep -q 'fusion.traffic>+0 | \*\*failed\*\*' ../out/comment.md || fail "the condition in the comment"
junit ../out/junit/model.json.xml 2 1 0
[ "$(git worktree list | wc -l)" = 1 ] || fail "a work tree is left"
exit $fails
