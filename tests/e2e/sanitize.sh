#!/bin/bash
# The unit tests and hostile files under the address and undefined-behaviour sanitizers, then a moment of each fuzzer. Only where
# RLXC_TEST_SANITIZE is set: the build takes longer than all other tests.
set -uo pipefail
[ -n "${RLXC_TEST_SANITIZE:-}" ] || { echo "RLXC_TEST_SANITIZE is not set"; exit 77; }
unset RLXC_TEST_MODELS RLXC_WEBGPU
scripts/sanitize || exit 1
scripts/fuzz "${RLXC_TEST_FUZZ_SECONDS:-15}"
