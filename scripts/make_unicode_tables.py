#!/usr/bin/env python3
"""Writes eval/unicode_table.h from Python's unicodedata, so that graders agree with the Python harnesses.

    python3 scripts/make_unicode_tables.py > eval/unicode_table.h

Ranges are [first, last]. Decompositions leave out Hangul syllables, which follow a formula.
"""
import re
import sys
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)
EVERY = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def print_list(kind, name, items, comment):
    print(f"/* {comment} */\nstatic const {kind} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 118:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line + "\n};\n")


def ranges(belongs):
    found = []
    for c in EVERY:
        if belongs(chr(c)):
            if found and found[-1][1] == c - 1:
                found[-1][1] = c
            else:
                found.append([c, c])
    return found


def print_ranges(name, belongs, comment):
    print_list("struct unicode_range", name, ["{%d,%d}" % tuple(r) for r in ranges(belongs)], comment)


def print_case(name, convert, comment):
    """Runs of letters whose other case lies at a fixed distance; step 2: every other letter is concerned."""
    runs = []
    for c in EVERY:
        other = convert(chr(c))
        if other == chr(c) or len(other) > 1:
            continue
        if runs:
            first, last, step, delta = runs[-1]
            gap = c - last
            if ord(other) - c == delta and gap in (1, 2) and (first == last or gap == step):
                runs[-1] = (first, c, gap, delta)
                continue
        runs.append((c, c, 1, ord(other) - c))
    print_list("struct unicode_case", name, ["{%d,%d,%d,%d}" % run for run in runs], comment)


def print_long_capitals():
    longs = [(c, [ord(u) for u in chr(c).upper()]) for c in EVERY if len(chr(c).upper()) > 1]
    print_list("struct unicode_capitals", "unicode_capitals",
               ["{%d,{%s}}" % (c, ",".join(map(str, up))) for c, up in longs],
               "letters whose upper case is two or three letters")


def print_decompositions():
    runs, pool = [], []
    for c in EVERY:
        full = unicodedata.normalize("NFKD", chr(c))
        if full == chr(c) or c in HANGUL:
            continue
        units = full.encode("utf-16-le")
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == len(units) // 2:
            runs[-1][1] = c
        else:
            runs.append([c, c, len(units) // 2, len(pool)])
        pool += [str(units[i] | units[i + 1] << 8) for i in range(0, len(units), 2)]
    print_list("struct unicode_nfkd", "unicode_nfkd", ["{%d,%d,%d,%d}" % tuple(r) for r in runs],
               "characters that compatibility decomposition changes: first, last, units of each, where in the pool")
    print_list("uint16_t", "unicode_nfkd_pool", pool, "UTF-16")


def print_numbers(name, number, comment):
    runs = []
    for c in EVERY:
        k = number(chr(c))
        if not k:
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == k:
            runs[-1][1] = c
        else:
            runs.append([c, c, k])
    print_list("struct unicode_number", name, ["{%d,%d,%d}" % tuple(r) for r in runs], comment)


print(f"""/* unicode_table.h - facts of Unicode {unicodedata.unidata_version}; do not edit:
 * scripts/make_unicode_tables.py writes it. For eval/unicode.c only. */
#ifndef HANDOFF_UNICODE_TABLE_H
#define HANDOFF_UNICODE_TABLE_H

#include <stdint.h>

struct unicode_range {{ uint32_t first, last; }};
struct unicode_case {{ uint32_t first, last, step; int32_t add; }};
struct unicode_capitals {{ uint32_t letter, capital[3]; }};
struct unicode_nfkd {{ uint32_t first, last; uint16_t length, start; }};
struct unicode_number {{ uint32_t first, last; uint8_t value; }};
""")
word = re.compile(r"\w")


def cased(c):
    """What str.lower() takes for a cased letter when it decides about a final sigma."""
    return (" " + c + "\u03A3").lower().endswith("\u03C2")


def ignorable(c):
    return not cased(c) and ("A" + c + "\u03A3").lower().endswith("\u03C2")


print_ranges("unicode_word", lambda c: word.match(c), r"what Python's \w matches")
print_ranges("unicode_no_letter", lambda c: word.match(c) and not c.isalpha(), r"what of \w is no letter")
print_ranges("unicode_mark", lambda c: unicodedata.category(c) == "Mn", "non-spacing marks (Mn)")
print_ranges("unicode_symbol", lambda c: unicodedata.category(c)[0] in "MSP",
             "marks, symbols and punctuation (M*, S*, P*)")
print_ranges("unicode_punctuation", lambda c: unicodedata.category(c)[0] == "P", "punctuation (P*)")
print_list("uint32_t", "unicode_zero", [str(c) for c in EVERY if unicodedata.decimal(chr(c), -1) == 0],
           "the zeros of all decimal digits (Nd); the digits 1 to 9 follow each")
print_ranges("unicode_cased", cased, "cased letters")
print_ranges("unicode_ignorable", ignorable, "what a final sigma looks through to find one")
print_case("unicode_lower", str.lower, "lower case: first, last, step, what to add")
print_case("unicode_upper", str.upper, "upper case: first, last, step, what to add")
print_long_capitals()
print_numbers("unicode_class", unicodedata.combining, "canonical combining classes other than 0")
print_decompositions()
print("#endif")
