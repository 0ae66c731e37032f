"""The weights of a package as they are stored: model.json says in which files they are, and where."""
from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np


def stored_weights(model: dict, folder: str) -> Iterator[tuple[dict, bytes]]:
    """The row of model.json and the bytes of each weight, from files of the folder."""
    files: dict[str, np.memmap] = {}
    for row in model["weights"]:
        if row["file"] is None:
            raise ValueError(f'the model carries no data for "{row["name"]}": put its file and place into model.json')
        path = os.path.join(folder, row["file"])
        if row["bytes"] and path not in files:
            files[path] = np.memmap(path, np.uint8, "r")
            header = model["weights_header"].encode()
            if row["file"] == model["weights_file"] and files[path][:len(header)].tobytes() != header:
                raise ValueError(f"{path} belongs to another model")
        data = files[path][row["offset"]:row["offset"] + row["stored"]].tobytes() if row["bytes"] else b""
        yield row, data * (row["bytes"] // max(row["stored"], 1))  # fewer bytes are stored where all elements are equal
