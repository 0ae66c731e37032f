"""Writes to a folder a model with every operation that takes indices from its inputs, and data sets for it: one whose indices are in
their ranges, and for each operation one with an index that is too large and one with an index that is too small. The expected
outputs are those of clamped indices. Usage: index_cases.py FOLDER"""
import os
import sys
import numpy as np

MODEL = """module "indices" mir {
graph @main {
  %0 = input "x" : f32[5,3]
  %1 = input "i_gather" : i64[2]
  %2 = input "i_elements" : i32[2,3]
  %3 = input "i_nd" : i64[2,2]
  %4 = input "i_scatter" : i64[1,3]
  %5 = input "i_scatter_nd" : i64[2,1]
  %6 = input "i_expert" : i64[5]
  %7 = input "i_branch" : i64[2]
  %8 = input "updates" : f32[1,3]
  %9 = input "rows" : f32[2,3]
  %10 = input "experts" : f32[4,3,2]
  %11 = input "go" : bool[]
  %12 = gather(%0, %1) {axis = 0} "gather" : f32[2,3]
  %13 = gather_elements(%0, %2) {axis = 0} "elements" : f32[2,3]
  %14 = gather_nd(%0, %3) {batch_dims = 0} "nd" : f32[2]
  %15 = scatter_elements(%0, %4, %8) {axis = 0, reduction = "none"} "scatter" : f32[5,3]
  %16 = scatter_nd(%0, %5, %9) {axis = 0, reduction = "add"} "scatter_nd" : f32[5,3]
  %17 = grouped_matmul(%0, %10, %6) "expert" : f32[5,2]
  %18 = if(%11, %0, %7) [@taken, @other] : f32[2,3]
  %19 = input "i_row" : i64[1,1,2,1]
  %20 = input "heads" : f32[1,1,2,4]
  %21 = input "cos" : f32[2,2]
  %22 = input "sin" : f32[2,2]
  %23 = input "cache" : f32[1,1,5,4]
  %24, %25, %26 = fused_rope_append(%20, %20, %20, %21, %22, %23, %23, %19) {head_dim = 4, n_rot = 4, style = "neox", layout = "bhsd"} "row" : f32[1,1,2,4], f32[1,1,5,4], f32[1,1,5,4]
  return %12 "gather", %13 "elements", %14 "nd", %15 "scatter", %16 "scatter_nd", %17 "expert", %18 "branch", %25 "keys", %26 "values"
}
graph @taken {
  %0 = input "x" : f32[5,3]
  %1 = input "i" : i64[2]
  %2 = gather(%0, %1) {axis = 0} "taken" : f32[2,3]
  return %2
}
graph @other {
  %0 = input "x" : f32[5,3]
  %1 = input "i" : i64[2]
  %2 = narrow(%0) {axis = 0, start = 1, len = 2} : f32[2,3]
  return %2
}
}
"""


def clamp(indices, size, from_end=True):
    """Negative indices count from the end, but for numbers of experts."""
    indices = np.where(indices < 0, indices + size, indices) if from_end else indices
    return np.clip(indices, 0, size - 1)


def outputs(v):
    x = v["x"]
    nd = np.stack([clamp(v["i_nd"][:, d], x.shape[d]) for d in (0, 1)], 1)
    scatter, scatter_nd = x.copy(), x.copy()
    for column in range(3):
        scatter[clamp(v["i_scatter"], 5)[0, column], column] = v["updates"][0, column]
    for row in range(2):
        scatter_nd[clamp(v["i_scatter_nd"], 5)[row, 0]] += v["rows"][row]
    experts = v["experts"][clamp(v["i_expert"], 4, from_end=False)]
    cache = v["cache"].copy()
    cache[0, 0, clamp(v["i_row"], 5)[0, 0, :, 0]] = v["heads"][0, 0]
    return {
        "keys": cache, "values": cache,
        "gather": x[clamp(v["i_gather"], 5)],
        "elements": np.take_along_axis(x, clamp(v["i_elements"], 5).astype(np.int64), 0),
        "nd": x[nd[:, 0], nd[:, 1]],
        "scatter": scatter,
        "scatter_nd": scatter_nd,
        "expert": np.einsum("mk,mkn->mn", x, experts),
        "branch": x[clamp(v["i_branch"], 5)] if v["go"] else x[1:3],
    }


def main():
    top = sys.argv[1]
    with open(os.path.join(top, "indices.ir"), "w") as f:
        f.write(MODEL)
    good = {
        "x": np.arange(15, dtype=np.float32).reshape(5, 3),
        "i_gather": np.array([4, -5]),
        "i_elements": np.array([[0, 1, 2], [-1, -5, 4]], np.int32),
        "i_nd": np.array([[4, 2], [-5, -3]]),
        "i_scatter": np.array([[4, 0, -5]]),
        "i_scatter_nd": np.array([[3], [-5]]),
        "i_expert": np.array([3, 0, 1, 2, 3]),
        "i_branch": np.array([-5, 4]),
        "updates": np.array([[100, 200, 300]], np.float32),
        "rows": np.array([[10, 20, 30], [40, 50, 60]], np.float32),
        "experts": np.arange(24, dtype=np.float32).reshape(4, 3, 2),
        "go": np.array(True),
        "i_row": np.array([3, -3]).reshape(1, 1, 2, 1),
        "heads": np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4),
        "cos": np.ones((2, 2), np.float32), "sin": np.zeros((2, 2), np.float32),
        "cache": -np.ones((1, 1, 5, 4), np.float32),
    }
    # The place of the index, and one above and one below its range.
    bad = {
        "i_gather": [(1,), 5, -6], "i_elements": [(1, 2), 7, -6], "i_nd": [(1, 1), 3, -4], "i_scatter": [(0, 1), 5, -9],
        "i_scatter_nd": [(0, 0), 5, -6], "i_expert": [(4,), 4, -1], "i_branch": [(0,), 6, -7],
        "i_row": [(0, 0, 0, 0), 5, -8],
    }
    sets = {"good": good, "other_branch": {**good, "go": np.array(False), "i_branch": np.array([9, 9])}}
    for name, (place, *values) in bad.items():
        for kind, value in zip(("above", "below"), values):
            indices = good[name].copy()
            indices[place] = value
            sets[f"{name}_{kind}"] = {**good, name: indices}
    for name, values in sets.items():
        folder = os.path.join(top, "data", "test_data_set_" + name)
        os.makedirs(folder)
        for key, value in {**values, **outputs(values)}.items():
            np.save(os.path.join(folder, key + ".npy"), value)


main()
