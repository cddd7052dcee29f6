# SPDX-License-Identifier: Apache-2.0
"""The model families that export_model.py knows: FAMILIES, a row each.

A row needs two functions: `config(shape, options)`, the configuration of a preset, and `architecture()`, a class whose
objects are made from a configuration and map tensors to logits. Names of parameters are those of the original class:
where only the signature of `forward` has to change, that is a subclass, since a wrapper would prefix every name.
"""

import dataclasses
import types


@dataclasses.dataclass(frozen=True)
class Options:
    attention: str = "eager"
    dropout: float = 0.0


@dataclasses.dataclass(frozen=True)
class Family:
    summary: str
    presets: dict  # name -> sizes, a dataclass: each of its fields becomes an option of the command
    config: object  # (sizes, Options) -> configuration
    architecture: object  # () -> class of configuration
    inputs: object  # (configuration, rows, tokens per row, random generator) -> {name: example}
    dims: dict  # input -> {axis: name}: what --dynamic leaves open
    features: tuple = ()  # of "tokens", "attention", "dropout": options that make sense


def logits_only(base, forward):
    """A subclass of `base` with another `forward`, under the same name as exports record it."""
    body = {"forward": forward, "__module__": base.__module__, "__qualname__": base.__qualname__}
    return types.new_class(base.__name__, (base,), exec_body=lambda namespace: namespace.update(body))


def token_ids(config, rows, tokens, random):
    import torch

    return {"input_ids": torch.randint(config.vocab_size, (rows, tokens), generator=random)}


TOKENS = {"input_ids": {0: "batch", 1: "seq"}}
TRANSFORMER = ("tokens", "attention", "dropout")


# -- GPT-2 ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Gpt2Shape:
    layers: int
    hidden: int
    heads: int
    vocab: int
    context: int


GPT2_PRESETS = {
    "tiny": Gpt2Shape(layers=2, hidden=32, heads=2, vocab=64, context=16),
    "small": Gpt2Shape(layers=4, hidden=128, heads=4, vocab=86, context=128),
    "124M": Gpt2Shape(layers=12, hidden=768, heads=12, vocab=50257, context=1024),
    "1.5B": Gpt2Shape(layers=48, hidden=1600, heads=25, vocab=50257, context=1024),
    "gpt3-175b": Gpt2Shape(layers=96, hidden=12288, heads=96, vocab=50257, context=2048),
}


def gpt2_config(shape, options):
    from transformers import GPT2Config

    drop = options.dropout
    return GPT2Config(
        n_layer=shape.layers, n_embd=shape.hidden, n_head=shape.heads, vocab_size=shape.vocab,
        n_positions=shape.context, embd_pdrop=drop, attn_pdrop=drop, resid_pdrop=drop, use_cache=False,
        bos_token_id=0, eos_token_id=0, attn_implementation=options.attention)


def gpt2():
    from transformers import GPT2LMHeadModel as base

    return logits_only(base, lambda self, input_ids: base.forward(self, input_ids, use_cache=False).logits)


def build_gpt2(shape, seed=0, attention="eager", dropout=0.0):
    """A GPT2LMHeadModel (tied embedding) with seeded random weights that maps token ids to logits."""
    import torch

    torch.manual_seed(seed)
    return gpt2()(gpt2_config(shape, Options(attention, dropout))).train(dropout > 0)


# -- LLaMA ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LlamaShape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    context: int


LLAMA_PRESETS = {
    "tiny": LlamaShape(layers=2, hidden=32, heads=4, kv_heads=2, inner=64, vocab=64, context=16),
    "small": LlamaShape(layers=4, hidden=128, heads=4, kv_heads=2, inner=352, vocab=86, context=128),
    "7b": LlamaShape(layers=32, hidden=4096, heads=32, kv_heads=32, inner=11008, vocab=32000, context=4096),
    "llama-70b": LlamaShape(layers=80, hidden=8192, heads=64, kv_heads=8, inner=28672, vocab=32000, context=4096),
}


