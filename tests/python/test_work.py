"""Runs that are checked, transforms, calibration, threads, and what the process keeps for itself."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np
import rlxc
from support import EXAMPLES, Tests, each, graph, unary

MLP = EXAMPLES / "mlp.json"
BERT = EXAMPLES / "bert.onnx"
SQUARES = graph([("Input", [], [[0, "f32[3]", "x"]]), ("Mul", [0, 0], [1]), ("Reduce", [1], [2], {"op": "sum", "axes": [0]})],
                [[2, "loss"]])


class Checks(Tests):
    @each("kernels", "interpreter", "reference")
    def test_engine(self, engine):
        found = rlxc.compile(MLP).check(engine=engine)
        self.assertTrue(all(c.ok for c in found))
        self.assertEqual([c.output for c in found], ["y"])

    @each("metal", "wgpu", "cuda", "rocm")
    def test_kernels_of_targets(self, target):
        rlxc.compile(MLP, target).check(engine="interpreter")

    @each("automixed", "f16")
    def test_precision(self, precision):
        rlxc.compile(MLP, precision=precision).check(engine="interpreter")

    @each(1, 2, 3)
    def test_seed(self, seed):
        model = rlxc.load(MLP)
        np.testing.assert_array_equal(model.random_inputs(seed)["x"], model.random_inputs(seed)["x"])
        self.assertFalse(np.array_equal(model.random_inputs(seed)["x"], model.random_inputs(seed + 1)["x"]))

    @each(({"batch": 5}, 5), (None, 2))
    def test_sizes_of_random_inputs(self, sizes, rows):
        self.assertEqual(rlxc.load(MLP).random_inputs(sizes=sizes)["x"].shape, (rows, 4))

    def test_unknown_size(self):
        self.refused("RLX0219", rlxc.load(MLP).random_inputs, 1, {"rows": 3})

    def test_out_of_tolerance(self):
        module = rlxc.compile(MLP, precision="f16")
        error = self.refused("RLX0300", module.check, engine="interpreter", rtol=0.0, atol=0.0)
        self.assertEqual(error.exit_code, 1)
        self.assertIn("'y'", str(error))

    def test_bert(self):
        module = rlxc.compile(BERT).build(flags=["-O0"])
        module.check()

    def test_threads(self):
        module = rlxc.compile(MLP)
        self.assertIs(module.build(flags=["-O1"], threads=True), module)
        module.check()

    def test_sizes_change_from_run_to_run(self):
        module = rlxc.compile(MLP)
        for rows in (1, 7, 3):
            x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
            np.testing.assert_allclose(module.run({"x": x})["y"], module.model.run({"x": x})["y"], rtol=1e-3, atol=1e-5)


class Transforms(Tests):
    @each("kernels", "interpreter", "reference")
    def test_grad(self, engine):
        module = rlxc.grad(SQUARES, "loss", "x").compile()
        out = module.run({"x": [1, 2, 3]}, engine)
        np.testing.assert_allclose(out["grad:x"], [2, 4, 6], rtol=1e-6)
        np.testing.assert_allclose(out["loss"], 14, rtol=1e-6)

    @each("x", "inputs", ["x"], None)
    def test_wrt(self, wrt):
        self.assertEqual([p.name for p in rlxc.grad(SQUARES, "loss", wrt).outputs], ["loss", "grad:x"])

    def test_order(self):
        out = rlxc.grad(SQUARES, "loss", order=2, along="x").run({"x": [1, 2, 3]})
        np.testing.assert_allclose(out["grad2:x"], [2, 2, 2], rtol=1e-6)

    @each(("loss", "nothing"), ("nothing", "x"))
    def test_unknown_name(self, loss, wrt):
        self.assertRaises(rlxc.Error, rlxc.grad, SQUARES, loss, wrt)

    @each(("name", "x"), ("names", ["x"]), ("axis", {"x": 0}))
    def test_vmap(self, _, inputs):
        model = rlxc.vmap(SQUARES, inputs, 2)
        self.assertEqual(model.inputs[0].shape, (2, 3))
        np.testing.assert_allclose(model.run({"x": [[1, 2, 3], [0, 0, 1]]})["loss"], [14, 1], rtol=1e-6)

    def test_axis(self):
        self.assertEqual(rlxc.vmap(SQUARES, {"x": 1}, 2).inputs[0].shape, (3, 2))

    def test_symbolic_size(self):
        self.assertEqual(rlxc.vmap(SQUARES, "x", "samples").inputs[0].shape, ("samples", 3))

    def test_gradients_of_examples(self):
        out = rlxc.grad(SQUARES, "loss", "x").vmap("x", 2).compile().run({"x": [[1, 2, 3], [4, 5, 6]]}, "interpreter")
        np.testing.assert_allclose(out["grad:x"], [[2, 4, 6], [8, 10, 12]], rtol=1e-6)

    @each(("jvp", {"jvp": "x"}, "tangent:loss"), ("words", {"transform": ["grad loss", "wrt x"]}, "grad:x"))
    def test_options(self, _, options, output):
        self.assertIn(output, [p.name for p in rlxc.load(SQUARES, **options).outputs])

    def test_model_is_as_it_was(self):
        model = rlxc.load(SQUARES)
        model.grad("loss")
        self.assertEqual(len(model.outputs), 1)

    def test_training(self):
        module = rlxc.compile(MLP, train=True, loss="mse", optimizer="sgd", lr=0.1, bind={"batch": 4})
        states = module.first_states()
        self.assertTrue(states)
        rng = np.random.default_rng(1)
        data = {p.name: rng.random(p.shape, np.float32) for p in module.inputs if p.name not in states}
        out = module.run({**data, **states}, "interpreter")
        self.assertTrue(all(np.isfinite(v).all() for v in out.values()))


class Calibrations(Tests):
    @each("dicts", "arrays", "tuples", "generator", "tensors")
    def test_loader(self, form):
        rng = np.random.default_rng(1)
        samples = [rng.normal(size=(2, 4)).astype(np.float32) for _ in range(3)]
        loader = {"dicts": [{"x": s} for s in samples], "arrays": samples, "tuples": [(s,) for s in samples],
                  "generator": ({"x": s} for s in samples), "tensors": [s.tolist() for s in samples[:0]] + samples}[form]
        record = rlxc.calibrate(MLP, loader)
        self.assertEqual(record.data["format"], "rlxc-calibration")
        module = rlxc.compile(MLP, calibration=record)
        self.assertEqual(module.report("manifest")["options"]["calibration"], "calibration.json")
        module.check({"x": samples[0]}, engine="interpreter")

    @each("minmax", "percentile", "entropy", "mse")
    def test_method(self, method):
        self.assertTrue(rlxc.calibrate(MLP, [{"x": np.ones((1, 4), np.float32)}], method=method).text)

    @each(("method", "best"), ("percentile", 1), ("unknown", 1), ("data", "x"))
    def test_wrong_option(self, key, value):
        self.refused("RLX0110", rlxc.calibrate, MLP, [np.ones((1, 4), np.float32)], **{key: value})

    def test_no_samples(self):
        self.refused("RLX0110", rlxc.calibrate, MLP, [])

    @each(("name", {"y": 1}, KeyError), ("count", (1, 2), ValueError))
    def test_wrong_sample(self, _, sample, error):
        self.assertRaises(error, rlxc.calibrate, MLP, [sample])

    def test_error_of_the_loader_passes(self):
        def loader():
            yield {"x": np.ones((1, 4), np.float32)}
            raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, rlxc.calibrate, MLP, loader())


class Threads(Tests):
    @each("load", "compile", "run")
    def test_the_interpreter_goes_on_during(self, call):
        nodes = [("Input", [], [[0, "f32[n]", "x"]])] + [("Tanh" if i % 9 else "Sin", [i], [i + 1]) for i in range(4000)]
        chain = graph(nodes, [[4000, "y"]], ["n"])
        model = rlxc.load(chain)
        inputs = {"x": np.ones(2000, np.float32)}
        calls = {"load": lambda: rlxc.load(chain), "compile": lambda: model.compile("metal"), "run": lambda: model.run(inputs)}
        seconds = []

        def work():
            start = time.perf_counter()
            calls[call]()
            seconds.append(time.perf_counter() - start)

        worker, longest = threading.Thread(target=work), 0.0
        worker.start()
        last = time.perf_counter()
        while worker.is_alive():
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        if seconds[0] > 0.05:  # else too short to tell
            self.assertLess(longest, seconds[0] / 2)

    def test_one_module_in_several_threads(self):
        module = rlxc.compile(MLP)
        inputs = [np.full((i + 1, 4), i, np.float32) for i in range(8)]
        expected = [module.run({"x": x})["y"] for x in inputs]
        found = [None] * len(inputs)

        def work(i):
            for _ in range(20):
                found[i] = module.run({"x": inputs[i]})["y"]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for ours, theirs in zip(found, expected):
            np.testing.assert_array_equal(ours, theirs)

    def test_one_model_in_several_threads(self):
        model, found = rlxc.load(MLP), []
        targets = rlxc.targets()[:4]
        threads = [threading.Thread(target=lambda t=t: found.append(model.compile(t).target)) for t in targets]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(found), sorted(targets))


class Process(Tests):
    @each("RLIMIT_DATA", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_STACK")
    def test_limits_stay(self, name):
        before = resource.getrlimit(getattr(resource, name))
        rlxc.compile(MLP, max_memory=1 << 30).check(engine="interpreter")
        self.assertEqual(resource.getrlimit(getattr(resource, name)), before)

    def test_signals_stay(self):
        names = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGSEGV, signal.SIGXFSZ]
        before = [signal.getsignal(name) for name in names]
        rlxc.compile(MLP).run({"x": [[1, 2, 3, 4]]})
        self.assertEqual([signal.getsignal(name) for name in names], before)

    def test_nothing_is_printed(self):
        script = f"import rlxc; rlxc.compile({str(BERT)!r}, 'cpu').check(engine='interpreter')"
        ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((ran.returncode, ran.stdout), (0, b""))

    def test_limit_is_an_error(self):
        error = self.refused("RLX0105", rlxc.load(unary("Exp"), max_operations=100).run, {"x": np.zeros((99, 3), np.float32)})
        self.assertEqual(error.exit_code, 7)

    def test_too_many_nodes(self):
        self.refused("RLX0105", rlxc.load, MLP, max_nodes=2)

    def test_memory_that_is_not_there(self):
        script = f"""
import resource, rlxc, numpy
module = rlxc.compile({unary("Exp")!r})
module.build("interpreter")
x = numpy.zeros((1 << 24, 3), numpy.float32)
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), resource.RLIM_INFINITY))
try:
    module.run({{"x": x}}, "interpreter")
except rlxc.Error as error:
    print(error.code)
"""
        ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertEqual(ran.stdout.strip(), "RLX0105")

    def test_program(self):
        ran = subprocess.run([sys.executable, "-m", "rlxc", "--version"], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        self.assertIn("rlxc " + rlxc.__version__, ran.stdout)

    def test_unknown_attribute(self):
        self.assertRaises(AttributeError, getattr, rlxc, "nothing")


def setUpModule():
    warnings.simplefilter("ignore", rlxc.CompilerWarning)


if __name__ == "__main__":
    unittest.main()
