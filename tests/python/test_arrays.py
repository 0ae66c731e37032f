"""What run takes and gives: element types, layouts, copies."""

import array
import unittest

import numpy as np
import rlxc
from rlxc import _native
from support import Tests, binary, each, graph, unary

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
OURS = {"bool": "bool", "float16": "f16", "float32": "f32", "float64": "f64",
        **{name: name.replace("uint", "u").replace("int", "i") for name in INTEGERS}}


class DlpackOnly:
    """A tensor that NumPy and the buffer protocol do not know."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnDevice(DlpackOnly):
    def __dlpack_device__(self):
        return (2, 0)


class ElementTypes(Tests):
    @each(*FLOATS, *INTEGERS)
    def test_reference(self, dtype):
        a = np.arange(6, dtype=dtype).reshape(2, 3)
        y = rlxc.load(binary("Add", OURS[dtype])).run({"a": a, "b": a})["y"]
        self.assertEqual(y.dtype, a.dtype)
        np.testing.assert_array_equal(y, a + a)

    @each(*FLOATS, *INTEGERS)
    def test_interpreter(self, dtype):
        a = np.arange(6, dtype=dtype).reshape(2, 3)
        y = rlxc.compile(binary("Add", OURS[dtype])).run({"a": a, "b": a}, engine="interpreter")["y"]
        self.assertEqual(y.dtype, a.dtype)
        np.testing.assert_array_equal(y, a + a)

    @each(*FLOATS, *INTEGERS)
    def test_other_type_is_refused(self, dtype):
        model = rlxc.load(binary("Add", OURS[dtype]))
        wrong = np.zeros((2, 3), "int32" if dtype != "int32" else "float32")
        error = self.refused("RLX0213", model.run, {"a": wrong, "b": wrong})
        self.assertIn('"a"', str(error))
        self.assertIn(dtype, str(error))

    def test_kernels_of_all_types(self):
        types = FLOATS + INTEGERS
        nodes = [("Input", [], [[i, f"{OURS[t]}[n,3]", t]]) for i, t in enumerate(types)]
        nodes += [("Add", [i, i], [len(types) + i]) for i in range(len(types))]
        module = rlxc.compile(graph(nodes, [[len(types) + i, "y_" + t] for i, t in enumerate(types)], ["n"]))
        given = {t: np.arange(6, dtype=t).reshape(2, 3) for t in types}
        for name, y in module.run(given).items():
            self.assertEqual(y.dtype, name[2:])
            np.testing.assert_array_equal(y, given[name[2:]] * 2)

    def test_bool(self):
        x = np.array([[True, False, True]])
        y = rlxc.load(unary("Not", "bool")).run({"x": x})["y"]
        self.assertEqual(y.dtype, bool)
        np.testing.assert_array_equal(y, ~x)

    @each("bfloat16", "float8_e4m3fn", "float8_e5m2")
    def test_ml_dtypes(self, dtype):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        ours = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}[dtype]
        x = np.array([[1, -2, 0.5]], getattr(ml_dtypes, dtype))
        y = rlxc.load(unary("StopGradient", ours)).run({"x": x})["y"]
        self.assertEqual(y.dtype, x.dtype)

    def test_brain_floats_as_numpy_saves_them(self):
        bits = np.array([[0x3F80, 0x4000, 0xBF80]], np.uint16).view("V2")
        y = rlxc.load(unary("Neg", "bf16")).run({"x": bits})["y"]
        np.testing.assert_array_equal(y.astype(np.float32), [[-1, -2, 1]])


class Layouts(Tests):
    """Each is a [2, 3] of 0 .. 5."""

    @each("c", "fortran", "strided", "reversed", "broadcast", "big_endian", "read_only", "offset", "list", "tuple", "nested_arrays",
          "memoryview", "dlpack", "dlpack_strided")
    def test_layout(self, layout):
        plain = np.arange(6, dtype=np.float32).reshape(2, 3)
        if layout == "broadcast":
            plain = np.broadcast_to(np.float32([1, 2, 3]), (2, 3))
        given = {
            "c": lambda: plain, "fortran": lambda: np.asfortranarray(plain), "strided": lambda: np.repeat(plain, 2, 1)[:, ::2],
            "reversed": lambda: plain[::-1, ::-1].copy()[::-1, ::-1], "broadcast": lambda: plain,
            "big_endian": lambda: plain.astype(">f4"), "read_only": self.read_only, "list": plain.tolist,
            "offset": lambda: np.concatenate([np.zeros(1, np.float32), plain.ravel()])[1:].reshape(2, 3),
            "tuple": lambda: tuple(map(tuple, plain.tolist())), "nested_arrays": lambda: list(plain),
            "memoryview": lambda: memoryview(plain), "dlpack": lambda: DlpackOnly(plain),
            "dlpack_strided": lambda: DlpackOnly(np.repeat(plain, 2, 1)[:, ::2]),
        }[layout]()
        for y in (self.model.run({"x": given})["y"], self.module.run({"x": given})["y"]):
            np.testing.assert_array_equal(y, -plain)

    @classmethod
    def setUpClass(cls):
        cls.model = rlxc.load(unary("Neg"))
        cls.module = cls.model.compile()

    def read_only(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        x.flags.writeable = False
        return x

    def test_array_array(self):
        y = rlxc.load(unary("Neg", "f64", "n")).run({"x": array.array("d", [1, 2])})["y"]
        np.testing.assert_array_equal(y, [-1, -2])

    @each(2.5, 3, True)
    def test_scalar(self, number):
        self.assertEqual(float(rlxc.load(unary("Neg", "f32", "")).run({"x": number})["y"]), -number)

    def test_empty(self):
        y = self.module.run({"x": np.zeros((0, 3), np.float32)})["y"]
        self.assertEqual(y.shape, (0, 3))

    @each(("fraction", [1.5]), ("too_large", [300]), ("negative", [-1]))
    def test_lists_keep_their_numbers(self, _, numbers):
        self.refused("RLX0213", rlxc.load(unary("StopGradient", "u8", "n")).run, {"x": numbers})

    @each(("none", None), ("text", "abc"), ("texts", ["a"]), ("object", object()), ("dict", {}))
    def test_no_numbers(self, _, value):
        self.refused("RLX0213", self.model.run, {"x": value})

    def test_other_device(self):
        self.refused("RLX0213", self.model.run, {"x": OnDevice(np.zeros((2, 3), np.float32))})

    @each(((3,), "RLX0215"), ((2, 2), "RLX0215"), ((1, 2, 3), "RLX0215"))
    def test_wrong_shape(self, shape, code):
        for run in (self.model.run, self.module.run):
            with self.assertRaises(rlxc.Error) as caught:
                run({"x": np.zeros(shape, np.float32)})
            self.assertIn(caught.exception.code, (code, "RLX0213"))


class Copies(Tests):
    @each("float32", "float64", "int64", "uint8", "bool")
    def test_inputs_are_read_in_place(self, dtype):
        x = np.zeros((4, 4), dtype)
        at = x.__array_interface__["data"][0]
        self.assertEqual(_native.address_of(x, OURS[dtype]), at)
        self.assertEqual(_native.address_of(x[1:], OURS[dtype]), at + x.strides[0])
        self.assertEqual(_native.address_of(DlpackOnly(x), OURS[dtype]), at) if dtype != "bool" else None
        self.assertEqual(_native.address_of(memoryview(x), OURS[dtype]), at)

    @each("fortran", "big_endian")
    def test_other_layouts_are_copied(self, layout):
        x = np.zeros((4, 4), np.float32)
        x = np.asfortranarray(x) if layout == "fortran" else x.astype(">f4")
        self.assertNotEqual(_native.address_of(x, "f32"), x.__array_interface__["data"][0])

    @each("kernels", "interpreter", "reference")
    def test_outputs_are_their_own(self, engine):
        module = rlxc.compile(unary("Relu"))
        x = np.ones((2, 3), np.float32)
        first, second = module.run({"x": x}, engine)["y"], module.run({"x": x}, engine)["y"]
        first[:] = 7
        self.assertEqual(x.max(), 1)
        self.assertEqual(second.max(), 1)
        self.assertFalse(np.shares_memory(first, second))

    def test_outputs_outlive_the_module(self):
        y = rlxc.compile(unary("Neg")).run({"x": np.ones((2, 3), np.float32)}, "interpreter")["y"]
        np.testing.assert_array_equal(y, -np.ones((2, 3)))

    def test_large_outputs_are_not_copied(self):
        y = rlxc.compile(unary("Neg")).run({"x": np.ones((2, 3), np.float32)}, "interpreter")["y"]
        self.assertIsNotNone(y.base)
        self.assertFalse(y.flags.owndata)


class Strings(Tests):
    @each("reference", "interpreter", "kernels")
    def test_engine(self, engine):
        y = self.module.run({"a": ["x", "yz"], "b": np.array(["q", "\u00fc"])}, engine)["y"]
        self.assertEqual(y.tolist(), ["xq", "yz\u00fc"])

    @classmethod
    def setUpClass(cls):
        cls.module = rlxc.compile(binary("StringConcat", "string", "n"))

    @each(("bytes", [b"x"]), ("object", np.array(["x"], object)), ("fixed", np.array(["x"])), ("fixed_bytes", np.array([b"x"])))
    def test_form(self, _, x):
        self.assertEqual(self.module.model.run({"a": x, "b": ["y"]})["y"].tolist(), ["xy"])

    @each(("numbers", [1]), ("array", np.ones(1, np.float32)), ("none", [None]))
    def test_no_strings(self, _, x):
        self.refused("RLX0213", self.module.model.run, {"a": x, "b": ["y"]})

    def test_bytes_that_are_no_text(self):
        y = self.module.model.run({"a": [b"\xff"], "b": ["y"]})["y"]
        self.assertEqual(y[0].encode("utf-8", "surrogateescape"), b"\xffy")


class NarrowIntegers(Tests):
    @each(("i4", [1, -8, 7], "int8"), ("u4", [1, 15, 0], "uint8"), ("i2", [1, -2, 0], "int8"), ("u2", [3, 0, 1], "uint8"))
    def test_in_bytes(self, dtype, numbers, carrier):
        y = rlxc.load(unary("StopGradient", dtype, "n")).run({"x": np.array(numbers, carrier)})["y"]
        self.assertEqual(y.astype(np.int64).tolist(), numbers)

    @each(("i4", 8), ("i4", -9), ("u4", 16), ("u4", -1), ("i2", 2), ("u2", 4))
    def test_out_of_range(self, dtype, number):
        self.refused("RLX0217", rlxc.load(unary("StopGradient", dtype, "n")).run, {"x": np.array([number], np.int8)})


class Sequences(Tests):
    SOURCE = graph([("Input", [], [[0, "seq<f32[n]>", "x"]]), ("SequenceLength", [0], [1])], [[1, "y"]], ["n"])

    @each(0, 1, 3)
    def test_list(self, length):
        x = [np.ones(2, np.float32)] * length
        self.assertEqual(rlxc.load(self.SOURCE).run({"x": x})["y"], length)
        self.assertEqual(rlxc.compile(self.SOURCE).run({"x": tuple(x)}, "reference")["y"], length)

    @each(("array", np.ones((2, 2), np.float32)), ("none", None), ("dict", {}))
    def test_no_list(self, _, x):
        self.refused("RLX0213", rlxc.load(self.SOURCE).run, {"x": x})

    def test_kernels(self):
        self.refused("RLX0202", rlxc.compile(self.SOURCE).run, {"x": [[1.0, 2.0]]})


class Names(Tests):
    def test_missing(self):
        error = self.refused("RLX0210", rlxc.load(binary("Add")).run, {"a": [[1, 2, 3]]})
        self.assertIn('"b"', str(error))

    def test_unknown(self):
        error = self.refused("RLX0210", rlxc.load(unary("Neg")).run, {"x": [[1, 2, 3]], "xx": 1})
        self.assertIn('did you mean "x"?', str(error))

    def test_order_does_not_matter(self):
        y = rlxc.load(binary("Sub")).run({"b": [[1, 1, 1]], "a": [[3, 3, 3]]})["y"]
        np.testing.assert_array_equal(y, [[2, 2, 2]])

    @each("fast", "", "Kernels")
    def test_unknown_engine(self, engine):
        self.refused("RLX0110", rlxc.compile(unary("Neg")).run, {"x": [[1, 2, 3]]}, engine)


if __name__ == "__main__":
    unittest.main()
