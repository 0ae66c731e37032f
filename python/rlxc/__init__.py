"""The compiler rlxc as a Python package: models, compiles and runs, and the program itself, as `program()` and `python -m rlxc`."""

from __future__ import annotations

import importlib
import pathlib
from typing import TYPE_CHECKING, Any

from rlxc._errors import CompilerWarning, Diagnostic, Error

if TYPE_CHECKING:
    from rlxc import jax, torch
    from rlxc._api import (
        Calibration,
        Comparison,
        Diff,
        Model,
        Module,
        Port,
        __version__,
        calibrate,
        compile,
        diff,
        explain,
        grad,
        load,
        targets,
        vmap,
    )

__all__ = [
    "Calibration",
    "Comparison",
    "CompilerWarning",
    "Diagnostic",
    "Diff",
    "Error",
    "Model",
    "Module",
    "Port",
    "__version__",
    "calibrate",
    "compile",
    "diff",
    "explain",
    "grad",
    "jax",
    "load",
    "program",
    "targets",
    "torch",
    "vmap",
]


def program() -> pathlib.Path:
    """The path of the program that the package carries."""
    return pathlib.Path(__file__).resolve().parent / "bin" / "rlxc"


def __getattr__(name: str) -> Any:
    """The rest is loaded when it is used: the program alone needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'rlxc' has no attribute {name!r}")
    if name in ("jax", "torch"):
        return importlib.import_module("rlxc." + name)
    try:
        api = importlib.import_module("rlxc._api")
    except ImportError as error:
        if error.name != "rlxc._native" and "_native" not in str(error):
            raise
        raise ImportError("this package of rlxc carries the program alone: its compiled module is for another Python") from error
    value = getattr(api, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
