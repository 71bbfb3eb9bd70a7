#!/usr/bin/env python3
"""Writes tests/data/jinja_cases.json: what Jinja 3.1 makes of the templates in tests/data/jinja_templates.txt (one a
line, a pilcrow standing for a newline) under the settings with which transformers renders chat templates. The text is
null where Jinja refuses a template. Needs jinja2 (3.1.6 was used)."""
import json
import os

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = os.path.join(os.path.dirname(__file__), "..", "tests", "data")
MESSAGES = [
    {"role": "system", "content": "  You are terse.\n"},
    {"role": "user", "content": "Héllo wörld, 你好 <b>'quoted'</b>", "n": 3, "x": 0.5, "tags": ["b", "A", "c"]},
    {"role": "assistant", "content": [{"type": "text", "text": " hi "}, {"type": "image"}], "ok": True, "none": None},
    {"role": "user", "content": "", "args": {"zeta": 1, "Alpha": [1, 2.5, "x"], "beta": {"k": None, "t": True}}},
]

def make_environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


class Generation(jinja2.ext.Extension):
    """{% generation %}, which transformers adds, as plain text."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True), lineno=line)


def main():
    env = make_environment()
    cases = []
    with open(os.path.join(DATA, "jinja_templates.txt"), encoding="utf-8") as f:
        templates = [line.rstrip("\n").replace("¶", "\n") for line in f]
    for source in templates:
        try:
            text = env.from_string(source).render(messages=MESSAGES, tools=None, documents=None, bos_token="<bos>",
                                                  add_generation_prompt=True, enable_thinking=False)
        except Exception:                       # Jinja lets Python's own errors through
            text = None
        cases.append([source, text])
    with open(os.path.join(DATA, "jinja_cases.json"), "w", encoding="utf-8") as f:
        json.dump({"messages": MESSAGES, "cases": cases}, f, ensure_ascii=False,
                  indent=0)
        f.write("\n")
    print(len(cases), "cases,", sum(text is None for _, text in cases), "refused")


if __name__ == "__main__":
    main()
