"""The program's own words: sub-commands, settings and their precedence, and how wrong ones are refused."""

import json
import os
import shlex
import subprocess

import pytest

from conftest import BINARY, MODEL


def run(*arguments, text=None, env=None):
    return subprocess.run(
        [BINARY, *map(str, arguments)], input=text, capture_output=True, text=True, env={**os.environ, **(env or {})}
    )


def setting(name, *arguments, env=None):
    """The value of a setting that --print-config shows."""
    printed = run("serve", "--model", "m.gguf", "--print-config", *arguments, env=env)
    assert printed.returncode == 0, printed.stderr
    values = dict(line.split("=", 1) for line in printed.stdout.splitlines() if "=" in line and not line.startswith("#"))
    return values[name]


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("max-running = 7\nprefix-cache = false\n")
    return path


def test_flag_beats_environment_beats_file_beats_default(config_file):
    env = {"TWOSTROKE_MAX_RUNNING": "9"}
    assert setting("max-running") == "64"
    assert setting("max-running", "--config", config_file) == "7"
    assert setting("max-running", "--config", config_file, env=env) == "9"
    assert setting("max-running", "--config", config_file, "--max-running", "11", env=env) == "11"
    assert setting("prefix-cache", "--config", config_file) == "false"
    assert setting("prefix-cache", "--config", config_file, "--prefix-cache") == "true"
    assert setting("max-running", env={"TWOSTROKE_CONFIG": str(config_file)}) == "7"


def test_the_printed_settings_are_a_settings_file(tmp_path, config_file):
    printed = run("serve", "--model", "m.gguf", "--config", config_file, "--print-config").stdout
    path = tmp_path / "printed.toml"
    path.write_text(printed)
    again = run("serve", "--config", path, "--print-config")
    assert again.returncode == 0 and again.stdout == printed


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["serve"], "--model"),
        (["serve", "--model", "m", "--unknown"], "--unknown"),
        (["serve", "--model", "m", "--max-running", "0"], "--max-running"),
        (["serve", "--model", "m", "--max-running", "many"], "--max-running"),
        (["serve", "--model", "m", "--port", "70000"], "--port"),
        (["serve", "--model", "m", "--backend", "gpu"], "gpu"),
        (["serve", "--model", "m", "--config", "/nowhere.toml"], "/nowhere.toml"),
        (["serve", "--model", "m", "--itl-target-ms", "1e-300"], "0.001 at least"),
        (["serve", "--model", "/nowhere.gguf"], "/nowhere.gguf"),
        (["serve", "--model", __file__], "GGUF"),
        (["sing"], "sing"),
        ([], "Usage"),
        (["tokenize"], "--model"),
        (["render", "--template", "/nowhere", "--context", "/nowhere"], "/nowhere"),
        (["grammar"], "--gbnf"),
        (["grammar", "--gbnf", "/nowhere"], "/nowhere"),
        (["simulate", "--fleet", "4xnothing"], "H100"),
        (["simulate", "--workload", "/nowhere.csv"], "/nowhere.csv"),
        (["simulate", "--trace", "/nowhere.csv"], "--workload"),
    ],
)
def test_wrong_arguments_end_with_a_message_that_names_them(arguments, word):
    result = run(*arguments)
    assert result.returncode not in (0, -6, -11)
    assert word in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 15


def test_a_simulation_beyond_the_memory_says_so(tmp_path):
    profile = tmp_path / "vast.json"
    profile.write_text('{"name": "vast", "peak_tflops": 100, "bandwidth_gb_per_s": 800, "memory_gb": 1000000}')
    limited = f"ulimit -v 400000; exec {shlex.quote(str(BINARY))} simulate --requests 5 --fleet {shlex.quote(str(profile))}"
    result = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert result.returncode == 1 and "not enough memory" in result.stderr and result.stdout == ""


@pytest.mark.skipif(not MODEL.exists(), reason=f"the model is not there: {MODEL} (deploy/fetch-model fetches it)")
@pytest.mark.parametrize("flag", [["--max-running", "65536"], ["--context-max", "16777216"]])
def test_more_than_the_sim_backend_holds_is_refused_by_its_flags(flag):
    result = run("serve", "--model", MODEL, "--backend", "sim", *flag)
    assert result.returncode == 1 and "--max-running times --context-max" in result.stderr


