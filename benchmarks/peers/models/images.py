"""Image classifiers as inference exports have them: batch norms folded into the convolutions."""

from dataclasses import dataclass

from benchmarks.peers.models.model import Model
from benchmarks.peers.nets.net import Input, Net, Value
from benchmarks.peers.weights import Weights

__all__ = ["MODELS"]

_PHOTO = (Input(name="image", shape=(1, 224, 224, 3), image=True),)
_CLASSES = 1000
_GAIN = 2.0**0.5  # keeps the variance through a ReLU


@dataclass(frozen=True, kw_only=True)
class _Layers:
    """Convolutions by name, each with its weights."""

    net: Net
    weights: Weights

    def conv(
        self,
        x: Value,
        name: str,
        size: int,
        inputs: int,
        outputs: int,
        *,
        stride: int = 1,
        act: str | None = "relu",
        gain: float = _GAIN,
    ) -> Value:
        kernel = self.weights.kernel(f"{name}.kernel", (size, size, inputs, outputs), gain)
        bias = self.weights.bias(f"{name}.bias", outputs)
        y = self.net.conv(x, kernel, bias, stride=stride, pad=size // 2)
        return y if act is None else self.net.activate(y, act)

    def depthwise(
        self, x: Value, name: str, size: int, channels: int, *, stride: int, act: str
    ) -> Value:
        kernel = self.weights.kernel(f"{name}.kernel", (size, size, 1, channels), _GAIN)
        bias = self.weights.bias(f"{name}.bias", channels)
        y = self.net.conv(x, kernel, bias, stride=stride, pad=size // 2, groups=channels)
        return self.net.activate(y, act)

    def squeeze(
        self, x: Value, name: str, channels: int, middle: int, act: str, gate: str
    ) -> Value:
        """Squeeze and excitation: channels weighed by what all of the image says."""
        y = self.net.mean_space(x)
        y = self.conv(y, f"{name}.reduce", 1, channels, middle, act=act)
        y = self.conv(y, f"{name}.expand", 1, middle, channels, act=gate)
        return self.net.mul(x, y)

    def head(self, x: Value, inputs: int) -> Value:
        vector = self.net.vector(x, inputs)
        kernel = self.weights.kernel("head.kernel", (inputs, _CLASSES))
        return self.net.dense(vector, kernel, self.weights.bias("head.bias", _CLASSES))


def _resnet50(net: Net, weights: Weights, image: Value) -> tuple[Value, ...]:
    layers = _Layers(net=net, weights=weights)
    x = layers.conv(image, "stem", 7, 3, 64, stride=2)
    x = net.max_pool(x, size=3, stride=2, pad=1)
    inputs = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            name = f"stage{stage}.block{block}"
            stride = 2 if block == 0 and stage > 0 else 1
            y = layers.conv(x, f"{name}.1", 1, inputs, width)
            y = layers.conv(y, f"{name}.2", 3, width, width, stride=stride)
            y = layers.conv(y, f"{name}.3", 1, width, 4 * width, act=None, gain=0.5)
            if block == 0:
                x = layers.conv(
                    x, f"{name}.skip", 1, inputs, 4 * width, stride=stride, act=None, gain=1.0
                )
            x = net.activate(net.add(x, y), "relu")
            inputs = 4 * width
    return (layers.head(net.mean_space(x), inputs),)


def _mobilenet_v2(net: Net, weights: Weights, image: Value) -> tuple[Value, ...]:
    layers = _Layers(net=net, weights=weights)
    x = layers.conv(image, "stem", 3, 3, 32, stride=2, act="relu6")
    inputs, number = 32, 0
    # Expansion, channels, blocks, stride: Sandler et al. 2018, table 2.
    for expand, channels, blocks, first in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            name, stride = f"block{number}", first if block == 0 else 1
            middle = inputs * expand
            y = x if expand == 1 else layers.conv(x, f"{name}.1", 1, inputs, middle, act="relu6")
            y = layers.depthwise(y, f"{name}.2", 3, middle, stride=stride, act="relu6")
            y = layers.conv(y, f"{name}.3", 1, middle, channels, act=None, gain=1.0)
            x = net.add(x, y) if stride == 1 and inputs == channels else y
            inputs, number = channels, number + 1
    x = layers.conv(x, "last", 1, inputs, 1280, act="relu6")
    return (layers.head(net.mean_space(x), 1280),)


def _mobilenet_v3(net: Net, weights: Weights, image: Value) -> tuple[Value, ...]:
    layers = _Layers(net=net, weights=weights)
    x = layers.conv(image, "stem", 3, 3, 16, stride=2, act="hard_swish")
    inputs = 16
    # Kernel, expanded, channels, squeeze, activation, stride: Howard et al. 2019, table 1 (large).
    rows = (
        (3, 16, 16, False, "relu", 1),
        (3, 64, 24, False, "relu", 2),
        (3, 72, 24, False, "relu", 1),
        (5, 72, 40, True, "relu", 2),
        (5, 120, 40, True, "relu", 1),
        (5, 120, 40, True, "relu", 1),
        (3, 240, 80, False, "hard_swish", 2),
        (3, 200, 80, False, "hard_swish", 1),
        (3, 184, 80, False, "hard_swish", 1),
        (3, 184, 80, False, "hard_swish", 1),
        (3, 480, 112, True, "hard_swish", 1),
        (3, 672, 112, True, "hard_swish", 1),
        (5, 672, 160, True, "hard_swish", 2),
        (5, 960, 160, True, "hard_swish", 1),
        (5, 960, 160, True, "hard_swish", 1),
    )
    for number, (size, middle, channels, squeeze, act, stride) in enumerate(rows):
        name = f"block{number}"
        y = x if middle == inputs else layers.conv(x, f"{name}.1", 1, inputs, middle, act=act)
        y = layers.depthwise(y, f"{name}.2", size, middle, stride=stride, act=act)
        if squeeze:
            fewer = max(8, (middle // 4 + 4) // 8 * 8)
            y = layers.squeeze(y, f"{name}.squeeze", middle, fewer, "relu", "hard_sigmoid")
        y = layers.conv(y, f"{name}.3", 1, middle, channels, act=None, gain=1.0)
        x = net.add(x, y) if stride == 1 and inputs == channels else y
        inputs = channels
    x = layers.conv(x, "last", 1, inputs, 960, act="hard_swish")
    x = layers.conv(net.mean_space(x), "wide", 1, 960, 1280, act="hard_swish")
    return (layers.head(x, 1280),)


def _efficientnet_b0(net: Net, weights: Weights, image: Value) -> tuple[Value, ...]:
    layers = _Layers(net=net, weights=weights)
    x = layers.conv(image, "stem", 3, 3, 32, stride=2, act="silu")
    inputs, number = 32, 0
    # Expansion, kernel, channels, blocks, stride: Tan and Le 2019, table 1.
    for expand, size, channels, blocks, first in (
        (1, 3, 16, 1, 1),
        (6, 3, 24, 2, 2),
        (6, 5, 40, 2, 2),
        (6, 3, 80, 3, 2),
        (6, 5, 112, 3, 1),
        (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    ):
        for block in range(blocks):
            name, stride = f"block{number}", first if block == 0 else 1
            middle = inputs * expand
            y = x if expand == 1 else layers.conv(x, f"{name}.1", 1, inputs, middle, act="silu")
            y = layers.depthwise(y, f"{name}.2", size, middle, stride=stride, act="silu")
            y = layers.squeeze(y, f"{name}.squeeze", middle, inputs // 4, "silu", "sigmoid")
            y = layers.conv(y, f"{name}.3", 1, middle, channels, act=None, gain=1.0)
            x = net.add(x, y) if stride == 1 and inputs == channels else y
            inputs, number = channels, number + 1
    x = layers.conv(x, "last", 1, inputs, 1280, act="silu")
    return (layers.head(net.mean_space(x), 1280),)


MODELS = (
    Model(
        name="mobilenet_v2",
        title="MobileNetV2",
        inputs=_PHOTO,
        define=_mobilenet_v2,
        quick=True,
    ),
    Model(name="mobilenet_v3", title="MobileNetV3 large", inputs=_PHOTO, define=_mobilenet_v3),
    Model(name="resnet50", title="ResNet-50", inputs=_PHOTO, define=_resnet50),
    Model(name="efficientnet_b0", title="EfficientNet-B0", inputs=_PHOTO, define=_efficientnet_b0),
)
