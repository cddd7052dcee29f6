#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dropout_masks.py SEED KEY RATIO SAMPLES ELEMENTS: the masks of samples 0, 1, ... as print_weights.py prints a parameter w
that starts at zero, whose element e gets minus 4^s for every element e that a sample with s = number % 4 keeps. Written from
the description in docs/exporting.md; shares no code with the kernels."""
import sys

MASK = (1 << 32) - 1


def philox(key, counter):
    """Philox4x32-10: counter is 128 bits, key 64."""
    c = [counter >> (32 * i) & MASK for i in range(4)]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & MASK, a >> 32 ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def keeps(seed, op, ratio, sample, e):
    """Whether the op's dropout keeps element e of a sample."""
    first = philox(seed, (~op & (1 << 64) - 1) << 64)
    return philox(first[0] | first[1] << 32, sample << 64 | e // 4)[e % 4] >= ratio * 2**32


def main(seed, op, ratio, samples, elements):
    w = [0] * elements
    for s in range(samples):
        for e in range(elements):
            w[e] -= 4 ** (s % 4) * keeps(seed, op, ratio, s, e)
    print("w", *(next(s for d in range(1, 18) if float(s := f"{v:.{d}g}") == v) for v in w))


if __name__ == "__main__":
    main(*(float(a) if "." in a else int(a) for a in sys.argv[1:]))