def test_an_unknown_key_of_the_file_is_fatal(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text("max-runing = 3\n")
    result = run("serve", "--model", "m.gguf", "--config", path)
    assert result.returncode == 2 and "'max-runing'" in result.stderr and "INI" not in result.stderr
    path.write_text("print-config = true\n")
    result = run("serve", "--model", "m.gguf", "--config", path)
    assert result.returncode == 2 and "'print-config'" in result.stderr


def test_help_explains_every_command():
    for command in ("serve", "simulate", "tokenize", "render", "grammar"):
        result = run(command, "--help")
        assert result.returncode == 0 and "--" in result.stdout
    assert "serve" in run("--help").stdout


def test_a_taken_port_is_a_clear_error(server):
    port = server.url.rsplit(":", 1)[1]
    result = run("serve", "--model", MODEL, "--port", port)
    assert result.returncode == 1 and port in result.stderr


def test_tokenize_reads_text_exactly_as_it_is():
    if not MODEL.exists():
        pytest.skip(f"the model is not there: {MODEL}")
    ids = run("tokenize", "--model", MODEL, text="Hello world").stdout
    assert ids == "19556 905\n"
    with_line_end = run("tokenize", "--model", MODEL, text="Hello world\n").stdout
    assert with_line_end.startswith("19556 905 ") and with_line_end != ids
    plain = run("tokenize", "--model", MODEL, text="<|im_end|>").stdout.split()
    special = run("tokenize", "--model", MODEL, "--parse-special", text="<|im_end|>").stdout.split()
    assert len(plain) > 1 and special == ["2"]
    assert run("tokenize", "--model", MODEL, text="").stdout == "\n"


def test_render_prints_the_prompt_and_nothing_else(tmp_path):
    template, context = tmp_path / "t.jinja", tmp_path / "c.json"
    template.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ strftime_now('%Y-%m-%d') }}")
    context.write_text(json.dumps({"messages": [{"role": "user", "content": "hé"}]}))
    result = run("render", "--template", template, "--context", context, env={"TWOSTROKE_NOW": "2026-07-01T12:00"})
    assert (result.returncode, result.stdout) == (0, "[user]hé2026-07-01")
    template.write_text("{{ raise_exception('only users') }}")
    result = run("render", "--template", template, "--context", context)
    assert result.returncode == 1 and result.stdout == "" and "only users" in result.stderr
    template.write_text("{% if %}")
    assert run("render", "--template", template, "--context", context).returncode == 1


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--model", "m.gguf", "--print-config"]])
def test_output_that_cannot_be_written_is_a_failure(arguments):
    with open("/dev/full", "w") as full:
        result = subprocess.run([BINARY, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and "could not be written" in result.stderr


def test_grammar_says_whether_a_text_is_one_of_the_grammar(tmp_path):
    gbnf, schema = tmp_path / "g.gbnf", tmp_path / "s.json"
    gbnf.write_text('root ::= "\xe4\xb8\xad"? "a"+ "\\n"?\n'.encode("latin-1").decode("utf-8"))
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}, "required": ["n"]}')
    assert run("grammar", "--gbnf", gbnf, text="aaa").returncode == 0
    assert run("grammar", "--gbnf", gbnf, text="aaa\n").returncode == 0
    rejected = run("grammar", "--gbnf", gbnf, text="aaa\n\n")
    assert rejected.returncode == 1 and "offset 4 " in rejected.stderr
    rejected = run("grammar", "--gbnf", gbnf, text="a\u4e2d")
    assert rejected.returncode == 1 and "offset 1 " in rejected.stderr
    rejected = run("grammar", "--gbnf", gbnf, text="\u4e2d")
    assert rejected.returncode == 1 and "ends at byte 3" in rejected.stderr
    assert run("grammar", "--schema", schema, text='{"n": 7}').returncode == 0
    assert run("grammar", "--schema", schema, text='{"n": 11}').returncode == 1
    assert run("grammar", "--schema", schema, text='{"n": 7}\n').returncode == 0
    assert run("grammar", "--regex", "[0-9]{3}", text="123").returncode == 0
    assert run("grammar", "--regex", "[0-9]{3}", text="12").returncode == 1


def test_grammar_says_why_it_cannot_use_a_grammar(tmp_path):
    path = tmp_path / "grammar"
    for option, content, word in [
        ("--gbnf", 'root ::= "a"\nb ::= c', "line 2"),
        ("--gbnf", "root ::= " + "(" * 60000 + ")" * 60000, "nest"),
        ("--schema", "{", "JSON"),
        ("--schema", '{"type": "strange"}', "strange"),
        ("--schema", "[" * 100000, "nested"),
    ]:
        path.write_text(content)
        result = run("grammar", option, path, text="")
        assert result.returncode == 2 and word in result.stderr, (content[:50], result)
    result = run("grammar", "--regex", "(", text="")
    assert result.returncode == 2 and result.stderr


def checked(tmp_path, kind, grammar, text):
    path = tmp_path / "grammar"
    path.write_text(grammar if isinstance(grammar, str) else json.dumps(grammar))
    return run("grammar", f"--{kind}", path, text=text)


def test_a_json_text_may_have_white_space_around_it_and_within(tmp_path):
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    for text in ['{"a":[1]}\n', ' {  "a" : [ 1 ,\n\n 2 ] } \r\n', json.dumps({"a": [1, 2]}, indent=8)]:
        assert checked(tmp_path, "schema", schema, text).returncode == 0, text
    for text in ["", " \n", '{"a":[1]} x', '{"a":[1]}{}']:
        assert checked(tmp_path, "schema", schema, text).returncode == 1, text
    assert checked(tmp_path, "gbnf", 'root ::= "a"', "a\n").returncode == 1


def test_items_that_must_differ_are_compared(tmp_path):
    schema = {"type": "array", "uniqueItems": True}
    assert checked(tmp_path, "schema", schema, "[1, 2, {}]").returncode == 0
    result = checked(tmp_path, "schema", schema, "[1, 2, 1.0]")
    assert result.returncode == 1 and "uniqueItems" in result.stderr


def test_a_limit_of_the_parser_is_no_rejection(tmp_path):
    result = checked(tmp_path, "gbnf", 'root ::= root root | "a" |', "a" * 3000)
    assert result.returncode == 2 and "too many ways" in result.stderr
