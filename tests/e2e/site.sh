#!/bin/bash
# The web site of the documentation builds, without dead links, and has the pages that the program generates.
set -uo pipefail
command -v mkdocs > /dev/null || { echo "mkdocs is not installed: apt install mkdocs-material"; exit 77; }
scripts/site "$RLXC" > "$TMPDIR/log" 2>&1 || { tail -20 "$TMPDIR/log"; exit 1; }
for page in index codes reasons patterns schemas ops options; do
  [ -s "build/site/$page.html" ] || { echo "no page $page"; exit 1; }
done
grep -q 'id="rlx0105"' build/site/codes.html || { echo "no code RLX0105"; exit 1; }
if grep -lE '(src|href)="https?://[^"]*\.(js|css|woff2?)"' build/site/*.html; then echo "a page loads from the network"; exit 1; fi
