"""Sizes as polynomials: equal sizes have one form, and what is plain is folded."""

import pytest

from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import (
    OPERATIONS,
    apply,
    constant,
    dimension,
    element,
)

B, S = dimension(0, 0), dimension(0, 1)
TWO = constant(2)


def test_sizes_that_are_equal_whatever_the_program_computes_are_equal() -> None:
    assert (B + S) * (B + S) == B * B + TWO * B * S + S * S
    assert constant(0) == B * S - S * B
    assert B != S
    assert dimension(1, 0) != element(1, 0)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_numbers_are_folded(name: str) -> None:
    arguments = [7, -2, 5][: 3 if name == "select" else 1 if name in ("sign", "abs") else 2]
    assert apply(name, *map(constant, arguments)).number == OPERATIONS[name](*arguments)


def test_division_rounds_towards_zero_and_is_exact_where_it_can_be() -> None:
    assert apply("divide", constant(-7), TWO).number == -3
    assert apply("remainder", constant(-7), TWO).number == -1
    assert apply("divide", constant(6) * B * S, TWO * S) == constant(3) * B
    assert apply("remainder", constant(6) * B, TWO) == constant(0)
    assert apply("divide", B + S, TWO).number is None


def test_division_by_zero_is_left_to_run_time() -> None:
    assert apply("divide", constant(4), constant(0)).number is None


def test_what_may_be_negative_is_not_taken_for_a_width() -> None:
    assert (B + TWO).is_never_negative
    assert not (B - TWO).is_never_negative
    assert not element(0, 0).is_never_negative


def test_a_degree_counts_the_dimensions_of_the_largest_product() -> None:
    assert (B * S * S + TWO).degree == 3
    assert apply("maximum", B * S, S).degree == 2
    assert TWO.degree == 0
