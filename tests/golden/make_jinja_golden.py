#!/usr/bin/env python3
"""Renders small templates with jinja2 in the environment of transformers' apply_chat_template, and writes
tests/golden/jinja/cases.json: [{"name", "template", "text" or "refused", "generation"}, …], and the variables that all have.

    tests/golden/make_jinja_golden.py
"""
import json
import os

import transformers.utils.chat_template_utils as hf

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be \"brief\" & kind."},
        {"role": "user", "content": "  naïve ß 日本 😀\nsecond\tline  "},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes", "tool_calls": [
            {"id": "a1", "type": "function", "function": {"name": "add", "arguments": {"x": 1, "y": [2.5, True, None], "z": {}}}}]},
        {"role": "tool", "content": "42", "name": "add"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "It's 42."}],
    "tools": [{"type": "function", "function": {"name": "add", "description": "Adds\nnumbers.", "parameters": {
        "type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "number"}}},
        "required": ["x"]}}}],
    "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
    "numbers": [3, -1, 2.5, 10, 0], "words": ["pear", "Apple", "fig", "apple"],
    "people": [{"name": "Bo", "age": 3, "at": {"city": "X"}}, {"name": "al", "age": 30, "at": {"city": "Y"}}, {"name": "Cy"}],
    "floats": [1e16, 1e15, 1e-5, 0.0001, 123456789.125, 1e22, -0.0, 5e-324, 0.1, 1.0],
    "map": {"b": 1, "A": [1, 2], "c": {"k": "v\"'"}, "items": "shadow", "é": "ü"}, "empty": {}, "nothing": None,
    "text": "one, two,,three\n four\r\nfive", "spaces": "\t a  b \n", "unicode": "ÀÉ ß ǆ ı", "yes": True, "no": False,
}

EXPRESSIONS = """
1 + 2 * 3 - 4 / 2 | 7 // 2 | -7 // 2 | -7 % 3 | 7 % -3 | 7.5 // 2 | 7.5 % 2 | 2 ** 10 | 2 ** -1 | -2 ** 2 | 10 / 4 | 1e3 | 0x1F + 0b11 + 0o17 + 1_000
floats | numbers | "a" "b" 'c' | "\\u00e9\\x41\\t\\\\\\'" | '\\d' | [1, (2,), (), {'k': none}] | {1: 'a', none: 2, true: 3} | true and 0 | 0 or "x" | not 1
1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 | true == 1 | "a" < "b" | [1, 2] < [1, 3] | (1, 2) == [1, 2] | none == none | "é" > "z" | 1 != 2 | missing == other
"b" in "abc" | 3 in numbers | "x" not in map | "b" in map | "1" in {1: 2} | 2 in missing | "k" in map.c.keys() | "yes" if yes else "no" | "only" if no | (no or none) is none
text[0] | text[-1] | text[2:5] | text[::-1] | text[::3] | text[10:2:-2] | text[100:] | numbers[1:] | numbers[::-1] | numbers[-2:] | messages[1].content[2:9] | messages[1].content[::-1] | numbers[10] | text["x"] | nothing[0] | map["items"] | map.items() | map.missing | map["é"] | words[1][0] | messages[::-1][0].role | numbers[none:2]
"a" ~ 1 ~ none ~ 2.5 ~ true ~ [1] | "x" * 3 | [0] * 2 | "é" * 2 ~ "" | [1] + [2] | (1,) + (2,)
text.split(",") | text.split(",", 1) | spaces.split() | "a b  c d".split(none, 2) | "a b c".rsplit(" ", 1) | "a  b c ".rsplit(none, 1) | text.splitlines() | text.splitlines(true) | "k=v=w".partition("=") | "k=v=w".rpartition("=") | "kv".partition("=") | "abc".startswith("ab") | "abc".endswith(("x", "bc")) | "abc".startswith("b", 1) | "xxaxx".strip("x") | "xxaxx".lstrip("x") | "xxaxx".rstrip("x") | spaces.strip() | "aXbX".replace("X", "--") | "aXbX".replace("X", "", 1) | "abc".replace("", "-") | "hello world's".title() | "hELLO wORLD".capitalize() | unicode.upper() | unicode.lower() | "abcb".find("b") | "abcb".rfind("b") | "日本語".find("語") | "abc".find("z") | "banana".count("an") | "-".join(words) | "{} {1}".format(1, 2) if no else "{} {}".format(1, "x") | "{a}{{}}".format(a=1) | "a1".isalnum() | "12".isdigit() | "".isdigit() | "ab ".isalpha() | " \\n".isspace() | "AB1".isupper() | "prefix-x".removeprefix("prefix-") | "x.py".removesuffix(".py") | "aXb".split("X")[-1] | "x".index("x") | [1, 2, 1].index(2) | [1, 2, 1].count(1) | map.get("b") | map.get("zz") | map.get("zz", 9) | map.keys() | map.values() | map.c.items()
missing is defined | messages is defined | none is none | yes is true | yes is boolean | 1 is integer | 1.5 is float | 1 is number | "x" is string | map is mapping | numbers is iterable | "x" is iterable | missing is iterable | 1 is iterable | map is sequence | map.keys() is sequence | 3 is odd | 4 is even | 9 is divisibleby 3 | 1 is eq 1 | 1 is lt 2 | "a" is in "abc" | 3 is in numbers | missing is undefined | "ABC" is upper | "abc" is lower | range is callable | none is sameas none | "x" is not string | 2 is not divisibleby(3) | "upper" is filter | "x"|e is escaped
numbers | length | text | length | map | count | missing | length | words | first | words | last | [] | first | words | join(", ") | people | join("/", attribute="name") | numbers | sort | words | sort | words | sort(case_sensitive=true) | words | sort(reverse=true) | people[:2] | sort(attribute="age") | words | unique | list | numbers | max | words | min | numbers | sum | people[:2] | sum(attribute="age") | words | reverse | list | "abc" | reverse | "abc" | list | map | list | map | dictsort | map | dictsort(by="key", reverse=true) | map.c | items | list | map | length
""".strip()


