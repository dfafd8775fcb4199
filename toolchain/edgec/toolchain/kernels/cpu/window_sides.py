"""A convolution's image and window as memory with one step for each of their axes.

Both are followed back through what only moves elements, so that a transposition before the
convolution costs nothing. A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import replace
from typing import Any

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.views import Digit, Strided, before, dense, through
from edgec.toolchain.match.convolution import Convolution

__all__ = ["image_of", "step_of", "window_of"]


def image_of(conv: Convolution, *, by_group: bool = False) -> Strided | None:
    """The first window of an image, in memory that has the zeros which windows meet around it.

    With `by_group` groups are neighbours there, of which only images or only channels have some.

    Its axes are groups of images, images, groups of channels, channels, and pixels. None where
    these have no single steps there.
    """
    view = _furthest(_image(conv))
    if by_group:
        found = _innermost(view, 0 if conv.batch_groups > 1 else 2)
        if found is None:
            return None
        view = found
    return _bordered(view, conv)


def window_of(conv: Convolution, *, by_group: bool = False) -> Strided | None:
    """The first place of a window: groups, outputs of a group, what is summed, and places.

    With `by_group` groups are neighbours there. None where they have no single step.
    """
    view = _furthest(_window(conv))
    if by_group:
        found = _innermost(view, 0)
        if found is None:
            return None
        view = found
    runs = zip(conv.axes, view.axes[3:], strict=True)
    last = sum((axis.window - 1) * step_of(run) for axis, run in runs if axis.turned)
    return replace(view, start=view.start + last)


def step_of(run: tuple[Digit, ...]) -> int:
    """The step of an axis; 0 where it has one element."""
    return run[0].step if run else 0


def _image(conv: Convolution) -> Strided:
    """The image by groups of images, images, groups of channels, channels, and pixels."""
    steps = dense(graph.shape(conv.image))
    first, channel, *pixels = (steps[place] for place in conv.image_order)
    images = conv.batch // conv.batch_groups
    return _view(
        conv.image,
        [
            (conv.batch_groups, first * images),
            (images, first),
            (conv.groups, channel * conv.inner),
            (conv.inner, channel),
            *((axis.size, step) for axis, step in zip(conv.axes, pixels, strict=True)),
        ],
    )


def _window(conv: Convolution) -> Strided:
    """The window by groups, outputs of a group, what is summed, and places."""
    steps = dense(graph.shape(conv.weight))
    output, channel, *places = (steps[place] for place in conv.weight_order)
    groups = conv.groups * conv.batch_groups
    each = conv.outputs // groups
    return _view(
        conv.weight,
        [
            (groups, output * each),
            (each, output),
            (conv.inner, channel),
            *((axis.window, step) for axis, step in zip(conv.axes, places, strict=True)),
        ],
    )


def _view(value: Any, runs: list[tuple[int, int]]) -> Strided:
    axes = tuple((Digit(size=size, step=step),) if size > 1 else () for size, step in runs)
    return Strided(value=value, start=0, axes=axes)


def _furthest(view: Strided) -> Strided:
    """The furthest view back in which every axis has one step."""
    best = view
    further = before(view)
    while further is not None:
        if all(len(run) < 2 for run in further.axes):
            best = further
        further = before(further)
    return best


def _innermost(view: Strided, axis: int) -> Strided | None:
    """The same in memory in which the elements along an axis are neighbours.

    A copy where they are none. None where the axis is no part of one of the memory's.
    """
    wanted = step_of(view.axes[axis])
    count = view.axes[axis][0].size
    if wanted == 1:
        return view
    sizes = graph.shape(view.value)
    for place, (size, step) in enumerate(zip(sizes, dense(sizes), strict=True)):
        whole = count * wanted
        if wanted % step or size * step % whole:
            continue
        parts = [size * step // whole, count, wanted // step]
        cut = graph.reshape(view.value, [*sizes[:place], *parts, *sizes[place + 1 :]])
        own = place + 1
        order = [at for at in range(len(sizes) + 2) if at != own] + [own]
        near = graph.transpose(cut, order)
        steps = dense(graph.shape(near))
        there = [steps[order.index(at)] for at in range(len(order))]
        return through(replace(view, value=cut), near, there)
    return None


def _bordered(image: Strided, conv: Convolution) -> Strided | None:
    """The first window of an image, in memory that has the zeros which windows meet around it.

    None where it is no longer one step an axis there.
    """
    pads = [(max(axis.low, 0), max(axis.high, 0)) for axis in conv.axes]
    if any(any(pair) for pair in pads):
        places = _places(image, conv)
        if places is None:  # The image's own axes then, not those of what it was made of.
            image, places = _image(conv), list(conv.image_order[2:])
        padded = _padded(image, places, pads)
        if padded is None:
            return None
        image = padded
    start = image.start
    for axis, run in zip(conv.axes, image.axes[4:], strict=True):
        start -= axis.low * step_of(run)
    return replace(image, start=start)


def _places(image: Strided, conv: Convolution) -> list[int] | None:
    """Which axes of the memory rows and columns of pixels are; None where they are none."""
    sizes = graph.shape(image.value)
    known = list(zip(sizes, dense(sizes), strict=True))
    wanted = [
        (axis.size, step_of(run)) for axis, run in zip(conv.axes, image.axes[4:], strict=True)
    ]
    if any(size == 1 or (size, step) not in known for size, step in wanted):
        return None
    return [known.index(each) for each in wanted]


def _padded(image: Strided, places: list[int], pads: list[tuple[int, int]]) -> Strided | None:
    sizes = graph.shape(image.value)
    low, high = [0] * len(sizes), [0] * len(sizes)
    for place, pair in zip(places, pads, strict=True):
        low[place], high[place] = pair
    wide = graph.pad(image.value, graph.fill(0.0, (), graph.element(image.value)), low, high)
    steps = dense(graph.shape(wide))
    start = sum(n * step for n, step in zip(low, steps, strict=True))
    found = through(image, wide, steps, start)
    if found is None:
        return None
    # Windows move over what stands around a single pixel, too, which alone has no step.
    runs = [(Digit(size=graph.shape(wide)[place], step=steps[place]),) for place in places]
    return replace(found, axes=(*found.axes[: -len(runs)], *runs))
