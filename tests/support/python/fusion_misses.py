"""Finds, in the result of a compile, every place where a fusion pattern is there and unfused. Each finder yields
(pattern, names): the names of nodes at that place, of which the report must name one. A graph also tells whether weights in few bits
were asked for (codes_asked), whether operands in 8-bit floats were (scales_asked), and whether its target decodes those that a model
has (codes_decoded)."""
import re

from rlxc_graph import ELEMENTWISE, step_attrs

CHEAP = set("Neg Abs Sign Not BitNot Relu Add Sub Mul Max Min And Or Xor Eq Ne Lt Le Gt Ge Where Cast IsNan IsInf Clamp".split())
ACTIVATIONS = set("""Gelu GeluApprox Silu Relu Sigmoid Tanh Exp Expm1 Log Log1p Sqrt Rsqrt Recip Neg Abs Sign Sin Cos Tan Asin Acos
Atan Sinh Cosh Asinh Acosh Atanh Round Floor Ceil Erf Softplus Softsign Mish LogSigmoid StopGradient HardSwish HardSigmoid Elu Selu Celu LeakyRelu
ThresholdedRelu Shrink Swish Clamp""".split())
MOVES = {"Reshape", "Transpose", "Narrow"}
NAMELESS = "%"  # reports say "%5", the number that a node without a name had when it was looked at: planning gives others
FLOATS = ("f32", "f16", "bf16", "f64")
REDUCED = FLOATS + ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
STEPS = REDUCED + ("bool",)


def names(*nodes):
    found = set()
    for n in nodes:
        found |= {n.name, *n.sources, *n.value_names} - {""} or {NAMELESS}
    return found


def other(n, value):
    a, b = n.operands[:2]
    return None if a == b else b if a == value else a if b == value else None


def bare(n):
    """A product by codes without bias, residual, activation and gate."""
    return all(v is None for v in n.operands[4:]) and n.attrs.get("act", "none") == "none" and not n.attrs.get("gated")


def is_row(g, value, of):
    d, full = g.dims[value], g.dims[of]
    return len(d) <= len(full) and all(x == "1" for x in d[:-1]) and (not d or d[-1] in ("1", full[-1]))


def behind_moves(g, value):
    """What it becomes by moves that are the only readers of what they move."""
    for _ in range(4):
        n = g.only_user(value)
        if n is None or n.op not in ("Reshape", "Transpose"):
            break
        value = n.results[0]
    return value


def steppable(g, n):
    """Elementwise at run time, on types that regions compute with."""
    return n.op in ELEMENTWISE and not g.is_weight(n.results[0]) and all(g.dtype[v] in STEPS for v in n.operands + n.results)


def products(g):
    """A product that another node could have ended: a bias, an activation or a residual that stays outside."""
    for n in g.nodes:
        if n.op not in ("MatMul", "FusedMatMulBiasAct", "DequantMatMul", "Conv", "FusedConvBiasAct", "ConvTranspose", "FusedConvTransposeBiasAct") or g.dtype[n.results[0]] not in FLOATS:
            continue
        y = n.results[0]
        pattern = "conv_bias_act" if "Conv" in n.op else "matmul_bias_act"
        if n.attrs.get("act", "none") != "none":
            continue
        if n.op == "DequantMatMul" and not bare(n) and (n.attrs.get("gated") or len(n.operands) > 5 and n.operands[5] is not None):
            continue
        users = g.users_of(y)
        if any(u.op in ACTIVATIONS for u in g.users_of(behind_moves(g, y))):
            yield pattern, names(n)
        if n.op == "MatMul" or (n.op == "DequantMatMul" and bare(n)):
            for u in users:
                row = other(u, y) if u.op == "Add" else None
                alone = g.only_user(y) is u
                if row is not None and is_row(g, row, y) and (alone or g.is_weight(row)):
                    yield pattern, names(n)
        free = n.op == "DequantMatMul" or len(n.operands) < 4 or n.operands[3] is None
        for value in {y, y if "Conv" in n.op else behind_moves(g, y)}:
            only = g.only_user(value)
            if only and only.op == "Add" and free and g.dims[only.results[0]] == g.dims[value]:
                residual = other(only, value)
                if residual is not None and g.dims[residual] == g.dims[value]:
                    yield pattern, names(n, only)


