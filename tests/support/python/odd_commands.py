"""Gives each input of a folder that odd_inputs.py wrote to the commands that read its kind: odd_commands.py FOLDER RLXC JOBS
[WORD...]; with words, the inputs whose names have one of them. A command may take SECONDS (20) and MEGABYTES (4000), ends with a
documented exit code, and leaves artefacts that their tools read. Prints each one that does not, and the counts of exit codes.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

SECONDS, MEGABYTES = int(os.environ.get("SECONDS_LIMIT", 20)), int(os.environ.get("MEGABYTES_LIMIT", 4000))
SANITIZED = bool(os.environ.get("ASAN_OPTIONS"))  # whose shadow is memory too
MODEL = "examples/mlp.json"
ON_MODELS = ["compile {} -q --target all -o {out}/package", "compile {} -q --precision automixed --verify --emit lir,plan -o {out}/mixed",
             "check {} --target all", "inspect {}", "inspect {} --json", "run {} --random --engine reference",
             "run {} --random --engine interpreter", "calibrate {} --random 1 -o {out}/record.json"]
COMMANDS = {
    "onnx": ON_MODELS, "json": ON_MODELS, "text": ON_MODELS,
    "csv": ["plan {}", "plan {} --capacity 1000"],
    "record": [f"compile {MODEL} -q --calibration {{}} -o {{out}}/package"],
    "lir": ["specialize {} -q -o {out}/package", "specialize {} -q --target cuda -o {out}/package", "inspect {}", "diff {} {}"],
    "config": [f"compile {MODEL} -q --config {{}} -o {{out}}/package", f"run {MODEL} --random --config {{}} --engine interpreter"],
    "data": [f"run {MODEL} --data {{}} --engine reference", f"run {MODEL} --data {{}} --engine interpreter",
             f"calibrate {MODEL} --data {{}} -o {{out}}/record.json"],
}
COMPILED = threading.Semaphore(1)


def call(command, log):
    """Exit code, seconds and megabytes."""
    start = time.monotonic()
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    timer = threading.Timer(SECONDS, lambda: os.killpg(p.pid, signal.SIGKILL))
    timer.start()
    _, status, usage = os.wait4(p.pid, 0)
    timer.cancel()
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, time.monotonic() - start, usage.ru_maxrss // 1024


def refused_by_tool(path):
    """What the tool of an artefact says against it, or nothing."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".svg":
            xml.etree.ElementTree.parse(path)
        elif path.suffix == ".py":
            compile(path.read_bytes(), str(path), "exec")
        elif path.suffix == ".c" and path.stat().st_size < 200000:
            p = subprocess.run(["cc", "-fsyntax-only", "-Wall", "-Werror", "-I", str(path.parent), str(path)],
                               capture_output=True, text=True, timeout=300)
            return p.stderr[:600] if p.returncode else None
        elif path.suffix in (".mjs", ".js") and path.name.endswith("_model.js"):
            p = subprocess.run(["node", "--check", str(path)], capture_output=True, text=True, timeout=60)
            return p.stderr[:600] if p.returncode else None
    except (ValueError, SyntaxError, MemoryError, xml.etree.ElementTree.ParseError, RecursionError) as e:
        return repr(e)[:600]
    return None


def try_input(path, rlxc):
    kind, said = path.name.split("-")[0], []
    for command in COMMANDS[kind]:
        out = pathlib.Path(tempfile.mkdtemp(prefix="odd"))
        words = [w.format(str(path), out=out) if "{" in w else w for w in command.split(" ")]
        with open(out / "log", "wb") as log:
            code, seconds, megabytes = call([rlxc] + words, log)
        text = (out / "log").read_bytes().decode(errors="replace")
        faults = []
        if code == -signal.SIGKILL and seconds >= SECONDS:
            faults.append(f"took {SECONDS} s")
        elif code not in (0, 1, 2, 3, 4, 5, 6, 7):
            faults.append(f"exit code {code}")
        if megabytes > MEGABYTES and not SANITIZED:
            faults.append(f"took {megabytes} MB")
        if code in (3, 4, 5, 7) and words[0] != "check" and not re.search(r"error\[RLX\d+\]", text):
            faults.append(f"exit code {code} without an error")
        if code == 0:
            faults += [f"{f.relative_to(out)}: {why}" for f in sorted(out.rglob("*")) if f.is_file() and (why := refused_by_tool(f))]
        for fault in faults:
            lines = [l for l in text.splitlines() if re.search("ERROR|error|FAIL|^ +#[0-9].*(lib|apps)/", l)][:6]
            said.append(f"FAIL {path.name}: {command}: {fault}\n" + "".join(f"  | {l[:300]}\n" for l in lines))
        said.append((command.split(" ")[0], code, seconds, megabytes, path.name))
        shutil.rmtree(out)
    return said


def main(folder, rlxc, jobs, *words):
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    inputs = [p for p in sorted(pathlib.Path(folder).iterdir()) if p.name.split("-")[0] in COMMANDS and "-" in p.name and
              (not words or any(w in p.name for w in words))]
    codes, fails, slowest, largest = collections.Counter(), 0, (0,), (0,)
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        for said in pool.map(lambda p: try_input(p, rlxc), inputs):
            for s in said:
                if isinstance(s, str):
                    print(s, end="", flush=True)
                    fails += 1
                    continue
                codes[s[0], s[1]] += 1
                slowest, largest = max(slowest, (s[2], s[0], s[4])), max(largest, (s[3], s[0], s[4]))
    for (command, code), n in sorted(codes.items()):
        print(f"{command:10} exit code {code:4}: {n}")
    print(f"{len(inputs)} inputs, {sum(codes.values())} commands, {fails} faults; the slowest {slowest}, the largest {largest}")
    return fails > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
