#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn text files into token streams for `--data tokens:FILE.bin`.

A token is one character; its id is the character's place in the sorted vocabulary. Three files are written to --out:

  train.bin val.bin   raw little-endian uint16, no header (nanoGPT's layout); val.bin is the tail of the text
  vocab.json          {"chars": [...]}: entry i is the character of id i

With --stats FILE, the lines between `<!-- stats -->` and `<!-- /stats -->` of FILE are replaced by the sizes and
entropies. A model that uses the context at all must end below the bigram entropy: it is the loss of the best predictor
that sees one character back. Only the standard library is needed.
"""

import argparse
import array
import collections
import json
import math
import pathlib
import sys

BEGIN, END = "<!-- stats -->\n", "<!-- /stats -->\n"


def entropies(ids):
    """Unigram and bigram entropy of a sequence, in nats per token (counts of the sequence itself)."""
    ones = collections.Counter(ids)
    firsts = collections.Counter(ids[:-1])
    pairs = collections.Counter(zip(ids, ids[1:]))
    unigram = -math.fsum(n * math.log(n / len(ids)) for n in ones.values()) / len(ids)
    bigram = -math.fsum(n * math.log(n / firsts[a]) for (a, _), n in pairs.items()) / (len(ids) - 1)
    return unigram, bigram


def write_bin(path, ids):
    data = array.array("H", ids)
    if sys.byteorder == "big":
        data.byteswap()
    path.write_bytes(data.tobytes())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  tools/make_tokens.py data/licenses.txt --out data --stats data/README.md\n"
               "  tools/make_tokens.py book1.txt book2.txt --out mydata --val 0.05")
    parser.add_argument("text", nargs="+", type=pathlib.Path, help="UTF-8 text files, concatenated in this order")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="folder of the written files")
    parser.add_argument("--val", type=float, default=0.1, metavar="F",
                        help="fraction of the text, at its end, that goes to val.bin (default 0.1)")
    parser.add_argument("--stats", type=pathlib.Path, metavar="FILE", help="text file whose statistics block is updated")
    args = parser.parse_args()
    if not 0 <= args.val < 1:
        parser.error(f"--val {args.val}: must be at least 0 and less than 1")

    parts = []
    for path in args.text:
        try:
            parts.append(path.read_bytes().decode("utf-8"))
        except OSError as error:
            parser.error(f"{path}: {error.strerror}")
        except UnicodeDecodeError as error:
            parser.error(f"{path}: not UTF-8 at byte {error.start}; convert it first, for example with iconv")
    text = "".join(parts)
    if len(text) < 2:
        parser.error("the text has fewer than two characters")
    chars = sorted(set(text))
    if len(chars) > 65536:
        parser.error(f"{len(chars)} different characters do not fit uint16 tokens")

    index = {c: i for i, c in enumerate(chars)}
    ids = [index[c] for c in text]
    split = len(ids) - int(len(ids) * args.val)
    train, val = ids[:split], ids[split:]
    args.out.mkdir(parents=True, exist_ok=True)
    write_bin(args.out / "train.bin", train)
    write_bin(args.out / "val.bin", val)
    (args.out / "vocab.json").write_text(json.dumps({"chars": chars}) + "\n", encoding="utf-8")

    unigram, bigram = entropies(train)
    stats = (f"- vocabulary: {len(chars)} characters\n- tokens: {len(train)} for training, {len(val)} for validation\n"
             f"- unigram entropy of the training text: {unigram:.4f} nats per character\n"
             f"- bigram entropy of the training text: {bigram:.4f} nats per character\n"
             f"- loss of a uniform guess: {math.log(len(chars)):.4f} nats per character\n")
    print(stats, end="")
    if args.stats:
        old = args.stats.read_text(encoding="utf-8")
        if BEGIN not in old or END not in old:
            parser.error(f"{args.stats}: has no '{BEGIN.strip()}' ... '{END.strip()}' block")
        head, rest = old.split(BEGIN, 1)
        args.stats.write_text(head + BEGIN + stats + END + rest.split(END, 1)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
