"""rlxc.jax, where JAX is installed: functions of JAX beside the models that they become."""

import unittest

import numpy as np
import rlxc
from support import Tests, each, run_page

try:
    import jax
except ImportError:
    raise unittest.SkipTest("JAX is not installed")

import jax.numpy as jnp
from jax import lax


def f32(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def layer_norm(x, g, b):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * g + b


def conv(*strides, dimensions=("NHWC", "HWIO", "NHWC"), **more):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, more.pop("padding", "SAME"), dimension_numbers=dimensions, **more)


def pool(start, combine, window, stride, padding):
    return lambda x: lax.reduce_window(x, start, combine, window, stride, padding)


def scan(x):
    return lax.scan(lambda c, y: (c * 0.5 + y, c * y), jnp.zeros(8), x)


def reduce_other(x):
    return lax.reduce(x, np.float32(-np.inf), jnp.logaddexp, (1,))


def cases():
    x, m, image = f32(4, 8), f32(6, 6, seed=2), f32(2, 8, 8, 3, seed=3)
    odd = x.copy()
    odd[1, 3], odd[2, 5], odd[0, 0] = np.nan, np.inf, -np.inf
    ties = np.round(f32(5, 7) * 2)
    rows = np.array([3, -1, 0, 9, -7, 1], "i4")
    yield "softmax", jax.nn.softmax, (x,)
    yield "gelu", lambda x: jax.nn.gelu(x, approximate=False), (x * 3,)
    yield "gelu_tanh", jax.nn.gelu, (x * 3,)
    yield "silu", jax.nn.silu, (x,)
    yield "layer_norm", layer_norm, (x, f32(8), f32(8, seed=2))
    yield "attention", attention, (f32(2, 5, 2, 4), f32(2, 5, 2, 4, seed=2), f32(2, 5, 2, 4, seed=3))
    yield "logsumexp", lambda x: jax.nn.logsumexp(x, -1), (x,)
    yield "functions", lambda x: [f(x) for f in (jnp.sin, jnp.tan, jnp.expm1, jnp.sinh, jnp.arctan, jnp.cbrt, jnp.round, jnp.sign, jnp.floor)], (x * 3,)
    yield "functions_of_units", lambda x: [f(jnp.tanh(x)) for f in (jnp.arcsin, jnp.arccos, jnp.arctanh, lax.erf_inv)], (x,)
    yield "erfc", lax.erfc, (np.linspace(-4, 8, 49, dtype="f"),)
    yield "logic", lambda x: (jnp.any(x > 1), jnp.all(x < 1, -1), jnp.isfinite(x), jnp.logical_xor(x > 0, x < 1)), (odd,)
    yield "integers", lambda a: (a // 3, a % 3, -a, abs(a), a << 2, a >> 1, ~a, a ^ 5, lax.population_count(a), lax.clz(a)), (np.arange(-6, 7, dtype="i4"),)
    yield "unsigned", lambda a: (a // 3, a % 3, a << 30, a >> 1, lax.population_count(a)), (np.arange(0, 2**32 - 1, 2**28 + 3, dtype="u4"),)
    yield "casts", lambda x: (x.astype("i4"), x.astype(bool), (x > 0).astype("f"), x.astype(jnp.bfloat16).astype("f")), (x * 3,)
    yield "reductions", lambda x: (x.sum(), x.max(0), x.min(-1), x.prod(1), x.mean((0, 1)), x.var(0)), (x,)
    yield "argmax", lambda x: (jnp.argmax(x, -1), jnp.argmin(x, 0)), (ties,)
    yield "argmax_of_nan", lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1)), (odd,)
    yield "argmax_of_integers", lambda x: (jnp.argmax(x, -1), jnp.argmin(x, 0)), (ties.astype("i4"),)
    yield "reduce_other", reduce_other, (x,)
    yield "sort", lambda x: (jnp.sort(x, -1), jnp.sort(x, 0, descending=True)), (odd,)
    yield "argsort", lambda x: (jnp.argsort(x, -1), jnp.argsort(x, -1, descending=True), jnp.argsort(x, 0)), (ties,)
    yield "lexsort", lambda a, b: jnp.lexsort((a, b)), (ties[0], np.round(ties[1] / 2))
    yield "top_k", lambda x: lax.top_k(x, 3), (ties,)
    yield "cumulative", lambda x: (jnp.cumsum(x, -1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cumsum(x, 1, reverse=True), lax.cumlogsumexp(x, 1)), (x,)
    yield "pools", lambda x: (pool(-jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")(x), pool(0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")(x)), (image,)
    yield "odd_pools", lambda x: (pool(jnp.inf, lax.min, (1, 3, 2, 1), (1, 1, 2, 1), "SAME")(x), pool(0.0, lax.add, (2, 1, 5, 1), (1, 1, 1, 2), "SAME")(x)), (image,)
    yield "conv", conv(2, 2), (image, f32(3, 3, 3, 4))
    yield "conv_groups", conv(1, 1, feature_group_count=3), (image, f32(3, 3, 1, 6))
    yield "conv_dilated", conv(1, 1, rhs_dilation=(2, 2)), (image, f32(3, 3, 3, 4))
    yield "conv_transposed", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (image, f32(3, 3, 3, 4))
    yield "conv_odd", conv(1, 2, lhs_dilation=(2, 3), padding=((2, -1), (0, 3))), (image, f32(3, 2, 3, 4))
    yield "conv_gradient", jax.grad(lambda w, x: jnp.sum(conv(2, 2)(x, w) ** 2)), (f32(3, 3, 3, 4), image)
    yield "conv_1d", conv(1, dimensions=("NCH", "OIH", "NCH")), (f32(2, 3, 9), f32(5, 3, 4))
    yield "products", lambda a, b: (a @ b, a[0] @ b, jnp.outer(a[0], b[0]), jnp.einsum("ij,kj->ki", a, b)), (m, f32(6, 6, seed=4))
    yield "half_product", lambda a: lax.dot(a.astype(jnp.bfloat16), a.astype(jnp.bfloat16), preferred_element_type=jnp.float32), (m,)
    yield "movement", lambda x: (x.T, x[::-1, 1:7:2], jnp.tile(x, (2, 1)), jnp.roll(x, 3, 1), jnp.stack([x, x], 1), jnp.concatenate([x, x], 1)), (x,)
    yield "pads", lambda x: lax.pad(x, 2.0, ((1, -1, 2), (-2, 3, 1))), (x,)
    yield "take", lambda x, i: (jnp.take(x, i, 0), jnp.take(x, i, 1, mode="clip"), x[:, i]), (m, rows)
    yield "points", lambda x, i: (x[i, i], x[i, 2:4]), (m, rows)
    yield "take_along", lambda x, i: jnp.take_along_axis(x, i, 1), (m, np.tile(rows[:2], (6, 1)))
    yield "set", lambda x, i: (x.at[i].set(1.0), x.at[:, 2].set(0.0), x.at[1:3, 2:4].add(1.0), x.at[i, i].mul(2.0)), (m, rows[:3])
    yield "add_at", lambda x, i: (x.at[i].add(2.0), x.at[i, 1].max(0.5), x.at[i].min(0.0, mode="drop")), (m, rows)
    yield "dynamic", lambda x, i: (lax.dynamic_slice(x, (i, 1), (2, 3)), lax.dynamic_update_slice(x, x[:2, :3] * 2, (i, i)), x[i]), (m, np.int32(3))
    yield "dynamic_end", lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 3)), lax.dynamic_update_slice(x, x[:2, :3] * 2, (i, i))), (m, np.int32(9))
    yield "scan", scan, (x,)
    yield "fori", lambda x: lax.fori_loop(0, 5, lambda i, c: c + x[i % 4] * i, x[0]), (x,)
    yield "fori_until", lambda x, n: lax.fori_loop(0, n, lambda i, c: c * 1.5, x), (x, np.int32(4))
    yield "while", lambda x: lax.while_loop(lambda c: jnp.abs(c).sum() < 100, lambda c: c * 2, x), (x,)
    yield "cond", lambda x, p: lax.cond(p > 0, lambda y: y * 2 + x[0, 0], lambda y: y - x[1], x), (x, np.float32(-1))
    yield "switch", lambda x, i: lax.switch(i, [lambda y: y + 1, lambda y: y * x, lambda y: -y], x), (x, np.int32(5))
    yield "nested", lambda x: lax.scan(lambda c, y: (lax.fori_loop(0, 2, lambda i, d: d + y * x[0, i], c), c.sum()), x[0], x), (x,)
    yield "random", lambda x: (x + jax.random.normal(jax.random.PRNGKey(7), x.shape), jax.random.bits(jax.random.PRNGKey(1), (3,))), (x,)
    yield "one_hot", lambda x: jax.nn.one_hot(jnp.argmax(x, -1), 8), (x,)
    yield "resize", lambda x: jax.image.resize(x, (8, 12), "linear"), (x,)
    yield "gradient", jax.grad(lambda x, w: jnp.sum(jax.nn.relu(x @ w) ** 2) + jnp.max(x)), (x, f32(8, 3))
    yield "vmap", jax.vmap(lambda a, b: jnp.dot(a, b) + jnp.sort(a)), (x, f32(4, 8, seed=5))
    yield "fft", lambda x: (jnp.fft.fft(x).real, jnp.abs(jnp.fft.fft2(x)), jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(x[::-1])), jnp.fft.ifft(x).imag), (x,)
    yield "closed_over", lambda x, w=f32(8, 200, seed=6): x @ w, (x,)


