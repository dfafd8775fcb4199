"""A configuration of `transformers` made small by what each of its numbers counts, until it runs.

Only what its constructor takes is given, so what it works out of that follows. Each kind of layer
stays. While the model is too large, the number is halved that makes it smallest; where it does not
run, each number that was cut is tried as it had been, and what is missing as a model needs it.
"""

import importlib
import inspect
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["fitted"]

_SECONDS = 100
"""Of a core's work, for all tries of one family."""

_WIDTH, _HEAD, _RANK, _HEADS = 64, 16, 16, 4
_COUNTS = {
    r"^(hidden_size|d_model|n_embd|dim|model_dim|lru_width|mamba_d_ssm)$": _WIDTH,
    r"(inner|intermediate_size|ffn_dim|d_ff|mlp_dim)$": 96,
    r"(moe|shared|expert).*intermediate_size$": 48,
    r"_rank$": _RANK,
    r"^n_groups?$|expert_groups?$": 2,
    r"^topk_groups?$|^(o|mamba_n|ssm|mamba)_groups?$|n_shared_experts": 1,
    r"experts_per_tok(en)?$|top_?k_experts$|^(moe_)?top_?k$": 2,
    r"experts$": 4,
    r"(key_value_heads|kv_heads|num_key_heads)$": 2,
    r"(heads|n_head)$": _HEADS,
    r"head_?dim$|head_size$|d_head$|d_kv$|rotary_dim$|qk_dim$|v_dim$": _HEAD,
    r"(state|state_size|dt_rank)$": _HEAD,
    r"(dense_replace|dense_layers|hash_layers|_offset)$": 1,
    r"layer_period$": 2,
    r"^(mamba_)?expand$": 1,  # so that heads by their width are the hidden size
    r"(layers|n_layer|depth)$": 2,
    r"index_topk$": 16,  # tokens, fewer than a text has
    r"index_n_heads$": 32,  # of few, all give many tokens nothing, and any of those is taken
}
"""What a number's name says it counts → how many there shall be; the last that matches."""

_MOST_LAYERS = 6
Numbers = dict[tuple[str, ...], Any]
"""What constructors are given, by the names that lead to it."""


def fitted(
    kind: type[Any],
    shared: Mapping[str, Any],
    size: Callable[[Any], int],
    runs: Callable[[Any], None],
    *,
    most: int,
) -> Any:
    """A configuration of this kind whose model runs.

    Args:
        kind: the configuration's class.
        shared: what is given to each part that knows it, beside what is cut.
        size: how many parameters its model has.
        runs: raises an error if its model does not run.
        most: how many parameters it may have.

    Raises:
        ValueError: there is none that runs, or that is so small.
        Exception: what the first of those that are small raised.
    """
    whole = kind()
    given, twice = (_cut(whole, shared, times) for times in (1, 2))
    end = time.thread_time() + _SECONDS
    problems: list[Exception] = []
    for changed in _tries(whole, given, twice):
        try:
            config = _made(kind, _halved(kind, changed, size, most))
            runs(config)
        except Exception as error:  # noqa: BLE001 - sizes that do not fit; others may
            problems.append(error)
            if time.thread_time() > end:
                break
        else:
            return config
    raise problems[0]


def _cut(whole: Any, shared: Mapping[str, Any], times: int) -> Numbers:
    """What to give for a small one that has each kind of layer so many times."""
    given: Numbers = {}
    for path, part in _parts(whole):
        fields = _fields(part)
        own = _own(part) if path else {}
        own |= {key: shared[key] for key in shared if key in vars(part)}
        for key, value in vars(part).items():
            small = _small(key)
            if key in fields and _is_number(value) and small is not None and value > small:
                own[key] = small
        own |= _layers(part, own, fields, times)
        given |= {(*path, key): value for key, value in (own | _by_name(part, own)).items()}
    return given