def expressions():
    """The expressions above, of which filters have lines of their own."""
    lines = EXPRESSIONS.split("\n")
    for line in lines[:-1]:
        yield from line.split(" | ")
    yield from ["numbers | length", "text | length", "map | count", "missing | length", "words | first", "words | last",
                "[] | first", "words | join(', ')", "words | join", "people | join('/', attribute='name')", "numbers | sort",
                "words | sort", "words | sort(case_sensitive=true)", "words | sort(reverse=true)",
                "people[:2] | sort(attribute='age') | map(attribute='name') | list", "words | unique | list",
                "numbers | max", "words | min", "numbers | sum", "people[:2] | sum(attribute='age')",
                "words | reverse | list", "'abc' | reverse", "'abé' | list", "map | list", "map | dictsort",
                "map | dictsort(by='key', reverse=true)", "map.c | items | list", "map | tojson", "map | tojson(indent=2)",
                "[] | tojson(indent=2)", "map | tojson(ensure_ascii=true)", "map | tojson(sort_keys=true)",
                "numbers | tojson(separators=(',', ':'))", "floats | tojson", "messages | tojson", "unicode | tojson",
                "'😀 \\u007f' | tojson(ensure_ascii=true)", "'<&>\\'' | tojson", "tools | tojson(indent=4)",
                "{1: 2, none: 3, true: 4, 1.5: 5} | tojson", "(1, 'a') | tojson", "'a\\nb\\n\\nc\\n' | indent(2)",
                "'a\\nb\\n\\nc' | indent(2, true, true)", "'a\\nb' | indent('> ', first=true)", "'  x ' | trim", "'xyx' | trim('x')",
                "'aXa' | replace('a', 'b')", "'aaa' | replace('a', 'b', 2)", "12 | replace(1, 3)", "'hello-world (of x)' | title",
                "'hELLO' | capitalize", "'x' | upper ~ 'Y' | lower", "none | string", "[1, 'a'] | string", "missing | default('d')",
                "'' | default('d')", "'' | default('d', true)", "none | d('x')", "none | d('x', boolean=true)", "'42' | int",
                "'4.9' | int", "'x' | int(7)", "'ff' | int(base=16)", "3.99 | int", "'1.5' | float", "'x' | float", "-3 | abs", "-2.5 | abs",
                
                "people | map(attribute='name') | list", "people | map(attribute='at.city', default='-') | list", "words | map('upper') | list",
                "words | map('replace', 'p', 'q') | join(' ')", "people | selectattr('age') | map(attribute='name') | list",
                "people[:2] | selectattr('age', 'gt', 5) | map(attribute='name') | list", "people | rejectattr('age', 'defined') | list",
                "numbers | select('odd') | list if no else [1, 2, 3] | select('odd') | list", "numbers | reject('equalto', 0) | list",
                "[0, 1, '', 'x', none] | select | list", "nothing | selectattr('a') | list", 
                "'<b>' | e", "'<b>' | safe ~ '<i>'", "('<b>' | safe) + '<i>'", "('<b>' | e) + ('<i>' | safe)",
                "range(5) | list", "range(2, 10, 3) | list",
                "range(3, 0, -1) | list", "range(3)", "range(3)[1]", "dict(a=1, b='x')", "dict([('k', 1)])", "namespace(a=1).a", "words | map('length') | sum",
                "map is mapping and map.c.k is string", "messages | map(attribute='role') | unique | join('+')", 
                "(words | select('in', ['fig'])) | first", "[[1, 2], [3]] | map('first') | list", "'a,b' | list | length", "-1 | abs + 1"]


