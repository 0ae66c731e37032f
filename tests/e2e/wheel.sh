#!/bin/bash
# The wheel carries the program: `python -m rlxc` is the command line, unpacked and installed by pip into a fresh environment.
set -euo pipefail
[ "$(uname -s)" = Linux ] || { echo "wheels are made on Linux"; exit 77; }
for folder in one two; do
  mkdir "$TMPDIR/$folder"
  PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 python3 -c "import wheel_backend; wheel_backend.build_wheel('$TMPDIR/$folder')"
done
cmp "$TMPDIR"/one/*.whl "$TMPDIR"/two/*.whl

python3 -m zipfile -e "$TMPDIR"/one/*.whl "$TMPDIR/unpacked"
cmp "$RLXC" "$TMPDIR/unpacked/rlxc/bin/rlxc"
# Each file has the checksum of the record.
python3 - "$TMPDIR/unpacked" <<'END'
import base64, csv, hashlib, pathlib, sys
top = pathlib.Path(sys.argv[1])
rows = list(csv.reader(next(top.glob("*.dist-info/RECORD")).open()))
assert {row[0] for row in rows} == {str(file.relative_to(top)) for file in top.rglob("*") if file.is_file()}
for name, digest, size in rows:
    if digest:
        data = (top / name).read_bytes()
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), name
        assert int(size) == len(data), name
END

# Results and exit codes of the program.
chmod +x "$TMPDIR/unpacked/rlxc/bin/rlxc"
PYTHONPATH="$TMPDIR/unpacked" python3 -m rlxc --version | diff - <("$RLXC" --version)
status=0
PYTHONPATH="$TMPDIR/unpacked" python3 -m rlxc compile "$TMPDIR/none.onnx" 2>"$TMPDIR/ours" || status=$?
expected=0
"$RLXC" compile "$TMPDIR/none.onnx" 2>"$TMPDIR/theirs" || expected=$?
[ "$status" -ne 0 ] && [ "$status" -eq "$expected" ]
diff "$TMPDIR/ours" "$TMPDIR/theirs"

python3 -c 'import ensurepip' 2>/dev/null || { echo "without python3-venv: pip not tried"; exit 0; }
python3 -m venv "$TMPDIR/venv"
"$TMPDIR/venv/bin/pip" install -q --no-index --disable-pip-version-check "$TMPDIR"/one/*.whl
"$TMPDIR/venv/bin/rlxc" compile examples/mlp.json -q -o "$TMPDIR/installed"
"$RLXC" compile examples/mlp.json -q -o "$TMPDIR/built"
diff -r "$TMPDIR/installed" "$TMPDIR/built"
"$TMPDIR/venv/bin/python" -m rlxc --version | diff - <("$RLXC" --version)
