#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes language models as ONNX without their weights: what a planner needs of a model that is too large to have.

The graphs are those that exporters write (one node per tensor operation); initializers refer to a data file that
does not exist, so plans need --allow-missing-data; with --weights it is written, too. Needs nothing but Python.

    test/bench/big_models.py gpt3-175b --out gpt3.onnx
    test/bench/big_models.py llama-70b --layers 4 --out llama.onnx
"""

import argparse
import array
import os
import random
import struct

# layers, width, heads, key-value heads, feed-forward width, vocabulary, positions
GPT = {"gpt3-175b": (96, 12288, 96, 96, 49152, 50257, 2048), "gpt2-124m": (12, 768, 12, 12, 3072, 50257, 1024),
       "gpt2-1.5b": (48, 1600, 25, 25, 6400, 50257, 1024), "gpt2-tiny": (2, 32, 2, 2, 128, 67, 16)}
LLAMA = {"llama-70b": (80, 8192, 64, 8, 28672, 32000, 4096), "llama-30b": (60, 6656, 52, 52, 17920, 32000, 2048),
         "llama-7b": (32, 4096, 32, 32, 11008, 32000, 4096)}

FLOAT, INT64 = 1, 7  # element types of ONNX


# -- protobuf's wire format, as far as a model needs it ---------------------------------------------------------------


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def number(field, value):
    return varint(field << 3) + varint(value)


def field(tag, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, float):
        return field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return field(1, name) + number(3, value) + number(20, 2)
    return field(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)


def value_info(name, dtype, dims):
    shape = b"".join(field(1, number(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, number(1, dtype) + field(2, shape)))


class Graph:
    """Nodes and initializers of one model; values are named after the module that computes them."""

    def __init__(self):
        self.nodes, self.initializers, self.constants = [], [], {}
        self.path, self.offset, self.parameters = "", 0, 0
        self.tensors = []  # names and numbers of elements, as they lie in the data file

    def param(self, name, *dims):
        size = 4
        for d in dims:
            size *= d
        self.parameters += size // 4
        entries = {"location": "weights.bin", "offset": str(self.offset), "length": str(size)}
        self.offset += size
        self.tensors.append((name, size // 4, len(dims)))
        self.initializers.append(b"".join(number(1, d) for d in dims) + number(2, FLOAT) + field(8, name) + number(14, 1)
                                 + b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries.items()))
        return name

    def const(self, dtype, values, scalar=False):
        key = (dtype, tuple(values), scalar)
        if key not in self.constants:
            self.constants[key] = f"constant_{len(self.constants)}"
            raw = struct.pack("<%d%s" % (len(values), "q" if dtype == INT64 else "f"), *values)
            dims = b"" if scalar else number(1, len(values))
            self.initializers.append(dims + number(2, dtype) + field(8, self.constants[key]) + field(9, raw))
        return self.constants[key]

    def ints(self, *values):
        return self.const(INT64, values)

    def real(self, value):
        return self.const(FLOAT, [value], scalar=True)

    def op(self, kind, *inputs, outputs=1, **attributes):
        name = f"{self.path}/{kind}_{len(self.nodes)}"
        outs = [f"{name}_output_{k}" for k in range(outputs)]
        node = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outs)
        node += field(3, name) + field(4, kind)
        node += b"".join(field(5, attribute(k, v)) for k, v in attributes.items())
        self.nodes.append(node)
        return outs[0] if outputs == 1 else outs

    def model(self, name, inputs, outputs, opset=18):
        graph = b"".join(field(1, n) for n in self.nodes) + field(2, name)
        graph += b"".join(field(5, t) for t in self.initializers)
        graph += b"".join(field(11, value_info(*i)) for i in inputs) + b"".join(field(12, value_info(*o)) for o in outputs)
        return number(1, 8) + field(2, "big_models.py") + field(7, graph) + field(8, field(1, "") + number(2, opset))


# -- what both families have ---------------------------------------------------------------------------------------


def heads_first(g, x, seq, heads, size):
    return g.op("Transpose", g.op("Reshape", x, g.ints(0, seq, heads, size)), perm=[0, 2, 1, 3])


def attention(g, q, k, v, seq, size, mask):
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, g.real(size**-0.5))
    scores = g.op("Where", mask, scores, g.real(-3.4e38))
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
    return g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.ints(0, seq, -1))


def causal_mask(g, seq):
    row = g.op("Range", g.const(INT64, [0], True), g.const(INT64, [seq], True), g.const(INT64, [1], True))
    return g.op("LessOrEqual", g.op("Unsqueeze", row, g.ints(0)), g.op("Unsqueeze", row, g.ints(1)))


# -- GPT ------------------------------------------------------------------------------------------------------------


def gpt(layers, width, heads, _, inner, vocabulary, positions, seq):
    g = Graph()
    size = width // heads

    def linear(x, module, rows, columns):
        g.path = "/transformer/" + module
        name = "transformer." + module.replace("/", ".")
        weight, bias = g.param(name + ".weight", rows, columns), g.param(name + ".bias", columns)
        return g.op("Add", g.op("MatMul", x, weight), bias)

    def norm(x, module):
        g.path = "/transformer/" + module
        name = "transformer." + module.replace("/", ".")
        weight, bias = g.param(name + ".weight", width), g.param(name + ".bias", width)
        return g.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-5)

    g.path = "/transformer"
    mask = causal_mask(g, seq)
    table = g.param("transformer.wte.weight", vocabulary, width)
    g.path = "/transformer/wte"
    tokens = g.op("Gather", table, "input_ids", axis=0)
    g.path = "/transformer/wpe"
    row = g.op("Range", g.const(INT64, [0], True), g.const(INT64, [seq], True), g.const(INT64, [1], True))
    place = g.op("Gather", g.param("transformer.wpe.weight", positions, width), row, axis=0)
    x = g.op("Add", tokens, place)
    for k in range(layers):
        h = f"h.{k}"
        y = linear(norm(x, h + "/ln_1"), h + "/attn/c_attn", width, 3 * width)
        g.path = f"/transformer/{h}/attn"
        q, key, v = g.op("Split", y, g.ints(width, width, width), outputs=3, axis=2)
        q, key, v = (heads_first(g, t, seq, heads, size) for t in (q, key, v))
        y = attention(g, q, key, v, seq, size, mask)
        y = linear(y, h + "/attn/c_proj", width, width)
        g.path = "/transformer/" + h
        x = g.op("Add", x, y)
        y = linear(norm(x, h + "/ln_2"), h + "/mlp/c_fc", width, inner)
        g.path = f"/transformer/{h}/mlp/act"
        cube = g.op("Mul", g.op("Pow", y, g.real(3.0)), g.real(0.044715))
        gate = g.op("Tanh", g.op("Mul", g.op("Add", y, cube), g.real(0.7978845608028654)))
        y = g.op("Mul", g.op("Mul", y, g.real(0.5)), g.op("Add", gate, g.real(1.0)))
        y = linear(y, h + "/mlp/c_proj", inner, width)
        g.path = "/transformer/" + h
        x = g.op("Add", x, y)
    x = norm(x, "ln_f")
    g.path = "/lm_head"
    logits = g.op("MatMul", x, g.op("Transpose", table, perm=[1, 0]))
    return g, logits, vocabulary


# -- LLaMA ------------------------------------------------------------------------------------------------------------


def llama(layers, width, heads, kv_heads, inner, vocabulary, _, seq):
    g = Graph()
    size = width // heads

    def linear(x, module, rows, columns):
        g.path = "/model/" + module
        return g.op("MatMul", x, g.param(f"model.{module.replace('/', '.')}.weight", rows, columns))

    def norm(x, module):
        g.path = "/model/" + module
        mean = g.op("ReduceMean", g.op("Pow", x, g.real(2.0)), g.ints(-1), keepdims=1)
        root = g.op("Reciprocal", g.op("Sqrt", g.op("Add", mean, g.real(1e-5))))
        return g.op("Mul", g.param(f"model.{module.replace('/', '.')}.weight", width), g.op("Mul", x, root))

    def rotate(x, cos, sin):
        half = size // 2
        low = g.op("Slice", x, g.ints(0), g.ints(half), g.ints(3))
        high = g.op("Slice", x, g.ints(half), g.ints(size), g.ints(3))
        turned = g.op("Concat", g.op("Neg", high), low, axis=-1)
        return g.op("Add", g.op("Mul", x, cos), g.op("Mul", turned, sin))

    def repeat(x):
        if kv_heads == heads:
            return x
        x = g.op("Expand", g.op("Unsqueeze", x, g.ints(2)), g.ints(1, kv_heads, heads // kv_heads, seq, size))
        return g.op("Reshape", x, g.ints(0, heads, seq, size))

    g.path = "/model/embed_tokens"
    x = g.op("Gather", g.param("model.embed_tokens.weight", vocabulary, width), "input_ids", axis=0)
    g.path = "/model"
    mask = causal_mask(g, seq)
    g.path = "/model/rotary_emb"
    row = g.op("Range", g.const(INT64, [0], True), g.const(INT64, [seq], True), g.const(INT64, [1], True))
    column = g.op("Unsqueeze", g.op("Cast", row, to=FLOAT), g.ints(1))
    angles = g.op("Mul", column, g.const(FLOAT, [10000.0 ** (-2 * i / size) for i in range(size // 2)]))
    both = g.op("Concat", angles, angles, axis=-1)
    cos, sin = g.op("Cos", both), g.op("Sin", both)
    for k in range(layers):
        h = f"layers.{k}"
        y = norm(x, h + "/input_layernorm")
        q = linear(y, h + "/self_attn/q_proj", width, width)
        key = linear(y, h + "/self_attn/k_proj", width, kv_heads * size)
        v = linear(y, h + "/self_attn/v_proj", width, kv_heads * size)
        g.path = f"/model/{h}/self_attn"
        q = rotate(heads_first(g, q, seq, heads, size), cos, sin)
        key = repeat(rotate(heads_first(g, key, seq, kv_heads, size), cos, sin))
        v = repeat(heads_first(g, v, seq, kv_heads, size))
        y = linear(attention(g, q, key, v, seq, size, mask), h + "/self_attn/o_proj", width, width)
        g.path = "/model/" + h
        x = g.op("Add", x, y)
        y = norm(x, h + "/post_attention_layernorm")
        gate = linear(y, h + "/mlp/gate_proj", width, inner)
        g.path = f"/model/{h}/mlp/act_fn"
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        up = linear(y, h + "/mlp/up_proj", width, inner)
        y = linear(g.op("Mul", gate, up), h + "/mlp/down_proj", inner, width)
        g.path = "/model/" + h
        x = g.op("Add", x, y)
    x = norm(x, "norm")
    g.path = "/lm_head"
    logits = g.op("MatMul", x, g.param("lm_head.weight", width, vocabulary))
    return g, logits, vocabulary


def write_weights(g, path, seed):
    """As models are initialised: matrices from a normal distribution of 0.02 (a million draws, repeated), scales 1, biases 0."""
    draw = random.Random(seed)
    normal = array.array("f", (draw.gauss(0, 0.02) for _ in range(1 << 20)))
    with open(path, "wb") as f:
        for name, elems, rank in g.tensors:
            block = normal if rank > 1 else array.array("f", [0.0 if name.endswith("bias") else 1.0]) * min(elems, 1 << 16)
            while elems > 0:
                part = block[:elems]
                f.write(part.tobytes())
                elems -= len(part)


def write(name, path, layers=0, width=0, seq=0, weights=None):
    """Writes the model, scaled if layers or width are given, and its weights from a seed; returns its numbers of parameters and nodes."""
    build, shape = (gpt, GPT[name]) if name in GPT else (llama, LLAMA[name])
    old_layers, old_width, heads, kv_heads, inner, vocabulary, positions = shape
    if width:
        head = old_width // heads
        if width % head:
            raise SystemExit(f"--width {width}: not a multiple of the head size {head}")
        heads, inner = width // head, inner * width // old_width
        kv_heads = heads if kv_heads == shape[2] else max(1, heads * shape[3] // shape[2])
    seq = seq or positions
    g, logits, vocabulary = build(layers or old_layers, width or old_width, heads, kv_heads, inner, vocabulary, positions, seq)
    g.path = ""
    g.nodes.append(field(1, logits) + field(2, "logits") + field(3, "logits") + field(4, "Identity"))
    data = g.model(name, [("input_ids", INT64, ["batch", seq])], [("logits", FLOAT, ["batch", seq, vocabulary])])
    with open(path, "wb") as f:
        f.write(data)
    if weights is not None:
        write_weights(g, os.path.join(os.path.dirname(path) or ".", "weights.bin"), weights)
    return g.parameters, len(g.nodes)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("name", choices=[*GPT, *LLAMA])
    p.add_argument("--layers", type=int, default=0, help="instead of the model's")
    p.add_argument("--width", type=int, default=0, help="instead of the model's; the rest is scaled with it")
    p.add_argument("--seq", type=int, default=0, help="tokens per sample (default: all positions)")
    p.add_argument("--weights", type=int, metavar="SEED", help="write the data file weights.bin beside it, with random numbers")
    p.add_argument("--out", required=True, help="the .onnx file")
    args = p.parse_args()
    parameters, nodes = write(args.name, args.out, args.layers, args.width, args.seq, args.weights)
    print(f"{args.out}: {parameters} parameters, {nodes} nodes")


if __name__ == "__main__":
    main()
