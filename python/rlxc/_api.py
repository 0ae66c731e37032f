"""Models and modules: what `import rlxc` gives. docs/python.md has a worked page."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import warnings
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from rlxc import _native
from rlxc._errors import CompilerWarning, Diagnostic, Error

# A path, the bytes of a file, an onnx.ModelProto, or a model that is loaded already.
Source = Any
# Values of options: lists and dicts for options that take several words, None for the default.
Option = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[Any], Mapping[str, Any], "Calibration"]
Arrays = Dict[str, Any]
_Words = List[Tuple[str, List[str]]]


class Port(NamedTuple):
    """An input or output. Dims are numbers, or expressions of symbols as text."""

    name: str
    kind: str  # "tensor", "sequence", "optional" or "map"
    dtype: str  # "f32"
    shape: Tuple[Union[int, str], ...]
    type: str  # "f32[batch,3]"


class Comparison(NamedTuple):
    """An output beside that of the reference evaluator."""

    output: str
    ok: bool
    max_abs: float
    max_rel: float
    cosine: float
    norm_error: float
    message: str


def _ports(rows: Sequence[Tuple[str, str, str, List[Any], str]]) -> Tuple[Port, ...]:
    return tuple(Port(name, kind, dtype, tuple(dims), text) for name, kind, dtype, dims, text in rows)


def _warned(rows: Sequence[Tuple[str, str, str, str, str]]) -> List[Diagnostic]:
    """The diagnostics. Warnings among them become Python's, at the line that called this package."""
    diagnostics = [Diagnostic(*row) for row in rows]
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("rlxc."):
        level, frame = level + 1, frame.f_back
    for d in diagnostics:
        if d.severity == "warning":
            warnings.warn(str(d), CompilerWarning, stacklevel=level)
    return diagnostics


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return str(value)


def _sizes(value: Any, key: str) -> str:
    """What stands behind NAME=: a size, a range of two, a shape, or the contents of an input."""
    if isinstance(value, (list, tuple)):
        between = ".." if key == "range" else "x" if key == "shape" else ","
        return between.join(_word(v) for v in value)
    return _word(value)


@contextlib.contextmanager
def _words(options: Mapping[str, Option]) -> Iterator[_Words]:
    """Options as words of the command line. Records of calibrations are files meanwhile."""
    with contextlib.ExitStack() as stack:
        words: _Words = []
        for key, value in options.items():
            key = key.rstrip("_")
            if value is None:
                continue
            if isinstance(value, Calibration):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rlxc-record-"))
                path = os.path.join(folder, "calibration.json")
                value.save(path)
                words.append((key, [path]))
            elif isinstance(value, Mapping):
                words.append((key, [f"{name}={_sizes(v, key)}" for name, v in value.items()]))
            elif isinstance(value, (list, tuple, set, frozenset)):
                words.append((key, [_word(v) for v in (sorted(value) if isinstance(value, (set, frozenset)) else value)]))
            else:
                words.append((key, [_word(value)]))
        yield words