def per_channel(g, value, of):
    d, full = g.dims[value], g.dims[of]
    return len(d) >= len(full) - 1 and [x for x in d if x != "1"] == [full[1]] and d[1 - len(full)] == full[1]


def step_of(step):
    """Its operation and the operands: i0 the first of the region, s0 the result of the first step."""
    op, rest = step.split("(", 1)
    return op, re.findall(r"\b[is]\d+\b", rest.rsplit(")", 1)[0])


def scales_channels(g, region, y):
    """A factor for each channel of y, then a term."""
    same, scaled = {f"i{i}" for i, v in enumerate(region.operands) if v == y}, set()
    channel = {f"i{i}" for i, v in enumerate(region.operands) if v != y and g.is_weight(v) and per_channel(g, v, y)}
    for i, (op, of) in enumerate(map(step_of, region.attrs["steps"])):
        if op == "cast" and same & set(of):
            same.add(f"s{i}")
        if op == "mul" and same & set(of) and channel & set(of):
            scaled.add(f"s{i}")
        if op == "add" and scaled & set(of):
            return True
    return False


def decoded(g, value):
    """The Dequantize that makes it, or the region that one became: an integer, cast and scaled."""
    n = g.defining_op(value, "Dequantize", "ElementwiseRegion")
    if n is None or n.op == "Dequantize":
        return n
    steps = n.attrs["steps"]
    return n if g.dtype[n.operands[0]] not in FLOATS and steps[0].startswith("cast(i0):i32") and steps[-1].startswith("mul(") else None


def dequantized(g, value):
    """The node that decodes it, through what moves it and casts between floats."""
    for _ in range(4):
        n = decoded(g, value) or g.defining_op(value, "Transpose", "Cast")
        if n is None or n.op in ("Dequantize", "ElementwiseRegion") or g.dtype[n.operands[0]] not in FLOATS:
            break
        value = n.operands[0]
    return decoded(g, value)


def of_few_bits(g, value):
    """A weight that is computed from numbers of few bits."""
    n = g.maker[value]
    return re.search(r"\d+", g.dtype[value])[0] in ("4", "8") or any(v is not None and of_few_bits(g, v) for v in n.operands)


def quantized_weights(g):
    """A product with a weight that is not kept in few bits: the model has it so, or all were asked for."""
    for n in g.nodes:
        if n.op not in ("MatMul", "FusedMatMulBiasAct", "FusedMatMulSwiGLU") or g.dtype[n.results[0]] not in FLOATS:
            continue
        x, w = n.operands[:2]
        if len(g.dims[w]) != 2 or not g.is_weight(w) or (g.codes_decoded and of_few_bits(g, w)):
            continue
        if g.codes_asked or (dequantized(g, w) and not g.defining_op(x, "Dequantize")):
            yield "quantized_weights", names(n)


def scaled_operands(g):
    """A product with an operand that has not been 8-bit floats although that was asked for."""
    def was_narrow(value, steps=6):
        n = g.maker[value]
        return g.dtype[value].startswith("f8") or (steps > 0 and n.op in ELEMENTWISE | MOVES and any(
            v is not None and was_narrow(v, steps - 1) for v in n.operands))

    for n in g.nodes if g.scales_asked else []:
        if n.op in ("MatMul", "FusedMatMulBiasAct", "DequantMatMul") and not all(
                g.is_weight(v) or was_narrow(v) for v in n.operands[:2]):
            yield "scaled_operand", names(n)


def quantized_contractions(g):
    """A product of floats that are made of bytes right before."""
    for n in g.nodes:
        if n.op in ("MatMul", "FusedMatMulBiasAct", "Conv", "FusedConvBiasAct"):
            sources = [decoded(g, v) for v in n.operands[:2]]
            if any(d and g.dtype[d.operands[0]] in ("i8", "u8") and d.attrs.get("block", 0) == 0 for d in sources):
                yield "quantized_contraction", names(n)


