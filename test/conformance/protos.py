# SPDX-License-Identifier: Apache-2.0
"""Reads what the conformance scripts need of ONNX files, without the onnx package: a model's inputs and outputs, and
tensors as lists of numbers. Field numbers are those of onnx.proto."""

import array
import ast
import struct
import sys

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, BFLOAT16 = (
    1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16)
FLOATS = {FLOAT, FLOAT16, DOUBLE, BFLOAT16}
# ONNX element type: array typecode of its bytes
CODES = {FLOAT: "f", UINT8: "B", INT8: "b", UINT16: "H", INT16: "h", INT32: "i", INT64: "q", BOOL: "B",
         DOUBLE: "d", UINT32: "I", UINT64: "Q"}


def fields(data):
    """(number, value) of a message: bytes for length-delimited fields, integers for the others."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 2: None, 5: 4}[kind]
        if size is None:
            size = varint()
        yield tag >> 3, data[at:at + size]
        at += size


def all_of(data, number):
    return [v for n, v in fields(data) if n == number]


def first(data, number, default=None):
    return next((v for n, v in fields(data) if n == number), default)


class Model:
    """Names and element types (None: no tensor) of what is fed and fetched, and the operators."""

    def __init__(self, path):
        graph = first(open(path, "rb").read(), 7, b"")
        known = {first(t, 8, b"") for t in all_of(graph, 5)}
        self.inputs = [self.value(v) for v in all_of(graph, 11) if first(v, 1) not in known]
        self.outputs = [self.value(v) for v in all_of(graph, 12)]
        self.operators = sorted({first(n, 4, b"").decode() for n in all_of(graph, 1)})

    @staticmethod
    def value(info):
        kind = first(first(info, 2, b""), 1)
        return first(info, 1, b"").decode(), None if kind is None else first(kind, 1, 0)


def signed(value, bits=64):
    return value - (1 << bits) if value >> (bits - 1) else value


class Tensor:
    def __init__(self, dtype, dims, values):
        self.dtype, self.dims, self.values = dtype, dims, values


def varints(items):
    """Of a repeated field: packed ones are bytes, others single numbers."""
    for item in items:
        if isinstance(item, int):
            yield item
            continue
        at = 0
        while at < len(item):
            value = shift = 0
            while True:
                byte = item[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            yield value


def read_tensor(path):
    """None for element types that are no numbers."""
    data = open(path, "rb").read()
    dtype, dims = first(data, 2, 0), list(varints(all_of(data, 1)))
    if dtype not in CODES and dtype not in (FLOAT16, BFLOAT16):
        return None
    raw = first(data, 9)
    if raw is None:
        floats, doubles = b"".join(all_of(data, 4)), b"".join(all_of(data, 10))
        numbers = [signed(v) for v in varints(all_of(data, 5) + all_of(data, 7))] + list(varints(all_of(data, 11)))
        if floats or doubles:
            values = array.array("f" if floats else "d", floats or doubles).tolist()
        elif dtype in (FLOAT16, BFLOAT16):
            values = halves(dtype, struct.pack(f"<{len(numbers)}H", *numbers))
        else:
            values = numbers
        return Tensor(dtype, dims, values)
    return Tensor(dtype, dims, halves(dtype, raw) if dtype in (FLOAT16, BFLOAT16) else
                  array.array(CODES[dtype], raw).tolist())


NPY = {"f4": FLOAT, "f8": DOUBLE, "f2": FLOAT16, "i8": INT64, "i4": INT32, "i2": INT16, "i1": INT8, "u8": UINT64,
       "u4": UINT32, "u2": UINT16, "u1": UINT8, "b1": BOOL}


def read_npy(path):
    data = open(path, "rb").read()
    end = 10 + int.from_bytes(data[8:10], "little")
    head = ast.literal_eval(data[10:end].decode())
    dtype = NPY[head["descr"][1:]]
    raw = data[end:]
    return Tensor(dtype, list(head["shape"]), halves(dtype, raw) if dtype == FLOAT16 else
                  array.array(CODES[dtype], raw).tolist())


def write_npy(path, tensor):
    descr = next(d for d, t in NPY.items() if t == tensor.dtype)
    head = f"{{'descr': '<{descr}', 'fortran_order': False, 'shape': {tuple(tensor.dims)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = (struct.pack(f"<{len(tensor.values)}e", *tensor.values) if tensor.dtype == FLOAT16 else
            array.array(CODES[tensor.dtype], tensor.values).tobytes())
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + data)


def halves(dtype, raw):
    count = len(raw) // 2
    if dtype == FLOAT16:
        return list(struct.unpack(f"<{count}e", raw))
    return [struct.unpack("<f", b"\0\0" + raw[2 * i:2 * i + 2])[0] for i in range(count)]


assert sys.byteorder == "little"
