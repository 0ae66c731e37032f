"""Small models as JSON, and tests that run once for each case of a list."""

import contextlib
import functools
import io
import json
import os
import pathlib
import re
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "examples"
PROGRAM = os.environ.get("RLXC", str(TOP / "build/rlxc"))


def graph(nodes, outputs, symbols=(), constants=()):
    """A model in JSON. A node is (op, operands, results, attributes); a result without a type is a number."""
    rows = []
    for op, operands, results, *attrs in nodes:
        row = {"op": op, "results": results}
        if operands:
            row["operands"] = operands
        if attrs:
            row["attrs"] = attrs[0]
        rows.append(row)
    return json.dumps({
        "format": "rlxc-graph", "format_version": "1.0", "module": "tested", "symbols": list(symbols), "constants": list(constants),
        "graphs": [{"name": "main", "nodes": rows, "outputs": outputs}]}).encode()


def unary(op, dtype="f32", dims="n,3"):
    symbols = [d for d in dims.split(",") if d and not d.isdigit()]
    return graph([("Input", [], [[0, f"{dtype}[{dims}]", "x"]]), (op, [0], [1])], [[1, "y"]], symbols)


def binary(op, dtype="f32", dims="n,3"):
    symbols = [d for d in dims.split(",") if d and not d.isdigit()]
    kind = f"{dtype}[{dims}]"
    nodes = [("Input", [], [[0, kind, "a"]]), ("Input", [], [[1, kind, "b"]]), (op, [0, 1], [2])]
    return graph(nodes, [[2, "y"]], symbols)


def each(*cases):
    """A test method for each case: a tuple of arguments, or one argument. The first one names it."""

    def decorate(method):
        method.cases = [case if isinstance(case, tuple) else (case,) for case in cases]
        return method

    return decorate


def run_page(chosen):
    """Runs the blocks of docs/python.md for which chosen(block), one after another."""
    text = (TOP / "docs/python.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if chosen(block)]
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        os.symlink(EXAMPLES, folder + "/examples")
        os.chdir(folder)
        try:
            exec(compile("\n".join(blocks), "docs/python.md", "exec"), {})
        finally:
            os.chdir(here)
    return len(blocks), printed.getvalue()


class Tests(unittest.TestCase):
    def __init_subclass__(cls):
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            for i, case in enumerate(getattr(method, "cases", ())):
                run = functools.partialmethod(method, *case)
                setattr(cls, f"{name}_{i}_{str(case[0])[:40]}", run)
            if hasattr(method, "cases"):
                delattr(cls, name)

    def refused(self, code, call, *arguments, **options):
        """The error of a call that is to fail with this code."""
        import rlxc

        with self.assertRaises(rlxc.Error) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        return caught.exception
