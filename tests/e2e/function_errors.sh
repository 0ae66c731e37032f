#!/bin/bash
# A sample of scripts/function-errors: functions at the ends of their range on all targets, against 128-bit floats. Integer division
# at its ends on mlx; 64-bit integers that WGSL cannot hold are refused by the input's name.
set -uo pipefail
echo 'int main(void) { return 0; }' > "$TMPDIR/probe.c"
gcc -o "$TMPDIR/probe" "$TMPDIR/probe.c" -lquadmath 2> /dev/null || { echo "libquadmath is missing"; exit 77; }
export RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py PYTHONPATH=$PWD/tests/support/python
fails=0
scripts/function-errors --mantissas 2 cpu metal cuda mlx tpu ${RLXC_WEBGPU:+wgpu} > "$TMPDIR/log" 2>&1 || { echo "FAIL errors"; cat "$TMPDIR/log"; fails=1; }

python3 - "$TMPDIR" << 'END'
import json, os, sys
import numpy as np
def model(op, dtype, x, y):
    shape = f"{dtype}[{len(x)}]"
    os.makedirs(f"{sys.argv[1]}/{op}_{dtype}", exist_ok=True)
    nodes = [{"op": "Input", "results": [[k, shape, name]]} for k, name in enumerate("xy")]
    nodes.append({"op": op, "operands": [0, 1], "results": [[2, shape, "z"]]})
    graph = {"name": "main", "nodes": nodes, "outputs": [[2, "z"]]}
    json.dump({"format": "rlxc-graph", "format_version": "1.0", "module": "m", "stage": "mir", "graphs": [graph]}, open(f"{sys.argv[1]}/{op}_{dtype}/m.json", "w"))
    for k, v in enumerate((x, y)):
        np.save(f"{sys.argv[1]}/{op}_{dtype}/input_{k}.npy", v)
    return f"{sys.argv[1]}/{op}_{dtype}"
i32 = lambda *v: np.array(v, np.int32)
low = -2**31
x, y = i32(low, low, low, 7, -7, 7, -7, 5, low), i32(-1, 2, low, 2, 2, -2, -2, 0, 3)
quotient = i32(low, low // 2, 1, 3, -3, -3, 3, 0, -715827882)
np.save(model("Div", "i32", x, y) + "/output_0.npy", quotient)
np.save(model("Mod", "i32", x, y) + "/output_0.npy", i32(0, 0, 0, 1, 1, -1, -1, 0, 1))
np.save(model("Fmod", "i32", x, y) + "/output_0.npy", i32(0, 0, 0, 1, -1, 1, -1, 0, -2))
np.save(model("Add", "i64", np.array([2**40, 1]), np.array([1, 1])) + "/output_0.npy", np.array([2**40 + 1, 2]))
END
for op in Div Mod Fmod; do
  for target in cpu mlx ${RLXC_WEBGPU:+wgpu}; do
    "$RLXC" run "$TMPDIR/${op}_i32/m.json" --data "$TMPDIR/${op}_i32" --target $target > "$TMPDIR/log" 2>&1 ||
      { echo "FAIL $op of integers on $target"; cat "$TMPDIR/log"; fails=1; }
  done
done
"$RLXC" run "$TMPDIR/Add_i64/m.json" --data "$TMPDIR/Add_i64" --target cpu > "$TMPDIR/log" 2>&1 || { echo "FAIL 64 bits on cpu"; cat "$TMPDIR/log"; fails=1; }
if [ -n "${RLXC_WEBGPU:-}" ]; then
  "$RLXC" run "$TMPDIR/Add_i64/m.json" --data "$TMPDIR/Add_i64" --target wgpu > "$TMPDIR/log" 2>&1 && { echo "FAIL wgpu takes 64 bits"; fails=1; }
  grep -q 'the input "x" holds 1099511627776' "$TMPDIR/log" || { echo "FAIL wgpu names no input"; cat "$TMPDIR/log"; fails=1; }
fi
exit $fails
