"""JAX functions as models: `export` and `compile`. JAX is imported when one of them is called."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from rlxc import _api


def export(
    fn: Any,
    *args: Any,
    kwargs: Optional[Mapping[str, Any]] = None,
    **options: _api.Option,
) -> _api.Model:
    """The function as a model, by StableHLO. `args`: examples of its arguments, arrays or trees of arrays, or jax.ShapeDtypeStruct.

    Sizes of jax.export.symbolic_shape are symbols of the model. Inputs are the leaves of the arguments, in order. Arrays that the
    function closes over are its weights.
    """
    options.setdefault("name", _identifier(getattr(fn, "__name__", type(fn).__name__)))
    return _api.load(stablehlo(fn, *args, kwargs=kwargs).encode(), **options)


def compile(
    fn: Any,
    *args: Any,
    target: str = "cpu",
    kwargs: Optional[Mapping[str, Any]] = None,
    **options: Any,
) -> _api.Module:
    """The function, compiled: `export`, then `rlxc.compile`. Options are those of both."""
    at_load = {key: options[key] for key in options if key in _api._AT_LOAD}
    return export(fn, *args, kwargs=kwargs, **at_load).compile(target, **options)


def stablehlo(fn: Any, *args: Any, kwargs: Optional[Mapping[str, Any]] = None) -> str:
    """The text that `export` reads: the function in StableHLO, lowered for the processor."""
    import jax

    keywords = dict(kwargs or {})
    jitted = jax.jit(fn, keep_unused=True)
    leaves = jax.tree_util.tree_leaves((args, keywords))
    if any(not isinstance(n, int) for leaf in leaves for n in getattr(leaf, "shape", ())):
        from jax import export as jax_export

        exported = jax_export.export(jitted, platforms=["cpu"])(*args, **keywords)
        return str(exported.mlir_module())
    lowered = jitted.trace(*args, **keywords).lower(lowering_platforms=("cpu",))
    return str(lowered.as_text(debug_info=True))


def _identifier(name: str) -> str:
    kept = "".join(c.lower() if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return kept if kept[:1].isalpha() else "function"
