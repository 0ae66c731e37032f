#!/bin/bash
# The generated documentation is that of the built tool.
exec python3 scripts/ops-doc "$RLXC" --check