def batch_norms(g):
    """A factor or a term for each channel directly behind a convolution."""
    for n in g.nodes:
        if n.op != "Conv" and not (n.op == "FusedConvBiasAct" and n.attrs.get("act", "none") == "none"):
            continue
        y = n.results[0]
        for u in g.users_of(y):
            if u.op == "BatchNormInference" and u.operands[0] == y:
                yield "batch_norm", names(n, u)
            if u.op == "ElementwiseRegion" and scales_channels(g, u, y):
                yield "batch_norm", names(n, u)
            if u.op != "Mul":
                continue
            w = other(u, y)
            if w is not None and g.is_weight(w) and per_channel(g, w, y):
                after = g.only_user(u.results[0])
                if after and after.op == "Add":
                    yield "batch_norm", names(n, u, after)


def norms(g):
    """A norm of a sum of two values of its shape."""
    for n in g.nodes:
        if n.op not in ("LayerNorm", "RmsNorm"):
            continue
        add = g.defining_op(n.operands[0], "Add")
        if add and not any(g.is_weight(v) for v in add.operands):
            if all(g.dims[v] == g.dims[n.operands[0]] for v in add.operands):
                yield ("residual_ln" if n.op == "LayerNorm" else "residual_rms_norm"), names(n, add)


def norm_regions(g):
    """A norm beside an elementwise node of its shape, which could be part of its kernel."""
    def beside(n, value):
        return n and steppable(g, n) and g.dims[n.results[0]] == g.dims[value]

    for n in g.nodes:
        y = n.results[0] if n.results else None
        softmax = n.op in ("Softmax", "LogSoftmax") and int(n.attrs.get("axis", 0)) == len(g.dims[y]) - 1
        if not softmax and n.op not in ("LayerNorm", "RmsNorm", "GroupNorm", "FusedResidualLN", "FusedResidualRmsNorm"):
            continue
        pattern = "softmax_region" if softmax else "norm_region"
        if beside(g.only_user(y), y):
            yield pattern, names(n)
        for value in n.operands[:2 if n.op.startswith("Fused") else 1]:
            if beside(g.maker[value], y) and (n.op[0] != "F" or g.only_user(value)):
                yield pattern, names(n)


def possible_norm_regions(g):
    """A norm of a concatenation, whose parts an elementwise node may have computed or read."""
    for n in g.nodes:
        if n.op in ("LayerNorm", "RmsNorm") and g.maker[n.operands[0]].op == "ConcatRegion":
            yield "norm_region", names(n)


def rows_of_norms(g):
    """A norm of rows that another norm makes, which could be part of its kernel."""
    def rows(n):
        """The first axis of the rows that it normalises."""
        steps = {s.split("(")[0] for s in n.attrs.get("steps", [])}
        along = n.op in ("LayerNorm", "RmsNorm", "FusedResidualLN", "FusedResidualRmsNorm") or (
            n.op == "NormRegion" and steps & {"layer_norm", "rms_norm"})
        return n.attrs.get("axis", 0) if along else None

    def normalised(n):
        """The operands from which what it normalises last is made, and the type of the norm."""
        if n.op != "NormRegion":
            return n.operands[:2 if n.op.startswith("Fused") else 1], g.dtype[n.results[0]]
        steps = [re.findall(r"\b([is])(\d+)\b", s.split("(", 1)[1]) for s in n.attrs["steps"]]
        last = max(i for i, s in enumerate(n.attrs["steps"]) if s.startswith(("layer_norm", "rms_norm")))
        found, todo = [], list(steps[last])
        while todo:
            kind, i = todo.pop()
            if kind == "i":
                found.append(n.operands[int(i)])
            else:
                todo += steps[int(i)]
        return found, n.attrs["steps"][last].rsplit(":", 1)[1]

    for n in g.nodes:
        axis = rows(n)
        values, dtype = normalised(n) if axis is not None else ([], None)
        for value in values:
            before = g.maker[value]
            same = g.dims[value] == g.dims[n.results[0]] and g.dtype[value] == dtype and value == before.results[0]
            if same and rows(before) == axis and (n.op in ("LayerNorm", "RmsNorm") or g.only_user(value)):
                yield "norm_region", names(n)


