#!/usr/bin/env python3
"""Merges CUDA or HIP sources into files without repeated kernels, so that a compiler sees each kernel once:
merge_kernels.py OUTPUT_STEM EXTENSION KERNELS_PER_FILE SOURCE... Kernels that differ only in name or comments are one. Prints how many
kernels were read and how many are left."""
import re
import sys

HEAD = re.compile(r'^extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(')


def blocks(text):
    """Top-level pieces: a directive (of #if up to its #endif), or a definition up to the line of its closing brace."""
    block, open_conditions = [], 0
    for line in text.splitlines():
        if not block and not line:
            continue
        block.append(line)
        first = block[0]
        open_conditions += line.startswith("#if") - line.startswith("#endif")
        if first.startswith("#if"):
            ends = open_conditions == 0
        elif first.startswith("#"):
            ends = not line.endswith("\\")
        else:
            ends = line.startswith("}") or (line.endswith("}") and not line.startswith(" "))
        if ends:
            yield "\n".join(block)
            block = []


def main():
    stem, extension, per_file = sys.argv[1], sys.argv[2], int(sys.argv[3])
    helpers, kernels, read = {}, {}, 0
    for path in sys.argv[4:]:
        with open(path) as f:
            text = f.read()
        for block in blocks(text):
            lines = [line for line in block.splitlines() if not line.startswith("//")]
            head = next((HEAD.match(line) for line in lines if HEAD.match(line)), None)
            if head is None:
                helpers.setdefault(block)
                continue
            read += 1
            body = "\n".join(lines)
            name = head.group(1)
            kernels.setdefault(body.replace(name + "(", "$NAME(", 1))
    unique = list(kernels)
    for first in range(0, len(unique), per_file):
        with open(f"{stem}{first // per_file}.{extension}", "w") as f:
            f.write("\n".join(helpers) + "\n")
            for i, kernel in enumerate(unique[first:first + per_file]):
                f.write("\n" + kernel.replace("$NAME(", f"kernel_{first + i}(", 1) + "\n")
    print(read, len(unique))


if __name__ == "__main__":
    main()
