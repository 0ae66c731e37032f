"""rlxc.torch, where PyTorch is installed."""

import subprocess
import sys
import unittest
import warnings

import numpy as np
import rlxc
from support import Tests, each, run_page

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.second(torch.nn.functional.gelu(self.first(x))), -1)


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(x)).relu().mean((2, 3))


class Two(torch.nn.Module):
    def forward(self, a, b):
        return a + b, a * b


def setUpModule():
    torch.manual_seed(1)
    warnings.simplefilter("ignore")


CASES = {"mlp": (Mlp, ((2, 8),)), "conv": (Conv, ((1, 3, 8, 8),)), "two": (Two, ((2, 3), (2, 3)))}


def case(name):
    kind, shapes = CASES[name]
    return kind().eval(), tuple(torch.randn(*shape) for shape in shapes)


class Exports(Tests):
    @each(*CASES)
    def test_compile(self, name):
        module, args = case(name)
        compiled = rlxc.torch.compile(module, args)
        out = compiled.run(dict(zip([p.name for p in compiled.inputs], args)), "interpreter")
        expected = module(*args)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for ours, theirs in zip(out.values(), expected):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)

    def test_names(self):
        model = rlxc.torch.export(Mlp(), torch.randn(2, 8), input_names=["x"], output_names=["p"])
        self.assertEqual((model.name, model.inputs[0].name, model.outputs[0].name), ("mlp", "x", "p"))

    def test_training_mode_stays(self):
        module = Conv().train()
        rlxc.torch.export(module, torch.randn(1, 3, 8, 8))
        self.assertTrue(module.training)

    def test_dynamic_shapes(self):
        try:
            import onnxscript  # noqa: F401
        except ImportError:
            self.skipTest("onnxscript is not installed")
        module = Mlp().eval()
        model = rlxc.torch.export(module, torch.randn(2, 8), dynamic_shapes={"x": {0: torch.export.Dim("rows")}})
        self.assertEqual(model.inputs[0].shape, ("rows", 8))
        x = torch.randn(5, 8)
        y = model.compile().run({model.inputs[0].name: x}, "interpreter")
        np.testing.assert_allclose(next(iter(y.values())), module(x).detach().numpy(), rtol=1e-4, atol=1e-5)

    def test_tensors_are_read_in_place(self):
        x = torch.randn(4, 4)
        self.assertEqual(rlxc._native.address_of(x, "f32"), x.data_ptr())
        self.assertEqual(rlxc._native.address_of(x.to(torch.bfloat16), "bf16") % 2, 0)

    def test_options(self):
        model = rlxc.torch.compile(Mlp(), torch.randn(2, 8), "metal", precision="automixed")
        self.assertEqual(model.report("manifest")["options"]["precision"], "automixed")

    def test_page(self):
        run_page(lambda block: "import rlxc, torch" in block)

    def test_torch_is_imported_when_used(self):
        script = "import sys, rlxc, rlxc.torch; rlxc.targets(); print('torch' in sys.modules)"
        ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(ran.stdout, "False\n")


class Backend(Tests):
    @each(*CASES)
    def test_backend(self, name):
        module, args = case(name)
        fast = torch.compile(module, backend=rlxc.torch.backend)
        with torch.no_grad():
            ours, theirs = fast(*args), module(*args)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)

    def test_registered(self):
        rlxc.torch.register()
        rlxc.torch.register()
        module, args = case("mlp")
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(module, backend="rlxc")(*args), module(*args), rtol=1e-4, atol=1e-5)

    def test_other_shapes(self):
        module, _ = case("mlp")
        fast = torch.compile(module, backend=rlxc.torch.backend)
        with torch.no_grad():
            for rows in (2, 3, 5):
                x = torch.randn(rows, 8)
                torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)

    def test_gradients_are_refused(self):
        module, args = case("mlp")
        with self.assertRaisesRegex(Exception, "inference"):
            torch.compile(module, backend=rlxc.torch.backend)(*args)

    def test_options(self):
        module, args = case("mlp")
        fast = torch.compile(module, backend=rlxc.torch.backend, options={"fast_math": True})
        with torch.no_grad():
            torch.testing.assert_close(fast(*args), module(*args), rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
