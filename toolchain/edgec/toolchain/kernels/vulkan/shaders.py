"""All kernels for Vulkan: which source each is of, with which tile, and which integers it takes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edgec.toolchain.kernels.vulkan.forms import (
    ATTENTION_FORMS,
    COLUMNS_FORM,
    DIRECT_ATTENTION_FORMS,
    DIRECT_FORMS,
    FEWEST_REGISTERS,
    MATRIX_FORMS,
    NORM_FORMS,
    SUM_FORMS,
    USUAL,
    WINDOW_FORMS,
    AttentionForm,
    BlockForm,
    BlockTileForm,
    ColumnsForm,
    NormForm,
    ProductForm,
)
from edgec.toolchain.kernels.vulkan.variants import Variant

__all__ = [
    "WINOGRAD_THREADS",
    "Shader",
    "attention",
    "attention_join",
    "block_product",
    "block_rows",
    "columns",
    "concatenate",
    "edge",
    "grouped",
    "join",
    "moves",
    "norm",
    "order",
    "shaders",
    "summing",
    "transpose",
    "turn",
    "winograd_input",
    "winograd_output",
    "winograd_weights",
]

_TAIL = ("what", "clip_slope", "clip_low", "clip_high")
_SUM = ("m", "n", "k", "k_part", *_TAIL)
_WINDOW = (
    *("high", "wide", "inputs", "out_high", "out_wide", "pixel", "taps_wide"),
    *("stride_high", "stride_wide", "dilation_high", "dilation_wide", "pad_high", "pad_wide"),
)
_GROUPS = (
    *("inputs", "each", "taps_high", "taps_wide", "stride_high", "stride_wide"),
    *("dilation_high", "dilation_wide", "pad_high", "pad_wide"),
)
_COLUMN = ("row_far", "row_near", "room_far", "room_near", "each")
_NORM = (
    *("n", "what", "share_bits", "epsilon_bits", "beside", "row_far", "row_near"),
    *("run", "room_far", "room_near"),
    *(f"{which}_{step}" for which in "ab" for step in _COLUMN),
)
_KINDS = {"product_nn": (), "product_nt": ("TURNED",), "convolution": ("CONVOLUTION",)}
_WITHOUT = tuple(("product_nt", word) for word in MATRIX_FORMS)
"""What the source does not do."""
_ELEMENTS = ("f32", "f16")
_THREADS = 64
WINOGRAD_THREADS = 64
"""Of a workgroup that turns pixels or results."""
_LYING = ("many", "start", "size_w", "step_y", "step_z", "step_w")
_SCALES = ("scale_start", "scale_x", "scale_y", "scale_z", "scale_w")
_EDGE = (
    *("many", "start", "edge_bits", "size_w", "size_z", "size_y"),
    *(f"{name}_{axis}" for name in ("low", "inner", "step") for axis in "xyzw"),
)
_TILES = ("first_tile", "tiles", "down", "across")


@dataclass(frozen=True, kw_only=True)
class Shader:
    """A kernel whose integers are not known yet.

    Attributes:
        name, source, element, words, sizes, threads, shared: see `Variant`.
        numbers: its integers.
        folds: those that make it quicker when they are compiled in.
        table: whether it takes an array of integers, too, which does so likewise.
    """

    name: str
    source: str
    element: str
    words: tuple[str, ...] = ()
    sizes: Mapping[str, int]
    threads: int
    shared: int = 0
    numbers: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    table: bool = False

    def variant(
        self, values: Mapping[str, int], table: tuple[int, ...] = (), *, folds: bool
    ) -> Variant:
        """The kernel for a call.

        Args:
            values: all its integers.
            table: the array that it takes.
            folds: whether constants may be compiled in.
        """
        given = tuple(name for name in self.numbers if not folds or name not in self.folds)
        return Variant(
            name=self.name,
            source=self.source,
            element=self.element,
            words=self.words,
            sizes=tuple(self.sizes.items()),
            numbers=given,
            constants=tuple((name, values[name]) for name in self.numbers if name not in given),
            table=table if folds else (),
            threads=self.threads,
            shared=self.shared,
        )


def summing(kind: str, word: str, form: ProductForm, element: str) -> Shader:
    """A product (`product_nn`, `product_nt`) or `convolution` of a form by its word."""
    steps = _WINDOW if kind == "convolution" else ("a_step", "b_step")
    return Shader(
        name=f"{kind}_{word}_{element}",
        source=form.source,
        element=element,
        words=_KINDS[kind],
        sizes=form.sizes,
        threads=form.threads,
        shared=form.shared,
        numbers=(*_SUM, *steps),
        # What follows is as many instructions for each four of a thread's results, most of which no
        # tail needs; on a GPU that reads a kernel's code anew for each call they cost more than the
        # products of a small one.
        folds=_TAIL if form.matrix or form.source == "direct" else (),
    )


def join(element: str) -> Shader:
    """What adds up the parts of a sum."""
    return Shader(
        name=f"join_{element}",
        source="join",
        element=element,
        sizes={},
        threads=_THREADS,
        numbers=("m", "n", "parts", *_TAIL),
    )


def grouped(element: str, *, at_once: bool) -> Shader:
    """A convolution in groups, whose reads may wait for no test."""
    return Shader(
        name=f"grouped_{element}",
        source="grouped",
        element=element,
        words=("AT_ONCE",) if at_once else (),
        sizes={},
        threads=_THREADS,
        numbers=("m", "n", *_TAIL, "high", "wide", "channels", "out_high", "out_wide", *_GROUPS),
        folds=(*_TAIL, *_GROUPS),
    )


def transpose() -> Shader:
    """Columns to rows."""
    return Shader(
        name="transpose_f32",
        source="transpose",
        element="f32",
        sizes={},
        threads=_THREADS,
        numbers=("m", "n", "room"),
    )


def turn(scaled: bool) -> Shader:
    """Elements that lie by up to four steps to dense ones, perhaps times factors that do so."""
    return Shader(
        name=f"turn{'_scaled' if scaled else ''}_f32",
        source="turn",
        element="f32",
        words=("SCALED",) if scaled else (),
        sizes={},
        threads=_THREADS,
        numbers=(*_LYING, "size_y", "size_z", "step_x", *(_SCALES if scaled else ())),
    )


def winograd_weights(scaled: bool) -> Shader:
    """Weights to the 36 sums of Winograd's convolution, perhaps times factors."""
    return Shader(
        name=f"winograd_weights{'_scaled' if scaled else ''}_f32",
        source="winograd_weights",
        element="f32",
        words=("SCALED",) if scaled else (),
        sizes={},
        threads=WINOGRAD_THREADS,
        numbers=(*_LYING, "step_x", *(_SCALES if scaled else ())),
    )