def shared_norms(g):
    """Norms of one value that differ in scale and shift only, or one whose value is scaled in several ways."""
    def scales(n, value):
        """Multiplied by a row that is known before the first run."""
        if n.op not in ("Mul", "ElementwiseRegion"):
            return False
        step = (n.attrs.get("steps") or ["mul(i0,i1)"])[0]
        of = [n.operands[int(i)] for i in re.findall(r"i(\d+)", step)]
        return (step.startswith("mul(") and value in of and
                any(v != value and g.is_weight(v) and is_row(g, v, value) for v in of))

    def norm(n):
        """Its kind and what it normalises, of a region the last one."""
        if n.op in ("LayerNorm", "RmsNorm"):
            return n.op, n.attrs.get("eps"), n.operands[0]
        if n.op in ("FusedResidualLN", "FusedResidualRmsNorm"):
            return "LayerNorm" if n.op.endswith("LN") else "RmsNorm", n.attrs.get("eps"), n.results[1]
        found = [re.match(r"(layer_norm|rms_norm)\(([is])(\d+);(.*)", s) for s in n.attrs["steps"]] if n.op == "NormRegion" else []
        found = [m for m in found if m]
        if not found:
            return None
        kind, source, at, _ = found[-1].groups()
        eps = step_attrs(found[-1][0])["eps"]
        keeps = source == "s" and n.attrs.get("also", [])[:1] == [int(at)]
        value = n.results[1] if keeps else n.operands[int(at)] if source == "i" else None
        return {"layer_norm": "LayerNorm", "rms_norm": "RmsNorm"}[kind], float(eps), value

    alike = {}
    for n in g.nodes:
        found = norm(n) if n.results and not g.is_weight(n.results[0]) else None
        if found and found[2] is not None:
            alike.setdefault((*found, n.attrs.get("axis", 0), g.dtype[n.results[0]]), []).append(n)
    for norms in alike.values():
        parts = [n for n in norms if n.op == "NormRegion" or any(v is not None for v in n.operands[3 if n.op.startswith("Fused") else 1:])]
        for n in norms:
            users = g.users_of(n.results[0])
            if n not in parts and len(users) > 1:
                parts += [u for u in users if scales(u, n.results[0])]
        if len(parts) > 1 or (parts and any(n not in parts for n in norms)):
            yield "shared_norm", names(*parts)


def reductions(g):
    """A reduction beside an elementwise node that could be part of its kernel: what it reduces, or the only reader of the result,
    which has its sizes or those of the rows."""
    def beside(n):
        return n and steppable(g, n)

    def reader(value, kept, bare):
        """The only one, through reshapes that give or take the reduced axes."""
        n = g.only_user(value)
        while n and n.op == "Reshape" and {tuple(g.dims[n.operands[0]]), tuple(g.dims[n.results[0]])} == {kept, bare}:
            value = n.results[0]
            n = g.only_user(value)
        return n, g.dims[value]

    for n in g.nodes:
        if n.op == "ReduceRegion":
            for reduced in filter(None, (re.match(r"reduce_\w+\(i(\d+)[;)]", s) for s in n.attrs["steps"])):
                if beside(g.maker[n.operands[int(reduced[1])]]):
                    yield "reduce_region", names(n)
        elif n.op != "Reduce" or n.attrs.get("op") == "log_sum_exp" or g.is_weight(n.results[0]) or g.dtype[n.results[0]] not in REDUCED:
            continue
        elif beside(g.maker[n.operands[0]]):
            yield "reduce_region", names(n)
        whole = g.dims[n.operands[0] if n.op == "Reduce" else n.results[0]]
        axes = n.attrs.get("axes", [])
        kept = tuple("1" if i in axes else d for i, d in enumerate(whole))
        bare = tuple(d for i, d in enumerate(whole) if i not in axes)
        after, sizes = reader(n.results[0], kept, bare)
        if axes and beside(after):
            rows = [d if i not in axes else None for i, d in enumerate(whole)]
            to = g.dims[after.results[0]]
            if to == sizes or (tuple(sizes) == kept and len(to) == len(rows) and all(r in (None, d) for r, d in zip(rows, to))):
                yield "reduce_region", names(n)


def products_of(g, x):
    """Products of this value with matrices, which could be one with several."""
    return [u for u in g.users[x] if u.op in ("MatMul", "FusedMatMulBiasAct", "DequantMatMul") and u.operands[0] == x and
            not g.is_weight(u.results[0]) and len(g.dims[u.operands[1]]) == 2 and not u.attrs.get("trans_a") and not u.attrs.get("gated") and
            g.dtype[u.results[0]] in FLOATS]


