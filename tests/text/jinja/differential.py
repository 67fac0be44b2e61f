#!/usr/bin/env python3
"""Compares the template engine with Python's Jinja2 over random templates.

    differential.py --program build/release/jinja_render_lines [--count 5000] [--seed 1]
    differential.py --program build/release/twostroke          (slower: a process for each template)

Needs the Python package jinja2. Both must give the same text, or both must fail; messages are not compared. Exit code 1
and the templates that differ where they do not agree.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import tempfile

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 7, 1, 12, 0)


class Generation(Extension):
    """The tag `generation`, as transformers has it: a block that prints itself."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_print", []), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


CONTEXT_STRINGS = ["", "a", "Hello World", "  padded \n", "x,y,,z", "ünï çödé ✓", "<b>&'\"</b>", "line 1\nline 2\n",
                   "{{ x }}", "CamelCase", "42", "3.5", "-7", "aXbXc", "tab\there", "ﬁne straße", "ΟΔΟΣ", "日本語"]


class Generator:
    """Random contexts and templates. Expressions are typed loosely, so that most of them succeed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.depth = 0

    def pick(self, options):
        return self.random.choice(options)

    # Contexts.

    def value(self, depth=0):
        kind = self.random.randrange(9 if depth < 3 else 6)
        if kind == 0:
            return None
        if kind == 1:
            return self.pick([True, False])
        if kind == 2:
            return self.random.randrange(-20, 100)
        if kind == 3:
            return self.pick([0.5, -1.25, 1e20, 3.0, 1e-7, 123456.789])
        if kind in (4, 5):
            return self.pick(CONTEXT_STRINGS)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.pick(["a", "b", "name", "items", "key with space"]): self.value(depth + 1)
                for _ in range(self.random.randrange(4))}

    def context(self):
        return {
            "s": self.pick(CONTEXT_STRINGS), "t": self.pick(CONTEXT_STRINGS), "n": self.random.randrange(-9, 30),
            "f": self.pick([0.5, -1.25, 2.0, 1e16, 7.75]), "flag": self.pick([True, False]), "nothing": None,
            "words": [self.pick(CONTEXT_STRINGS) for _ in range(self.random.randrange(5))],
            "numbers": [self.random.randrange(-9, 20) for _ in range(self.random.randrange(6))],
            "record": {"name": self.pick(CONTEXT_STRINGS), "age": self.random.randrange(90), "tags": ["x", "Y", "z"]},
            "people": [{"name": self.pick(["bob", "Al", "eve", "Bob"]), "age": self.random.randrange(5),
                        "on": self.pick([True, False])} for _ in range(self.random.randrange(5))],
            "any": self.value(),
        }

    # Expressions, by what they give.

    def text(self):
        self.depth += 1
        try:
            if self.depth > 4:
                return self.pick(["s", "t", "'lit'", "record.name"])
            return self.pick([
                lambda: self.pick(["s", "t", "record.name", "record['name']", "'it''s'", '"q\\n\\t\\x41\\u00e9"', "''"]),
                lambda: f"{self.text()} ~ {self.scalar()}",
                lambda: f"({self.text()} + {self.text()})",
                lambda: f"{self.text()}|{self.pick(['upper', 'lower', 'trim', 'title', 'capitalize', 'string', 'reverse', 'e', 'urlencode', 'striptags', 'safe'])}",
                lambda: f"({self.text()}).{self.pick(['upper', 'lower', 'strip', 'lstrip', 'rstrip', 'title', 'capitalize', 'swapcase'])}()",
                lambda: f"({self.text()}).{self.pick(['strip', 'lstrip', 'rstrip'])}('{self.pick(['a', ' ', 'xy', 'H', chr(10)])}')",
                lambda: f"({self.text()}).replace({self.text()}, 'R'{self.pick(['', ', 1'])})",
                lambda: f"{self.text()}|replace('{self.pick(['a', 'l', '', ','])}', {self.text()})",
                lambda: f"({self.text()})[{self.slice()}]",
                lambda: f"{self.sequence()}|join({self.pick(['', repr(', '), 's'])})",
                lambda: f"{self.any()}|string",
                lambda: f"{self.any()}|tojson{self.pick(['', '(indent=2)', '(ensure_ascii=true)', '(sort_keys=true)', '(separators=(%r, %r))' % (',', ':')])}",
                lambda: f"{self.text()}|indent({self.random.randrange(5)}{self.pick(['', ', true', ', true, true'])})",
                lambda: f"{self.text()}|truncate({self.random.randrange(3, 12)}{self.pick(['', ', true', ', false, %r' % '..', ', true, %r, 0' % '~'])})",
                lambda: f"{self.text()}|center({self.random.randrange(12)})",
                lambda: f"({self.text()}).{self.pick(['center', 'ljust', 'rjust', 'zfill'])}({self.random.randrange(12)})",
                lambda: f"'%s-%5.2f|%-6s|%03d' % ({self.text()}, {self.number()}, {self.text()}, n)",
                lambda: f"'{self.pick(['{}', '{0}', '{!r}', '{!a}', '{:>8}', '{:*^9}', '{0:.3}', '{:+}', '{:#}', '{:,}', '{:05}', '{} {0}'])}'.format({self.text()})",
                lambda: f"'{{:{self.format_spec()}}}'.format({self.pick([self.number, self.scalar])()})",
                lambda: f"'%{self.pick(['', '-', '+', ' ', '0', '#'])}{self.pick(['', '4', '7'])}{self.pick(['', '.0', '.2'])}{self.pick(list('sdrxoefgaci'))}' % ({self.scalar()},)",
                lambda: f"'{self.pick(['{:d}', '{:+}', '{:05}', '{:,}', '{:x}', '{:.2f}', '{:e}', '{:%}', '{:g}'])}'.format({self.number()})",
                lambda: f"strftime_now('{self.pick(['%Y-%m-%d', '%d %B %Y', '%H:%M:%S %p', '%a %j %U %W %V', '%-d/%-m/%y', '%c|%x|%X', '%%Z', '%C %g %G %k %l %P'])}')",
                lambda: f"({self.text()} if {self.condition()} else {self.text()})",
                lambda: f"{self.text()} * {self.random.randrange(4)}",
                lambda: f"({self.text()}).{self.pick(['removeprefix', 'removesuffix', 'expandtabs'])}({self.pick(['4', repr('a'), repr('lit')])})",
                lambda: f"{self.text()}|default({self.text()}, {self.pick(['true', 'false'])})",
            ])()
        finally:
            self.depth -= 1

    def format_spec(self):
        return "".join(self.pick(options) for options in (
            ["", "", "<", "^", ">", "=", "*<", "0="], ["", "", "+", " ", "-"], ["", "", "#"], ["", "", "0"], ["", "4", "9"],
            ["", "", ",", "_"], ["", "", ".0", ".2"], ["", "", "d", "x", "X", "o", "b", "e", "f", "g", "%", "s", "n"]))

    def slice(self):
        part = lambda: self.pick(["", "", "0", "1", "2", "-1", "-2", "5", "n"])
        return self.pick([f"{part()}:{part()}", f"{part()}:{part()}:{self.pick(['', '1', '2', '-1', '-2'])}"])

    def number(self):
        self.depth += 1
        try:
            if self.depth > 4:
                return self.pick(["n", "f", "3", "0", "2.5"])
            return self.pick([
                lambda: self.pick(["n", "f", "1", "0", "-2", "7", "2.5", "1_000", "0x1f", "1e3", "record.age", "true"]),
                lambda: f"({self.number()} {self.pick(['+', '-', '*', '/', '//', '%'])} {self.number()})",
                lambda: f"{self.pick(['2', '3', '1.5', 'n'])} ** {self.pick(['0', '2', '3', '-1'])}",
                lambda: f"(-({self.number()}))",
                lambda: f"{self.number()}|{self.pick(['abs', 'int', 'float', 'round', 'round(1)', 'round(2, %r)' % 'floor', 'round(0, %r)' % 'ceil'])}",
                lambda: f"{self.text()}|{self.pick(['int', 'float', 'int(5)', 'length', 'wordcount', 'int(base=16)'])}",
                lambda: f"{self.sequence()}|length",
                lambda: f"numbers|{self.pick(['sum', 'min', 'max', 'first', 'last', 'sum(start=3)'])}",
                lambda: f"({self.text()}).{self.pick(['find', 'rfind', 'count'])}({self.text()})",
                lambda: f"people|sum(attribute='age')",
            ])()
        finally:
            self.depth -= 1

    def sequence(self):
        self.depth += 1
        try:
            if self.depth > 4:
                return self.pick(["words", "numbers", "[1, 'a']", "record"])
            return self.pick([
                lambda: self.pick(["words", "numbers", "record", "record.tags", "record.keys()", "record.values()",
                                   "record.items()", "(1, 'b', none)", "[]", "range(4)", "range(5, 0, -2)"]),
                lambda: f"[{self.any()}, {self.any()}]",
                lambda: f"({self.any()}, {self.any()})",
                lambda: f"words|{self.pick(['sort', 'unique|list', 'reverse|list', 'list', 'map(%r)|list' % 'upper', 'select|list', 'sort(true)', 'sort(case_sensitive=true)', 'batch(2)|list', 'slice(2)|list', 'batch(3, %r)|list' % '-'])}",
                lambda: f"numbers|{self.pick(['sort', 'select(%r)|list' % 'odd', 'reject(%r, 3)|list' % 'gt', 'map(%r)|list' % 'string', 'unique|list', 'reverse|list'])}",
                lambda: f"people|{self.pick(['map(attribute=%r)|list' % 'name', 'selectattr(%r)|list' % 'on', 'rejectattr(%r, %r, 2)|list' % ('age', 'lt'), 'sort(attribute=%r)' % 'age,name', 'groupby(%r)' % 'name', 'map(attribute=%r, default=0)|list' % 'zip'])}",
                lambda: f"({self.text()}).{self.pick(['split', 'rsplit'])}({self.pick(['', repr(','), repr(' '), repr('a'), repr(',') + ', 1', 'none, 1'])})",
                lambda: f"({self.text()}).{self.pick(['splitlines()', 'splitlines(true)', 'partition(%r)' % ',', 'rpartition(%r)' % ' '])}",
                lambda: f"({self.sequence()}|list)[{self.slice()}]",
                lambda: f"record|{self.pick(['dictsort', 'items|list', 'dictsort(reverse=true)'])}",
                lambda: f"{self.sequence()}|list + [{self.scalar()}]",
            ])()
        finally:
            self.depth -= 1

    def scalar(self):
        return self.pick([self.text, self.number, self.condition])()

    def any(self):
        self.depth += 1
        try:
            if self.depth > 4:
                return self.pick(["any", "none", "n", "s", "missing", "1.0", "true"])
            return self.pick([
                self.text, self.number, self.sequence, self.condition,
                lambda: self.pick(["any", "any.a", "any['b']", "any.name", "none", "missing", "record", "people", "nothing",
                                   "record.missing", "words[1]", "words[9]", "people[0].name", "any[0]"]),
                lambda: "{" + f"'k': {self.any()}, 1: {self.scalar()}" + "}",
                lambda: f"{self.sequence()}|{self.pick(['first', 'last', 'list', 'min', 'max'])}",
                lambda: f"record.get('{self.pick(['name', 'zip'])}'{self.pick(['', ', 5'])})",
                lambda: f"dict(a={self.scalar()}, b=2)",
                lambda: f"{self.any()}|default({self.any()})",
            ])()
        finally:
            self.depth -= 1

    def condition(self):
        self.depth += 1
        try:
            if self.depth > 4:
                return self.pick(["flag", "true", "not flag", "n > 3"])
            return self.pick([
                lambda: self.pick(["flag", "true", "false", "nothing", "missing"]),
                lambda: f"({self.number()}) {self.pick(['<', '<=', '>', '>=', '==', '!='])} {self.number()}",
                lambda: f"{self.number()} < {self.number()} <= {self.number()}",
                lambda: f"{self.any()} {self.pick(['==', '!='])} {self.any()}",
                lambda: f"{self.scalar()} {self.pick(['in', 'not in'])} {self.sequence()}",
                lambda: f"{self.text()} in {self.text()}",
                lambda: f"(not {self.condition()})",
                lambda: f"({self.condition()} {self.pick(['and', 'or'])} {self.condition()})",
                lambda: f"({self.any()}) is {self.pick(['', 'not '])}{self.pick(['defined', 'undefined', 'none', 'string', 'number', 'mapping', 'iterable', 'sequence', 'boolean', 'integer', 'float', 'true', 'false', 'callable', 'escaped'])}",
                lambda: f"{self.pick(['n', '4', '7'])} is {self.pick(['odd', 'even', 'divisibleby 3', 'divisibleby(2)', 'gt 3', 'eq(4)'])}",
                lambda: f"({self.text()}) is {self.pick(['upper', 'lower'])}",
                lambda: f"({self.text()}).{self.pick(['startswith', 'endswith'])}({self.text()})",
                lambda: f"({self.text()}).{self.pick(['isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isascii', 'isprintable'])}()",
            ])()
        finally:
            self.depth -= 1

    # Statements.

    def gap(self):
        return self.pick(["", " ", "\n", "  \n\t", "text", "\n  ", "é\n", "\r\n"])

    def tag(self, code):
        return "{%" + self.pick(["", "", "-", "+"]) + " " + code + " " + self.pick(["", "", "-", "+"]) + "%}"

    def output(self):
        return "{{" + self.pick(["", "", "-"]) + " " + self.any() + " " + self.pick(["", "", "-"]) + "}}"

    def block(self, depth, in_loop):
        return "".join(self.gap() + self.statement(depth, in_loop) for _ in range(self.random.randrange(1, 3))) + self.gap()

    def statement(self, depth=0, in_loop=False):
        if depth >= 3:
            return self.output()
        block = lambda loop=in_loop: self.block(depth + 1, loop)
        loop_use = lambda: "{{ loop." + self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0",
                                                   "previtem", "nextitem", "depth", "cycle('a', 'b')", "changed(x)"]) + " }}"
        return self.pick([
            self.output, self.output, self.output,
            lambda: self.tag("if " + self.condition()) + block() + self.pick(["", self.tag("else") + block(),
                                                                               self.tag("elif " + self.condition()) + block()]) + self.tag("endif"),
            lambda: self.tag("for x in (" + self.sequence() + ")" + self.pick(["", " if x", " if x is string"])) + loop_use() + "{{ x }}" + block(True)
            + self.pick(["", self.tag("else") + "none"]) + self.tag("endfor"),
            lambda: self.tag("for k, v in " + self.pick(["record", "record", "dict(p=n)", "any"]) + ".items()") + "{{ k }}={{ v }}" + loop_use() + self.tag("endfor"),
            lambda: self.tag("set " + self.pick(["y", "s", "n"]) + " = " + self.any()) + "{{ y }}",
            lambda: self.tag("set y") + block() + self.tag("endset") + "[{{ y }}]",
            lambda: self.tag("set a, b = " + self.pick(["(1, 2)", "(1, 2)", "words", "[n, s]"])) + "{{ b }}",
            lambda: self.tag("set ns = namespace(v=" + self.scalar() + ")") + self.tag("for x in numbers") + self.tag("set ns.v = x")
            + self.tag("endfor") + "{{ ns.v }}",
            lambda: self.tag("macro m(a, b=" + self.scalar() + ")") + "<{{ a }}|{{ b }}>" + block(False) + self.tag("endmacro")
            + "{{ m(" + self.pick(["", "1", "s, t", "b=2, a=1", "a=words", "s, b=t", "1, 2, 3"]) + ") }}",
            lambda: self.tag("macro w()") + "({{ caller(n) }})" + self.tag("endmacro") + self.tag("call(q) w()") + "{{ q }}" + block(False)
            + self.tag("endcall"),
            lambda: self.tag("filter " + self.pick(["upper", "trim", "indent(2)", "replace('a', 'b')|title"])) + block() + self.tag("endfilter"),
            lambda: self.tag("with z = " + self.any()) + "{{ z }}" + block() + self.tag("endwith"),
            lambda: self.tag("generation") + block(False) + self.tag("endgeneration"),
            lambda: "{#" + self.pick(["", "-"]) + " note {{ x }} " + self.pick(["", "-"]) + "#}",
            lambda: "{% raw %}{{ raw }}" + self.tag("endraw"),
            lambda: (self.tag("if " + self.condition()) + self.tag(self.pick(["break", "continue"])) + self.tag("endif")) if in_loop else self.output(),
            lambda: self.tag("if (" + self.condition() + ") and missing") + "{{ raise_exception('no') }}" + self.tag("endif"),
        ])()

    def template(self):
        self.depth = 0
        return "".join(self.gap() + self.statement() for _ in range(self.random.randrange(1, 4))) + self.gap()


def render_with_python(env, template, context):
    try:
        return env.from_string(template).render(**context)
    except Exception:  # whatever Python fails with, we must fail too
        return None


def render_all_lines(program, cases):
    requests = "".join(json.dumps({"template": t, "context": c}) + "\n" for t, c in cases)
    result = subprocess.run([program], input=requests, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def render_each(program, cases):
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        template_path, context_path = os.path.join(folder, "t.jinja"), os.path.join(folder, "c.json")
        for template, context in cases:
            with open(template_path, "w", encoding="utf-8", newline="") as file:
                file.write(template)
            with open(context_path, "w", encoding="utf-8") as file:
                json.dump(context, file)
            result = subprocess.run([program, "render", "--template", template_path, "--context", context_path],
                                    capture_output=True, env={**os.environ, "TWOSTROKE_NOW": NOW.isoformat()})
            answers.append({"output": result.stdout.decode()} if result.returncode == 0
                           else {"error": result.stderr.decode()})
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    generator = Generator(options.seed)
    cases = []
    for _ in range(options.count):
        context = generator.context()
        cases.append((generator.template(), context))
    each = os.path.basename(options.program) == "twostroke"
    answers = (render_each if each else render_all_lines)(options.program, cases)

    env = environment()
    differing = failing = 0
    for (template, context), answer in zip(cases, answers):
        expected = render_with_python(env, template, context)
        failing += expected is None
        # What Python prints of these holds an address, or is lazy where we are not; its integers have no end.
        is_ours = "64 bits" in answer.get("error", "") or "64-bit" in answer.get("error", "")
        if expected is not None and (" object at 0x" in expected or "<function" in expected or "<bound method" in expected
                                     or is_ours):
            continue
        if answer.get("output") != expected:
            differing += 1
            if differing <= 20:
                print("template", json.dumps(template), "\ncontext ", json.dumps(context), "\npython  ",
                      "fails" if expected is None else json.dumps(expected), "\nours    ", json.dumps(answer), "\n")
    print(f"seed {options.seed}: {len(cases)} templates, {failing} fail in Python, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