STATEMENTS = {
    "whitespace": "a\n  {% if yes %}\n  b\n  {% endif %}\n  c {%- if yes -%}  d  {%- endif +%}\n e\n{#- x -#}\n f {{- 'g' -}}  h\n"
                  "   {%+ if yes %}i{% endif %}\n\n{# c #}\nj\n  {{ 'k' }}\n{% raw %}\n {{ x }} {% y %}\n{% endraw %}\nl\n",
    "newlines": "a\r\nb\rc\n{{ 'x\r\ny' }}\r\n{% if yes %}\r\nz{% endif %}\r\n\n",
    "if": "{% if missing %}a{% elif none %}b{% elif 0 %}c{% elif '' %}d{% elif [] %}e{% else %}{% if yes %}f{% endif %}{% endif %}",
    "for": "{% for m in messages %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/"
           "{{ loop.length }}/{{ loop.cycle('x', 'y', 'z') }}/{{ loop.changed(m.role) }}/{{ loop.previtem.role if loop.previtem else '-' }}/"
           "{{ loop.nextitem.role if loop.nextitem is defined }};{% endfor %}",
    "for_filter": "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ loop.last }}{{ m.content | trim }}{% else %}none{% endfor %}"
                  "{% for x in [] %}x{% else %}empty{% endfor %}{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}"
                  "{% for a, (b, c) in [(1, (2, 3))] %}{{ a + b * c }}{% endfor %}{% for k in map %}{{ k }}{% endfor %}{% for c in 'añb' %}[{{ c }}]{% endfor %}",
    "nested": "{% for a in range(2) %}{% for b in range(2) %}{{ loop.depth }}{{ loop.depth0 }}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    "jumps": "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% else %}e{% endfor %}"
             "{% for i in [1] %}{% continue %}{% else %}all skipped{% endfor %}",
    "scope": "{% set x = 1 %}{% for i in range(2) %}{{ x }}{% set x = i + 5 %}{{ x }}{% endfor %}{{ x }}{% if yes %}{% set x = 9 %}{% endif %}{{ x }}"
             "{% set ns = namespace(n=0, l=[]) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }}{{ ns.l }}",
    "set": "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, %}{{ t }}{% set block %}  in {{ a }}\n{% endset %}[{{ block }}]"
           "{% set f | upper | trim %} x {% endset %}[{{ f }}]{% set y = x if x is defined else 'undefined' %}{{ y }}{% set tools = tools[:1] %}{{ tools | length }}",
    "macro": "{% macro m(a, b=2, c=none) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=4, a=5) }}{{ m() }}{{ m(*[7, 8], **{'c': 9}) }}"
             "{% macro v(x) %}{{ x }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, 3, k=4) }}"
             "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(4) }}{% set late = 'seen' %}{% macro g() %}{{ late }}{{ later }}{% endmacro %}"
             "{% set later = 'too' %}{{ g() }}{% macro d(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ d('x') }}{{ (m(1) ~ 'x') | upper }}",
    "call": "{% macro box(t) %}<{{ t }}>{{ caller('in', 2) }}</{{ t }}>{% endmacro %}{% call(a, b=1) box('p') %}{{ a }}{{ b }}{% endcall %}",
    "filter_block": "{% filter upper | replace('A', 'o') %}banana {{ 'x' }}{% endfilter %}",
    "with": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "generation": "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
                  "{% else %}{{ m.content }}{% endif %}\n{% endfor %}{% generation %}é{% endgeneration %}{% generation %}{% endgeneration %}",
    "objects": "{% set j = joiner('; ') %}{% for w in words %}{{ j() }}{{ w }}{% endfor %}",
    "iterator": "{% set it = words | map('lower') %}{{ it | first }}{{ it | list }}{{ it | list }}{% if [] | select %}true{% endif %}",
    "tuple_output": "{{ 1, 2 }}{{ () }}{{ (1) }}{{ [1, 2,] }}{{ {'a': 1,} }}",
    "print": "{{ none }}{{ true }}{{ 1.0 }}{{ missing }}{{ map }}{{ 'a' }}{{ ['a\\n', \"it's\", '\\\\', '\\x00\\u200b'] }}{{ namespace(a=1) }}",
    "deferred": "{% if no %}{{ 1 | no_such_filter }}{% endif %}{% if missing is defined %}{{ x is no_such_test }}{% endif %}ok",
    "colon": "{% if yes: %}a{% endif %}{% for x in [1]: %}{{ x }}{% endfor %}",
    "strings": "{{ 'a%}b' }}{{ \"}}\" }}{{ {'a': {'b': 1}}.a.b }}{% set x = '{% raw %}' %}{{ x }}",
    "dot_number": "{{ [[5, 6]].0.1 }}{{ map.A.1 }}",
}
REFUSED = {
    "attribute of undefined": "{{ missing.x }}", "item of undefined": "{{ missing['x'] }}", "sum of undefined": "{{ missing + 1 }}",
    "text and number": "{{ 'a' + 1 }}", "text and none": "{{ 'a' + nothing }}", "order": "{{ 1 < 'a' }}", "zero": "{{ 1 / 0 }}",
    "raise": "{{ raise_exception('no') }}", "call": "{{ missing() }}", "not callable": "{{ 'x'() }}", "items of number": "{% for x in 5 %}{% endfor %}",
    "macro arguments": "{% macro m() %}{% endmacro %}{{ m(1) }}", "macro name": "{% macro m() %}{% endmacro %}{{ m(a=1) }}",
    "unpack": "{% for a, b in [1] %}{% endfor %}", "in number": "{{ 1 in 2 }}", "number in text": "{{ 1 in 'a' }}", "not namespace": "{% set map.x = 1 %}",
    "range": "{{ range(1000000) }}", "json of undefined": "{{ missing | tojson }}", "key": "{{ {[]: 1} }}", "underscore": "{% set n = namespace(_a=1) %}",
    "mutation": "{{ map.update({}) }}", "append": "{{ numbers.append(1) }}", "length of none": "{{ nothing | length }}", "call of filter": "{% if yes %}{{ 1 | nope }}{% endif %}",
}


