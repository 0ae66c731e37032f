"""What the author of a model wrote, counted in the graph as it was imported, and what the compiler made of it, counted in the
result."""
from rlxc_graph import ELEMENTWISE


def up(g, value, stop, depth):
    """Does a node of a kind in `stop` lie so many elementwise steps up?"""
    n = g.maker.get(value)
    if n is None:
        return False
    if n.op in stop:
        return True
    return depth > 0 and n.op in ELEMENTWISE and any(v is not None and up(g, v, stop, depth - 1) for v in n.operands)


def down(g, value, stop, depth):
    return any(n.op in stop or (depth > 0 and n.op in ELEMENTWISE and any(down(g, r, stop, depth - 1) for r in n.results))
               for n in g.users_of(value))


def mean_of(g, value):
    """x when the value is the mean of x over its last axes."""
    n = g.defining_op(value, "Reduce")
    if not n or n.attrs.get("op") != "mean":
        return None
    axes, rank = n.attrs.get("axes", []), len(g.dims[n.operands[0]])
    return n.operands[0] if sorted(axes) == list(range(rank - len(axes), rank)) else None


def square_of(g, value):
    n = g.defining_op(value, "Pow", "Mul")
    if not n:
        return None
    return n.operands[0] if n.op == "Pow" or n.operands[0] == n.operands[1] else None


def written(graphs):
    """Patterns of the imported model."""
    count = dict.fromkeys(["layer_norm", "rms_norm", "gelu", "silu", "attention", "batch_norm"], 0)
    for g in graphs:
        centred = set()
        for n in g.nodes:
            if n.op == "Sub" and mean_of(g, n.operands[1]) == n.operands[0]:
                centred.add(n.results[0])
        squares = {}
        for n in g.nodes:
            if n.op == "Reduce":
                x = mean_of(g, n.results[0])
                s = square_of(g, x) if x is not None else None
                if s is not None:
                    squares[s] = s in centred
            count["layer_norm"] += n.op == "LayerNorm"
            count["batch_norm"] += n.op == "BatchNormInference"
            count["rms_norm"] += n.op == "RmsNorm"
            count["gelu"] += n.op in ("Gelu", "GeluApprox", "Erf")
            count["gelu"] += n.op == "Tanh" and up(g, n.operands[0], ("Pow",), 4)
            count["silu"] += n.op == "Silu"
            if n.op == "Sigmoid":
                count["silu"] += any(u.op == "Mul" and n.operands[0] in u.operands for u in g.users_of(n.results[0]))
            if n.op == "Attention":
                count["attention"] += 1
            if n.op == "Softmax":
                count["attention"] += up(g, n.operands[0], ("MatMul",), 8) and down(g, n.results[0], ("MatMul",), 4)
        count["layer_norm"] += sum(squares.values())
        count["rms_norm"] += len(squares) - sum(squares.values())
    return count


def recognised(graphs):
    """The same patterns in the result, whole or as part of a group."""
    count = dict.fromkeys(["layer_norm", "rms_norm", "gelu", "silu", "attention", "batch_norm", "swiglu", "rope"], 0)
    for g in graphs:
        for n in g.nodes:
            act = str(n.attrs.get("act", ""))
            steps = [s.split("(")[0] for s in n.attrs.get("steps", [])]
            acts = [act] + steps
            gated = n.op in ("FusedSwiGLU", "FusedMatMulSwiGLU")
            count["layer_norm"] += (n.op in ("LayerNorm", "FusedResidualLN")) + steps.count("layer_norm")
            count["rms_norm"] += (n.op in ("RmsNorm", "FusedResidualRmsNorm")) + steps.count("rms_norm")
            count["gelu"] += (n.op in ("Gelu", "GeluApprox")) + sum(a in ("gelu", "gelu_approx") for a in acts)
            count["silu"] += (n.op == "Silu") + sum(a == "silu" for a in acts) + (gated and act in ("", "none"))
            count["attention"] += n.op == "Attention"
            count["batch_norm"] += n.op == "BatchNormInference"
            count["swiglu"] += gated
            count["rope"] += n.op == "Rope"
    return count
