"""States as `edgec export` and `edgec inspect` tell them."""

from edgec.cli.state_lines import state_lines
from edgec.runtime.dtypes import DType
from edgec.runtime.signature import TensorSpec


def test_states_that_are_alike_but_for_a_number_are_one_line() -> None:
    def spec(name: str, *shape: int) -> TensorSpec:
        return TensorSpec(name=name, shape=shape, dtype=DType.F32)

    states = [
        spec("position"),
        *(spec(f"{kind}_{layer}", 1, 3) for layer in range(12) for kind in ("keys", "values")),
        spec("keys_12", 1, 5),
    ]
    assert state_lines(states) == [
        "state position: f32[]",
        "state keys_0 … keys_11: f32[1, 3], 12 of them",
        "state values_0 … values_11: f32[1, 3], 12 of them",
        "state keys_12: f32[1, 5]",
    ]
