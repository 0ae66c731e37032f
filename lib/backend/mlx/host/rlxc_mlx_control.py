"""Control flow, and operations whose results have data-dependent dims. The dictionary n holds the sizes of a run."""
import math

import mlx.core as mx
import numpy as np


def _numpy(x):
    return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)


def iota(count):
    return mx.array(np.arange(max(count.item(), 0), dtype=np.int64))


def non_zero(x):
    return mx.array(np.stack(np.nonzero(np.atleast_1d(_numpy(x)))).astype(np.int64))


def reshape_to(x, sizes, *, allow_zero):
    to = [x.shape[i] if size == 0 and not allow_zero else size for i, size in enumerate(sizes.tolist())]
    rest = math.prod(size for size in to if size != -1)
    return x.reshape([x.size // max(rest, 1) if size == -1 else size for size in to])


def unique(x, *, axis, flat, sorted):
    x, axis = (x.reshape([-1]), 0) if flat else (x, axis)
    _, first, inverse, counts = np.unique(_numpy(x), return_index=True, return_inverse=True, return_counts=True, axis=None if flat else axis)
    if not sorted:
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, inverse, counts = first[order], place[inverse], counts[order]
    first, inverse, counts = (mx.array(v.reshape(-1).astype(np.int64)) for v in (first, inverse, counts))
    return mx.take(x, first, axis=axis), first, inverse, counts


def _corners(boxes, center):
    if center:
        return boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    return np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])


def _overlap(low, high, one, others):
    side = np.minimum(high[one], high[others]) - np.maximum(low[one], low[others])
    common = np.where((side > 0).all(axis=1), side.prod(axis=1), 0)
    area = (high - low).prod(axis=1)
    return np.divide(common, area[one] + area[others] - common, out=np.zeros_like(common), where=common > 0)


def non_max_suppression(boxes, scores, most=None, iou=None, least=None, *, center_point):
    most, iou = 0 if most is None else most.item(), 0 if iou is None else iou.item()
    boxes, scores, found = _numpy(boxes).astype(np.float64), _numpy(scores).astype(np.float64), []
    for batch, classes in enumerate(scores):
        low, high = _corners(boxes[batch], center_point)
        for k, score in enumerate(classes):
            left = np.argsort(-score, kind="stable")
            left = left if least is None else left[score[left] > least.item()]
            for _ in range(most):
                if len(left) == 0:
                    break
                found.append((batch, k, left[0]))
                left = left[1:][~(_overlap(low, high, left[0], left[1:]) > iou)]
    return mx.array(np.array(found, np.int64).reshape(-1, 3))


# Bodies are functions of lists. Sizes that a body needs to be equal come in pairs.
def branch(condition, then, otherwise, *operands, then_equal, else_equal):
    taken = condition.item()
    equal = then_equal if taken else else_equal
    if equal[::2] != equal[1::2]:
        raise ValueError(f"the model needs {equal[::2]} = {equal[1::2]}")
    return (then if taken else otherwise)(*operands)


def _stack(rows, shape, dtype):
    return mx.stack(rows) if rows else mx.zeros([0, *shape()], dtype)


def loop(trips, condition, *operands, body, carries, n, extents, stacked):
    """extents: name, first size, size after an iteration; stacked: shape and type of a row, extents that the shape depends on."""
    state, rest, rows, i = list(operands[:carries]), list(operands[carries:]), [[] for _ in stacked], 0
    go = True if condition is None else bool(condition.item())
    n.update({name: 0 for _, _, changing in stacked for name in changing})
    n.update({name: first for name, first, _ in extents})
    while go and (trips is None or i < trips.item()):
        go, *results = body(mx.array(i, mx.int64), mx.array(go), *state, *rest)
        go, state = bool(go.item()), list(results[:carries])
        for row, r in zip(rows, results[carries:]):
            row.append(r)
        n.update({name: following() for name, _, following in extents})
        i += 1
    return (*state, *(_stack(row, shape, dtype) for row, (shape, dtype, _) in zip(rows, stacked)))


def scan(*operands, body, states, scan_inputs, input_reverse, output_reverse, n, stacked):
    state, inputs, rest = list(operands[:states]), operands[states:states + scan_inputs], operands[states + scan_inputs:]
    turned = lambda flags, k: k < len(flags) and flags[k]
    length, rows = inputs[0].shape[0], [[] for _ in stacked]
    n.update({name: 0 for _, _, changing in stacked for name in changing})
    for i in range(length):
        row = [x[length - 1 - i if turned(input_reverse, k) else i] for k, x in enumerate(inputs)]
        results = body(*state, *row, *rest)
        state = list(results[:states])
        for column, r in zip(rows, results[states:]):
            column.append(r)
    stacks = [_stack(column[::-1] if turned(output_reverse, k) else column, shape, dtype) for k, (column, (shape, dtype, _)) in enumerate(zip(rows, stacked))]
    return (*state, *stacks)