class Model:
    """A model as it was read, with the transforms of its options. `rlxc.load` makes it."""

    def __init__(self, native: _native.Model, source: Source = None) -> None:
        self._native = native
        self._source = source  # keeps what the model is read from
        self.diagnostics = _warned(native.diagnostics)
        self.inputs = _ports(native.inputs)
        self.outputs = _ports(native.outputs)

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def format(self) -> str:
        """ "onnx", "gguf", "json", "stablehlo" or "text"."""
        return self._native.format

    @property
    def sha256(self) -> str:
        """Of the file."""
        return self._native.sha256

    @property
    def symbols(self) -> List[str]:
        """Names of the symbolic dims."""
        return self._native.symbols

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs by the reference evaluator, which defines correct results. It is slow."""
        return self._native.evaluate(dict(inputs))

    def random_inputs(self, seed: int = 1, sizes: Optional[Mapping[str, int]] = None) -> Arrays:
        """Inputs as `rlxc run --random` makes them. `sizes`: of symbols; others are 2."""
        return self._native.random_inputs(seed, dict(sizes or {}))

    def compile(self, target: str = "cpu", **options: Option) -> Module:
        with _words(options) as words:
            return Module(self._native.compile(target, words), self)

    def save(self, path: Union[str, "os.PathLike[str]"], **options: Option) -> None:
        """Writes the model as ONNX (NAME.onnx), JSON (NAME.json) or IR text."""
        with _words(options) as words:
            _warned(self._native.save(os.fspath(path), words))

    def with_options(self, **options: Option) -> Model:
        """The same model, read again with these options behind its own."""
        with _words(options) as words:
            return Model(self._native.with_options(words), self._source)

    def grad(
        self, loss: str, wrt: Union[None, str, Sequence[str]] = None, order: Optional[int] = None, along: Optional[str] = None
    ) -> Model:
        """With outputs `grad:NAME`: the gradient of the sum of `loss`, by these values, "params" or "inputs"."""
        return self.with_options(grad=loss, wrt=_joined(wrt), order=order, along=along)

    def vmap(self, inputs: Union[str, Sequence[str], Mapping[str, int]], size: Union[int, str]) -> Model:
        """For `size` samples at once: these inputs get an axis for them, in front or where a dict says; outputs in front."""
        if isinstance(inputs, Mapping):
            inputs = [f"{name}:{axis}" for name, axis in inputs.items()]
        return self.with_options(vmap=_joined(inputs), size=size)

    def calibrate(self, loader: Iterable[Any], **options: Option) -> Calibration:
        """Runs the model on samples and records ranges of values. A sample is a dict by input, or the arrays in their order."""
        with tempfile.TemporaryDirectory(prefix="rlxc-samples-") as folder, _words(options) as words:
            paths = [self._write_sample(sample, os.path.join(folder, f"{i}.npz")) for i, sample in enumerate(loader)]
            text, rows = self._native.calibrate(paths, words)
        _warned(rows)
        return Calibration(text)

    def _write_sample(self, sample: Any, path: str) -> str:
        import numpy

        names = [port.name for port in self.inputs]
        if not isinstance(sample, Mapping):
            values = sample if isinstance(sample, (list, tuple)) else [sample]
            if len(values) != len(names):
                raise ValueError(f"a sample has {len(values)} arrays, and the model {len(names)} inputs: {', '.join(names)}")
            sample = dict(zip(names, values))
        for name in names:
            if name not in sample:
                raise KeyError(f"a sample has no array for the input {name!r}")
        arrays: Dict[str, Any] = {f"input_{i}": numpy.asarray(sample[name]) for i, name in enumerate(names)}
        numpy.savez(path, **arrays)
        return path

    def __repr__(self) -> str:
        return f"<rlxc.Model {self.name}({_signature(self.inputs)}) -> {_signature(self.outputs)}>"


class Module:
    """A compiled model. `rlxc.compile` makes it. Its methods may be called from several threads; runs of one module take turns."""

    def __init__(self, native: _native.Module, model: Model) -> None:
        self._native = native
        self.model = model
        self.diagnostics = _warned(native.diagnostics)
        self.inputs = _ports(native.inputs)
        self.outputs = _ports(native.outputs)

    @property
    def target(self) -> str:
        return self._native.target

    @property
    def name(self) -> str:
        """Of the package."""
        return self._native.name

    @property
    def symbols(self) -> List[str]:
        return self._native.symbols

    def build(
        self,
        engine: str = "kernels",
        compiler: str = "cc",
        flags: Sequence[str] = ("-O3", "-march=native"),
        threads: bool = False,
    ) -> Module:
        """Builds what `run` calls, which the first run does otherwise. `threads`: on all processors, or RLXC_THREADS of them."""
        self._native.build(engine, compiler, list(flags), threads)
        return self

    def run(self, inputs: Mapping[str, Any], engine: str = "kernels") -> Arrays:
        """The outputs by name, as NumPy arrays.

        Engines: "kernels" (the package, built by the C compiler of this machine; of other targets, emulated), "interpreter" (the
        kernels, checked and slow) and "reference" (the compiled graph in the reference evaluator). Inputs are read in place: NumPy
        arrays, tensors with `__dlpack__`, buffers. Other layouts are copied, other element types are an error.
        """
        return self._native.run(dict(inputs), engine)

    def check(
        self,
        inputs: Optional[Mapping[str, Any]] = None,
        engine: str = "kernels",
        rtol: Optional[float] = None,
        atol: Optional[float] = None,
        seed: int = 1,
    ) -> List[Comparison]:
        """Compares the outputs with those of the model in the reference evaluator, on these inputs or random ones.

        Raises Error RLX0300 if one is out of tolerance: by default, those of the precision.
        """
        given = self.model.random_inputs(seed) if inputs is None else dict(inputs)
        found = [Comparison(*row) for row in self._native.check(self.model._native, given, engine, rtol, atol)]
        wrong = [c for c in found if not c.ok]
        if wrong:
            text = "; ".join(f"output {c.output!r}: {c.message or 'out of tolerance'}, max abs {c.max_abs:.4g}" for c in wrong)
            raise Error(f"error[RLX0300]: {text}", "RLX0300", 1, [("error", "RLX0300", "", text, "")])
        return found

    def first_states(self) -> Arrays:
        """Of a module that trains: the inputs that hold parameters and the optimizer's states, as they begin."""
        return self._native.first_states()

    def report(self, name: Optional[str] = None) -> Any:
        """The JSON reports as dicts: "lir", "plan", "fusion", "dispatch", "precision", "quant", "manifest"; or one of them."""
        found = {file[: -len(".json")]: text for file, text in self._native.reports()}
        if name is None:
            return {key: json.loads(text) for key, text in found.items()}
        if name not in found:
            raise KeyError(f"there is no report {name!r}: one of {', '.join(found)}")
        return json.loads(found[name])

    def html(self) -> str:
        """The reports as one page."""
        return self._native.page()

    def save(self, folder: Union[str, "os.PathLike[str]"], emit: Union[str, Sequence[str]] = ()) -> pathlib.Path:
        """Writes package and reports, as `rlxc compile -o FOLDER` does; with `emit` these alone. Returns the folder."""
        _warned(self._native.save(os.fspath(folder), [emit] if isinstance(emit, str) else list(emit)))
        return pathlib.Path(folder)

    def __repr__(self) -> str:
        return f"<rlxc.Module {self.name} for {self.target}({_signature(self.inputs)}) -> {_signature(self.outputs)}>"