def shared_inputs(g):
    """Several products of one value with weights."""
    for x in g.users:
        readers = products_of(g, x)

        def kept_as(u):
            codes = u.op == "DequantMatMul"
            return bool(u.attrs.get("trans_b")), codes and (
                u.attrs.get("block", 0), [v is not None and g.dtype[v] for v in (u.operands + [None])[1:4]])

        for layout in {str(kept_as(u)) for u in readers}:
            weighted = [u for u in readers if str(kept_as(u)) == layout and g.is_weight(u.operands[1])]
            near = [u for u in weighted if any(0 < abs(u.id - v.id) <= 12 for v in weighted)]
            if len(near) > 1:
                yield "shared_input_matmul", names(*near)


def half_of(g, value):
    n = g.defining_op(value, "Narrow")
    if n and n.attrs.get("axis") == len(g.dims[value]) - 1:
        length, whole = str(n.attrs.get("len")), g.dims[n.operands[0]][-1]
        if length.isdigit() and whole.isdigit() and 2 * int(length) == int(whole):
            return n.operands[0], int(n.attrs.get("start", 0))
    return None


def gates(g):
    """up * act(gate) of the halves of one value, and such a gate behind a product."""
    for n in g.nodes:
        if n.op == "Mul":
            for up, acted in (n.operands, reversed(n.operands)):
                act = g.defining_op(acted, "Silu", "Gelu", "GeluApprox", "Relu", "Sigmoid")
                a, b = half_of(g, up), half_of(g, act.operands[0]) if act else None
                if a and b and a[0] == b[0] and a[1] != b[1]:
                    yield "swiglu", names(n)
                    break
        if n.op == "FusedSwiGLU":
            product = g.maker[n.operands[0]]
            while product.op == "Reshape" and g.dims[product.operands[0]][-1:] == g.dims[product.results[0]][-1:]:
                product = g.maker[product.operands[0]]
            if product.op in ("MatMul", "FusedMatMulBiasAct") or (product.op == "DequantMatMul" and not product.attrs.get("gated")):
                yield "matmul_swiglu", names(n, product)


def attentions(g):
    """Two products around a softmax."""
    def above(value, steps):
        n = g.maker.get(value)
        if n.op in ("MatMul", "FusedMatMulBiasAct"):
            return True
        return steps > 0 and n.op in ELEMENTWISE and any(v is not None and above(v, steps - 1) for v in n.operands)

    for n in g.nodes:
        if n.op != "Softmax" or n.attrs.get("axis") != len(g.dims[n.results[0]]) - 1:
            continue
        after, value = None, n.results[0]
        for _ in range(3):
            users = g.users_of(value)
            after = next((u for u in users if u.op in ("MatMul", "FusedMatMulBiasAct") and u.operands[0] == value), None)
            step = g.only_user(value)
            if after or not step or step.op not in ELEMENTWISE:
                break
            value = step.results[0]
        if after and above(n.operands[0], 6):
            yield "attention", names(n)


def written_out(g):
    """Norms, activations and rotations that are still chains."""
    for n in g.nodes:
        steps = [s.split("(")[0] for s in n.attrs.get("steps", [])]
        if n.op == "Erf" or "erf" in steps:
            yield "gelu", names(n)
        if n.op == "Sigmoid" and any(u.op == "Mul" and n.operands[0] in u.operands for u in g.users_of(n.results[0])):
            yield "silu", names(n)
        if n.op == "Reduce" and n.attrs.get("op") == "mean":
            square = g.defining_op(n.operands[0], "Pow", "Mul")
            if square and (square.op == "Pow" or square.operands[0] == square.operands[1]):
                yield "layer_norm", names(n)
        if n.op == "Concat" and len(n.operands) == 2 and n.attrs.get("axis") == len(g.dims[n.results[0]]) - 1:
            neg = g.defining_op(n.operands[0], "Neg")
            a, b = (half_of(g, neg.operands[0]) if neg else None), half_of(g, n.operands[1])
            if a and b and a[0] == b[0] and a[1] > 0 == b[1]:
                yield "rope", names(n, *g.users_of(n.results[0]), *(v for u in g.users_of(n.results[0]) for r in u.results
                                                                   for v in g.users_of(r)))
        if n.op == "Concat" and len(n.operands) == 2:
            real, imaginary = (g.defining_op(v, "ElementwiseRegion") for v in n.operands)
            turns = [[s.split("(")[0] for s in x.attrs["steps"]] if x else None for x in (real, imaginary)]
            apart = [["mul", "mul", "sub"], ["mul", "mul", "add"]]
            if turns == apart and sorted(real.operands) == sorted(imaginary.operands) or real is imaginary and turns[0] == sum(apart, []):
                yield "rope", names(n)
        if n.op == "ConcatRegion" and len(n.attrs.get("parts", [])) == 2:
            steps = [s.split("(")[0] for s in n.attrs["steps"]]
            if [s for s in steps if s != "cast"] == ["mul", "mul", "sub", "mul", "mul", "add"]:
                yield "rope", names(n)
        if n.op == "Rope" and (len(n.operands) < 4 or n.operands[3] is None):
            x = g.defining_op(n.operands[0], "Reshape")
            norm = g.defining_op(x.operands[0] if x else n.operands[0], "RmsNorm")
            if norm and len(g.dims[norm.results[0]]) == 4:
                yield "norm_rope", names(n, norm)