def llama_config(shape, options):
    from transformers import LlamaConfig

    return LlamaConfig(
        num_hidden_layers=shape.layers, hidden_size=shape.hidden, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, intermediate_size=shape.inner, vocab_size=shape.vocab,
        max_position_embeddings=shape.context, attention_dropout=options.dropout, rms_norm_eps=1e-5, use_cache=False,
        bos_token_id=0, eos_token_id=0, pad_token_id=None, attn_implementation=options.attention)


def llama():
    from transformers import LlamaForCausalLM as base

    return logits_only(base, lambda self, input_ids: base.forward(self, input_ids, use_cache=False).logits)


# -- BERT -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BertShape:
    layers: int
    hidden: int
    heads: int
    inner: int
    vocab: int
    context: int
    labels: int


BERT_PRESETS = {
    "tiny": BertShape(layers=2, hidden=32, heads=2, inner=64, vocab=64, context=16, labels=4),
    "small": BertShape(layers=4, hidden=128, heads=4, inner=512, vocab=86, context=128, labels=4),
    "base": BertShape(layers=12, hidden=768, heads=12, inner=3072, vocab=30522, context=512, labels=2),
    "large": BertShape(layers=24, hidden=1024, heads=16, inner=4096, vocab=30522, context=512, labels=2),
}


def bert_config(shape, options):
    from transformers import BertConfig

    # No padding token: of its row PyTorch drops the gradient, which an ONNX file cannot say.
    return BertConfig(
        num_hidden_layers=shape.layers, hidden_size=shape.hidden, num_attention_heads=shape.heads,
        intermediate_size=shape.inner, vocab_size=shape.vocab, max_position_embeddings=shape.context,
        num_labels=shape.labels, hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout,
        pad_token_id=None, attn_implementation=options.attention)


def bert():
    from transformers import BertForMaskedLM as base

    return logits_only(base, lambda self, input_ids, attention_mask: base.forward(self, input_ids, attention_mask).logits)


def bert_classifier():
    from transformers import BertForSequenceClassification as base

    return logits_only(base, lambda self, input_ids, attention_mask: base.forward(self, input_ids, attention_mask).logits)


def masked_token_ids(config, rows, tokens, random):
    import torch

    ids = token_ids(config, rows, tokens, random)
    lengths = torch.randint(1, tokens + 1, (rows, 1), generator=random)
    return {**ids, "attention_mask": (torch.arange(tokens) < lengths).long()}


MASKED_TOKENS = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}}


# -- ViT --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class VitShape:
    layers: int
    hidden: int
    heads: int
    inner: int
    image: int
    patch: int
    channels: int
    labels: int


VIT_PRESETS = {
    "tiny": VitShape(layers=2, hidden=32, heads=2, inner=64, image=16, patch=4, channels=1, labels=10),
    "small": VitShape(layers=4, hidden=128, heads=4, inner=512, image=28, patch=4, channels=1, labels=10),
    "base": VitShape(layers=12, hidden=768, heads=12, inner=3072, image=224, patch=16, channels=3, labels=1000),
}


def vit_config(shape, options):
    from transformers import ViTConfig

    return ViTConfig(
        num_hidden_layers=shape.layers, hidden_size=shape.hidden, num_attention_heads=shape.heads,
        intermediate_size=shape.inner, image_size=shape.image, patch_size=shape.patch, num_channels=shape.channels,
        num_labels=shape.labels, hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout,
        attn_implementation=options.attention)


def vit():
    from transformers import ViTForImageClassification as base

    return logits_only(base, lambda self, pixel_values: base.forward(self, pixel_values).logits)


def pixels(config, rows, _, random):
    import torch

    size = config.image_size
    return {"pixel_values": torch.randn(rows, config.num_channels, size, size, generator=random)}


# -- the MLP of DeepSpeed's introductions -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class MlpShape:
    layers: int
    hidden: int
    vocab: int

    @property
    def vocab_size(self):
        return self.vocab


