#!/usr/bin/env python3
"""Renders chat templates with Trireme's interpreter and with transformers', on random conversations, and prints how many
texts and generation spans differ. The templates are files of other projects, which are not part of this one.

    tests/golden/compare_templates.py build/tests/jinja_render FOLDER... [--conversations 1000] [--seed 1] [--show 3]

A template's own bugs count as agreement when both refuse the conversation. Spans of a {% generation %} inside a macro
are left out: transformers counts them from the beginning of the macro.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from datetime import datetime

import transformers.utils.chat_template_utils as hf

WORDS = ["hello", "the", "answer is 42", "naïve café", "日本語のテキスト", "😀 emoji", "a\nb", "  spaced  ", "\ttab", "",
         "line one\nline two\n", "<|im_end|>", "<think>\nhidden\n</think>\n\nvisible", "</think>", "[INST] x [/INST]",
         "{{ not a template }}", "{% raw %}", "\"quoted\" and 'single'", "back\\slash", "tab\\tliteral", "ÀÉÎ ß ǆ",
         "<tool_call>{}</tool_call>", "x" * 300, "1,234.5", "​zero width", "trailing \n\n", "& < > escape",
         "/think", "/no_think", "<|eot_id|>", "ends with slash /", " nbsp "]
NAMES = ["get_weather", "search", "sum_numbers", "f"]


def pick_text(r):
    return " ".join(r.choice(WORDS) for _ in range(r.randint(0, 4)))


def pick_value(r, depth=0):
    kind = r.randint(0, 9 if depth < 2 else 6)
    if kind <= 2:
        return r.choice(WORDS)
    if kind == 3:
        return r.randint(-5, 10**9)
    if kind == 4:
        return r.choice([0.5, 1.0, -2.25, 1e-7, 1e22, 3.14159])
    if kind == 5:
        return r.random() < 0.5
    if kind == 6:
        return None
    if kind == 7:
        return [pick_value(r, depth + 1) for _ in range(r.randint(0, 3))]
    return {r.choice("abcdef") + str(i): pick_value(r, depth + 1) for i in range(r.randint(0, 3))}


def pick_schema(r, depth=0):
    kind = r.choice(["string", "integer", "number", "boolean", "array", "object"] if depth < 2 else ["string", "integer"])
    s = {"type": kind}
    if r.random() < 0.7:
        s["description"] = r.choice(["A value.", "Where?\nSecond line", "The \"quoted\" one", "Größe"])
    if kind == "string" and r.random() < 0.4:
        s["enum"] = ["a", "b", "ç"]
    if kind == "array":
        s["items"] = pick_schema(r, depth + 1)
    if kind == "object":
        s["properties"] = {"p%d" % i: pick_schema(r, depth + 1) for i in range(r.randint(0, 3))}
        s["required"] = list(s["properties"])[:1]
    if r.random() < 0.2:
        s["nullable"] = True
    if r.random() < 0.2:
        s["default"] = pick_value(r, 2)
    return s


def pick_tool(r):
    names = ["location", "count", "unit", "deep"][:r.randint(0, 4)]
    f = {"name": r.choice(NAMES), "description": r.choice(["Looks up.", "Tells the weather\nof a place", "<b>bold</b>"]),
         "parameters": {"type": "object", "properties": {n: pick_schema(r) for n in names}, "required": names[:1]}}
    if r.random() < 0.3:
        f["return"] = {"type": "string", "description": "the result"}
    return {"type": "function", "function": f} if r.random() < 0.9 else f


def pick_call(r, number):
    args = {"location": pick_value(r, 1), "n": pick_value(r, 1)} if r.random() < 0.8 else {}
    if r.random() < 0.25:
        args = json.dumps(args)
    call = {"type": "function", "function": {"name": r.choice(NAMES), "arguments": args}}
    if r.random() < 0.7:
        call["id"] = "call%05d" % number
    if r.random() < 0.1:
        call = call["function"]
    return call


def pick_content(r):
    if r.random() < 0.12:
        return [{"type": "text", "text": pick_text(r)} for _ in range(r.randint(1, 3))]
    return pick_text(r)


def pick_conversation(r):
    messages, number = [], 0
    if r.random() < 0.4:
        messages.append({"role": r.choice(["system", "system", "system", "developer"]), "content": pick_content(r)})
    for _ in range(r.randint(1, 4)):
        messages.append({"role": "user", "content": pick_content(r)})
        if r.random() < 0.1:
            continue
        m = {"role": "assistant", "content": pick_content(r)}
        if r.random() < 0.3:
            m[r.choice(["reasoning_content", "thinking", "reasoning"])] = pick_text(r)
        if r.random() < 0.3:
            m["tool_calls"] = [pick_call(r, number + i) for i in range(r.randint(1, 2))]
            if r.random() < 0.4:
                m["content"] = r.choice(["", None])
            messages.append(m)
            for call in m["tool_calls"]:
                reply = {"role": "tool", "content": r.choice([pick_text(r), json.dumps(pick_value(r))])}
                if r.random() < 0.7:
                    reply["name"] = call.get("function", call)["name"]
                if "id" in call:
                    reply["tool_call_id"] = call["id"]
                number += 1
                messages.append(reply)
            if r.random() < 0.7:
                messages.append({"role": "assistant", "content": pick_content(r)})
        else:
            messages.append(m)
    return messages


def pick_variables(r):
    v = {"messages": hf._alias_reasoning_fields(hf._normalize_chat_messages(pick_conversation(r))),
         "tools": [pick_tool(r) for _ in range(r.randint(1, 3))] if r.random() < 0.4 else None, "documents": None,
         "add_generation_prompt": r.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    if r.random() < 0.2:
        v["enable_thinking"] = r.random() < 0.5
    if r.random() < 0.1:
        v["reasoning_effort"] = r.choice(["low", "high"])
    if r.random() < 0.1:
        v["custom_tools"] = [pick_tool(r)]
    return v


def oracle(template, v):
    try:
        text, spans = hf._render_with_assistant_indices(template, v["messages"], v["tools"], v["documents"],
                                                        v["add_generation_prompt"],
                                                        **{k: x for k, x in v.items() if k not in
                                                           ("messages", "tools", "documents", "add_generation_prompt")})
        joined = []
        for first, end in spans:
            if first == end:
                continue
            if joined and joined[-1][1] == first:
                joined[-1][1] = end
            else:
                joined.append([first, end])
        return {"text": text, "generation": joined}
    except Exception as problem:  # every error of a template is one
        return {"error": "%s: %s" % (type(problem).__name__, problem)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("folders", nargs="+")
    p.add_argument("--conversations", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=3)
    o = p.parse_args()
    files = sorted(os.path.join(d, f) for d in o.folders for f in os.listdir(d) if f.endswith(".jinja"))
    r = random.Random(o.seed)
    inputs = [pick_variables(r) for _ in range(o.conversations)]
    now = 1764350000
    real = datetime.fromtimestamp(now)

    class Fixed(datetime):
        @classmethod
        def now(cls, tz=None):
            return real
    hf.datetime = Fixed
    totals = {"texts": 0, "refused": 0, "text": 0, "refusal": 0, "spans": 0}
    ours_s = theirs_s = 0.0
    shown = 0
    for file in files:
        source = open(file, encoding="utf-8", newline="").read()
        in_macro = re.search(r"\{%-?\s*macro(?:(?!endmacro).)*?\{%-?\s*generation", source, re.S)
        lines = "".join(json.dumps({"template": 0, "variables": v, "now": now}) + "\n" for v in inputs)
        began = time.time()
        out = subprocess.run([o.program, file], input=lines, capture_output=True, text=True)
        ours_s += time.time() - began
        if out.stderr:
            print(os.path.basename(file), out.stderr.strip())
        ours = [json.loads(line) for line in out.stdout.splitlines()]
        try:
            template = hf._compile_jinja_template(source)
        except Exception as problem:
            print(os.path.basename(file), "transformers does not open it:", problem)
            continue
        began = time.time()
        theirs = [oracle(template, json.loads(json.dumps(v))) for v in inputs]
        theirs_s += time.time() - began
        bad = {"text": 0, "refusal": 0, "spans": 0}
        if len(ours) != len(theirs):
            print(os.path.basename(file), "ends at input", len(ours), out.returncode)
            bad["text"] += len(theirs) - len(ours)
        for v, a, b in zip(inputs, ours, theirs):
            totals["texts"] += "text" in b
            totals["refused"] += "error" in b
            kind = None
            if ("error" in a) != ("error" in b):
                kind = "refusal"
            elif "text" in a and a["text"] != b["text"]:
                kind = "text"
            elif "text" in a and a["generation"] != b["generation"] and not in_macro:
                kind = "spans"
            if kind:
                bad[kind] += 1
                if bad[kind] <= 1 and shown < o.show:
                    shown += 1
                    print("----", os.path.basename(file), kind, "\nours  ", json.dumps(a)[-1500:], "\ntheirs",
                          json.dumps(b)[-1500:], "\ninput ", json.dumps(v)[:1500])
        for kind in bad:
            totals[kind] += bad[kind]
        if any(bad.values()):
            print("%-50s differs: %s" % (os.path.basename(file), bad))
    print("%d templates x %d conversations: %d rendered, %d refused by transformers; different texts %d, "
          "different refusals %d, different spans %d; %.1f s ours, %.1f s transformers" %
          (len(files), o.conversations, totals["texts"], totals["refused"], totals["text"], totals["refusal"],
           totals["spans"], ours_s, theirs_s))
    sys.exit(any(totals[k] for k in ("text", "refusal", "spans")))


if __name__ == "__main__":
    main()