def winograd_input() -> Shader:
    """Pixels to the 36 sums that Winograd's convolution multiplies."""
    return Shader(
        name="winograd_input_f32",
        source="winograd_input",
        element="f32",
        sizes={},
        threads=WINOGRAD_THREADS,
        numbers=(*_TILES, "inputs", "high", "wide", "pad_high", "pad_wide"),
    )


def winograd_output() -> Shader:
    """What its products gave to results, and what follows them."""
    return Shader(
        name="winograd_output_f32",
        source="winograd_output",
        element="f32",
        sizes={},
        threads=WINOGRAD_THREADS,
        numbers=(*_TILES, "n", "out_high", "out_wide", *_TAIL),
        folds=_TAIL,
    )


def attention(
    form: AttentionForm,
    element: str,
    *,
    part: int = 0,
    seen: bool = False,
    hides: bool = False,
    fours: bool = False,
    kept: bool = False,
) -> Shader:
    """Attention whose widest head fits a form.

    Args:
        form, element: of the kernel.
        part: keys of a workgroup, whose sums `attention_join` puts together; 0 for all of them.
        seen: its only term is a mask of all queries alike, whose other scores count for nothing.
        hides: its first term is a mask whose other scores count for nothing, not alike for all; no
            matrix units.
        fours: rows of queries, keys and values lie in whole fours; no matrix units.
        kept: keys and values are of f16, beside queries of f32 and in fours.
    """
    said = {"SEEN": seen, "HIDES": hides, "FOURS": fours, "KEPT": kept}
    return Shader(
        name=f"attention_{form.word}{'_parts' if part else ''}{'_kept' if kept else ''}_{element}",
        source=form.source,
        element=element,
        words=tuple(word for word, holds in said.items() if holds),
        sizes={**form.sizes, **({"PART": part} if part else {})},
        threads=form.threads,
        shared=form.shared,
        table=True,
    )