def main():
    compile_template = hf._compile_jinja_template
    cases = [("expression " + x, "{{ " + x + " }}") for x in expressions()] + list(STATEMENTS.items())
    out = []
    for name, source in cases:
        try:
            variables = dict(VARIABLES)
            messages, tools, documents = (variables.pop(k) for k in ("messages", "tools", "documents"))
            prompt = variables.pop("add_generation_prompt")
            rendered, spans = hf._render_with_assistant_indices(compile_template(source), messages, tools, documents, prompt, **variables)
        except Exception as problem:
            raise SystemExit("%s: %r" % (name, problem))
        case = {"name": name, "template": source, "text": rendered}
        if spans:
            case["generation"] = [s for s in spans if s[0] < s[1]]
        out.append(case)
    for name, source in REFUSED.items():
        try:
            rendered = compile_template(source).render(**VARIABLES)
        except Exception:
            out.append({"name": name, "template": source, "refused": True})
        else:
            raise SystemExit("%s is not refused: %r" % (name, rendered))
    os.makedirs(os.path.join(HERE, "jinja"), exist_ok=True)
    with open(os.path.join(HERE, "jinja", "cases.json"), "w") as f:
        f.write('{"variables": ' + json.dumps(VARIABLES) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c) for c in out) + "]}\n")
    print(len(out), "cases")


main()
