"""load and compile: sources, options, reports, folders, errors."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import rlxc
from support import EXAMPLES, PROGRAM, Tests, binary, each, unary

MLP = EXAMPLES / "mlp.json"
BERT = EXAMPLES / "bert.onnx"


def files_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in pathlib.Path(folder).rglob("*") if f.is_file()}


class Sources(Tests):
    @each("str", "path", "bytes", "bytearray", "memoryview", "model")
    def test_source(self, form):
        data = MLP.read_bytes()
        source = {"str": str(MLP), "path": MLP, "bytes": data, "bytearray": bytearray(data), "memoryview": memoryview(data),
                  "model": rlxc.load(MLP)}[form]
        model = rlxc.load(source)
        self.assertEqual((model.name, model.format, model.symbols), ("mlp", "json", ["batch"]))
        self.assertEqual(model.inputs, (rlxc.Port("x", "tensor", "f32", ("batch", 4), "f32[batch,4]"),))
        self.assertEqual([p.name for p in model.outputs], ["y"])
        y = model.run({"x": np.ones((2, 4), np.float32)})["y"]
        self.assertEqual(y.shape, (2, 4))

    def test_proto(self):
        class Proto:
            def SerializeToString(self):
                return BERT.read_bytes()

        self.assertEqual(rlxc.load(Proto()).sha256, rlxc.load(BERT).sha256)

    def test_onnx_proto(self):
        try:
            proto = __import__("onnx").load(BERT)
        except (ImportError, AttributeError):  # Debian's tests of onnx look like a package of this name
            self.skipTest("onnx is not installed")
        model = rlxc.load(proto)
        model.compile().check(engine="interpreter")

    def test_relative_path(self):
        here = os.getcwd()
        try:
            os.chdir(EXAMPLES)
            model = rlxc.load("mlp.json")
            os.chdir("/")
            model.compile("metal", bind={"batch": 2})
        finally:
            os.chdir(here)

    @each(1, None, ["a.onnx"])
    def test_no_source(self, source):
        self.assertRaises(TypeError, rlxc.load, source)

    @each(("empty", b"", "RLX0101"), ("noise", b"\0\1\2\3" * 9, "RLX0101"), ("json", b"{", "RLX0104"),
          ("pickle", b"\x80\2\x8a\nl", "RLX0101"), ("page", b"<!DOCTYPE html>", "RLX0101"), ("gguf", b"GGUF", "RLX0101"),
          ("zip", b"PK\3\4" + b"\0" * 40, "RLX0101"), ("numpy", b"\x93NUMPY\1", "RLX0101"))
    def test_bytes_that_are_no_model(self, _, data, code):
        error = self.refused(code, rlxc.load, data)
        self.assertEqual(error.exit_code, 4)
        self.assertEqual(error.diagnostics[0].code, code)
        self.assertTrue(rlxc.explain(code))

    @each("missing.onnx", "/", "http://example.org/model.onnx", "")
    def test_path_that_is_no_model(self, path):
        error = self.refused("RLX0100", rlxc.load, path)
        self.assertEqual(error.exit_code, 3)

    def test_same_error_as_the_program(self):
        ran = subprocess.run([PROGRAM, "info", "/tmp/missing.onnx"], stderr=subprocess.PIPE, text=True)
        error = self.refused("RLX0100", rlxc.load, "/tmp/missing.onnx")
        self.assertEqual(str(error), ran.stderr.strip())
        self.assertEqual(error.exit_code, ran.returncode)

    @each(("scalar", ""), ("rank_1", "4"), ("symbols", "n,m,3"))
    def test_ports(self, _, dims):
        port = rlxc.load(unary("Neg", "f16", dims)).inputs[0]
        self.assertEqual(port.shape, tuple(int(d) if d.isdigit() else d for d in dims.split(",") if d))

    def test_temporary_files_go(self):
        with tempfile.TemporaryDirectory() as folder:
            script = "import rlxc; m = rlxc.load(open(%r, 'rb').read()).compile(); m.run({'x': [[1, 2, 3, 4]]}); del m" % str(MLP)
            environment = {**os.environ, "TMPDIR": folder}
            subprocess.run([sys.executable, "-c", script], check=True, env=environment)
            self.assertEqual(os.listdir(folder), [])

    def test_child_leaves_the_files_of_its_parent(self):
        model = rlxc.load(MLP.read_bytes())
        child = os.fork()
        if child == 0:
            del model
            os._exit(0)
        os.waitpid(child, 0)
        model.compile("cpu", bind={"batch": 3})


class Options(Tests):
    @each(("precision", "automixed"), ("precision", "f16"), ("fast_math", True), ("fast-math", True), ("reorder", False),
          ("in_place", False), ("weights", "int8"), ("hardened", True), ("align", 128), ("unroll", 5), ("name", "other"),
          ("max_arena", "8KiB"), ("no_fusion", True), ("kernel_dispatch", "common"), ("winograd", "off"), ("opset", 17),
          ("disable_pass", ["sccp"]), ("embed_weights", True), ("max_packed", 0))
    def test_as_in_the_manifest(self, key, value):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = rlxc.compile(MLP, **{key: value})
        found = module.report("manifest")["options"][key.replace("_", "-")]
        self.assertEqual(found, 8192 if value == "8KiB" else value)

    @each(("bind", {"batch": 3}, {"batch": 3}), ("bind", "batch=3", {"batch": 3}), ("bind", ["batch=3"], {"batch": 3}),
          ("range", {"batch": (1, 8)}, {"batch": [1, 8]}), ("range", "batch=1..8", {"batch": [1, 8]}))
    def test_sizes(self, key, value, expected):
        self.assertEqual(rlxc.compile(MLP, **{key: value}).report("manifest")["options"][key], expected)

    @each(("no_reorder", "reorder"), ("no_in_place", "in-place"))
    def test_flags_that_say_no(self, flag, key):
        self.assertIs(rlxc.compile(MLP, **{flag: True}).report("manifest")["options"][key], False)
        self.assertIs(rlxc.compile(MLP, **{flag: False}).report("manifest")["options"][key], True)

    @each(("precision", None), ("bind", None), ("bind", {}), ("calibration", None))
    def test_default(self, key, value):
        self.assertEqual(rlxc.compile(MLP, **{key: value}).report("manifest"), rlxc.compile(MLP).report("manifest"))

    @each(("precision", "int8", "--weights"), ("precision", "fp16", "f16"), ("align", 3, "power of two"), ("align", "x", "bytes"),
          ("fast_math", "maybe", "true or false"), ("bind", "batch", "NAME=SIZE"), ("bind", {"batch": -1}, "NAME=SIZE"),
          ("opset", 1.5, "whole number"), ("precision", ["f16", "f32"], "one value"), ("winograd", "of", "did you mean off?"),
          ("max_arena", 1.5, "bytes"), ("range", {"batch": (8, 1)}, "LOW <= HIGH"))
    def test_wrong_value(self, key, value, advice):
        error = self.refused("RLX0110", rlxc.compile, MLP, **{key: value})
        self.assertIn(key, str(error))
        self.assertIn(advice, str(error))
        self.assertEqual(error.exit_code, 2)

    @each(("precisoin", "did you mean precision?"), ("xyzzy", "docs/options.md"), ("fastmath", "did you mean fast_math?"))
    def test_unknown_option(self, key, advice):
        self.assertIn(advice, str(self.refused("RLX0110", rlxc.compile, MLP, **{key: 1})))

    @each("output", "emit", "max_time", "verbose", "quiet", "config", "dump", "timing", "cache", "depfile", "print_config")
    def test_option_of_the_command_line(self, key):
        self.assertIn("command line", str(self.refused("RLX0110", rlxc.compile, MLP, **{key: "1"})))

    @each("gpu", "", "CPU", "all")
    def test_unknown_target(self, target):
        self.refused("RLX0110", rlxc.compile, MLP, target)

    @each(("bind", {"seq": 3}), ("range", {"seq": (1, 3)}), ("assume", "seq=batch"))
    def test_unknown_symbol(self, key, value):
        self.refused("RLX0219", rlxc.compile, MLP, **{key: value})

    def test_options_of_the_model_stay(self):
        model = rlxc.load(MLP, bind={"batch": 3})
        self.assertEqual(model.inputs[0].shape, (3, 4))
        self.assertEqual(model.compile().inputs[0].shape, (3, 4))
        self.assertEqual(model.compile(precision="f16").report("manifest")["options"]["bind"], {"batch": 3})

    @each("path", "model", "method")
    def test_warnings(self, form):
        model = rlxc.load(MLP)
        with self.assertWarns(rlxc.CompilerWarning) as caught:
            if form == "method":
                module = model.compile("metal", winograd="off")
            else:
                module = rlxc.compile(MLP if form == "path" else model, "metal", winograd="off")
        self.assertIn("winograd", str(caught.warning))
        self.assertEqual(caught.filename, __file__)
        self.assertEqual(module.diagnostics[0].severity, "warning")

    def test_environment_is_not_read(self):
        os.environ["RLX_PRECISION"] = "f16"
        try:
            self.assertEqual(rlxc.compile(MLP).report("manifest")["options"]["precision"], "f32")
        finally:
            del os.environ["RLX_PRECISION"]


class Folders(Tests):
    @each("cpu", "metal", "wgpu", "cuda", "rocm", "mlx", "tpu")
    def test_same_files_as_the_program(self, target):
        options = {"bind": {"batch": 2}}
        with tempfile.TemporaryDirectory() as folder:
            rlxc.compile(MLP, target, **options).save(folder + "/ours")
            subprocess.run([PROGRAM, "compile", MLP, "-q", "--target", target, "--bind", "batch=2", "-o", folder + "/theirs"],
                           check=True)
            ours, theirs = files_of(folder + "/ours"), files_of(folder + "/theirs")
            self.assertEqual(ours.keys(), theirs.keys())
            for name in ours:
                self.assertEqual(ours[name], theirs[name], name)

    @each(("f16", {"precision": "automixed"}), ("int8", {"weights": "int8"}), ("grad", {"grad": "y"}), ("fusion", {"no_fusion": True}),
          ("train", {"train": True, "loss": "mse"}))
    def test_same_files_with_options(self, _, options):
        flags = []
        for key, value in options.items():
            flags += ["--" + key.replace("_", "-")] + ([] if value is True else [str(value)])
        with tempfile.TemporaryDirectory() as folder:
            rlxc.compile(MLP, **options).save(folder + "/ours")
            subprocess.run([PROGRAM, "compile", MLP, "-q", *flags, "-o", folder + "/theirs"], check=True)
            self.assertEqual(files_of(folder + "/ours"), files_of(folder + "/theirs"))

    def test_strings_and_layers(self):
        with tempfile.TemporaryDirectory() as folder:
            rlxc.compile(BERT).save(folder + "/ours")
            subprocess.run([PROGRAM, "compile", BERT, "-q", "-o", folder + "/theirs"], check=True)
            self.assertEqual(files_of(folder + "/ours"), files_of(folder + "/theirs"))

    @each(("one", "fusion", {"fusion.json", "fusion.txt"}), ("two", ["lir", "plan"], {"lir.json", "plan.json", "plan.txt"}))
    def test_emit(self, _, emit, expected):
        with tempfile.TemporaryDirectory() as folder:
            out = rlxc.compile(MLP).save(pathlib.Path(folder) / "out", emit)
            self.assertEqual(set(os.listdir(out)), expected | {"manifest.json"})

    @each("nothing", "LIR", "kernel")
    def test_unknown_artefact(self, emit):
        self.refused("RLX0110", rlxc.compile(MLP).save, "/tmp/none", emit)

    def test_unwritable(self):
        error = self.refused("RLX0106", rlxc.compile(MLP).save, "/proc/none")
        self.assertEqual(error.exit_code, 6)

    def test_model_in_memory_carries_its_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            module = rlxc.compile(BERT.read_bytes())
            module.save(folder + "/out")
            self.assertTrue(module.report("manifest")["options"]["embed-weights"])
            found = [f for f in files_of(folder + "/out") if f.endswith("weights.c")]
            self.assertEqual(len(found), 1)

    @each("onnx", "json", "txt")
    def test_model_is_written(self, form):
        model = rlxc.load(MLP.read_bytes())
        x = model.random_inputs(sizes={"batch": 3})
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/model.{form}")
            again = rlxc.load(pathlib.Path(f"{folder}/model.{form}").read_bytes())
            np.testing.assert_allclose(again.run(x)["y"], model.run(x)["y"], rtol=1e-5)


class Reports(Tests):
    @each("lir", "plan", "fusion", "dispatch", "precision", "quant", "manifest")
    def test_report(self, name):
        report = self.module.report(name)
        self.assertEqual(report["format"], "rlxc-" + name)
        self.assertEqual(self.module.report()[name], report)

    @classmethod
    def setUpClass(cls):
        cls.module = rlxc.compile(MLP)

    @each("lirs", "", "lir.json")
    def test_unknown_report(self, name):
        self.assertRaises(KeyError, self.module.report, name)

    def test_page(self):
        self.assertIn("<html", self.module.html()[:300])

    def test_shown(self):
        self.assertEqual(repr(self.module), "<rlxc.Module mlp for cpu(x: f32[batch,4]) -> y: f32[batch,4]>")
        self.assertEqual(repr(self.module.model), "<rlxc.Model mlp(x: f32[batch,4]) -> y: f32[batch,4]>")

    def test_same(self):
        self.assertFalse(rlxc.diff(self.module, rlxc.compile(MLP)))

    def test_difference(self):
        found = rlxc.diff(self.module, rlxc.compile(MLP, no_fusion=True))
        self.assertTrue(found)
        self.assertIn("fusion.launches", str(found))
        self.assertTrue(found.data["changes"])

    @each(("fusion.launches>+0", True), ("plan.arena>+1000%", False), (["fusion.launches>+0", "plan.arena>+1000%"], True))
    def test_conditions(self, conditions, finding):
        bound = {"bind": {"batch": 2}}
        before, after = rlxc.compile(MLP, **bound), rlxc.compile(MLP, no_fusion=True, **bound)
        self.assertIs(rlxc.diff(before, after, conditions).finding, finding)

    @each("fusion.lunches>+0", "plan.arena", "plan.arena>+x")
    def test_wrong_condition(self, condition):
        self.refused("RLX0110", rlxc.diff, self.module, self.module, condition)

    def test_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            self.module.save(folder + "/a")
            self.assertFalse(rlxc.diff(folder + "/a", self.module))
            self.assertRaises(rlxc.Error, rlxc.diff, folder + "/none", self.module)
            ran = subprocess.run([PROGRAM, "diff", folder + "/a", folder + "/a", "--json"], stdout=subprocess.PIPE, check=True)
            self.assertEqual(rlxc.diff(folder + "/a", folder + "/a").data, json.loads(ran.stdout))


class Compiler(Tests):
    def test_version(self):
        ran = subprocess.run([PROGRAM, "--version"], stdout=subprocess.PIPE, text=True)
        self.assertIn(rlxc.__version__, ran.stdout)

    def test_targets(self):
        self.assertEqual(rlxc.targets(), ["cpu", "metal", "mlx", "wgpu", "cuda", "rocm", "tpu"])

    @each("RLX0100", "RLX0301", "214")
    def test_explain(self, code):
        self.assertTrue(rlxc.explain(code))

    @each("RLX9999", "", "none")
    def test_unknown_code(self, code):
        self.assertRaises(KeyError, rlxc.explain, code)

    def test_unsupported_node_is_named(self):
        error = self.refused("RLX0215", rlxc.load, binary("Neg"))
        self.assertTrue(error.diagnostics[0].where)

    def test_missing_compiler(self):
        module = rlxc.compile(MLP)
        error = self.refused("RLX0305", module.build, compiler="no-such-compiler")
        self.assertEqual(error.exit_code, 9)
        self.assertEqual(module.run({"x": [[1, 2, 3, 4]]}, "interpreter")["y"].shape, (1, 4))

    def test_compiler_that_fails(self):
        self.refused("RLX0304", rlxc.compile(MLP).build, flags=["-not-a-flag-of-any-compiler"])


def setUpModule():
    warnings.simplefilter("ignore", rlxc.CompilerWarning)


if __name__ == "__main__":
    unittest.main()