def _own(part: Any) -> dict[str, Any]:
    """What a part was given by the configuration that holds it, and has not by itself."""
    plain = vars(type(part)())
    simple = int | float | str | list | tuple | None
    return {
        key: value
        for key, value in vars(part).items()
        if key in _fields(part) and isinstance(value, simple) and value != plain.get(key)
    }


def _by_name(part: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Cuts of what is no field, is taken by name, and does not follow from the fields."""
    fields = _fields(part)
    try:
        after = vars(type(part)(**{key: value for key, value in own.items() if key in vars(part)}))
    except Exception:  # noqa: BLE001 - sizes that do not fit, which are tried otherwise later
        return {}
    return {
        key: small
        for key, value in vars(part).items()
        if key not in fields and _is_number(value) and after.get(key) == value
        if (small := _small(key)) is not None and value > small
    }


def _layers(
    part: Any, own: Mapping[str, Any], fields: frozenset[str], times: int
) -> dict[str, Any]:
    """Lists with an entry a layer, cut so that each kind of layer stays so many times."""
    numbers = [key for key in ("num_hidden_layers", "n_layer", "num_layers") if key in own]
    if not numbers:
        return {}
    count = getattr(part, numbers[0])
    lists = {
        key: list(value)
        for key, value in vars(part).items()
        if key in fields and isinstance(value, list | tuple) and len(value) == count
    }
    kinds: dict[str, list[int]] = {}
    for place, row in enumerate(zip(*lists.values(), strict=True)):
        kinds.setdefault(repr(row), []).append(place)
    places = sorted(place for same in kinds.values() for place in same[:times])[:_MOST_LAYERS]
    places += [place for place in range(count) if place not in places][: max(0, 2 - len(places))]
    cut = {key: [value[place] for place in sorted(places)] for key, value in lists.items()}
    return {**cut, numbers[0]: len(places)} if lists else {}


def _halved(kind: type[Any], given: Numbers, size: Callable[[Any], int], most: int) -> Numbers:
    """The same with further numbers halved, until the model is small enough.

    Raises:
        ValueError: it does not get so small.
    """
    now = size(_made(kind, given))
    while now > most:
        found: list[tuple[int, Numbers]] = []
        for path, value in _numbers(_made(kind, given)).items():
            tried = {**given, path: _half(value)}
            try:
                found.append((size(_made(kind, tried)), tried))
            except Exception:  # noqa: BLE001 - halves that do not fit; others may
                continue
        smallest, best = min(found, key=lambda one: one[0], default=(now, given))
        if smallest >= now:
            raise ValueError(f"{now // 1_000_000} million parameters")
        now, given = smallest, best
    return given


def _tries(whole: Any, given: Numbers, twice: Numbers) -> Iterator[Numbers]:
    """What was cut; that with what is missing, layers twice, or a larger number; then two."""
    yield given
    before = {
        (*path, key): value for path, part in _parts(whole) for key, value in vars(part).items()
    }
    cut = [p for p in given if _is_number(given[p]) and _is_number(before.get(p))]
    more = {path: value for path, value in twice.items() if given.get(path) != value}
    extra = (_missing(whole, given), more, _unset(whole), *_alike(given, before))
    changes: list[Numbers] = [change for change in extra if change]
    for path in cut:
        if path[-1] not in ("vocab_size",) and not path[-1].endswith("token_id"):
            changes += [{path: size} for size in _between(given[path], before[path])]
    for one in changes:
        yield {**given, **one}
    for one, other in itertools.combinations(changes, 2):
        yield {**given, **one, **other}


def _alike(given: Numbers, before: Numbers) -> Iterator[Numbers]:
    """Numbers that were the same, of which some were cut and others not, as they had been."""
    numbers = [path for path in before if _is_number(before[path])]
    for value in sorted({before[path] for path in given if path in numbers}):
        same = [path for path in numbers if before[path] == value]
        cut = [path for path in same if given.get(path, value) != value]
        if cut and len(cut) < len(same):
            yield dict.fromkeys(cut, value)


def _between(small: int, large: int) -> list[int]:
    """Sizes from twice a small one to a large one, and none beyond what is soon run."""
    sizes = [2 * small, 4 * small, large, *((1,) if small > 1 else ())]
    return sorted({size for size in sizes if size <= min(large, 16 * small)})


def _missing(whole: Any, given: Numbers) -> Numbers:
    """What a configuration has none of, and models need: heads' sizes, how places turn, and a
    layer of attention, by whose keys the library counts tokens."""
    found: Numbers = {}
    turn = {"rope_type": "default", "rope_theta": 10000.0}
    for path, part in _parts(whole):
        for key, value in vars(part).items():
            if value is None and re.search(r"head_dim$", key):
                found[*path, key] = _HEAD
            if key == "rope_parameters" and not value:
                kinds = dict.fromkeys(getattr(part, "layer_types", None) or ())
                found[*path, key] = {name: dict(turn) for name in kinds} if kinds else turn
        if getattr(part, "layer_types", ()) is None and (kinds := _kinds_of_layers(part)):
            found[*path, "layer_types"] = (2 * kinds)[: max(2, len(kinds))]
            found[*path, "num_hidden_layers"] = len(found[*path, "layer_types"])
        types = given.get((*path, "layer_types"))
        if types and not any("attention" in name.replace("linear_attention", "") for name in types):
            found[*path, "layer_types"] = [*types[:-1], "full_attention"]
    return found


def _kinds_of_layers(config: Any) -> list[str]:
    """Those of the library's kinds of layers that a configuration's model speaks of."""
    from transformers.configuration_utils import ALLOWED_LAYER_TYPES

    folder, _, name = type(config).__module__.rpartition(".")
    model = importlib.import_module(f"{folder}.{name.replace('configuration_', 'modeling_')}")
    source = inspect.getsource(model)
    return [kind for kind in ALLOWED_LAYER_TYPES if f'"{kind}"' in source]


def _unset(whole: Any) -> Numbers:
    """Numbers that a configuration leaves open, and some models need all the same: experts, say."""
    return {
        (*path, key): small
        for path, part in _parts(whole)
        for key, value in vars(part).items()
        if value is None and (small := _small(key)) is not None
    }


def _made(kind: type[Any], given: Numbers) -> Any:
    """A configuration of this kind, given these."""
    own: dict[str, Any] = {}
    inner: dict[str, Numbers] = {}
    for (first, *rest), value in given.items():
        if rest:
            inner.setdefault(first, {})[tuple(rest)] = value
        else:
            own[first] = value
    parts = {name: part for (name,), part in _inside(kind())}
    made = {name: _made(type(parts[name]), numbers) for name, numbers in inner.items()}
    return kind(**made, **own)


def _parts(config: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A configuration and those inside it, by the names that lead to them."""
    yield (), config
    for path, part in _inside(config):
        for rest, found in _parts(part):
            yield (*path, *rest), found


def _inside(config: Any) -> Iterator[tuple[tuple[str], Any]]:
    from transformers import PretrainedConfig

    for name, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            yield (name,), value


def _numbers(config: Any) -> Numbers:
    """Every number, or list of some, that its constructor takes and that may be halved."""
    return {
        (*path, key): value
        for path, part in _parts(config)
        for key, value in vars(part).items()
        if key in _fields(part) and "token" not in key and key != "vocab_size"
        if _half(value) not in (None, value)
    }


def _half(value: Any) -> Any:
    """Half of a number, or of each of a list; not below one; None of what is neither."""
    if isinstance(value, list | tuple):
        halves = [_half(item) for item in value]
        return None if not halves or None in halves else type(value)(halves)
    if isinstance(value, float):
        return max(1.0, value / 2) if value > 1 else None
    return max(1, value // 2) if _is_number(value) and value > 0 else None


def _fields(config: Any) -> frozenset[str]:
    return frozenset(getattr(type(config), "__dataclass_fields__", ()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _small(key: str) -> int | None:
    """How many there shall be of what this counts; None for what is left as it is."""
    found = [size for pattern, size in _COUNTS.items() if re.search(pattern, key)]
    return found[-1] if found else None
