"""Loops in each other that carry the same sums, in text: convolutions of all types walk so."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["summed_loops"]


def summed_loops(
    w: Writer,
    loops: Sequence[tuple[str, int]],
    begin: Sequence[str],
    kind: str,
    place: Callable[[], Iterable[str]],
    body: Callable[[list[str]], Iterable[str]],
    lead: Callable[[list[str]], Generator[str, None, list[str]]] | None = None,
) -> Iterator[str]:
    """Loops from 0 to their sizes; the sums become `%sum#…`.

    Args:
        w: the kernel's writer.
        loops: each one's name, which is its counter's, and size, the outermost first.
        begin: what the sums are before.
        kind: the type of each.
        place: written before the innermost loop, whose address it may work out.
        body: what is in the innermost loop, of the sums' names there; it yields them on itself.
        lead: what is added to the sums before the innermost loop; it returns their new names.
    """
    count = len(begin)
    kinds = ", ".join([kind] * count)
    outer = list(begin)
    for depth, (name, size) in enumerate(loops):
        if depth == len(loops) - 1:
            yield from place()
            if lead is not None:
                outer = yield from lead(outer)
        names = [f"%{name}_s{i}" for i in range(count)]
        pairs = ", ".join(f"{n} = {o}" for n, o in zip(names, outer, strict=True))
        label = "sum" if depth == 0 else f"sum_{name}"
        yield (
            f"%{label}:{count} = scf.for %{name} = {w.index(0)} to {w.index(size)} "
            f"step {w.index(1)} iter_args({pairs}) -> ({kinds}) {{"
        )
        outer = names
    yield from body(outer)
    yield "}"
    for name, _ in reversed(loops[1:]):
        values = ", ".join(f"%sum_{name}#{i}" for i in range(count))
        yield f"scf.yield {values} : {kinds}"
        yield "}"