def attention_join(
    form: AttentionForm, element: str, parts: int, *, seen: bool, kept: bool = False
) -> Shader:
    """What puts so many parts of an attention's keys together."""
    return Shader(
        name=f"attention_join_{element}",
        source="attention_join",
        element=element,
        words=tuple(word for word, holds in (("SEEN", seen), ("KEPT", kept)) if holds),
        sizes={"BM": form.queries, "PARTS": parts},
        threads=_THREADS,
        table=True,
    )


def norm(
    word: str, form: NormForm, element: str, *, single: bool, subgroups: bool = False
) -> Shader:
    """A norm of a form by its word.

    Args:
        word, form, element: of the kernel.
        single: elements do not lie in fours.
        subgroups: the threads of a row are a subgroup.
    """
    said = {"BESIDE": form.beside, "SINGLE": single, "SUBGROUPS": subgroups}
    words = tuple(each for each, holds in said.items() if holds)
    return Shader(
        name=f"norm_{word}{'_single' if single else ''}_{element}",
        source="norm",
        element=element,
        words=words,
        sizes=form.sizes,
        threads=form.threads,
        shared=form.shared,
        numbers=("m", *_NORM),
        folds=_NORM,
    )


def columns(form: ColumnsForm, element: str, *, vector: bool) -> Shader:
    """The sums of a matrix's columns; with `vector` those of its rows times one."""
    return Shader(
        name=f"columns{'_by_vector' if vector else ''}_{element}",
        source="columns",
        element=element,
        words=("VECTOR",) if vector else (),
        sizes={"LANES": form.lanes},
        threads=form.threads,
        shared=form.shared,
        numbers=("n", "k", *(_TAIL if vector else ("what", "factor_bits"))),
    )


def block_rows(form: BlockForm, sizes: Mapping[str, int], *, sets: int, normed: bool) -> Shader:
    """Rows by weights in blocks.

    Args:
        form: how threads share it.
        sizes: what the kernel is compiled for: the blocks, and where it finds each part of them.
        sets: how many matrices.
        normed: whether the rows are divided by the root of their mean square first.
    """
    sums = 2 if sizes["GATED"] else 1
    return Shader(
        name=f"block_rows_{sizes['BITS']}_{sizes['INNER']}",
        source="block_rows",
        element="f32",
        words=("NORMED",) if normed else (),
        sizes={**sizes, "LANES": form.lanes, "OUTS": form.each},
        threads=form.threads,
        shared=form.shared(sums, normed=normed),
        numbers=(*(f"outputs{number}" for number in range(sets)), "eps_bits", *_TAIL),
        folds=_TAIL,
    )


def block_product(form: BlockTileForm, sizes: Mapping[str, int]) -> Shader:
    """Many rows by weights in blocks.

    Args:
        form: a workgroup's tile.
        sizes: what the kernel is compiled for: the blocks, and where it finds each part of them.
    """
    return Shader(
        name=f"block_product_{sizes['BITS']}_{sizes['INNER']}",
        source="block_product",
        element="f32",
        sizes={**sizes, **form.sizes},
        threads=form.threads,
        numbers=("m", "outputs0", "pieces", *_TAIL),
        folds=_TAIL,
    )


