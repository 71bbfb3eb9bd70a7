#!/usr/bin/env python3
"""Writes engine/ggml_grids.h: the lattice codebooks of ggml's IQ types, read from the `gguf` package (MIT licence,
`pip install gguf`), where they are given as packed hexadecimal strings. The numbers are part of the file format."""
from gguf import quants


def codes(cls):
    """Grid rows as lists of indices into the type's grid_map."""
    bits = max(1, (len(cls.grid_map) - 1).bit_length())
    raw = bytes.fromhex(cls.grid_hex.decode())
    rows, cols = cls.grid_shape
    per_byte = 8 // bits
    step = 8 // per_byte
    flat = [(byte >> (step * i)) & ((1 << bits) - 1) for byte in raw for i in range(per_byte)]
    return [flat[r * cols:(r + 1) * cols] for r in range(rows)]


def main():
    print("/* ggml_grids.h - codebooks of ggml's IQ types, one byte a value; made by scripts/make_ggml_grids.py. */")
    print("#ifndef HANDOFF_GGML_GRIDS_H\n#define HANDOFF_GGML_GRIDS_H\n\n#include <stdint.h>\n")
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"):
        cls = getattr(quants, name)
        rows, cols = cls.grid_shape
        kind = "int8_t" if min(cls.grid_map) < 0 else "uint8_t"
        print(f"static const {kind} grid_{name.lower()}[{rows}][{cols}] = {{")
        line = "   "
        for row in codes(cls):
            item = " {" + ",".join(str(cls.grid_map[c]) for c in row) + "},"
            if len(line) + len(item) > 118:
                print(line)
                line = "   "
            line += item
        print(line + "\n};\n")
    print("#endif")


main()
