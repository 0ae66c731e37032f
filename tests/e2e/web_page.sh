#!/bin/bash
# Headless Chromium, on its software GPU, runs the page of a wgpu package and shows what the package computes in Node.
set -uo pipefail
[ -n "${RLXC_WEBGPU:-}" ] || { echo "RLXC_WEBGPU is not set: scripts/setup-webgpu fetches what executes WGSL"; exit 77; }
command -v chromium > /dev/null || { echo "no chromium"; exit 77; }
"$RLXC" compile examples/bert.onnx --target wgpu --emit kernels -q -o "$TMPDIR/out" || exit 1
package=$TMPDIR/out/kernels/wgpu root=$PWD
cd "$TMPDIR" || exit 1
python3 - <<'END'
import struct
open("ids.bin", "wb").write(struct.pack("<32q", *[i * 7 % 100 for i in range(32)]))
open("mask.bin", "wb").write(struct.pack("<32q", *([1] * 13 + [0] * 3) * 2))
END
node "$package/run.mjs" "$package" ids.bin mask.bin || exit 1
env -u LD_LIBRARY_PATH -u VK_ICD_FILENAMES node "$root/scripts/run-page.mjs" chromium "$package" "$package" ids.bin mask.bin > page || { cat page; exit 1; }
python3 - <<'END'
import struct
import sys
shown = [float(x) for x in open("page").readline().split(":")[1].split()]
computed = struct.unpack("<8f", open("output_0.bin", "rb").read(32))
same = len(shown) == 8 and all(abs(a - b) <= 1e-4 + 1e-4 * abs(b) for a, b in zip(shown, computed))
print("the page shows what Node computes" if same else f"FAIL page {shown}, Node {computed}")
sys.exit(not same)
END
