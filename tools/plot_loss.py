#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare a run's losses with a reference run's: an SVG picture and one line of figures.

Both are files of one JSON object per update with "step" and "loss": what dsexec --log-json writes, and a golden file of
PyTorch (test/golden/README.md). Exit 1 if the curves are apart by more than --tolerance, or if the run does not end
below --floor. The standard library is enough.
"""

import argparse
import json
import math
import pathlib
import re
import sys

WIDTH, HEIGHT = 960, 640
LEFT, RIGHT = 76, 28
UPPER = (84, 428)  # top and bottom of the losses' panel
LOWER = (484, 582)  # and of the differences'
OURS, THEIRS, FLOOR, TEXT, FAINT = "#0b3d91", "#f4a259", "#2a7f4f", "#1f2328", "#d9dee4"
SHORT = 20  # updates whose mean is "the loss at the end": single batches differ too much


class Failure(Exception):
    pass


def read_log(path):
    """The losses, and the lines as they are."""
    losses, rows = [], []
    try:
        for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
            row = json.loads(line)
            if "eval_loss" in row:
                continue
            if row["step"] != len(rows) + 1:
                raise Failure(f"{path}:{number}: expected step {len(rows) + 1}, found {row['step']}")
            losses.append(float(row["loss"]))
            rows.append(row)
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}") from e
    except (KeyError, TypeError, ValueError) as e:
        raise Failure(f"{path}:{number}: expected an object with step and loss ({e})") from e
    if not losses:
        raise Failure(f"{path}: no updates in it")
    if not all(map(math.isfinite, losses)):
        raise Failure(f"{path}: a loss is not finite")
    return losses, rows


def speed_and_memory(rows, ranks):
    """What a log of dsexec says beyond the losses."""
    if "step_ms" not in rows[0]:
        return ""
    seconds = sum(row["step_ms"] for row in rows) / 1e3
    arena, resident = (rows[-1][key] / 2**20 for key in ("device_peak_bytes", "host_peak_bytes"))
    planned = f"{ranks} x {arena:.1f} MiB of arena planned, peak resident set {resident:.1f} MiB"
    return f"; {rows[-1]['tokens'] / seconds:.0f} tokens/s; {planned}"


def read_floor(text):
    """A number, or the file whose statistics state the bigram entropy."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = re.search(r"bigram entropy[^:]*: ([0-9.]+) nats", pathlib.Path(text).read_text())
    except OSError as e:
        raise Failure(f"{text}: {e.strerror}") from e
    if not found:
        raise Failure(f"{text}: no line states a bigram entropy")
    return float(found.group(1))


def nice_step(span, count):
    """The roundest step that cuts span into at most count pieces."""
    magnitude = 10 ** math.floor(math.log10(span / count))
    return next(m * magnitude for m in (1, 2, 2.5, 5, 10) if span / (m * magnitude) <= count)


def running_mean(values, n):
    return [sum(values[max(0, i - n + 1) : i + 1]) / min(n, i + 1) for i in range(len(values))]


class Picture:
    def __init__(self, last):
        self.last = last
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
            f' font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="{TEXT}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        ]

    def x(self, step):
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - 1) / max(1, self.last - 1)

    def text(self, x, y, words, more=""):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>')

    def line(self, x1, y1, x2, y2, color, more=""):
        self.parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{color}" fill="none" {more}/>')

    def curve(self, values, y, color, more):
        points = " ".join(f"{self.x(i):.1f},{y(v):.1f}" for i, v in enumerate(values, 1))
        self.parts.append(f'<polyline points="{points}" stroke="{color}" fill="none" stroke-linejoin="round" {more}/>')

    def grid(self, panel, ticks, label):
        """ticks: (y, text)."""
        for y, words in ticks:
            self.line(LEFT, y, WIDTH - RIGHT, y, FAINT)
            self.text(LEFT - 9, y + 4.5, words, 'text-anchor="end"')
        step = max(1, round(nice_step(self.last, 10)))
        for at in [1] + list(range(step, self.last + 1, step)):
            self.line(self.x(at), panel[1], self.x(at), panel[1] + 5, TEXT)
            self.text(self.x(at), panel[1] + 20, str(at), 'text-anchor="middle"')
        self.line(LEFT, panel[1], WIDTH - RIGHT, panel[1], TEXT)
        self.line(LEFT, panel[0], LEFT, panel[1], TEXT)
        middle = (panel[0] + panel[1]) / 2
        self.text(20, middle, label, f'text-anchor="middle" transform="rotate(-90 20 {middle})"')

    def key(self, x, y, color, words, more=""):
        self.line(x, y, x + 34, y, color, more)
        self.text(x + 42, y + 4.5, words)


