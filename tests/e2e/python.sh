#!/bin/bash
# The Python module: types of its stubs, arrays, options, errors, reports, transforms, threads, and PyTorch where it is installed.
set -uo pipefail
build=$(dirname "$(readlink -f "$RLXC")")
[ -f "$build/build.ninja" ] || { echo "$RLXC is not in a build folder"; exit 77; }
grep -q rlxc_native "$build/build.ninja" || { echo "Python's or pybind11's headers are missing: python3-dev, pybind11-dev"; exit 77; }
python=$(sed -n 's/^RLXC_SYSTEM_PYTHON:FILEPATH=//p' "$build/CMakeCache.txt")
chosen=$(sed -n 's/^RLXC_PYTHON:STRING=//p' "$build/CMakeCache.txt")
[ -z "$chosen" ] || python=$chosen
"$python" -c 'import numpy' 2>/dev/null || { echo "NumPy is missing: python3-numpy"; exit 77; }
scripts/build rlxc_python || exit 1
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
"$python" -W error::ResourceWarning -m unittest discover -s tests/python || exit 1

# The wheel has it, and pip installs it.
module=$(echo "$build"/python/rlxc/_native.*.so)
RLXC_MODULE=$module PYTHONPATH=python "$python" -c "import wheel_backend; wheel_backend.build_wheel('$TMPDIR')" || exit 1
if "$python" -c 'import ensurepip' 2>/dev/null; then
  "$python" -m venv --system-site-packages "$TMPDIR/venv"
  "$TMPDIR/venv/bin/pip" install -q --no-index --disable-pip-version-check "$TMPDIR"/rlxc-*.whl || exit 1
  PYTHONPATH='' "$TMPDIR/venv/bin/python" -c "import rlxc; rlxc.compile('examples/mlp.json').check(engine='interpreter')" || exit 1
fi

# PyTorch from build/peers, if it is for the same Python.
peer=$build/peers/torch/bin/python
if [ -x "$peer" ] && "$peer" -c 'import torch, rlxc; rlxc.targets()' 2>/dev/null; then
  (cd tests/python && "$peer" -m unittest test_torch) || exit 1
fi

if "$python" -c 'import mypy' 2>/dev/null; then
  (cd "$build/python" && "$python" -m mypy --strict --ignore-missing-imports --cache-dir="$TMPDIR/mypy" -p rlxc) || exit 1
  MYPYPATH=$build/python "$python" -m mypy --strict --ignore-missing-imports --cache-dir="$TMPDIR/mypy" tests/python/typed_uses.py || exit 1
else
  echo "without mypy: types not checked"
fi
