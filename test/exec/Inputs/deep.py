#!/usr/bin/env python3
"""Writes a chain of equal residual blocks with dropout as .dsir: deep.py LAYERS WIDTH ROWS."""
import sys

layers, width, rows = (int(a) for a in sys.argv[1:])
inner = 2 * width
x, w, h = f"f32[{rows},{width}]", f"f32[{width},{inner}]", f"f32[{rows},{inner}]"
print("module @deep {")
for k in range(layers):
    print(f"  param @w{k} : {w} init normal({2 * k},0.1)")
    print(f"  param @v{k} : f32[{inner},{width}] init normal({2 * k + 1},0.1)")
print(f"\n  func @micro(%x0: {x}, %rng: u64[2] rng) {{\n  forward:")
for k in range(layers):
    print(f"    %h{k} = matmul %x{k}, @w{k} : {h}")
    print(f"    %a{k} = tanh %h{k} : {h}")
    print(f"    %d{k} = dropout %a{k}, %rng {{ratio=0.1, key={k}, rows={rows}}} : {h}")
    print(f"    %o{k} = matmul %d{k}, @v{k} : {x}")
    print(f"    %x{k + 1} = add %x{k}, %o{k} : {x}")
print(f"    return %x{layers}\n  }}\n}}")
