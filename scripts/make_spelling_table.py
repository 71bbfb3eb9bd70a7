#!/usr/bin/env python3
"""Writes eval/spelling_table.c from Whisper's list of British and American spellings.

    python3 scripts/make_spelling_table.py english.json > eval/spelling_table.c

english.json is whisper/normalizers/english.json of openai-whisper (MIT licence).
"""
import json
import sys

print("""/* spelling_table.c - British to American spellings: the word pairs of whisper/normalizers/english.json of
 * openai-whisper (MIT licence, Copyright (c) 2022 OpenAI), which took them from tysto.com/uk-us-spelling-list.html.
 * Written by scripts/make_spelling_table.py: do not edit. Sorted by the first word. */
#include "eval/normalise.h"

static const struct word_pair pairs[] = {""")
line = "   "
for pair in sorted(json.load(open(sys.argv[1])).items()):
    item = '{"%s","%s"},' % pair
    if len(line) + 1 + len(item) > 118:
        print(line)
        line = "   "
    line += " " + item
print(line)
print("""};

const struct word_table spelling_table = {pairs, sizeof pairs / sizeof *pairs};""")