class Calibration:
    """Ranges of values, for the option `calibration`."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def data(self) -> Dict[str, Any]:
        """The record (`rlxc schema calibration`)."""
        data: Dict[str, Any] = json.loads(self.text)
        return data

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        pathlib.Path(path).write_text(self.text, encoding="utf-8")

    @staticmethod
    def read(path: Union[str, "os.PathLike[str]"]) -> Calibration:
        return Calibration(pathlib.Path(path).read_text(encoding="utf-8"))


class Diff:
    """Differences between two compiles. True if there are any, or with conditions, if one is met."""

    def __init__(self, data: Dict[str, Any], text: str, finding: bool) -> None:
        self.data = data  # `rlxc schema diff`
        self.text = text
        self.finding = finding

    def __bool__(self) -> bool:
        return self.finding

    def __str__(self) -> str:
        return self.text


def _joined(names: Union[None, str, Sequence[str]]) -> Optional[str]:
    return names if names is None or isinstance(names, str) else ",".join(names)


def _signature(ports: Sequence[Port]) -> str:
    return ", ".join(f"{p.name}: {p.type}" for p in ports)


def load(source: Source, **options: Option) -> Model:
    """Reads a model: a path, the bytes of a file, or an `onnx.ModelProto`. Options are those of the command line: `bind={"n": 8}`."""
    if isinstance(source, Model):
        return source.with_options(**options) if options else source
    if hasattr(source, "SerializeToString"):
        native, shown = _native.Source.of_bytes(source.SerializeToString()), "ModelProto"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        native, shown = _native.Source.of_bytes(source), "bytes"
    elif isinstance(source, (str, os.PathLike)):
        shown = os.fspath(source)
        native = _native.Source(shown if "://" in shown else os.path.abspath(shown))
    else:
        raise TypeError(f"a model is a path, bytes or an onnx.ModelProto, and no {type(source).__name__}")
    with _words(options) as words:
        return Model(_native.Model(native, shown, words), native)


def compile(source: Source, target: str = "cpu", **options: Option) -> Module:
    """Compiles a model for a target. Options are those of the command line: `precision="automixed"`, `bind={"batch": 1}`."""
    if isinstance(source, Model):
        return source.compile(target, **options)
    with _words(options) as words:
        model = load(source, **{key: options[key] for key in options if key.rstrip("_").replace("-", "_") in _AT_LOAD})
        return Module(model._native.compile(target, words), model)


# Options without which some models cannot be read.
_AT_LOAD = frozenset(
    "bind ops assume shape value range kv_cache kv_type last_logits max_nodes max_operations allow_missing_weights name".split()
)


def grad(source: Source, loss: str, wrt: Union[None, str, Sequence[str]] = None, **options: Any) -> Model:
    """`Model.grad` of a model that is loaded first."""
    return load(source).grad(loss, wrt, **options)


def vmap(source: Source, inputs: Union[str, Sequence[str], Mapping[str, int]], size: Union[int, str]) -> Model:
    """`Model.vmap` of a model that is loaded first."""
    return load(source).vmap(inputs, size)


def calibrate(source: Source, loader: Iterable[Any], **options: Option) -> Calibration:
    """`Model.calibrate` of a model that is loaded first."""
    return load(source).calibrate(loader, **options)


def _report_files(compiled: Any) -> List[Tuple[str, str, str]]:
    names = _native.artefacts_with_facts()
    if isinstance(compiled, Module):
        return [(name, "", text) for name, text in compiled._native.reports() if name in names and name != "manifest.json"]
    top = pathlib.Path(compiled)
    folders = [(top, "")]
    if top.is_dir():
        folders += [(sub, sub.name + "/") for sub in sorted(top.iterdir()) if (sub / "manifest.json").exists()]
    files = [
        (name, prefix, (folder / name).read_text(encoding="utf-8"))
        for folder, prefix in folders
        for name in names
        if name != "manifest.json" and (folder / name).exists()
    ]
    if not files:
        text = f"{top} holds no reports of a compile"
        raise Error(f"error[RLX0100]: {text}", "RLX0100", 3, [("error", "RLX0100", "", text, "")])
    return files


def diff(before: Any, after: Any, fail_on: Union[str, Sequence[str]] = ()) -> Diff:
    """Compares two modules, or folders of `save` and `rlxc compile`. `fail_on`: conditions, as "fusion.launches>+0"."""
    conditions = [fail_on] if isinstance(fail_on, str) else list(fail_on)
    text, shown, finding = _native.diff(_report_files(before), _report_files(after), conditions)
    return Diff(json.loads(text), shown, finding)


def explain(code: str) -> str:
    """What a code means, and what to do."""
    text = _native.explain(code)
    if not text:
        raise KeyError(f"there is no code {code!r}")
    return text


def targets() -> List[str]:
    return _native.targets()


__version__ = _native.version()
