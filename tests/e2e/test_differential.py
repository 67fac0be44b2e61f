"""Templates and JSON schemas against Python's implementations, a short run; the scripts take a longer one by hand."""

import pathlib
import subprocess
import sys

import pytest

from conftest import BINARY, ROOT


def run(script, program, *flags):
    path = BINARY.parent / program
    if not path.exists():
        pytest.skip(f"{path} is not built (a build with tests makes it)")
    command = [sys.executable, ROOT / "tests/text" / script, *flags]
    command[2:2] = ["--program", path] if "jinja" in script else [path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr
    return result.stdout


def test_templates_render_as_with_python_jinja2():
    report = run("jinja/differential.py", "jinja_render_lines", "--count", "2500", "--seed", "1")
    assert "2500 templates" in report and ", 0 differ" in report


def test_grammars_of_schemas_agree_with_python_jsonschema():
    report = run("grammar/differential_schema.py", "grammar_schema_lines", "--cases", "400", "--seed", "1")
    assert '"faults": 0' in report
