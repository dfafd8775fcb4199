"""A U-Net, a 1-D convolutional net for audio, and an LSTM."""

from benchmarks.peers.models.model import Model
from benchmarks.peers.nets.net import Input, Net, Value
from benchmarks.peers.weights import Weights

__all__ = ["MODELS"]

_GAIN = 2.0**0.5


def _unet(net: Net, weights: Weights, image: Value) -> tuple[Value, ...]:
    """Four levels of 32 to 256 channels and 512 at the bottom; transposed convolutions up."""

    def conv(x: Value, name: str, inputs: int, outputs: int) -> Value:
        kernel = weights.kernel(f"{name}.kernel", (3, 3, inputs, outputs), _GAIN)
        y = net.conv(x, kernel, weights.bias(f"{name}.bias", outputs), pad=1)
        return net.activate(y, "relu")

    x, inputs, skips = image, 3, []
    for level, width in enumerate((32, 64, 128, 256)):
        x = conv(x, f"down{level}.1", inputs, width)
        x = conv(x, f"down{level}.2", width, width)
        skips.append(x)
        x = net.max_pool(x, size=2, stride=2)
        inputs = width
    x = conv(x, "bottom.1", 256, 512)
    x = conv(x, "bottom.2", 512, 512)
    for level, width in reversed(list(enumerate((32, 64, 128, 256)))):
        kernel = weights.kernel(f"up{level}.kernel", (2, 2, 2 * width, width), 2.0)
        x = net.up_conv(x, kernel, weights.bias(f"up{level}.bias", width))
        x = net.join_channels(skips[level], x)
        x = conv(x, f"up{level}.1", 2 * width, width)
        x = conv(x, f"up{level}.2", width, width)
    kernel = weights.kernel("last.kernel", (1, 1, 32, 2))
    return (net.image(net.conv(x, kernel, weights.bias("last.bias", 2))),)


def _audio(net: Net, weights: Weights, signal: Value) -> tuple[Value, ...]:
    """M5 (Dai et al. 2016) with 128 channels: 1 s of sound at 16 kHz to one of 35 words."""
    x, inputs = signal, 1
    for number, (size, outputs, stride) in enumerate(
        ((80, 128, 4), (3, 128, 1), (3, 256, 1), (3, 512, 1))
    ):
        kernel = weights.kernel(f"conv{number}.kernel", (size, inputs, outputs), _GAIN)
        bias = weights.bias(f"conv{number}.bias", outputs)
        x = net.conv(x, kernel, bias, stride=stride, pad=size // 2 - (stride > 1) * 2)
        x = net.max_pool(net.activate(x, "relu"), size=4, stride=4, space=1)
        inputs = outputs
    vector = net.vector(net.mean_space(x), inputs)
    kernel = weights.kernel("head.kernel", (inputs, 35))
    return (net.dense(vector, kernel, weights.bias("head.bias", 35)),)


def _lstm(net: Net, weights: Weights, frames: Value) -> tuple[Value, ...]:
    """Two layers of 256 over 100 frames of 80 features, and scores for every frame."""
    x, inputs = frames, 80
    for layer in range(2):
        x = net.lstm(
            x,
            weights.kernel(f"layer{layer}.kernel", (inputs, 1024)),
            weights.kernel(f"layer{layer}.recurrent", (256, 1024)),
            weights.bias(f"layer{layer}.bias", 1024),
        )
        inputs = 256
    kernel = weights.kernel("head.kernel", (256, 40))
    return (net.dense(x, kernel, weights.bias("head.bias", 40)),)


MODELS = (
    Model(
        name="unet",
        title="U-Net, 128 pixels",
        inputs=(Input(name="image", shape=(1, 128, 128, 3), image=True),),
        define=_unet,
    ),
    Model(
        name="audio_cnn",
        title="1-D audio CNN",
        inputs=(Input(name="signal", shape=(1, 16000, 1), image=True),),
        define=_audio,
        quick=True,
    ),
    Model(
        name="lstm",
        title="LSTM, 100 steps",
        inputs=(Input(name="frames", shape=(1, 100, 80)),),
        define=_lstm,
    ),
)