def draw(ours, theirs, floor, differences, title, subtitle):
    p = Picture(max(len(ours), len(theirs)))
    p.text(LEFT, 34, title, 'font-size="19" font-weight="bold"')
    p.text(LEFT, 58, subtitle, 'fill="#57606a"')

    everything = ours + theirs + [floor]
    step = nice_step(max(everything) - min(everything) + 1e-9, 6)
    low, high = math.floor(min(everything) / step) * step, math.ceil(max(everything) / step) * step
    def y(v):
        return UPPER[1] - (UPPER[1] - UPPER[0]) * (v - low) / (high - low)
    marks = [low + i * step for i in range(round((high - low) / step) + 1)]
    p.grid(UPPER, [(y(m), f"{m:g}") for m in marks], "loss, nats per character")
    p.line(LEFT, y(floor), WIDTH - RIGHT, y(floor), FLOOR, 'stroke-width="1.6" stroke-dasharray="7 5"')
    p.curve(theirs, y, THEIRS, 'stroke-width="5" stroke-linecap="round" opacity="0.75"')
    p.curve(ours, y, OURS, 'stroke-width="1.3"')
    keys = WIDTH - RIGHT - 330
    p.parts.append(f'<rect x="{keys - 14}" y="{UPPER[0] + 4}" width="344" height="84" fill="white" stroke="{FAINT}"/>')
    p.key(keys, UPPER[0] + 23, THEIRS, "PyTorch", 'stroke-width="5" opacity="0.75"')
    p.key(keys, UPPER[0] + 47, OURS, "dsexec", 'stroke-width="1.3"')
    p.key(keys, UPPER[0] + 71, FLOOR, f"bigram entropy of the text, {floor:.3f}", 'stroke-width="1.6" stroke-dasharray="7 5"')

    shown = [max(d, 1e-9) for d in differences]
    bottom = math.floor(math.log10(min(shown)))
    top = max(bottom + 1, math.ceil(math.log10(max(shown))))
    def at(v):
        return LOWER[1] - (LOWER[1] - LOWER[0]) * (math.log10(v) - bottom) / (top - bottom)
    every = 1 + (top - bottom) // 6
    p.grid(LOWER, [(at(10.0**e), f"1e{e}") for e in range(top, bottom - 1, -every)], "")
    p.curve(shown, at, "#8a3ffc", 'stroke-width="1.1"')
    p.text(LEFT, LOWER[0] - 14, "Difference between the two losses, relative to PyTorch's", 'fill="#57606a"')
    p.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, "update", 'text-anchor="middle"')
    return "\n".join(p.parts + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", help="what dsexec --log-json wrote")
    parser.add_argument("--golden", required=True, help="PyTorch's losses")
    parser.add_argument("--floor", required=True, help="a number, or the README that states the bigram entropy")
    parser.add_argument("--tolerance", type=float, default=1e-2, help="largest relative difference (default 1e-2)")
    parser.add_argument("--ranks", type=int, default=1, help="of the run, for the memory it was planned to take")
    parser.add_argument("--title", default="Training loss")
    parser.add_argument("--subtitle", default="")
    parser.add_argument("--out", required=True, help="the .svg file to write")
    args = parser.parse_args()

    (ours, rows), (theirs, _), floor = read_log(args.log), read_log(args.golden), read_floor(args.floor)
    if len(ours) != len(theirs):
        raise Failure(f"{args.log} has {len(ours)} updates, {args.golden} has {len(theirs)}")
    differences = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    out = pathlib.Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(draw(ours, theirs, floor, differences, args.title, args.subtitle))

    worst = max(range(len(ours)), key=differences.__getitem__)
    ours_end, theirs_end = running_mean(ours, SHORT)[-1], running_mean(theirs, SHORT)[-1]
    verdict = (
        f"final loss {ours_end:.4f} (mean of {min(SHORT, len(ours))} updates), PyTorch's {theirs_end:.4f}, bigram entropy"
        f" {floor:.4f}; worst relative difference {differences[worst]:.1e} (update {worst + 1})"
        + speed_and_memory(rows, args.ranks)
    )
    if ours_end >= floor:
        raise Failure("the loss does not end below the bigram entropy: " + verdict)
    if differences[worst] > args.tolerance:
        raise Failure(f"the losses differ by more than {args.tolerance:g}: {verdict}")
    print("ok: " + verdict)


if __name__ == "__main__":
    try:
        main()
    except Failure as e:
        sys.exit(f"plot_loss.py: error: {e}")