MLP_PRESETS = {
    "tiny": MlpShape(layers=3, hidden=32, vocab=64),
    "small": MlpShape(layers=12, hidden=128, vocab=86),
    "115M": MlpShape(layers=12, hidden=1024, vocab=50000),
}


def mlp():
    from torch import nn
    from torch.nn.functional import relu

    class Mlp(nn.Module):
        """Embedding, linear layers with ReLU and a residual each, layer norm, head."""

        def __init__(self, shape):
            super().__init__()
            self.embedding = nn.Embedding(shape.vocab, shape.hidden)
            self.layers = nn.ModuleList(nn.Linear(shape.hidden, shape.hidden) for _ in range(shape.layers))
            self.norm = nn.LayerNorm(shape.hidden)
            self.head = nn.Linear(shape.hidden, shape.vocab)

        def forward(self, input_ids):
            x = self.embedding(input_ids)
            for layer in self.layers:
                x = x + relu(layer(x))
            return self.head(self.norm(x))

    return Mlp


# -- ResNet -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ResnetShape:
    blocks: int  # in each of the four stages
    width: int  # channels of the first stage
    image: int
    labels: int


RESNET_PRESETS = {
    "tiny": ResnetShape(blocks=1, width=4, image=32, labels=10),
    "18": ResnetShape(blocks=2, width=64, image=224, labels=1000),
    "18-narrow": ResnetShape(blocks=2, width=4, image=64, labels=10),
}


def resnet():
    from torch import nn
    from torchvision.models.resnet import BasicBlock, ResNet

    class Sized(ResNet):  # whose constructor makes widths of 64 only; blocks, names and initialisation are the same
        def __init__(self, config):
            nn.Module.__init__(self)
            self._norm_layer, self.inplanes = nn.BatchNorm2d, config.width
            self.dilation, self.groups, self.base_width = 1, 1, 64
            self.conv1 = nn.Conv2d(3, config.width, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(config.width)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            for i in range(4):
                stage = self._make_layer(BasicBlock, config.width << i, config.blocks, stride=2 if i else 1)
                setattr(self, f"layer{i + 1}", stage)
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(config.width << 3, config.labels)
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    Sized.__module__, Sized.__qualname__ = ResNet.__module__, ResNet.__qualname__
    return Sized


def images(config, rows, tokens, random):
    import torch

    return {"images": torch.randn(rows, 3, config.image, config.image, generator=random)}


FAMILIES = {
    "gpt2": Family("GPT-2 with a tied embedding (Hugging Face GPT2LMHeadModel)",
                   GPT2_PRESETS, gpt2_config, gpt2, token_ids, TOKENS, TRANSFORMER),
    "llama": Family("LLaMA (Hugging Face LlamaForCausalLM)",
                    LLAMA_PRESETS, llama_config, llama, token_ids, TOKENS, TRANSFORMER),
    "bert": Family("BERT with the masked-language head (Hugging Face BertForMaskedLM)",
                   BERT_PRESETS, bert_config, bert, masked_token_ids, MASKED_TOKENS, TRANSFORMER),
    "bert-classifier": Family("BERT that classifies sequences (Hugging Face BertForSequenceClassification)",
                              BERT_PRESETS, bert_config, bert_classifier, masked_token_ids, MASKED_TOKENS, TRANSFORMER),
    "vit": Family("ViT that classifies images (Hugging Face ViTForImageClassification)",
                  VIT_PRESETS, vit_config, vit, pixels, {"pixel_values": {0: "batch"}}, ("attention", "dropout")),
    "mlp": Family("the MLP of DeepSpeed's introductions: embedding, residual linear layers with ReLU, layer norm, head",
                  MLP_PRESETS, lambda shape, _: shape, mlp, token_ids, TOKENS, ("tokens",)),
    "resnet": Family("ResNet of basic blocks (torchvision): 18 is ResNet-18",
                     RESNET_PRESETS, lambda shape, _: shape, resnet, images, {"images": {0: "batch"}}),
}
