"""PyTorch modules as models: `export`, `compile`, and a backend for `torch.compile`. PyTorch is imported when one of them is called.

A wheel of rlxc registers the backend, so that `torch.compile(module, backend="rlxc")` finds it; elsewhere `register()` does.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from rlxc import _api

_MOST_IN_MEMORY = 1 << 30  # bytes of parameters; protobuf holds less than 2 GiB


def export(
    module: Any,
    args: Any = (),
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    input_names: Optional[Sequence[str]] = None,
    output_names: Optional[Sequence[str]] = None,
    dynamic_shapes: Any = None,
    dynamo: Optional[bool] = None,
    **options: _api.Option,
) -> _api.Model:
    """The module as a model, by torch.onnx. `args`: an example of its arguments, a tensor or a tuple.

    `dynamic_shapes` is that of torch.onnx.export. `dynamo`: by torch.export, which needs onnxscript; by default if that is installed.
    """
    import torch

    if isinstance(args, torch.Tensor):
        args = (args,)
    if dynamo is None:
        dynamo = importlib.util.find_spec("onnxscript") is not None
    more: Dict[str, Any] = {"dynamo": dynamo}
    if dynamo:
        more.update(dynamic_shapes=dynamic_shapes, verbose=False)
    elif dynamic_shapes is not None:
        raise ValueError("dynamic_shapes needs torch.export: install onnxscript")
    folder = tempfile.TemporaryDirectory(prefix="rlxc-torch-")
    path = os.path.join(folder.name, "graph.onnx")
    was_training = bool(getattr(module, "training", False))
    if was_training:
        module.eval()
    try:
        with torch.no_grad():
            torch.onnx.export(
                module,
                tuple(args),
                path,
                kwargs=dict(kwargs or {}),
                input_names=list(input_names) if input_names else None,
                output_names=list(output_names) if output_names else None,
                external_data=dynamo and _parameter_bytes(module) > _MOST_IN_MEMORY,
                **more,
            )
    finally:
        if was_training:
            module.train()
    options.setdefault("name", _identifier(type(module).__name__))
    if os.listdir(folder.name) == ["graph.onnx"]:
        with folder, open(path, "rb") as file:
            return _api.load(file.read(), **options)
    options.setdefault("embed_weights", True)  # the files beside the model go with it
    model = _api.load(path, **options)
    model._source = (model._source, folder)
    return model


def compile(module: Any, args: Any = (), target: str = "cpu", **options: Any) -> _api.Module:
    """The module, compiled: `export`, then `rlxc.compile`. Options are those of both."""
    of_export = {key: options.pop(key) for key in list(options) if key in _OF_EXPORT}
    at_load = {key: options[key] for key in options if key in _api._AT_LOAD}
    return export(module, args, **of_export, **at_load).compile(target, **options)


_OF_EXPORT = frozenset(["kwargs", "input_names", "output_names", "dynamic_shapes", "dynamo"])


def backend(graph: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """A backend for torch.compile, for inference on the processor. Each new combination of shapes is compiled at its first call.

    `torch.compile(module, backend="rlxc", options={...})` passes options of the compiler.
    """
    import torch

    given = dict(options.get("options") or {})
    outputs = list(_outputs_of(graph))
    compiled: Dict[Tuple[Any, ...], Tuple[_api.Module, List[int]]] = {}

    def call(*args: Any) -> List[Any]:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            raise RuntimeError("rlxc compiles for inference: call the module under torch.no_grad(), or without gradients")
        key = tuple((a.dtype, *a.shape) if isinstance(a, torch.Tensor) else a for a in args)
        if key not in compiled:
            compiled[key] = _compiled(graph, args, given)
        module, read = compiled[key]
        arrays = module.run({port.name: args[i].detach() for port, i in zip(module.inputs, read)})
        results = iter(_tensor(array) for array in arrays.values())
        return [next(results) if has_value else None for has_value in outputs]

    return call


def register() -> None:
    """Makes `torch.compile(module, backend="rlxc")` find the backend."""
    import torch._dynamo as dynamo

    if "rlxc" not in dynamo.list_backends(exclude_tags=()):
        dynamo.register_backend(compiler_fn=backend, name="rlxc")


def _compiled(graph: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Tuple[_api.Module, List[int]]:
    """The graph for arguments of these shapes, and which arguments its inputs are. What the graph does not read is no input."""
    import torch

    names = [f"arg{i}" for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    numbers = {i: a for i, a in enumerate(args) if not isinstance(a, torch.Tensor)}

    def forward(self: Any, *tensors: Any) -> Any:
        rest = iter(tensors)
        whole = [numbers[i] if i in numbers else next(rest) for i in range(len(args))]
        return tuple(r for r in self.graph(*whole) if r is not None)

    # Arguments that are numbers are constants of it, and results that are None are left out.
    fixed = type("Fixed", (torch.nn.Module,), {"forward": forward})()
    fixed.graph = graph
    tensors = tuple(args[i].detach() for i in places)
    model = export(fixed, tensors, input_names=names, name=options.get("name", "graph"))
    module = model.compile(options.get("target", "cpu"), **{k: v for k, v in options.items() if k not in ("target", "name")})
    return module, [int(port.name[len("arg") :]) for port in module.inputs]


def _outputs_of(graph: Any) -> List[bool]:
    """For each result of the graph, whether it is a tensor and not None."""
    node = next(n for n in reversed(graph.graph.nodes) if n.op == "output")
    results = node.args[0]
    return [r is not None for r in (results if isinstance(results, (list, tuple)) else (results,))]


def _tensor(array: Any) -> Any:
    """The array as a tensor on its memory."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def _parameter_bytes(module: Any) -> int:
    return sum(t.numel() * t.element_size() for t in getattr(module, "state_dict", dict)().values() if hasattr(t, "numel"))


def _identifier(name: str) -> str:
    kept = "".join(c.lower() if c.isascii() and c.isalnum() else "_" for c in name)
    return kept if kept[:1].isalpha() else "graph"
