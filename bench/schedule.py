#!/usr/bin/env python3
"""Speedups on more threads than the machine has, by simulation. Each parallel loop of a run is timed in pieces on one thread; the
simulation deals the pieces to threads as the pool of parallel.c does. It knows serial parts, uneven and coarse work and the cost of
starting a loop, and assumes that memory keeps up. Usage: bench/schedule.py PACKAGE [INPUT FILE...], a package of the cpu target;
or BENCH_FOLDER=FOLDER bench/schedule.py [MODEL...] for the folders that bench/models.py keeps."""
import heapq
import os
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
THREADS = (2, 4, 8, 16, 32, 64)
JOIN_NS = 1000  # from the start of a loop to the first piece of another thread, which spins

# In place of parallel.c: runs loops on one thread and writes "begin end count least ns,ns,..." for each, in nanoseconds.
RECORDER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void NAME_use_threads(int threads);
void NAME_use_threads(int threads) { (void)threads; }
static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
void NAME_parallel_for(int64_t count, int64_t grain, void (*body)(const void*, int64_t, int64_t), const void* args);
void NAME_parallel_for(int64_t count, int64_t grain, void (*body)(const void*, int64_t, int64_t), const void* args) {
  enum { PIECES = 2048 };
  static FILE* to;
  static int64_t ns[PIECES + 1];
  if (!to && !(to = fopen(getenv("SCHEDULE"), "w"))) exit(1);
  if (count <= 0) return;
  int64_t least = grain < 1 ? 1 : grain, n = 0;
  int64_t unit = least > count / PIECES + 1 ? least : count / PIECES + 1;
  if (count <= grain) unit = count;
  const int64_t begin = now();
  for (int64_t i = 0, last = begin; i < count; i += unit) {
    body(args, i, i + unit < count ? i + unit : count);
    const int64_t t = now();
    ns[n++] = t - last;
    last = t;
  }
  const int64_t end = now();
  fprintf(to, "%lld %lld %lld %lld ", (long long)begin, (long long)end, (long long)count, (long long)unit);
  for (int64_t i = 0; i < n; ++i) fprintf(to, "%lld%c", (long long)ns[i], i + 1 < n ? ',' : '\n');
  fflush(to);
}
"""


def run(args, **more):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, **more).stdout.decode()


def record(package, inputs, options, repeat, file):
    run(["./run", *options, "--threads", "1", "--repeat", str(repeat), *inputs], cwd=package, env={**os.environ, "SCHEDULE": file})
    with open(file) as lines:
        return [line.split() for line in lines]


def loops_of_run(package, inputs, options):
    """The loops of one run: begin, end, iterations, iterations of a piece, nanoseconds of the pieces. Least of some runs."""
    name = next(f[:-len(".hpp")] for f in os.listdir(package) if f.endswith(".hpp"))
    with open(os.path.join(package, "parallel.c"), "w") as f:
        f.write(RECORDER.replace("NAME", name))
    run(["make", "-s", "-B", "-C", package, "run"])
    file = os.path.join(package, "loops.txt")
    few, many = (record(package, inputs, options, n, file) for n in (1, 2))
    size = len(many) - len(few)
    rows = [[int(x) for x in row[:4]] + [[int(x) for x in row[4].split(",")]] for row in record(package, inputs, options, 12, file)]
    runs = [rows[len(rows) - (i + 1) * size:len(rows) - i * size] for i in range(10)] if size else [[]]
    return min(runs, key=lambda r: r[-1][1] - r[0][0] if r else 0)


def loop_ns(count, unit, pieces, threads):
    """Guided self-scheduling: a thread takes a share of what is left, at least a piece."""
    if len(pieces) == 1 or threads == 1:
        return sum(pieces)
    free = [(0.0 if t == 0 else float(JOIN_NS)) for t in range(threads)]
    heapq.heapify(free)
    at, end = 0, 0.0
    while at < len(pieces):
        share = max(1, (count - at * unit) // (2 * threads) // unit)
        start = heapq.heappop(free)
        stop = start + sum(pieces[at:at + share])
        end = max(end, stop)
        heapq.heappush(free, stop)
        at += share
    return end


def report(name, package, inputs, options=()):
    loops = loops_of_run(package, inputs, options)
    if not loops:
        sys.exit(f"{name}: no parallel loops")
    serial = sum(b[0] - a[1] for a, b in zip(loops, loops[1:]))
    one = serial + sum(sum(l[4]) for l in loops)
    line = f"{name:34} {len(loops):6} {one / 1e6:9.3f} {100 * serial / one:7.1f}%"
    for threads in THREADS:
        line += f" {one / (serial + sum(loop_ns(l[2], l[3], l[4], threads) for l in loops)):6.2f}"
    print(line, flush=True)


def main():
    print(f"{'model':34} {'loops':>6} {'ms on one':>9} {'serial':>8} " + " ".join(f"{t:6}" for t in THREADS))
    folder = os.environ.get("BENCH_FOLDER", "")
    with tempfile.TemporaryDirectory() as tmp:
        if not folder:
            if len(sys.argv) < 2:
                sys.exit(__doc__)
            package = os.path.join(tmp, "package")
            run(["cp", "-r", sys.argv[1], package])
            return report(os.path.basename(os.path.abspath(sys.argv[1])), package, [os.path.abspath(f) for f in sys.argv[2:]])
        for name in sys.argv[1:] or sorted(os.listdir(folder)):
            at = os.path.abspath(os.path.join(folder, name))
            out = os.path.join(tmp, name)
            run([rlxc, "compile", os.path.join(at, "model.onnx"), "--cpu", "native", "--emit", "kernels", "-q", "-o", out])
            inputs = sorted(os.path.join(at, f) for f in os.listdir(at) if f.startswith("input_"))
            report(name, os.path.join(out, "kernels/cpu"), inputs, ["-m", at])


main()
