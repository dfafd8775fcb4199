"""PyTorch modules, functions and bundles."""

from typing import Any

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from benchmarks.coverage.case import Case, Given, Source, integers, normal
from edgec.exporters import Bundle, Entry


def of(array: Any) -> torch.Tensor:
    return torch.from_numpy(array)


def seeded(model: Any, *args: Any, **kwargs: Any) -> Any:
    """The module `model(*args, **kwargs)` with the same weights every time, to be evaluated."""
    torch.manual_seed(0)
    return model(*args, **kwargs).eval()


class Mlp(nn.Module):
    """Two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Cnn(nn.Module):
    """Convolutions, batch norm, pooling, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(image).flatten(1))


class InvertedResidual(nn.Module):
    """The block of MobileNetV2: wider, depthwise, narrower, around a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(16, 64, 1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU6(),
            nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU6(),
            nn.Conv2d(64, 16, 1, bias=False),
            nn.BatchNorm2d(16),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Bottleneck(nn.Module):
    """The block of ResNet-50, with grouped convolution as in ResNeXt if asked for."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(32, 16, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, groups=groups, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 1, bias=False),
            nn.BatchNorm2d(32),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.body(x))


class Recurrent(nn.Module):
    """A recurrent layer over a sequence and a head."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.recurrent = getattr(nn, kind)(8, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(sequence)[0])


class Attention(nn.Module):
    """Causal scaled-dot-product attention."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.project(x).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)


class LanguageModel(nn.Module):
    """Embedding, one encoder layer under a mask, a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        return self.layer(self.table(tokens), src_mask=mask) @ self.table.weight.T


class CachedDecoder(nn.Module):
    """One token a call; keys and values are buffers that the call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.register_buffer("keys", torch.zeros(8, 16))
        self.register_buffer("values", torch.zeros(8, 16))
        self.register_buffer("length", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).chunk(3, -1)
        here = (torch.arange(8) == self.length)[:, None]
        self.keys.copy_(torch.where(here, k, self.keys))
        self.values.copy_(torch.where(here, v, self.values))
        scores = self.keys @ q / 4
        scores = scores.masked_fill(torch.arange(8) > self.length, float("-inf"))
        self.length.add_(1)
        return scores.softmax(-1) @ self.values


class UNet(nn.Module):
    """Down, up, and a bridge between."""

    def __init__(self) -> None:
        super().__init__()
        self.high = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(4, 8)
        self.low = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.back = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = functional.silu(self.norm(self.high(x)))
        low = functional.silu(self.low(high))
        return self.last(torch.cat([self.back(low), high], 1))


class Vit(nn.Module):
    """Patches, a class token, two encoder layers, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.first = nn.Parameter(torch.randn(1, 1, 32) * 0.02)
        self.places = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


class Counter(nn.Module):
    """A running sum in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total.clone()


