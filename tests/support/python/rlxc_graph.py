"""Graphs as `rlxc inspect --json` and lir.json carry them, for scripts that judge the compiler from outside: no code in common
with its passes."""
import json


def step_attrs(step):
    """The attributes of a step: "layer_norm(s0;axis=2,eps=1e-05):f32" gives {"axis": "2", "eps": "1e-05"}."""
    fields = step.rsplit(")", 1)[0].partition(";")[2]
    return dict(f.split("=") for f in fields.split(",") if "=" in f)


class Node:
    def __init__(self, raw):
        self.id, self.op, self.name = raw["id"], raw["op"], raw.get("name", "")
        self.operands = raw.get("operands", [])
        self.attrs = raw.get("attrs", {})
        # Axes of the norms and of the reductions of a region.
        for fields in map(step_attrs, self.attrs.get("steps", [])):
            if self.op == "NormRegion" and "axis" in fields:
                self.attrs["axis"] = int(fields["axis"])
            if self.op == "ReduceRegion" and "axes" in fields:
                self.attrs["axes"] = [int(a) for a in fields["axes"].split()]
        self.results = [r["value"] for r in raw.get("results", [])]
        self.types = [r["type"] for r in raw.get("results", [])]
        self.value_names = [r.get("name", "") for r in raw.get("results", [])]
        self.sources = raw.get("sources", [])  # names of the nodes of the model that it computes, if others than its own
        self.launch = raw.get("launch", "")  # that runs it together with its neighbours
        self.phase = raw.get("phase", "")


class Graph:
    """One graph: `nodes` in order, `maker[value]`, `users[value]` (a list with one entry a use), `dtype` and `dims` of values."""

    def __init__(self, raw):
        self.nodes = [Node(n) for n in raw["nodes"]]
        self.outputs = raw["outputs"]
        self.maker, self.users, self.dtype, self.dims = {}, {}, {}, {}
        for n in self.nodes:
            for value, t in zip(n.results, n.types):
                self.maker[value] = n
                self.dtype[value] = t.get("kind", t["dtype"])
                self.dims[value] = [str(d) for d in t.get("dims", [])]
            for value in n.operands:
                if value is not None:
                    self.users.setdefault(value, []).append(n)

    def defining_op(self, value, *ops):
        n = self.maker.get(value)
        return n if n and n.op in ops else None

    def users_of(self, value):
        return self.users.get(value, [])

    def only_user(self, value):
        users = self.users_of(value)
        return users[0] if len(users) == 1 and value not in self.outputs else None

    def is_weight(self, value, depth=8):
        """Known before the first run."""
        n = self.maker[value]
        if n.op in ("Param", "Constant"):
            return True
        if n.op == "Input" or depth == 0 or not n.operands:
            return False
        return all(v is None or self.is_weight(v, depth - 1) for v in n.operands)


def load(path_or_text):
    raw = json.loads(path_or_text) if path_or_text.lstrip().startswith("{") else json.load(open(path_or_text))
    return [Graph(g) for g in raw["graphs"]]


ELEMENTWISE = set("""Gelu GeluApprox Silu Relu Sigmoid Tanh Exp Expm1 Log Log1p Sqrt Rsqrt Recip Neg Abs Sign Sin Cos Tan Asin Acos
Atan Sinh Cosh Asinh Acosh Atanh Round Floor Ceil Erf Softplus Softsign Mish LogSigmoid StopGradient HardSwish HardSigmoid Elu Selu Celu LeakyRelu
ThresholdedRelu Shrink Swish Clamp Not BitNot IsNan IsInf Cast Add Sub Mul MulNoNan Div Max Min Pow Mod Fmod Atan2 BitAnd BitOr BitXor Shl Shr
And Or Xor PRelu Eq Ne Lt Le Gt Ge Where Fma ElementwiseRegion""".split())
