#!/usr/bin/env python3
"""Forces of a pair potential, and a loss on them that is differentiated again: force_matching.py FOLDER

potential.json   the energy of five atoms by the Morse potential, with `depth` and `width` as inputs
forces.json      the same with the gradient by the positions, as `rlxc transform` writes it; the forces are its negative
loss.json        sum((forces - wanted)^2), added to forces.json

`rlxc run` then differentiates the loss by positions, depth and width. These second derivatives of the energy are compared with
central differences, whose 2 * 17 points are one run by --vmap. RLXC names the program.
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

RLXC = os.environ.get("RLXC", "rlxc")
ATOMS, STEP, TOLERANCE = 5, 1e-5, 1e-6


class Model:
    """A graph of rlxc, or the continuation of one that was written."""

    def __init__(self, name, graph=None):
        self.graph = graph or {"format": "rlxc-graph", "format_version": "2.0", "module": name, "constants": [],
                               "graphs": [{"name": "main", "nodes": [], "outputs": []}]}
        self.main = self.graph["graphs"][0]
        self.values = 1 + max((r["value"] for n in self.main["nodes"] for r in n["results"]), default=-1)

    def node(self, op, *operands, type=None, name=None, attrs=None):
        result = {"value": self.values}
        if type: result["type"] = type
        if name: result["name"] = name
        ids = [n["id"] for n in self.main["nodes"]]
        node = {"id": 1 + max(ids, default=-1), "op": op, "operands": list(operands), "results": [result]}
        if attrs: node["attrs"] = attrs
        self.main["nodes"].append(node)
        self.values += 1
        return result["value"]

    def input(self, name, *dims):
        return self.node("Input", type={"dtype": "f64", "dims": list(dims)}, name=name)

    def constant(self, values):
        values = np.asarray(values, np.float64)
        data = 1 + max((c["id"] for c in self.graph["constants"]), default=-1)
        self.graph["constants"].append({"id": data, "dtype": "f64", "dims": list(values.shape), "values": values.ravel().tolist()})
        return self.node("Constant", type={"dtype": "f64", "dims": list(values.shape)}, attrs={"data": data})

    def output(self, value, name):
        self.main["outputs"].append({"value": value, "name": name})

    def write(self, path):
        path.write_text(json.dumps(self.graph, indent=1))


def potential():
    """energy = depth * sum over pairs i < j of (1 - exp(width * (1 - |p_i - p_j|)))^2"""
    m = Model("potential")
    positions, depth, width = m.input("positions", ATOMS, 3), m.input("depth"), m.input("width")
    one = m.constant(1.0)
    across, down = (m.node("Reshape", positions, attrs={"dims": dims}) for dims in ([ATOMS, 1, 3], [1, ATOMS, 3]))
    offset = m.node("Sub", across, down)
    squares = m.node("Reduce", m.node("Mul", offset, offset), attrs={"op": "sum", "axes": [2]})
    # No atom is at distance 0 of itself, where the square root has no derivative.
    distance = m.node("Sqrt", m.node("Add", squares, m.constant(np.eye(ATOMS))))
    decay = m.node("Exp", m.node("Mul", m.node("Sub", one, distance), width))
    well = m.node("Sub", one, decay)
    each_once = m.node("Mul", m.node("Mul", well, well), m.constant(np.triu(np.ones((ATOMS, ATOMS)), 1)))
    m.output(m.node("Mul", m.node("Reduce", each_once, attrs={"op": "sum", "axes": [0, 1]}), depth), "energy")
    return m


def add_loss(forces, wanted):
    """The gradient is the negative force."""
    gradient = next(o["value"] for o in forces.main["outputs"] if o["name"] == "grad:positions")
    error = forces.node("Add", gradient, forces.constant(wanted))
    forces.output(forces.node("Reduce", forces.node("Mul", error, error), attrs={"op": "sum", "axes": [0, 1]}), "loss")


def run(model, flags, inputs, folder):
    np.savez(folder / "inputs.npz", **inputs)
    done = subprocess.run([RLXC, "run", model, "--data", folder / "inputs.npz", "--save-outputs", folder / "outputs.npz", *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return np.load(folder / "outputs.npz")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    at = {"positions": rng.uniform(-1.5, 1.5, (ATOMS, 3)), "depth": np.array(0.7), "width": np.array(1.4)}
    names = list(at)

    potential().write(folder / "potential.json")
    subprocess.run([RLXC, "transform", folder / "potential.json", "--grad", "energy", "--wrt", "positions", "-q", "-o",
                    folder / "forces.json"], check=True)
    forces = Model("forces", json.loads((folder / "forces.json").read_text()))
    add_loss(forces, rng.normal(size=(ATOMS, 3)))
    forces.write(folder / "loss.json")

    out = run(folder / "loss.json", ["--grad", "loss", "--wrt", ",".join(names)], at, folder)
    # The gradient of the energy has the name of the first derivative by the positions.
    got = np.concatenate([out[n].ravel() for n in ("grad2:positions", "grad:depth", "grad:width")])

    point = np.concatenate([at[n].ravel() for n in names])
    points = np.concatenate([point + side * STEP * np.eye(len(point)) for side in (1, -1)])
    parts = np.split(points, [3 * ATOMS, 3 * ATOMS + 1], axis=1)
    moved = {"positions": parts[0].reshape(-1, ATOMS, 3), "depth": parts[1][:, 0], "width": parts[2][:, 0]}
    losses = run(folder / "loss.json", ["--vmap", ",".join(names), "--size", str(len(points))], moved, folder)["loss"]
    wanted = (losses[:len(point)] - losses[len(point):]) / (2 * STEP)

    error = np.max(np.abs(got - wanted) / (1 + np.abs(wanted)))
    print(f"energy {float(out['energy']):.6f}, loss {float(out['loss']):.6f}")
    print(f"{len(got)} derivatives of the loss, at most {error:.1e} from central differences")
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
