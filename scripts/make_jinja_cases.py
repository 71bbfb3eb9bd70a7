#!/usr/bin/env python3
"""Writes tests/data/jinja_cases.json: small templates with what Jinja 3.1 makes of them under the settings with which
transformers renders chat templates. "text" is null where Jinja refuses a template. Needs jinja2 (3.1.6 was used)."""
import json
import os

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MESSAGES = [
    {"role": "system", "content": "  You are terse.\n"},
    {"role": "user", "content": "Héllo wörld, 你好 <b>'quoted'</b>", "n": 3, "x": 0.5, "tags": ["b", "A", "c"]},
    {"role": "assistant", "content": [{"type": "text", "text": " hi "}, {"type": "image"}], "ok": True, "none": None},
    {"role": "user", "content": "", "args": {"zeta": 1, "Alpha": [1, 2.5, "x"], "beta": {"k": None, "t": True}}},
]

TEMPLATES = r"""
plain text
{{ 1 }}{{ 2 -}}   x   {{- 3 }}
{% if true %}¶  a¶{% endif %}¶b
  {% if true %}¶  a¶  {% endif %}¶b
  {%+ if true %}¶  a¶  {%+ endif %}¶b
x  {% if true +%}¶ a¶{% endif %}¶b
x¶  {# note #}¶y
x¶  {#- note -#}  ¶y
a {#+ c #} b {# d +#}¶c
x  {{ 1 }}¶  {{ 2 }}¶
x¶¶
x¶ 
{%- set a = 1 -%}¶  {{ a }}
 {%- if 1 -%} a {%- else -%} b {%- endif -%} c
¶  ¶ {% if 1 %} ¶ ¶ a {% endif %} ¶ b
{{ 'a' }}  {% if 1 %}b{% endif %}  {{ 'c' }}
{{ 1 -}}¶   {% if 1 %}x{% endif %}
{% raw %}{{ not }} {% x %}{% endraw %}!
 {%- raw -%}  a {{ b }} {%- endraw -%}  c
  {% raw %}¶a¶  {% endraw %}¶b
{{ "a\nb\t\"c\" \x41é 你 \101 \q" }}
{{ 'it''s' }}{{ "a" 'b' }}
{{ '\\n' }}|{{ 'a\\' }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 100.0 }}
{{ 1_000 }} {{ 1_0.5 }} {{ 3.14 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e15 }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 }} {{ +3 }} {{ -1.5 }} {{ 10 - 2 - 3 }} {{ 2 * (3 + 4) }} {{ --1 }}
{{ 1 ~ 2 ~ 'a' ~ none ~ true ~ x }} {{ 'a' ~ 1 + 2 }}
{{ 'a' + 'b' * 3 }} {{ 2 * 'ab' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ [0] * 3 }} {{ 'a' * -1 }}
{{ true + 1 }} {{ true }} {{ none }} {{ None }} {{ False }} {{ true and 'x' }} {{ 0 or 'y' }} {{ not 0 }} {{ not not 1 }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 'b' <= 'ab' }} {{ [1,2] < [1,3] }} {{ 1 == 1.0 }} {{ 1 == '1' }}
{{ 1 in [1,2] }} {{ 'l' in 'hello' }} {{ 'z' not in 'hello' }} {{ 'a' in {'a': 1} }} {{ 3 in (1, 2) }} {{ 'a' in undefined_thing }}
{{ not 1 in [2] }} {{ not (1 == 2) and true }} {{ 1 if 2 > 1 else 3 }} {{ 1 if false }}| {{ 'a' if false else 'b' if false else 'c' }}
{{ true == 1 }} {{ false != none }} {{ none == none }} {{ [1, [2]] == [1, [2]] }} {{ (1, 2) == [1, 2] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ [1, 'a', none, true, 1.5, [2], (3,), {'k': 'v'}] }}
{{ () }} {{ (1,) }} {{ (1, 2) }} {{ 1, 2 }} {{ {} }} {{ [] }} {{ {'a': [1, {'b': 2}]} }} {{ ["it's", 'say "hi"', 'b\'o"th', 'a\nb', '\\', 'é', '\x01'] }}
{{ [1, 2, 3][0] }} {{ [1, 2, 3][-1] }} {{ [1, 2][5] }}| {{ 'héllo'[1] }} {{ 'abc'[-1] }} {{ 'abc'[7] }}| {{ (1,2).1 }}
{{ [1,2,3,4][1:] }} {{ [1,2,3,4][:-1] }} {{ [1,2,3,4][::2] }} {{ [1,2,3,4][::-1] }} {{ 'héllo'[1:3] }} {{ 'héllo'[::-1] }} {{ [1,2,3][5:] }} {{ [1,2,3][-2:] }} {{ [1,2,3][:] }}
{{ 'abcdef'[4:1:-1] }} {{ 'abcdef'[:2:-1] }} {{ 'abcdef'[-100:100:3] }} {{ 'abc'[3:1] }}| {{ (1,2,3)[1:] }} {{ ''[::-1] }}| {{ 'abc'[::-5] }} {{ 'abc'[9:-9:-1] }}
{{ [1,2][::0] }}
{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[1].n + 1 }} {{ messages[1].x }} {{ messages[2].ok }} {{ messages[2].none }}
{{ messages[0].nope }}|{{ messages[0]['nope'] }}|{{ messages[9] }}|{{ nope }}
{{ messages[0].nope.deeper }}
{{ nope.deeper }}
{{ nope + 1 }}
{{ nope < 1 }}
{{ nope == nope2 }} {{ nope == none }} {{ nope or 'd' }} {{ nope is defined }} {{ messages is defined }}
{{ none.x }}| {{ none + 1 }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 'x' < 1 }}
{{ 1 in 'abc' }}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{{ nope() }}
{{ 'a'() }}
{{ 1 | nosuchfilter }}
{{ 1 is nosuchtest }}
{{ (1 }}
{{ 1 ) }}
{{ [1, 2 }}
{{ 'abc }}
{% if 1 %}
{% endif %}
{% for x in [1] %}{% endif %}
{% unknown %}
{{ }}
{% set %}
{% break %}
{# open
{{ a b }}
{% for 1 in [2] %}{% endfor %}
{{ f(a=1, 2) }}
{{ 1 if }}
{% for m in messages %}{{ loop.index }}/{{ loop.length }}:{{ m.role }}{{ ',' if not loop.last }}{% endfor %}
{% for m in messages %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }};{% endfor %}
{% for x in [1,2,3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in [1,2,3] %}{% if loop.previtem is defined %}p{% endif %}{% if loop.nextitem is undefined %}e{% endif %}{{ loop.previtem|default('-') }}{% endfor %}
{% for x in [1,2,3,4] if x % 2 == 0 %}{{ loop.index }}={{ x }}/{{ loop.length }} {% else %}none{% endfor %}
{% for x in [] %}x{% else %}empty{% endfor %}|{% for x in [1] if x > 1 %}x{% else %}empty{% endfor %}|{% for x in nope %}x{% else %}empty{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}+{{ b }};{% endfor %}{% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}{{ v }}{% endfor %}
{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for k in {'x': 1, 'y': 2} %}{{ k }}{% endfor %} {% for c in 'hé你' %}[{{ c }}]{% endfor %}
{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1,2] %}{% for y in [1,2,3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %}{{ loop.index }};{% endfor %}
{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, t='') %}{% for i in [1,2,3] %}{% set ns.n = ns.n + i %}{% set ns.t = ns.t ~ i %}{% endfor %}{{ ns.n }} {{ ns.t }} {{ ns.nope }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}{% set ns.c = ns.a + ns.b %}{{ ns.c }}
{% set d = {'a': 1} %}{% set d.a = 2 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}
{% set x %} block {{ 1 + 1 }} {% endset %}[{{ x }}]
{% set x | trim | upper %} block {{ 1 + 1 }} {% endset %}[{{ x }}]
{% set x %}{% set y = 5 %}{{ y }}{% endset %}{{ x }}{{ y }}
{% macro f(a, b=2, c='x') %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c='z') }}{{ f(a=9) }}{{ f() }}
{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro f() %}{{ x }}{% endmacro %}{% set x = 7 %}{{ f() }}
{% macro f(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f(x) }}{{ x }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(a) %}  {{ a }} {% endmacro %}[{{ f('x') | trim }}] {{ f('q') ~ '!' }} {{ f is callable }}
{% macro f(t) -%}{%- set ns = namespace(r='') -%}{%- for p in t.split('|') -%}{%- set ns.r = ns.r + p -%}{%- endfor -%}{{ ns.r }}{%- endmacro -%}{{ f('a|b|c') }}
{% for i in range(3) %}{{ i }}{% endfor %} {% for i in range(2, 8, 3) %}{{ i }}{% endfor %} {% for i in range(3, 0, -1) %}{{ i }}{% endfor %} {{ range(0) | list }} {{ range(5) | length }}
{{ range(200000) | length }}
{{ dict(a=1, b='x') }} {{ dict({'q': 2}, a=1).q }}
{{ raise_exception('bad role') }}
{{ '  hi  '.strip() }}|{{ 'xxhixx'.strip('x') }}|{{ '  hi '.lstrip() }}|{{ ' hi  '.rstrip() }}|{{ 'abcab'.strip('ab') }}|{{ '  ¶ hi¶'.strip() }}|{{ 'ééaé'.strip('é') }}|{{ 'a b'.rstrip('xyz') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('x') }} {{ 'a  b  c '.split(none, 1) }} {{ 'a b'.split(maxsplit=0) }} {{ 'a<>b<>'.split('<>') }}
{{ 'a,b'.split('') }}
{{ 'a¶b¶¶c'.splitlines() }} {{ 'a¶'.splitlines() }}
{{ 'hello'.startswith('he') }} {{ 'hello'.endswith('lo') }} {{ 'hello'.startswith(('x', 'h')) }} {{ 'a'.endswith('abc') }} {{ 'a'.startswith('') }}
{{ 'hello'.replace('l', 'L') }} {{ 'hello'.replace('l', 'L', 1) }} {{ 'aXbX'.replace('X', '') }} {{ 'hello'|replace('l', '__') }}
{{ 'héllo'.upper() }} {{ 'HÉLLO'.lower() }} {{ "they're bill's".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'привет'.upper() }} {{ 'ΑΒΓ'|lower }}
{{ 'hello'.find('l') }} {{ 'héllo'.find('l') }} {{ 'hello'.find('z') }} {{ 'hello'.rfind('l') }} {{ 'hello'.count('l') }} {{ 'hello'.index('e') }} {{ 'abc'.count('') }}
{{ ', '.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' '.isspace() }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}
{{ 'abc'.nosuch() }}
{{ 'abc'.nosuch is defined }} {{ messages[0].get('role') }} {{ messages[0].get('x') }} {{ messages[0].get('x', 5) }}
{% for k, v in messages[3].args.items() %}{{ k }};{% endfor %}{% for k in messages[3].args.keys() %}{{ k }};{% endfor %}{% for v in messages[3].args.values() %}{{ v }};{% endfor %}
{{ messages[0]['items'] is mapping }} {{ messages[0].items is callable }} {{ messages[0]['get']('role') }} {{ messages[0]['items'] is defined }}
{{ messages[1].tags.append('x') }}
{{ messages[0].update({'a': 1}) }}
{{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ nope | trim }}| {{ 5 | trim }} {{ none | trim }}
{{ 'abc' | length }} {{ [1,2] | count }} {{ {'a': 1} | length }} {{ nope | length }} {{ '你好' | length }} {{ 'a' | length + 1 }}
{{ 5 | length }}
{{ nope | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | default('d') }} {{ 0 | d('x', boolean=true) }} {{ nope | default }}|
{{ not nope | default(false) }} {{ nope | default([]) | length }} {{ messages[1].zzz | default('q') | upper }}
{{ [1,2,3] | join(', ') }} {{ ['a','b'] | join }} {{ messages | join('|', attribute='role') }} {{ 'abc' | join('-') }} {{ [none, true] | join(' ') }}
{{ 'Abc' | upper }} {{ 'ABC' | lower }} {{ 'hello world' | capitalize }} {{ 'hello world' | title }} {{ 5 | upper }} {{ none | lower }}
{{ 'abc' | list }} {{ {'a': 1} | list }} {{ (1,2) | list }} {{ [1,2,3] | first }} {{ [1,2,3] | last }} {{ 'abc' | first }} {{ [] | first }}| {{ [1,2,3] | reverse | list }} {{ 'abc' | reverse }}
{{ messages[3].args | dictsort }}
{{ {'b': 1, 'a': 3, 'C': 2} | dictsort }} {{ {'b': 1, 'a': 3, 'C': 2} | dictsort(true) }} {{ {'b': 1, 'a': 3} | dictsort(by='value') }} {{ {'b': 1, 'a': 3} | dictsort(reverse=true) }}
{{ {'b': 1} | items | list }} {{ nope | items | list }}
{{ messages | map(attribute='role') | list }} {{ ['a','b'] | map('upper') | list }} {{ ['a','b'] | map('replace', 'a', 'z') | join }} {{ messages | map(attribute='n', default=0) | list }}
{{ [1,2,3,4] | select('odd') | list }} {{ [1,2,3,4] | reject('gt', 2) | list }} {{ [0,1,'',2] | select | list }} {{ [1,none] | reject('none') | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'in', ['user']) | map(attribute='role') | list }} {{ messages | selectattr('ok') | list | length }} {{ messages | selectattr('n', 'defined') | list | length }}
{{ messages | selectattr('role', '==', 'user') | map(attribute='content') | first }}
{{ 5 | string + 'x' }} {{ '5' | int + 1 }} {{ 'x' | int }} {{ '4.7' | int }} {{ 4.7 | int }} {{ 'x' | int(9) }} {{ '2.5' | float }} {{ 3 | float }} {{ true | int }} {{ none | int }} {{ ' 12 ' | int }} {{ -4.7 | int }}
{{ '<b>' | safe }} {{ 'a¶b¶¶c' | indent }} {{ 'a¶b' | indent(2, true) }} {{ 'a¶¶b' | indent(1, blank=true) }}
{{ messages[3].args | tojson }}
{{ messages[1] | tojson }}
{{ messages[3].args | tojson(indent=2) }}
{{ messages[3] | tojson(indent=4) }}
{{ {'b': 1, 'a': [1, 2]} | tojson(sort_keys=true) }} {{ {'b': [], 'a': {}} | tojson(indent=1) }} {{ [1,2] | tojson(separators=(',', ':')) }} {{ 'é你😀"\\' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }}
{{ none | tojson }} {{ true | tojson }} {{ 1.0 | tojson }} {{ 'a\nb\t\x01/' | tojson }} {{ (1, 2) | tojson }}
{{ nope | tojson }}
{{ 1 is number }} {{ 'a' is number }} {{ true is number }} {{ true is boolean }} {{ 1 is boolean }} {{ 1 is integer }} {{ 1.0 is integer }} {{ true is integer }} {{ 1.0 is float }}
{{ 'a' is string }} {{ [] is string }} {{ {} is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ {} is sequence }} {{ 'a' is sequence }} {{ 1 is sequence }} {{ nope is sequence }} {{ nope is iterable }} {{ 1 is iterable }} {{ () is iterable }}
{{ none is none }} {{ nope is none }} {{ nope is undefined }} {{ 1 is defined }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ 1 is not none }} {{ none is not none }}
{{ 3 is odd }} {{ 4 is even }} {{ -3 is odd }} {{ 6 is divisibleby(3) }} {{ 6 is divisibleby 4 }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 2 is gt 1 }} {{ 'a' is in ['a'] }} {{ 1 is ne 1 }} {{ 1 is in [2] or true }}
{{ 1 is defined is defined }}
{{ 'a' is string and 'b' is string }} {{ 'x' if 'a' is string else 'y' }} {{ (1 is number) | string }} {{ not 'a' is string }} {{ x is not defined or x.y }}
{% if messages[0]['role'] in ['system', 'developer'] and messages[0]['content'] is string %}{{ messages[0]['content'] | trim }}{% endif %}
{% if nope %}1{% elif 0 %}2{% elif 'x' %}3{% else %}4{% endif %}{% if [] %}a{% elif {} %}b{% elif '' %}c{% else %}d{% endif %}
{% for message in messages[1:] %}{{ message.role ~ ':' }}{% if message.content is string %}{{ message.content }}{% else %}{% for p in message.content %}{{ p.type }}{% endfor %}{% endif %};{% endfor %}
{{ {'a': {'b': 1}}['a']['b'] }} {{ {'a': 1}.a }} {{ {1: 'x'}[1] }} {{ {'x': 1, 'x': 2} }} {{ {'a': 1,} }} {{ [1, 2,] }}
{{ {[1]: 2} }}
{{ {'a}}': '}}'}['a}}'] }} {{ '%}' }} {% if '%}' == "%}" %}ok{% endif %} {{ {'a': {'b': {}}} }}
{{ (messages[0].content | trim).split(' ')[0] }} {{ messages[0].content.strip().split()[-1] }} {{ ('a' ~ 'b').upper() }} {{ ['x'][0].upper() }}
{{ 'response:' + 'n' | default('unknown') + '{' }} {{ 'a' + 'b' | upper }} {{ ('a' + 'b') | upper }} {{ -1 | string }} {{ -'1' | int }}
{% set x = 'a' if false %}{{ x is defined }}{{ x }}|
{% set loop_messages = messages %}{% if true %}{% set loop_messages = messages[1:] %}{% endif %}{{ loop_messages | length }}
{% for x in [1,2] %}{% set y = x %}{% endfor %}{{ y is defined }} {% for x in [3] %}{% endfor %}{{ x is defined }}
{% for x in [1, 2, 3] %}{% if y is defined %}{{ y }}{% endif %}{% set y = x %}{% endfor %}
{% set items = ['a'] %}{% for items in items %}{{ items }}{% endfor %}{{ items }}
{{ bos_token }}{{ add_generation_prompt }}{{ enable_thinking }}{{ tools is none }}{{ tools is defined }}{% if tools %}t{% endif %}{{ strftime_now is defined }}
{%for x in[1,2]%}{{x}}{%endfor%}{{1if 2else 3}}
{{ 1.e }}
{{ 'ab' 'cd'[0] }} {{ ('ab' 'cd')[0] }}
{% generation %}a{% endgeneration %}b
{{ '\u00e9\u4f60' }} {{ "\U0001F600" }} {{ 'a\
b' }}
{{ 9007199254740993 }} {{ 4611686018427387904 + 1 }} {{ 3 * -4 }} {{ 10 ** 15 }}
{{ 'ABC' == 'abc' | upper }} {{ 5 // 2 * 2 + 5 % 2 == 5 }} {{ 'a' not in 'b' and 'c' in 'c' }} {{ 1 + 1 ~ 2 }} {{ 2 * 3 ~ 1 }}
{{ messages[1].content[0:5] }} {{ messages[1]['content'][-4:] }} {{ messages[1].content | upper }} {{ messages[2] }}
""".strip("\n").replace("a\\\nb", "a\\¶b").split("\n")


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
    for source in (t.replace("¶", "\n") for t in TEMPLATES):
        try:
            text = env.from_string(source).render(messages=MESSAGES, tools=None, documents=None, bos_token="<bos>",
                                                  add_generation_prompt=True, enable_thinking=False)
        except Exception:                       # Jinja lets Python's own errors through
            text = None
        cases.append([source, text])
    path = os.path.join(os.path.dirname(__file__), "..", "tests", "data", "jinja_cases.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"messages": MESSAGES, "cases": cases}, f, ensure_ascii=False,
                  indent=0)
        f.write("\n")
    print(len(cases), "cases,", sum(text is None for _, text in cases), "refused")


if __name__ == "__main__":
    main()
