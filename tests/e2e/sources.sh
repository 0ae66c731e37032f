#!/bin/sh
# Files are formatted and short, hold no copies, and include in the allowed direction between rooms; the checker notices faults.
set -eu
scripts/check format layers length words duplicates targets

mkdir -p "$TMPDIR/scripts" "$TMPDIR/lib/support" "$TMPDIR/lib/ir"
cp scripts/check-layers "$TMPDIR/scripts/"
printf 'rlxc_room(support)\nrlxc_room(ir rlxc_support)\n' >"$TMPDIR/CMakeLists.txt"
echo '#include "support/a.h"' >"$TMPDIR/lib/ir/b.h"
echo '' >"$TMPDIR/lib/support/a.h"
"$TMPDIR/scripts/check-layers"
echo '#include "ir/b.h"' >"$TMPDIR/lib/support/a.h"
if "$TMPDIR/scripts/check-layers" >"$TMPDIR/faults"; then echo "an upward include passed"; exit 1; fi
grep -qx 'lib/support/a.h:1: support may not use ir' "$TMPDIR/faults"