class Codec(nn.Module):
    """Two methods over shared weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 4) / 4)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.weight)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.weight.T


def mlp() -> Given:
    return Given(model=seeded(Mlp), inputs=(of(normal(4, 32)),))


def mlp_f16() -> Given:
    return Given(model=seeded(Mlp).half(), inputs=(of(normal(4, 32)).half(),))


def mlp_bf16() -> Given:
    return Given(model=seeded(Mlp).bfloat16(), inputs=(of(normal(4, 32)).bfloat16(),))


def mlp_dynamic() -> Given:
    return Given(model=seeded(Mlp), inputs=(of(normal(4, 32)),), dynamic="batch=1..16")


def mlp_external() -> Given:
    return Given(model=seeded(Mlp), inputs=(of(normal(4, 32)),), external_weights="mlp.safetensors")


def cnn() -> Given:
    return Given(model=seeded(Cnn), inputs=(of(normal(2, 3, 24, 24)),))


def cnn_dynamic() -> Given:
    return Given(model=seeded(Cnn), inputs=(of(normal(2, 3, 24, 24)),), dynamic="batch=1..8")


def depthwise() -> Given:
    return Given(model=seeded(InvertedResidual), inputs=(of(normal(2, 16, 12, 12)),))


def depthwise_dynamic() -> Given:
    return Given(
        model=seeded(InvertedResidual), inputs=(of(normal(2, 16, 12, 12)),), dynamic="batch=1..8"
    )


def resnet() -> Given:
    return Given(model=seeded(Bottleneck), inputs=(of(normal(1, 32, 12, 12)),))


def resnext() -> Given:
    return Given(model=seeded(Bottleneck, groups=4), inputs=(of(normal(1, 32, 12, 12)),))


def unet() -> Given:
    return Given(model=seeded(UNet), inputs=(of(normal(1, 3, 16, 16)),))


def vit() -> Given:
    return Given(model=seeded(Vit), inputs=(of(normal(2, 3, 16, 16)),))


def lstm() -> Given:
    return Given(model=seeded(Recurrent, "LSTM"), inputs=(of(normal(2, 10, 8)),))


def gru() -> Given:
    return Given(model=seeded(Recurrent, "GRU"), inputs=(of(normal(2, 10, 8)),))


def attention() -> Given:
    return Given(model=seeded(Attention), inputs=(of(normal(2, 9, 32)),))


def language_model() -> Given:
    return Given(model=seeded(LanguageModel), inputs=(of(integers(100, 2, 8, dtype="int64")),))


def language_model_dynamic() -> Given:
    given = language_model()
    sizes = {"tokens": {0: "batch=1..4", 1: "length=2..32"}}
    return Given(model=given.model, inputs=given.inputs, dynamic=sizes)


def decoder_step() -> Given:
    return Given(model=seeded(CachedDecoder), inputs=(of(normal(16)),))


def counter() -> Given:
    return Given(model=seeded(Counter), inputs=(of(normal(4)),))


def two_signatures() -> Bundle:
    codec = seeded(Codec)
    return Bundle(
        (
            Entry(codec.encode, (of(normal(2, 16)),), name="encode"),
            Entry(codec.decode, (of(normal(2, 4)),), name="decode"),
        )
    )


def train_step() -> Bundle:
    """Gradients by torch.func, traced by make_fx; parameters as the bundle's state."""
    model = seeded(Mlp)
    start = {name.replace(".", "_"): p.detach().clone() for name, p in model.named_parameters()}
    names = dict(zip(start, dict(model.named_parameters()), strict=True))

    def step(
        state: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        def loss_of(weights: dict[str, torch.Tensor]) -> torch.Tensor:
            given = {names[name]: weight for name, weight in weights.items()}
            return functional.mse_loss(torch.func.functional_call(model, given, (x,)), y)

        gradients, loss = torch.func.grad_and_value(loss_of)(state)
        return {name: state[name] - 0.1 * gradients[name] for name in state}, loss

    inputs = (of(normal(8, 32)), of(normal(8, 10)))
    traced = make_fx(step)(start, *inputs)
    return Bundle((Entry(traced, inputs, name="step", updates_state=True),), state=start)


def pt2_file() -> Source:
    exported = torch.export.export(seeded(Cnn), (of(normal(1, 3, 24, 24)),))
    torch.export.save(exported, "cnn.pt2")
    return Source(text="cnn.pt2")


def sort_and_top_k() -> Given:
    def model(x: torch.Tensor) -> dict[str, torch.Tensor]:
        top = x.topk(3)
        return {
            "sorted": x.sort().values,
            "top": top.values,
            "at": top.indices,
            "best": x.argmax(-1),
        }

    return Given(model=model, inputs=(of(normal(4, 20)),))


def gather_and_scatter() -> Given:
    def model(x: torch.Tensor, at: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "taken": x[at],
            "gathered": x.gather(0, at[:, None].expand(-1, 4)),
            "added": x.index_add(0, at, torch.ones(6, 4)),
            "put": x.index_put((at[:1],), torch.zeros(1, 4)),
        }

    return Given(model=model, inputs=(of(normal(10, 4)), of(integers(10, 6, dtype="int64"))))


def integer_arithmetic() -> Given:
    def model(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"product": x * 3 + 1, "rest": x.remainder(97), "shifted": x >> 7}

    return Given(model=model, inputs=(of(integers(1 << 40, 16, dtype="int64")),))


def int8_product() -> Given:
    w = of(integers(127, 32, 16, low=-127, dtype="int8"))

    def model(x: torch.Tensor) -> torch.Tensor:
        return (x.int() @ w.int()).clamp(-1000, 1000)

    return Given(model=model, inputs=(of(integers(127, 4, 32, low=-127, dtype="int8")),))


def logic() -> Given:
    def model(x: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"both": (x > 0) & mask, "any": mask.any(-1), "chosen": torch.where(mask, x, -x)}

    return Given(model=model, inputs=(of(normal(3, 7)), of(integers(2, 3, 7).astype(bool))))


def fourier() -> Given:
    return Given(model=lambda x: torch.view_as_real(torch.fft.rfft(x)), inputs=(of(normal(2, 64)),))


def resize() -> Given:
    def model(image: torch.Tensor) -> dict[str, torch.Tensor]:
        pixels = image.float().permute(2, 0, 1)[None] / 255
        return {
            "smooth": functional.interpolate(pixels, (16, 16), mode="bilinear"),
            "nearest": functional.interpolate(pixels, scale_factor=2.0, mode="nearest"),
        }

    return Given(model=model, inputs=(of(integers(256, 24, 20, 3, dtype="uint8")),))


CASES = (
    Case("MLP", "f32", mlp),
    Case("MLP", "f16", mlp_f16),
    Case("MLP", "bf16", mlp_bf16),
    Case("MLP, dynamic batch", "f32", mlp_dynamic),
    Case("MLP, external weights", "f32", mlp_external),
    Case("CNN, batch norm", "f32", cnn),
    Case("CNN, dynamic batch", "f32", cnn_dynamic),
    Case("CNN as a .pt2 file", "f32", pt2_file),
    Case("inverted residual (MobileNetV2), depthwise", "f32", depthwise),
    Case("inverted residual, dynamic batch", "f32", depthwise_dynamic),
    Case("bottleneck (ResNet)", "f32", resnet),
    Case("bottleneck with groups (ResNeXt)", "f32", resnext),
    Case("U-Net", "f32", unet),
    Case("ViT", "f32", vit),
    Case("LSTM", "f32", lstm),
    Case("GRU", "f32", gru),
    Case("causal attention", "f32", attention),
    Case("causal language model", "f32, i64", language_model),
    Case("language model, dynamic batch and length", "f32, i64", language_model_dynamic),
    Case("decoder step, cache in buffers", "f32, i64", decoder_step),
    Case("running sum in a buffer", "f32", counter),
    Case("two methods, shared weights", "f32", two_signatures),
    Case("training step, parameters as state", "f32", train_step),
    Case("sort, top-k, argmax", "f32, i64", sort_and_top_k),
    Case("gather, scatter", "f32, i64", gather_and_scatter),
    Case("64-bit integers", "i64", integer_arithmetic),
    Case("integer matrix product", "i8, i32", int8_product),
    Case("logic", "bool", logic),
    Case("Fourier transform", "f32", fourier),
    Case("bytes resized to pixels", "u8, f32", resize),
)
