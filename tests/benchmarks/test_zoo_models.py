"""How the zoo makes models that nobody described to it: from examples, by asking, by halves."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.zoo.__main__ import _tell_missing
from benchmarks.zoo.kinds.documented import documented
from benchmarks.zoo.kinds.fitted import _half
from benchmarks.zoo.kinds.probing import inputs_for
from benchmarks.zoo.subject import Subject


class Encoder:
    """An encoder.

    ```python
    loaded = library.Encoder.from_preset("large")
    made = library.Encoder(num_layers=30, kinds=["full"] * 30)
    ```
    """

    def __init__(self, **given: Any) -> None:
        self.given = given


class Pair:
    """Two models; an example with a mistake: ```python
    library.Pair(Encoder, "wrong"
    ```
    """

    def __init__(self, encoder: Encoder, width: int, **given: Any) -> None:
        self.encoder, self.given = encoder, {"width": width, **given}


class Task:
    """What is done with them.

    ```python
    raise SystemExit("an example is read and never run")
    encoder = library.Encoder.from_preset("large")
    options = {"rates": [0.5, None]}
    pair = library.Pair(encoder, width=64, **options)
    ```
    """


LIBRARY = SimpleNamespace(Encoder=Encoder, Pair=Pair, Task=Task)


def test_a_model_is_made_as_an_example_of_another_class_says() -> None:
    call = documented("Pair", LIBRARY)
    assert call is not None
    seen = []

    def small(name: str, given: Any) -> dict[str, Any]:
        seen.append(name)
        return {**given, "num_layers": 2} if name == "Encoder" else dict(given)

    pair = call.made(LIBRARY, small)
    assert pair.given == {"width": 64, "rates": [0.5, None]}
    assert pair.encoder.given == {"num_layers": 2, "kinds": ["full"] * 30}
    assert seen == ["Pair", "Encoder"]


def test_a_class_without_an_example_has_none() -> None:
    assert documented("Task", LIBRARY) is None


class Asks(torch.nn.Module):
    """Takes what no list of usual shapes has: 5 numbers a row, of 3 rows, and two that fit."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = torch.nn.Linear(3, 7), torch.nn.Linear(5, 7)

    def forward(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        heads, tokens, rows, _ = table.shape
        if rows != 3:
            raise ValueError(f"{rows} rows")
        found = self.columns(table) + self.rows(table.transpose(2, 3)).mean(2, keepdim=True)
        return found + ids.reshape(heads, tokens, 1, 1)


def test_inputs_are_found_whose_axes_are_no_usual_ones() -> None:
    found = inputs_for(Asks())
    assert found["table"].shape[2:] == (3, 5)
    assert found["ids"].numel() == found["table"].shape[:2].numel()


@pytest.mark.parametrize(
    ("value", "half"),
    [(8, 4), (1, 1), ([7, 1], [3, 1]), ((4, 4), (2, 2)), (3.0, 1.5), (1.5, 1.0)],
)
def test_numbers_and_lists_of_some_are_halved_down_to_one(value: Any, half: Any) -> None:
    assert _half(value) == half


@pytest.mark.parametrize("value", [True, None, "gelu", 0, 0.02, [], ["full", 2], [[True]]])
def test_what_is_no_count_is_not_halved(value: Any) -> None:
    assert _half(value) is None


def test_of_what_is_held_out_no_reason_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    subjects = [Subject(kind="k", name=f"m{n}") for n in range(40)]
    held_out = [s for s in subjects if s.held_out]
    assert 0 < len(held_out) < len(subjects)
    assert _tell_missing(subjects, ["", *["too large"] * 39]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "1 of 40 have a model"
    assert sum("too large" not in line for line in lines) == sum(s.held_out for s in subjects[1:])
