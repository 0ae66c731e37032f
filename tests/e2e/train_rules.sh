#!/bin/bash
# 100 steps of every optimizer have the losses of its rule in NumPy.
/usr/bin/python3 -c 'import numpy' 2> /dev/null || { echo "python3-numpy is not installed"; exit 77; }
exec scripts/compare-training