def moves(
    source: str, element: str, sizes: Mapping[str, int], *, turned: bool, narrow: bool = False
) -> Shader:
    """What puts parts into arrays (`put`) or takes a slice of one (`take`).

    Args:
        source: which of the two.
        element: of the arrays; without being turned they are only moved.
        sizes: what the kernel is compiled for.
        turned: whether what is put are rows that are turned by their position.
        narrow: whether what is put is f32, and the arrays keep it in f16.
    """
    said = {"TURNED": turned, "PAIRS": element in ("i64", "f64"), "NARROW": narrow}
    return Shader(
        name=f"{source}{'_turned' if turned else ''}_{element}",
        source=source,
        element="f16" if element == "f16" and not narrow else "f32",
        words=tuple(word for word, holds in said.items() if holds),
        sizes=sizes,
        threads=_THREADS,
        numbers=("base",),
    )


def order(part: int, threads: int, said: Mapping[str, bool]) -> Shader:
    """Parts of rows in order.

    Args:
        part: how many numbers a workgroup sorts; a power of two.
        threads: of a workgroup.
        said: what the source asks of them, by word.
    """
    words = tuple(word for word, holds in said.items() if holds)
    reads = 2 if said["CANDIDATES"] else 1
    places = {"X_AT": 0, "P_AT": 1, "AT_AT": reads, "Y_AT": reads + 1}
    return Shader(
        name=f"order_{part}",
        source="order",
        element="f32",
        words=words,
        sizes={"PART": part, **places},
        threads=threads,
        shared=8 * part,
        numbers=("length", "count", "kept"),
    )


def concatenate() -> Shader:
    """Rows of two tensors beside each other, of any type."""
    return Shader(
        name="concatenate_bytes",
        source="concatenate",
        element="f32",
        sizes={},
        threads=256,
        numbers=("rows", "first", "second"),
    )


def edge(element: str) -> Shader:
    """Elements that lie by up to four steps with an edge around them, of any type so wide."""
    return Shader(
        name=f"edge_{element}",
        source="edge",
        element=element,
        sizes={},
        threads=_THREADS,
        numbers=_EDGE,
        # What is around it may be infinite, which is no constant in WGSL.
        folds=tuple(name for name in _EDGE if name != "edge_bits"),
    )


def shaders() -> Iterator[Shader]:
    """Every kernel that may be compiled without knowing its integers.

    Of those for GPUs without matrix units there are not all: none of f16, and of the largest tiles
    none; nor attention with the widest heads, Winograd's, transposes, edges or turned weights. The
    archive stays below 100 KB.
    """
    small = {word: f for word, f in DIRECT_FORMS.items() if f.registers <= FEWEST_REGISTERS}
    for kind in _KINDS:
        units = WINDOW_FORMS if kind == "convolution" else MATRIX_FORMS
        for element, forms in (("f32", SUM_FORMS), ("f16", units), ("f32", small)):
            for word, form in forms.items():
                if (kind, word) not in _WITHOUT and (not form.matrix or word in USUAL):
                    yield summing(kind, word, form, element)
    for element in _ELEMENTS:
        yield join(element)
        for yes in (False, True):
            yield grouped(element, at_once=yes)
            yield columns(COLUMNS_FORM, element, vector=yes)
        for attention_form in ATTENTION_FORMS[:-1]:
            yield attention(attention_form, element)
        for word, norm_form in NORM_FORMS.items():
            if element == "f32" or not word.endswith("_half"):
                yield norm(word, norm_form, element, single=False)
    yield concatenate()
    for attention_form in DIRECT_ATTENTION_FORMS[:-1]:
        yield attention(attention_form, "f32")