def mixtures(g):
    """Rows that are found by who was chosen, and added to what they are of."""
    def source(value, op):
        for _ in range(12):
            n = g.maker[value]
            if n.op == op or not n.operands:
                return n if n.op == op else None
            value = n.operands[0]

    def puts_rows(n, how):
        return (n.op in ("ScatterElements", "ScatterNd") and n.attrs.get("reduction", "none") == how and n.attrs.get("axis", 0) == 0 and
                all(len(g.dims[v]) == 2 for v in (n.operands[0], n.operands[2])) and g.dims[n.operands[0]][1] == g.dims[n.operands[2]][1])

    def added(n):
        """The scatter of rows, and the sum that they are added to."""
        if puts_rows(n, "add"):
            return n, n.operands[0]
        for value in n.operands if n.op == "Add" else []:
            own = g.maker[other(n, value)] if other(n, value) is not None else None
            if own and puts_rows(own, "none") and g.only_user(own.results[0]):
                return own, value
        return None, None

    def puts_rows_of_shares(n):
        """0 for the experts that a token did not choose: scattered, or added up over the choices."""
        if n.op == "ScatterElements" and n.attrs.get("axis") == 1:
            return chosen(n.operands[1])
        return (n.op in ("Reduce", "ReduceRegion") and n.attrs.get("axes") == [1] and
                any(len(g.dims[v]) == 3 and chosen(v) for v in n.operands))

    def picked_by_least(n):
        """What is at least as much as one of the best, of each row."""
        steps = {n.op.lower(), *(s.split("(")[0] for s in n.attrs.get("steps", []))}
        return len(g.dims[n.results[0]]) == 2 and steps & {"ge", "gt", "le", "lt"} and any(
            v is not None and source(v, "TopK") for v in n.operands)

    def chosen(value):
        return source(value, "TopK") or source(value, "ArgReduce")

    def sums(n):
        return {"mul", "add"} == {s.split("(")[0] for s in n.attrs["steps"]} - {"cast"}

    def last_of(n):
        """Of sums that are added to one another."""
        after = g.only_user(n.results[0])
        return last_of(after) if after and after.op == "ElementwiseRegion" and sums(after) else n

    def sums_of(value):
        """Where products with these shares are added up."""
        for n in g.users_of(value):
            same = n.results and len(g.dims[value]) == 2 and g.dims[n.results[0]] == g.dims[value]
            if n.op in ("Transpose", "Reshape", "Cast", "Narrow", "Gather") or (same and n.op in ("Softmax", "NormRegion")):
                yield from sums_of(n.results[0])
            elif n.op == "ReduceRegion":  # the products and their sum
                yield n
            elif n.op == "ElementwiseRegion" and sums(n):
                yield last_of(n)
            elif n.op == "Mul":
                after = g.only_user(n.results[0])
                while after and after.op == "Add" and (g.only_user(after.results[0]) or after).op == "Add" and g.only_user(after.results[0]):
                    after = g.only_user(after.results[0])
                if after and (after.op == "Add" or (after.op == "Reduce" and after.attrs.get("axes") == [0])):
                    yield after

    for n in g.nodes:
        scatter, _ = added(n)
        found = source(scatter.operands[1], "NonZero") if scatter else None
        after = g.only_user(n.results[0]) if scatter else None
        last = not (after and added(after)[1] == n.results[0])
        if last and found and chosen(found.operands[0]):
            yield "mixture_of_experts", names(n)
        if n.results and (puts_rows_of_shares(n) or picked_by_least(n)):
            for s in sums_of(n.results[0]):
                yield "mixture_of_experts", names(s, *(u for u in g.users_of(s.results[0]) if u.op == "Reshape"))


