"""What a callable function takes and gives: named, typed tensors and how they are nested."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgec.runtime import tree
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError, ProgramError, UsageError
from edgec.runtime.tree import Tree

__all__ = ["Argument", "Dim", "Quantization", "Signature", "TensorSpec"]


@dataclass(frozen=True, kw_only=True)
class Dim:
    """A named dimension whose size is chosen at each call, within bounds (both inclusive)."""

    name: str
    minimum: int = 1
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.minimum < 0 or (self.maximum is not None and self.maximum < self.minimum):
            raise UsageError(f"the dimension {self} has impossible bounds")

    @classmethod
    def parse(cls, text: str) -> "Dim":
        """Read `batch`, `batch=1..8` or `batch=1..`.

        Raises:
            UsageError: the text is none of these.
        """
        found = re.fullmatch(r"([A-Za-z_]\w*)(?:=(\d+)\.\.(\d*))?", text.strip())
        if not found:
            raise UsageError(
                f"{text!r} is no named dimension", hint="write batch, batch=1..8 or batch=1.."
            )
        name, low, high = found.groups()
        return cls(name=name, minimum=int(low or 1), maximum=int(high) if high else None)

    def __str__(self) -> str:
        if self.maximum is None and self.minimum == 1:
            return self.name
        return f"{self.name}={self.minimum}..{'' if self.maximum is None else self.maximum}"


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """What a tensor's integers stand for: `scale * (value - zero_point)`, as in TensorFlow Lite.

    One scale and zero point for the whole tensor, or one for each index of `axis`.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    def __post_init__(self) -> None:
        if not self.scales or len(self.scales) != len(self.zero_points):
            raise UsageError(
                f"{len(self.scales)} scales and {len(self.zero_points)} zero points are no "
                "quantisation"
            )


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One tensor: its name, its shape (a dimension is an int or a `Dim`) and its element type.

    `quantization` says what its integers stand for, in quantised models; `original` is its name in
    the file that the model came from, where that is another.
    """

    name: str
    shape: tuple[int | Dim, ...]
    dtype: DType
    quantization: Quantization | None = None
    original: str = ""

    def __post_init__(self) -> None:
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise UsageError(f"{self.name} has a negative dimension: {self.shape}")

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return all(isinstance(d, int) for d in self.shape)

    def __str__(self) -> str:
        """`image: f32[batch=1..8, 28, 28]`."""
        return f"{self.name}: {self.dtype.value}[{', '.join(map(str, self.shape))}]"

    def check(self, shape: Sequence[int], sizes: dict[str, int]) -> None:
        """Check a concrete shape; `sizes` collects what each named dimension stands for so far.

        Raises:
            InputError: wrong rank, size, bounds, or one name with two sizes.
        """
        if tuple(shape) == self.shape:
            return
        takes = f"{self.name} takes {self.dtype.value}[{', '.join(map(str, self.shape))}]"
        got = f"got shape ({', '.join(map(str, shape))})"
        if len(shape) != len(self.shape):
            raise InputError(f"{takes} and {got}: rank {len(self.shape)} is needed")
        for axis, (want, size) in enumerate(zip(self.shape, shape, strict=True)):
            if isinstance(want, int):
                if want != size:
                    raise InputError(f"{takes} and {got}: dimension {axis} must be {want}")
                continue
            if size < want.minimum or (want.maximum is not None and size > want.maximum):
                raise InputError(f"{takes} and {got}: dimension {axis} is out of {want}")
            if sizes.setdefault(want.name, size) != size:
                raise InputError(
                    f"{takes} and {got}: {want.name} is {sizes[want.name]} in another argument"
                )

    def to_json(self) -> dict[str, Any]:
        """As JSON: a `Dim` is `{"name", "min", "max"}`."""
        shape: list[Any] = [
            d if isinstance(d, int) else {"name": d.name, "min": d.minimum, "max": d.maximum}
            for d in self.shape
        ]
        text: dict[str, Any] = {"name": self.name, "shape": shape, "dtype": self.dtype.value}
        if self.quantization is not None:
            text["quantization"] = {
                "scales": list(self.quantization.scales),
                "zero_points": list(self.quantization.zero_points),
                "axis": self.quantization.axis,
            }
        if self.original:
            text["original"] = self.original
        return text

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TensorSpec":
        """The inverse of `to_json`."""
        given = value.get("quantization")
        quantization = None
        if given is not None:
            quantization = Quantization(
                scales=tuple(map(float, given["scales"])),
                zero_points=tuple(map(int, given["zero_points"])),
                axis=int(given["axis"]),
            )
        shape = tuple(
            d if isinstance(d, int) else Dim(name=d["name"], minimum=d["min"], maximum=d["max"])
            for d in value["shape"]
        )
        return cls(
            name=value["name"],
            shape=shape,
            dtype=DType(value["dtype"]),
            quantization=quantization,
            original=str(value.get("original", "")),
        )


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of the function as the caller writes it; its tree's leaves index the inputs."""

    name: str
    tree: Tree
    keyword_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One callable function: flat inputs and outputs, and how the caller nests them.

    `inputs` and `outputs` are in the order the module takes and gives them. Each leaf of
    `arguments` indexes `inputs`, each leaf of `result` indexes `outputs`.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arguments: tuple[Argument, ...]
    result: Tree

    def __post_init__(self) -> None:
        leaves = sorted(i for a in self.arguments for i in tree.leaf_indices(a.tree))
        if leaves != list(range(len(self.inputs))):
            raise ProgramError(f"the signature {self.name} does not name each input once")
        if not set(tree.leaf_indices(self.result)) <= set(range(len(self.outputs))):
            raise ProgramError(f"the signature {self.name} names an output it does not have")

    @classmethod
    def flat(
        cls, name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> "Signature":
        """A signature without nesting: an argument an input; one output bare, several a tuple."""
        count = len(outputs)
        return cls(
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            arguments=tuple(Argument(name=s.name, tree=i) for i, s in enumerate(inputs)),
            result=0 if count == 1 else tuple(range(count)),
        )

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Flat inputs, in module order, from a call's arguments. Shapes are not looked at.

        Raises:
            InputError: too many, missing, unknown or doubly given arguments, or another nesting.
        """
        names = self._plain_names
        if names is not None and len(args) + len(kwargs) == len(names):
            plain = _bind_plain(names, args, kwargs)
            if plain is not None:
                return plain
        positional = [a for a in self.arguments if not a.keyword_only]
        if len(args) > len(positional):
            raise InputError(
                f"{self.name}() takes {len(positional)} arguments and got {len(args)}",
                hint=f"call it as {self}",
            )
        given: dict[str, Any] = {a.name: v for a, v in zip(positional, args, strict=False)}
        for key, value in kwargs.items():
            if key in given:
                raise InputError(f"{self.name}() got {key} twice", hint=f"call it as {self}")
            given[key] = value
        unknown = sorted(set(given) - {a.name for a in self.arguments})
        missing = [a.name for a in self.arguments if a.name not in given and a.tree is not None]
        if unknown or missing:
            problem = [f"does not take {', '.join(unknown)}"] if unknown else []
            problem += [f"needs {', '.join(missing)}"] if missing else []
            raise InputError(f"{self.name}() {' and '.join(problem)}", hint=f"call it as {self}")
        leaves: dict[int, Any] = {}
        for argument in self.arguments:
            leaves |= tree.match(argument.tree, given.get(argument.name), argument.name)
        return [leaves[i] for i in range(len(self.inputs))]

    @cached_property
    def _plain_names(self) -> tuple[str, ...] | None:
        """The names of the arguments where each is one input, by position or name, in order."""
        trees = [a.tree for a in self.arguments]
        if trees != list(range(len(self.inputs))) or any(a.keyword_only for a in self.arguments):
            return None
        return tuple(a.name for a in self.arguments)

    def refuse_other_count(self, given: int) -> None:
        """Refuse a flat call with another number of inputs than it takes.

        Raises:
            InputError: `given` is not that number.
        """
        if given != len(self.inputs):
            raise InputError(
                f"{self.name}() takes {len(self.inputs)} inputs and got {given}",
                hint=f"call it as {self}",
            )

    def unflatten(self, outputs: Sequence[Any]) -> Any:
        """Outputs nested as the model returned them."""
        return tree.unflatten(self.result, outputs)

    def call(
        self,
        flat: Callable[[list[Any]], Sequence[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Call a function of flat values with a call's arguments; its results, nested.

        Raises:
            InputError: as `bind`, and what the function raises.
        """
        return self.unflatten(flat(self.bind(args, kwargs)))

    def __str__(self) -> str:
        """`main(image: f32[1, 28, 28]) -> (logits: f32[1, 10])`."""
        takes = ", ".join(map(str, self.inputs))
        gives = ", ".join(map(str, self.outputs))
        return f"{self.name}({takes}) -> ({gives})"

    def to_json(self) -> dict[str, Any]:
        """As JSON, the form that rides in programs and modules."""
        return {
            "name": self.name,
            "inputs": [s.to_json() for s in self.inputs],
            "outputs": [s.to_json() for s in self.outputs],
            "arguments": [
                {"name": a.name, "tree": tree.to_json(a.tree)}
                | ({"keyword_only": True} if a.keyword_only else {})
                for a in self.arguments
            ],
            "result": tree.to_json(self.result),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Signature":
        """The inverse of `to_json`.

        Raises:
            ProgramError: the JSON is no signature.
        """
        try:
            return cls(
                name=value["name"],
                inputs=tuple(TensorSpec.from_json(s) for s in value["inputs"]),
                outputs=tuple(TensorSpec.from_json(s) for s in value["outputs"]),
                arguments=tuple(
                    Argument(
                        name=a["name"],
                        tree=tree.from_json(a["tree"]),
                        keyword_only=bool(a.get("keyword_only", False)),
                    )
                    for a in value["arguments"]
                ),
                result=tree.from_json(value["result"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ProgramError(f"damaged signature: {error!r}") from error
        except UsageError as error:
            raise ProgramError(f"damaged signature: {error.what}") from error


def _bind_plain(
    names: tuple[str, ...], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any] | None:
    """The values of all these arguments, each one array; None where something is not as it should.

    What that is, the long way says: this one is for calls that take hardly longer than it.
    """
    leaves = [*args]
    for name in names[len(args) :]:
        if name not in kwargs:
            return None
        leaves.append(kwargs[name])
    for leaf in leaves:
        if leaf is None or isinstance(leaf, dict):
            return None
    return leaves
