"""The models by name, in the table's order."""

from benchmarks.peers.models import images, signals, transformers, variants
from benchmarks.peers.models.model import Model

__all__ = ["MODELS"]

MODELS: dict[str, Model] = {
    model.name: model
    for model in (*images.MODELS, *transformers.MODELS, *signals.MODELS, *variants.MODELS)
}
