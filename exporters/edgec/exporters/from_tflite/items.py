"""Writing one item of a stacked tensor, which the converter spells as two slices and a joint.

TensorFlow's lists become tensors of TensorFlow Lite whose item `i` is replaced by
`CONCATENATION(SLICE(x, 0, i), item, SLICE(x, i + 1, -1))`: parts whose sizes depend on data. Here
that is one operator, `SET_ITEM` of the list, the item and the first slice's sizes.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.exporters.from_tflite.call import Call
from edgec.exporters.from_tflite.model import TfliteOperator, TfliteSubgraph

__all__ = ["SET_ITEM", "set_item", "with_items"]

SET_ITEM = "SET_ITEM"


def with_items(graph: TfliteSubgraph) -> TfliteSubgraph:
    """The subgraph with `SET_ITEM` for every such joint; its slices are gone."""
    makers = {index: o for o in graph.operators for index in o.outputs}
    uses = Counter(i for o in graph.operators for i in o.inputs)
    uses.update(graph.outputs)
    gone: set[int] = set()
    items: dict[int, TfliteOperator] = {}
    for place, operator in enumerate(graph.operators):
        if operator.kind != "CONCATENATION" or len(operator.inputs) != 3:
            continue
        first, item, last = operator.inputs
        before, after = makers.get(first), makers.get(last)
        if before is None or after is None or not _are_ends(graph, before, after):
            continue
        if uses[first] == uses[last] == 1:
            gone |= {first, last}
            items[place] = TfliteOperator(
                kind=SET_ITEM,
                inputs=(before.inputs[0], item, before.inputs[2]),
                outputs=operator.outputs,
                options=operator.options,
            )
    kept = [
        items.get(place, operator)
        for place, operator in enumerate(graph.operators)
        if not gone & set(operator.outputs)
    ]
    return replace(graph, operators=tuple(kept)) if items else graph


def set_item(call: Call) -> Any:
    """SET_ITEM along the axis of the joint."""
    from jax import lax

    axis = int(call.option("axis", 0)) % call[0].ndim
    return lax.dynamic_update_slice_in_dim(call[0], call[1], call[2][axis], axis)


def _are_ends(graph: TfliteSubgraph, before: TfliteOperator, after: TfliteOperator) -> bool:
    """Whether two slices are what lies before and after an item of one tensor."""
    if before.kind != "SLICE" or after.kind != "SLICE" or before.inputs[0] != after.inputs[0]:
        return False
    starts, rest = graph.tensors[before.inputs[1]].data, graph.tensors[after.inputs[2]].data
    if starts is None or rest is None or graph.tensors[before.inputs[2]].data is not None:
        return False
    return not np.any(starts) and bool(np.all(rest == -1))
