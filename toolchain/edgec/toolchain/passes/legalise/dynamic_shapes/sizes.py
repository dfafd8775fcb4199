"""Sizes known only at run time, as polynomials over what a program can measure.

A size is a sum of products of atoms: a dimension of some tensor, an element of an integer tensor,
or an operation on sizes that is no polynomial (division, maximum ...). Two sizes with the same
normal form are equal at run time, whatever the program computes; nothing here knows of MLIR.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["OPERATIONS", "Atom", "Size", "apply", "constant", "dimension", "element"]


def _divide(a: int, b: int) -> int:
    """Division that rounds towards zero, as in StableHLO."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


# What `apply` folds on numbers; truth is 0 or 1.
OPERATIONS: Mapping[str, Callable[..., int]] = {
    "divide": _divide,
    "remainder": lambda a, b: a - b * _divide(a, b),
    "maximum": max,
    "minimum": min,
    "sign": lambda a: (a > 0) - (a < 0),
    "abs": abs,
    "EQ": lambda a, b: int(a == b),
    "NE": lambda a, b: int(a != b),
    "LT": lambda a, b: int(a < b),
    "LE": lambda a, b: int(a <= b),
    "GT": lambda a, b: int(a > b),
    "GE": lambda a, b: int(a >= b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "select": lambda p, a, b: a if p else b,
}


@dataclass(frozen=True, kw_only=True)
class Atom:
    """One unknown: a `dimension` or `element` of a numbered value, or an operation on sizes.

    Attributes:
        operation: `dimension`, `element` or a name of `OPERATIONS`.
        value: the number of the value, for the first two.
        position: the axis of a dimension, the row-major position of an element.
        arguments: the sizes that an operation works on.
    """

    operation: str
    value: int = 0
    position: int = 0
    arguments: tuple["Size", ...] = ()

    @property
    def degree(self) -> int:
        """How many dimensions may be multiplied in it, at most."""
        return max((size.degree for size in self.arguments), default=1)


@dataclass(frozen=True, kw_only=True)
class Size:
    """A polynomial: each product of atoms (sorted) with its coefficient, never 0 (sorted)."""

    terms: tuple[tuple[tuple[Atom, ...], int], ...] = ()

    @property
    def number(self) -> int | None:
        """The value, if it is a plain number."""
        if not self.terms:
            return 0
        (atoms, coefficient), *rest = self.terms
        return coefficient if not atoms and not rest else None

    @property
    def atom(self) -> Atom | None:
        """The atom, if the size is exactly one."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    @property
    def atoms(self) -> frozenset[Atom]:
        """Every atom in it, those inside other atoms too."""
        found: set[Atom] = set()
        for product, _ in self.terms:
            for atom in product:
                found.add(atom)
                for argument in atom.arguments:
                    found |= argument.atoms
        return frozenset(found)

    @property
    def degree(self) -> int:
        """The most dimensions that one of its products has."""
        return max((sum(atom.degree for atom in product) for product, _ in self.terms), default=0)

    @property
    def is_never_negative(self) -> bool:
        """Whether that is plain to see: only sums of dimensions and non-negative numbers."""
        return all(
            coefficient > 0 and all(a.operation == "dimension" for a in product)
            for product, coefficient in self.terms
        )

    def __add__(self, other: "Size") -> "Size":
        total = dict(self.terms)
        for product, coefficient in other.terms:
            total[product] = total.get(product, 0) + coefficient
        return _normal(total)

    def __mul__(self, other: "Size") -> "Size":
        total: dict[tuple[Atom, ...], int] = {}
        for a, m in self.terms:
            for b, n in other.terms:
                product = tuple(sorted(a + b, key=repr))
                total[product] = total.get(product, 0) + m * n
        return _normal(total)

    def __neg__(self) -> "Size":
        return _normal({product: -coefficient for product, coefficient in self.terms})

    def __sub__(self, other: "Size") -> "Size":
        return self + -other


def _normal(terms: Mapping[tuple[Atom, ...], int]) -> Size:
    kept = [(product, coefficient) for product, coefficient in terms.items() if coefficient]
    return Size(terms=tuple(sorted(kept, key=repr)))


def constant(number: int) -> Size:
    """A size that is a number."""
    return _normal({(): number})


def dimension(value: int, axis: int) -> Size:
    """The size of an axis of a numbered tensor."""
    return _normal({(Atom(operation="dimension", value=value, position=axis),): 1})


def element(value: int, position: int) -> Size:
    """An element of a numbered integer tensor, counted in row-major order."""
    return _normal({(Atom(operation="element", value=value, position=position),): 1})


def apply(operation: str, *sizes: Size) -> Size:
    """An operation of `OPERATIONS` on sizes, folded where the outcome is plain."""
    numbers = [s.number for s in sizes]
    by_zero = operation in ("divide", "remainder") and numbers[1] == 0
    if not by_zero and all(n is not None for n in numbers):
        return constant(OPERATIONS[operation](*numbers))
    if operation == "select":
        if numbers[0] is not None:
            return sizes[1] if numbers[0] else sizes[2]
        if sizes[1] == sizes[2]:
            return sizes[1]
    if operation in ("maximum", "minimum", "and", "or") and sizes[0] == sizes[1]:
        return sizes[0]
    if operation in ("divide", "remainder") and (divided := _divide_exactly(*sizes)) is not None:
        return divided if operation == "divide" else constant(0)
    return _normal({(Atom(operation=operation, arguments=sizes),): 1})


def _divide_exactly(a: Size, b: Size) -> Size | None:
    """`a / b` where `b` is one product that divides every term of `a`; zero sizes are moot."""
    if len(b.terms) != 1:
        return None
    divisor, number = b.terms[0]
    quotient: dict[tuple[Atom, ...], int] = {}
    for product, coefficient in a.terms:
        left = list(product)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        if coefficient % number:
            return None
        quotient[tuple(left)] = coefficient // number
    return _normal(quotient)
