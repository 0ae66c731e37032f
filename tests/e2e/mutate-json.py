#!/usr/bin/python3
"""Mutates the members of a file that rlxc reads, one at a time: mutate-json.py RLXC SCHEMA FILE COMMAND..

In COMMAND, @ is the mutated file and @OUT a folder. A member is misspelt, removed, or gets a value of another type, NaN, or a number
beyond f64. Each mutation that the schema forbids has to be refused with exit code 2, 4 or 5 and a message that names the member.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore", DeprecationWarning)
import jsonschema

rlxc, schema, path, *command = sys.argv[1:]
schema, path = pathlib.Path(schema), pathlib.Path(path)
ORIGINAL = json.loads(path.read_text())
REFUSED = (2, 4, 5)


def validator():
    contents = {p.name: json.loads(p.read_text()) for p in schema.parent.glob("*.json")}
    root = contents[schema.name]
    resolver = jsonschema.RefResolver(root["$id"], root, store={c["$id"]: c for c in contents.values()})
    return jsonschema.Draft202012Validator(root, resolver=resolver)


def members(value, at=(), seen=None):
    """Paths to members. Of the items of a list, and of objects of one shape, the first that has a member."""
    seen = set() if seen is None else seen
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        shape = tuple(k for k in at if isinstance(k, str)) + (key, type(item).__name__)
        if isinstance(key, str) and key != "$schema" and shape not in seen:
            seen.add(shape)
            yield at + (key,)
        yield from members(item, at + (key,), seen)


def edited(at, edit):
    whole = copy.deepcopy(ORIGINAL)
    holder = whole
    for key in at[:-1]:
        holder = holder[key]
    edit(holder, at[-1])
    return whole


def renamed(to):
    def edit(holder, key):
        items = [(to if k == key else k, v) for k, v in holder.items()]
        holder.clear()
        holder.update(items)
    return edit


def mutations():
    for at in members(ORIGINAL):
        key, value = at[-1], ORIGINAL
        for k in at:
            value = value[k]
        other = 7.5 if isinstance(value, str) else 7 if isinstance(value, (list, dict)) or value is None else "word"
        yield at, "misspelt", edited(at, renamed(key + "s")), key
        yield at, "missing", edited(at, lambda h, k: h.pop(k)), key
        yield at, "of another type", edited(at, lambda h, k, v=other: h.__setitem__(k, v)), key
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield at, "NaN", edited(at, lambda h, k: h.__setitem__(k, float("nan"))), ""
            yield at, "1e999", edited(at, lambda h, k: h.__setitem__(k, float("inf"))), ""
    for version, message in (("9.0", "newer than this rlxc"), ("one", "does not exist")):
        yield ("format_version",), version, {**ORIGINAL, "format_version": version}, message


def run(whole):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / path.name
        file.write_text(json.dumps(whole, indent=1).replace("Infinity", "1e999"))
        filled = [w.replace("@OUT", folder + "/out").replace("@", str(file)) for w in command]
        p = subprocess.run([rlxc, *filled], capture_output=True, text=True, errors="replace", check=False)
        return p.returncode, p.stderr


check = validator()
code, message = run(ORIGINAL)
if code != 0:
    sys.exit(f"{path}: the file itself is refused: {message}")
count, faults = 0, []
for at, what, whole, expected in mutations():
    if what in ("misspelt", "missing", "of another type") and check.is_valid(whole):
        continue
    count += 1
    code, message = run(whole)
    where = ".".join(map(str, at))
    if code not in REFUSED:
        faults.append(f"{path}: {where} {what}: exit code {code} {message.strip()[:100]}")
    elif expected not in message and at[0] not in ("format", "format_version"):
        faults.append(f"{path}: {where} {what}: not named: {message.strip()[:300]}")
print(f"{path}: {count} mutations")
print("\n".join(faults), end="\n" if faults else "")
sys.exit(bool(faults))