def blocks(g):
    """Attention that is not launched together with its projections, nor with its layer."""
    for n in g.nodes:
        if n.op == "Attention" and n.phase != "Prologue":
            if not n.launch:
                yield "attention_block", names(n)
            if not n.launch.startswith("transformer_layer"):
                yield "transformer_layer", names(n)


def neighbours(g):
    """An elementwise node that only elementwise nodes of its shape read, and all of it at run time."""
    for n in g.nodes:
        if steppable(g, n) and any(steppable(g, u) for u in g.users_of(n.results[0])):
            yield "elementwise_region", names(n)


def possible_shared_inputs(g):
    """Products of one value that are kept in different ways, or that planning has put further apart than they were."""
    for x in g.users:
        readers = products_of(g, x)
        if len(readers) > 1:
            yield "shared_input_matmul", names(*readers)


def possible_activations(g):
    """An activation of a product that other nodes read too, now a step of a region."""
    for n in g.nodes:
        if n.op not in ("MatMul", "FusedMatMulBiasAct", "DequantMatMul") or n.attrs.get("act", "none") != "none":
            continue
        y = behind_moves(g, n.results[0])
        for u in g.users_of(y):
            read = {f"i{i}" for i, v in enumerate(u.operands) if v == y}
            if any(activation(op) and read & set(of) for op, of in map(step_of, u.attrs.get("steps", []))):
                yield "matmul_bias_act", names(n)


def possible_narrowings(g):
    """A norm whose result others read beside a node that narrows it, or what a region gives of it: the narrow form may be a result."""
    def narrows(n, value):
        return steppable(g, n) and g.dims[n.results[0]] == g.dims[value] and n.op in ("Cast", "Quantize")

    for n in g.nodes:
        if n.op == "NormRegion" and any(narrows(u, v) for v in n.results for u in g.users_of(v)):
            yield "norm_region", names(n)


def possible_scales(g):
    """A product by a weight, alone or among the steps of a region: the factor of a contraction that stays apart from its weight."""
    for n in g.nodes:
        if (n.op == "Mul" or any(step_of(s)[0] == "mul" for s in n.attrs.get("steps", []))) and any(
                v is not None and g.is_weight(v) for v in n.operands):
            yield "scale", names(n)


def activation(step):
    return step.replace("_", "") in {a.lower() for a in ACTIVATIONS}


FINDERS = (products, quantized_weights, scaled_operands, quantized_contractions, batch_norms, norms, norm_regions, rows_of_norms, shared_norms, reductions, shared_inputs, gates, attentions, written_out, mixtures, blocks,
           neighbours)


# Patterns that end in a kind of node: where a target has no kernel for it, the report says so once, and names no misses.
KINDS = {
    "ElementwiseRegion": ("elementwise_region",), "NormRegion": ("norm_region", "softmax_region"), "ReduceRegion": ("reduce_region",),
    "FusedConvBiasAct": ("conv_bias_act",), "FusedConvTransposeBiasAct": ("conv_bias_act",), "FusedMatMulBiasAct": ("matmul_bias_act",),
    "FusedResidualLN": ("residual_ln",), "FusedResidualRmsNorm": ("residual_rms_norm",), "FusedSwiGLU": ("swiglu",),
    "FusedMatMulSwiGLU": ("matmul_swiglu",), "DequantMatMul": ("quantized_weights",), "Attention": ("attention",),
}

# What a report may name, but need not: from the result alone it cannot be told whether there was a choice.
POSSIBLE = (possible_shared_inputs, possible_activations, possible_narrowings, possible_norm_regions, possible_scales)


def find(graphs, finders=FINDERS):
    for index, g in enumerate(graphs):
        for finder in finders:
            for pattern, where in finder(g):
                yield index, pattern, where
