"""The file that mypy checks runs, and so do the examples of docs/python.md."""

import unittest
import warnings

from support import EXAMPLES, run_page
from typed_uses import uses


class Typed(unittest.TestCase):
    def test_uses(self):
        self.assertEqual(uses(EXAMPLES / "mlp.json")[-1], "y")


class Page(unittest.TestCase):
    def test_examples(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            blocks, printed = run_page(lambda block: "torch" not in block and "jax" not in block)
        self.assertEqual(blocks, 5)
        self.assertIn("RLX0110 2", printed)


if __name__ == "__main__":
    unittest.main()
