# SPDX-License-Identifier: Apache-2.0
"""The table at the end of tools/gpu_check, and the same for docs/gpu-results.md."""


def table(facts, rows, markdown):
    about = facts.get("device", "no device")
    if facts.get("emulated"):
        about += " (emulated on a CPU: no GPU took part; times mean nothing)"
    head = f"{facts.get('date', '')}, {about}, {facts.get('world_size', 1)} rank{'s' if facts.get('world_size', 1) > 1 else ''}"
    columns = [("part", "part"), ("what", "what"), ("value", "result"), ("against", "against"), ("verdict", "")]
    cells = [[str(r[key]) for key, _ in columns] for r in rows]
    if markdown:
        lines = [head, "", "| " + " | ".join(title for _, title in columns) + " |", "|" + "---|" * len(columns)]
        return "\n".join(lines + ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells])
    widths = [max(len(c) for c in column) for column in zip(*cells)] if cells else []
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
    return "\n".join(["", head, *lines])


def bars(rows):
    """What was aimed at, and whether it was reached; a bar that nothing was measured for is not in the rows."""
    found = {r["bar"]: r for r in rows if r.get("bar")}
    words = {"ok": "reached", "short": "NOT reached"}
    return "\n".join(f"bar: {bar}: {words.get(r['verdict'], r['verdict'])} ({r['value']}; {r['against']})" for bar, r in found.items())