CASES = {name: (fn, args) for name, fn, args in cases()}


class Functions(Tests):
    def same(self, outputs, expected, name=""):
        leaves = jax.tree_util.tree_leaves(expected)
        self.assertEqual(len(outputs), len(leaves))
        for got, want in zip(outputs.values(), leaves):
            want = np.asarray(want)
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=name)

    @each(*CASES)
    def test_reference(self, name):
        fn, args = CASES[name]
        model = rlxc.jax.export(fn, *args)
        self.assertEqual(model.format, "stablehlo")
        self.same(model.run(dict(zip([p.name for p in model.inputs], args))), jax.jit(fn)(*args), name)

    @each("softmax", "gelu", "attention", "argmax", "take", "set", "scan", "while", "cond", "conv", "pools", "sort", "random", "closed_over")
    def test_kernels(self, name):
        fn, args = CASES[name]
        module = rlxc.jax.compile(fn, *args)
        self.same(module.run(dict(zip([p.name for p in module.inputs], args)), "interpreter"), jax.jit(fn)(*args), name)

    def test_names(self):
        model = rlxc.jax.export(lambda x, p: {"sum": x + p["w"], "both": (x, p["w"] * 2)}, f32(2), {"w": f32(2)})
        self.assertEqual([p.name for p in model.inputs], ["x", "p_w"])
        self.assertEqual([p.name for p in model.outputs], ["result_both_0", "result_both_1", "result_sum"])

    def test_unused_arguments_are_inputs(self):
        self.assertEqual([p.name for p in rlxc.jax.export(lambda x, y: x * 2, f32(2), f32(3)).inputs], ["x", "y"])

    def test_symbolic_sizes(self):
        n, s = jax.export.symbolic_shape("n, s")
        shape = jax.ShapeDtypeStruct

        def fn(x, y):
            rest = jnp.concatenate([x, y], 1)
            return rest, jnp.arange(x.shape[1]), jnp.pad(x, ((0, 0), (1, 0))), x[:, 1:], x.mean(1), jax.nn.softmax(x) + x.shape[0], x.reshape(-1)

        model = rlxc.jax.export(fn, shape((n, s), "float32"), shape((n, s), "float32"))
        self.assertEqual(model.symbols, ["n", "s"])
        for sizes in ((2, 3), (4, 5)):
            x, y = f32(*sizes), f32(*sizes, seed=2)
            self.same(model.run({"x": x, "y": y}), fn(x, y))

    def test_refusals(self):
        for fn, dtype, message in ((jnp.exp, "complex64", "complex"), (jnp.fft.fft, "float32", "complex"), (jnp.linalg.svd, "float32", "not in the vocabulary")):
            with self.assertRaisesRegex(rlxc.Error, message):
                rlxc.jax.export(fn, jax.ShapeDtypeStruct((4, 4), dtype))

    def test_page(self):
        blocks, _ = run_page(lambda block: "jax" in block)
        self.assertEqual(blocks, 2)


if __name__ == "__main__":
    unittest.main()
