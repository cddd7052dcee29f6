#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py SEEDS OUT COUNT [DICTIONARY]: writes COUNT broken copies of the files in SEEDS to OUT, the same ones every time.

Each copy has one to four edits: bytes flipped, set, cut out, repeated or inserted, words of the dictionary, a piece of
another seed, an end cut off. Nothing depends on coverage, addresses or time, so that a check sees what every other sees.
"""

import pathlib
import random
import sys

INTERESTING = [b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\xff" * 8, b"\0\0\0\x80", b"-1", b"0", b"9" * 20, b"\x01" + b"\0" * 7]


def edit(rng, data, seeds, words):
    at = rng.randrange(len(data) + 1)
    length = min(rng.choice([1, 1, 2, 4, 8, 16, 64, 256]), len(data) - at)
    piece = data[at : at + length]
    kind = rng.randrange(8)
    if kind == 0 and piece:
        flipped = bytes([piece[0] ^ 1 << rng.randrange(8)]) + piece[1:]
        return data[:at] + flipped + data[at + length :]
    if kind == 1:
        return data[:at] + rng.choice(INTERESTING) + data[at + rng.choice([0, 1, length]) :]
    if kind == 2:
        return data[:at] + data[at + length :]
    if kind == 3:
        return data[:at] + piece * rng.choice([2, 3, 50]) + data[at + length :]
    if kind == 4:
        return data[:at]
    if kind == 5:
        other = rng.choice(seeds)
        begin = rng.randrange(len(other) + 1)
        return data[:at] + other[begin : begin + rng.choice([4, 16, 64, 1024])] + data[at + length :]
    if kind == 6:
        to = rng.randrange(len(data) + 1)
        rest = data[:at] + data[at + length :]
        return rest[:to] + piece + rest[to:]
    return data[:at] + rng.choice(words) + data[at + length :]


def main():
    folder, out, count = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    words = INTERESTING
    if len(sys.argv) > 4:
        lines = pathlib.Path(sys.argv[4]).read_bytes().splitlines()
        words = [line.strip()[1:-1] for line in lines if line.startswith(b'"')] or words
    seeds = [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()]
    rng = random.Random(1)
    for i in range(count):
        data = seeds[i % len(seeds)]
        for _ in range(rng.randint(1, 4)):
            data = edit(rng, data, seeds, words)
        (out / f"{i:06}").write_bytes(data[:65536])


if __name__ == "__main__":
    main()
