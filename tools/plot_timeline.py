#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw one update of a run as a timeline: an SVG picture with a lane for each stream of one rank.

Takes what dsexec --trace or, as a prediction, dsplan --emit timeline writes. What the update before has left running is drawn, too;
what this one leaves running is cut off. The line above says how much of the time of collectives and of the host's launches was hidden
behind computation. The standard library is enough.
"""

import argparse
import html
import json
import sys

WIDTH, LEFT, RIGHT, TOP, LANE, BAR = 1200, 96, 24, 92, 74, 40
COLOURS = {"forward": "#4878a8", "backward": "#8a5a9e", "update": "#3f8f5f", "gather": "#e08a2e", "reduce": "#c8553d",
           "feed": "#8c8c8c", "d2h": "#b8860b", "h2d": "#2f8f9d", "host": "#6b7f3a", "read": "#a05a7a", "write": "#7a6bb0"}
ALWAYS = ("compute", "comm", "feed")  # other lanes are drawn if they have something


class Failure(Exception):
    pass


def read(path, rank, update):
    try:
        with open(path) as f:
            events = json.load(f)["traceEvents"]
        names = [e for e in events if e["ph"] == "M" and e["pid"] == rank]
        threads = {e["tid"]: e["args"]["name"] for e in names if e["name"] == "thread_name"}
        process = next((e["args"]["name"] for e in names if e["name"] == "process_name"), f"rank {rank}")
        bars = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise Failure(f"{path}: is not a trace of dsexec --trace or dsplan --emit timeline ({e})") from e
    updates = sorted({e["args"]["update"] for e in bars})
    if not updates:
        raise Failure(f"{path}: has nothing of rank {rank}")
    which = updates[-1] if update is None else update - 1
    if which not in updates:
        raise Failure(f"{path}: has updates {updates[0] + 1} to {updates[-1] + 1}, not {which + 1}")
    bars = [{"name": e["name"], "op": e["cat"], "stream": threads[e["tid"]], "begin": e["ts"], "end": e["ts"] + e["dur"],
             "program": e["args"]["program"], "update": e["args"]["update"]}
            for e in bars if which - 1 <= e["args"]["update"] <= which]
    own = [b for b in bars if b["update"] == which]
    first, last = min(b["begin"] for b in own), max(b["end"] for b in own if b["stream"] == "compute")
    bars = [b | {"begin": max(b["begin"], first), "end": min(b["end"], last)} for b in bars
            if b["begin"] < last and (b["end"] > first or b["update"] == which)]
    streams = [name for _, name in sorted(threads.items()) if name in ALWAYS or any(b["stream"] == name for b in bars)]
    return bars, streams, which + 1, process


def kind(bar):
    if bar["stream"] == "comm":
        return "gather" if bar["op"] == "all_gather" else "reduce"
    if bar["stream"] != "compute":
        return bar["stream"]
    if bar["program"] == "update":
        return "update"
    return "backward" if bar["backward"] else "forward"


def mark_backward(bars):
    """The backward phase begins behind the loss."""
    behind = {}
    for bar in sorted((b for b in bars if b["stream"] == "compute"), key=lambda b: b["begin"]):
        bar["backward"] = behind.get(bar["program"], False)
        behind[bar["program"]] = bar["backward"] or bar["op"] in ("cross_entropy", "mse")


def hidden(bars, stream):
    """How long a stream ran, and how long of that the rank computed, in us."""
    busy = sorted((b["begin"], b["end"]) for b in bars if b["stream"] == "compute")
    total = over = 0.0
    for c in (b for b in bars if b["stream"] == stream):
        total += c["end"] - c["begin"]
        over += sum(max(0.0, min(c["end"], end) - max(c["begin"], begin)) for begin, end in busy)
    return total, over


def picture(bars, streams, update, process, title):
    mark_backward(bars)
    first, last = min(b["begin"] for b in bars), max(b["end"] for b in bars)
    scale = (WIDTH - LEFT - RIGHT) / (last - first)
    height = TOP + LANE * len(streams) + 34
    share = ""
    for stream, noun in ("comm", "collectives"), ("host", "the host's launches"):
        total, over = hidden(bars, stream)
        share += f"; {100 * over / total:.0f} % of {total / 1e3:.1f} ms of {noun} ran behind computation" if total else ""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
           f'font-size="13" fill="#1f2328"><rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="24" y="30" font-size="18">{html.escape(title)}</text>',
           f'<text x="24" y="52">update {update}, {html.escape(process)}: {(last - first) / 1e3:.1f} ms{share}</text>']
    x = 24
    kinds = {kind(bar) for bar in bars}
    for name in [n for n in COLOURS if n in kinds]:
        out.append(f'<rect x="{x}" y="64" width="12" height="12" fill="{COLOURS[name]}"/><text x="{x + 17}" y="75">'
                   f'{ {"gather": "all-gather", "reduce": "reduce"}.get(name, name)}</text>')
        x += 108
    for lane, stream in enumerate(streams):
        y = TOP + lane * LANE
        out.append(f'<text x="24" y="{y + BAR / 2 + 5}">{stream}</text>'
                   f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{BAR}" fill="#f2f4f7"/>')
        for bar in bars:
            if bar["stream"] != stream:
                continue
            left, width = LEFT + (bar["begin"] - first) * scale, max(0.6, (bar["end"] - bar["begin"]) * scale)
            label = f'{bar["name"]} ({bar["op"]}), {(bar["end"] - bar["begin"]) / 1e3:.2f} ms'
            out.append(f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[kind(bar)]}">'
                       f'<title>{html.escape(label)}</title></rect>')
            if stream == "comm" and width > 7 * len(bar["name"].split(".full")[0]):
                out.append(f'<text x="{left + 3:.1f}" y="{y + BAR + 14}" font-size="11">'
                           f'{html.escape(bar["name"].split(".full")[0])}</text>')
    bottom = TOP + LANE * len(streams)
    for tick in range(6):
        at = (last - first) * tick / 5
        out.append(f'<text x="{LEFT + at * scale:.0f}" y="{bottom + 14}" text-anchor="{"end" if tick == 5 else "middle"}" fill="#57606a">'
                   f'{at / 1e3:.1f} ms</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example:\n  dsexec ... --steps 3 --trace trace.json\n"
                                            "  tools/plot_timeline.py trace.json --out timeline.svg")
    parser.add_argument("trace", help="what dsexec --trace or dsplan --emit timeline wrote")
    parser.add_argument("--update", type=int, metavar="N", help="which update, from 1 (default: the last)")
    parser.add_argument("--rank", type=int, default=0, metavar="R", help="which rank (default 0)")
    parser.add_argument("--title", default="One update", metavar="TEXT")
    parser.add_argument("--out", required=True, metavar="FILE.svg")
    args = parser.parse_args()
    bars, streams, update, process = read(args.trace, args.rank, args.update)
    with open(args.out, "w") as f:
        f.write(picture(bars, streams, update, process, args.title))
    print(f"{args.out}: update {update} of rank {args.rank}, {len(bars)} instructions")


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError) as e:
        sys.exit(f"plot_timeline.py: error: {e}")
