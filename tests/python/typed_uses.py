"""Uses of the API that mypy --strict is to accept. It also runs."""

from pathlib import Path
from typing import Any, Dict, List, Tuple, Union

import rlxc


def uses(path: Path) -> List[str]:
    model: rlxc.Model = rlxc.load(path, bind={"batch": 2})
    shape: Tuple[Union[int, str], ...] = model.inputs[0].shape
    module: rlxc.Module = rlxc.compile(model, target="cpu", precision="automixed", fast_math=True, range=None)
    inputs: Dict[str, Any] = model.random_inputs(seed=2)
    outputs = module.run(inputs, engine="interpreter")
    comparisons: List[rlxc.Comparison] = module.check(inputs, engine="interpreter")
    gradient = rlxc.vmap(rlxc.grad(model, "y", ["x"]), {"x": 0}, 3)
    record: rlxc.Calibration = rlxc.calibrate(path, [{"x": inputs["x"]}])
    try:
        rlxc.compile(gradient, "metal", calibration=record)
    except rlxc.Error as error:
        findings: List[rlxc.Diagnostic] = error.diagnostics
        return [error.code, str(error.exit_code), findings[0].message]
    changed: bool = bool(rlxc.diff(module, model.compile(), fail_on=["fusion.launches>+0"]))
    return [str(shape), str(changed), comparisons[0].output, *outputs]
