"""The Grafana dashboard and the alerts, by a real Prometheus over a real server under a real load.

Every query of every panel is run as Grafana would, with its variables filled in: it parses, gives something, and nothing that is
not a number; and what counts agrees with what this test has counted itself, from the answers' `usage`."""

import concurrent.futures
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import openai
import pytest

from conftest import ROOT
from eventually import eventually

GRAFANA = ROOT / "deploy/grafana"
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD = json.loads((GRAFANA / "twostroke.json").read_text())
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
SCRAPE_S = 0.25


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (Debian package prometheus)")


# ---- The files


def test_the_dashboard_is_what_its_script_writes():
    check = subprocess.run([sys.executable, GRAFANA / "make_dashboard.py", "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_every_panel_has_its_place_and_says_what_to_look_for():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    assert len(PANELS) > 30
    for title, panel in PANELS.items():
        assert len(panel["description"]) > 40, title
        assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}", title
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "model", "instance"]


def test_the_alerts_are_valid_and_fire_when_they_must():
    needs("promtool")
    for arguments in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "twostroke.rules.yml"],
        ["test", "rules", "twostroke.rules.test.yml"],
    ):
        done = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test():
    rules = (PROMETHEUS / "twostroke.rules.yml").read_text()
    tests = (PROMETHEUS / "twostroke.rules.test.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert len(alerts) >= 9
    assert set(alerts) == set(re.findall(r"alertname: (\w+)", tests))


# ---- A Prometheus


class Prometheus:
    def __init__(self, folder, target):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.log = folder / "log"
        config = {
            "global": {"scrape_interval": f"{round(SCRAPE_S * 1000)}ms"},
            "rule_files": [str(PROMETHEUS / "twostroke.rules.yml")],
            "scrape_configs": [{"job_name": "twostroke", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )

    def get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def value(self, expr, at=None):
        """Of the one series that `expr` gives; None without any."""
        result = self.get("query", query=expr, **({"time": at} if at else {}))["result"]
        assert len(result) <= 1, expr
        return float(result[0]["value"][1]) if result else None

    def last_scrape(self):
        """When the server's metrics were last taken; 0 before the first time."""
        try:
            return self.value("timestamp(twostroke_ready) and twostroke_ready == 1") or 0
        except (urllib.error.URLError, AssertionError):
            assert self.process.poll() is None, self.log.read_text()
            return 0  # it is starting

    def await_scrape_after(self, when):
        return eventually(lambda: (last := self.last_scrape()) > when and last)


# ---- A load that counts itself


class Load:
    """What was asked of the server, and what it said that it did."""

    def __init__(self, client):
        self.client = client
        self.finished = self.cancelled = self.refused = self.objectives = 0
        self.prompt_tokens = self.cached_tokens = self.output_tokens = 0

    def complete(self, prompt, max_tokens, headers=None):
        usage = self.client.completions.create(
            model="smollm2",
            prompt=prompt,
            max_tokens=max_tokens,
            extra_body={"ignore_eos": True},
            extra_headers=headers,
        ).usage
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens

    def count(self, prompt_tokens, cached_tokens, output_tokens):
        self.finished += 1
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens
        self.output_tokens += output_tokens

    def run(self):
        # Alone: steps of prefill, then steps of decode. Again: its prefix is cached.
        for _ in range(2):
            self.count(*self.complete(list(range(100, 400)), 12))
        # Together, of different lengths: while some decode, others prefill.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [(list(range(1000 + 97 * i, 1000 + 97 * i + 60 + 20 * i)), 24 + 3 * i) for i in range(10)]
            for counts in pool.map(lambda one: self.complete(*one), asked):
                self.count(*counts)
        # Two with an objective: one that any server meets, one that none does, however early its first token.
        for milliseconds in ("3600000", "0.001"):
            self.count(*self.complete([7, 8, 9], 4, {"x-slo-tpot-ms": milliseconds}))
            self.objectives += 1
        # One that leaves, and three that ask for what cannot be.
        stream = self.client.completions.create(model="smollm2", prompt=[5, 6, 7], max_tokens=4000, stream=True)
        next(iter(stream))
        stream.close()
        self.cancelled += 1
        for _ in range(3):
            with pytest.raises(openai.BadRequestError):
                self.complete([1] * 10_000, 1)
            self.refused += 1


class Measured:
    """A Prometheus after the load, and the window in which all of the load lies."""

    def __init__(self, server, prometheus):
        self.server = server
        self.prometheus = prometheus
        self.load = Load(server.client())
        # The window begins with what was scraped before the load, and ends with a scrape of all that it did.
        first = prometheus.await_scrape_after(0)
        begin = prometheus.await_scrape_after(first)
        self.load.run()
        cancelled = 'twostroke_requests_total{outcome="cancelled"}'
        eventually(lambda: server.metrics()[cancelled] == self.load.cancelled)
        self.end = prometheus.await_scrape_after(time.time())
        self.window_s = self.end - begin + SCRAPE_S / 5
        self.instance = server.url.removeprefix("http://")

    def fill(self, expr):
        for name, value in {
            "$__rate_interval": f"{round(self.window_s * 1000)}ms",
            "$__range": f"{round(self.window_s * 1000)}ms",
            "$instance": re.escape(self.instance),
        }.items():
            expr = expr.replace(name, value.replace("\\", "\\\\"))
        assert "$" not in expr, f"a variable that this test does not know: {expr}"
        return expr

    def panel(self, title, legend):
        """{label value: number} of a panel's target; of the empty label where it is one series alone."""
        (target,) = [target for target in PANELS[title]["targets"] if target["legendFormat"] == legend]
        label = re.search(r"{{(\w+)}}", legend)
        result = self.prometheus.get("query", query=self.fill(target["expr"]), time=self.end)["result"]
        return {one["metric"].get(label and label.group(1), ""): float(one["value"][1]) for one in result}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    needs("prometheus")
    from conftest import Server

    server = Server("--drain-notice-ms", "0")
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), server.url.removeprefix("http://"))
    try:
        yield Measured(server, prometheus)
    finally:
        prometheus.process.kill()
        prometheus.process.wait()
        server.stop()


@pytest.mark.parametrize("title", PANELS)
def test_every_query_of_a_panel_gives_numbers(measured, title):
    for target in PANELS[title]["targets"]:
        expr = measured.fill(target["expr"])
        now = measured.prometheus.get("query", query=expr, time=measured.end)["result"]
        assert now, f"nothing: {expr}"
        for one in now:
            assert math.isfinite(float(one["value"][1])), f"{one}: {expr}"
        over_time = measured.prometheus.get(
            "query_range", query=expr, start=measured.end - measured.window_s, end=measured.end, step=1
        )["result"]
        assert over_time, f"nothing: {expr}"
        for one in over_time:
            assert all(math.isfinite(float(value)) for _, value in one["values"]), f"{one}: {expr}"


def test_the_variables_find_the_model_and_its_server(measured):
    queries = [variable["query"]["query"] for variable in DASHBOARD["templating"]["list"][1:]]
    found = []
    for query in queries:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
        selector = selector.replace("$model", "smollm2")
        found.append(measured.prometheus.get(f"label/{label}/values", **{"match[]": selector}))
    assert found == [["smollm2"], [measured.instance]]


def near(expected):
    return pytest.approx(expected, rel=0.05, abs=1e-9)


def test_requests_are_counted_as_the_load_counts_them(measured):
    load, window = measured.load, measured.window_s
    ends = {"finished": load.finished, "cancelled": load.cancelled, "refused": load.refused, "failed": 0}
    assert measured.panel("Requests in range", "{{outcome}}") == near(ends)
    per_second = measured.panel("Requests per second", "{{outcome}}")
    assert {outcome: rate * window for outcome, rate in per_second.items()} == near(ends)
    refusals = measured.panel("Refusals per second", "{{reason}}")
    others = dict.fromkeys(("limit", "objective", "unattainable", "unavailable"), 0)
    assert {reason: rate * window for reason, rate in refusals.items()} == near({"invalid": load.refused, **others})
    assert measured.panel("Failed or refused", "share")[""] == near(load.refused / sum(ends.values()))
    goodput = measured.panel("Goodput", "met: {{met}}")
    assert {met: rate * window for met, rate in goodput.items()} == near({"yes": 1, "no": load.objectives - 1})
    reasons = measured.panel("Sequences finished per second", "{{reason}}")
    assert reasons["length"] * window == near(load.finished)


def test_tokens_are_counted_as_the_load_counts_them(measured):
    load, window = measured.load, measured.window_s
    # The stream that was cut off used a few tokens that no `usage` tells.
    assert load.prompt_tokens > 1000 and load.cached_tokens > 200 and load.output_tokens > 300
    prompt = {"computed": load.prompt_tokens - load.cached_tokens, "cached": load.cached_tokens}
    assert measured.panel("Tokens in range", "prompt, {{source}}") == near(prompt)
    assert measured.panel("Tokens in range", "output")[""] == near(load.output_tokens)
    per_second = measured.panel("Prefill: prompt tokens per second", "{{source}}")
    assert {source: rate * window for source, rate in per_second.items()} == near(prompt)
    decode = measured.panel("Decode: tokens per second", "decode")[""]
    output = measured.panel("Decode: tokens per second", "output")[""]
    assert output * window == near(load.output_tokens)
    assert decode * window == near(load.output_tokens - load.finished)  # first tokens are prefill's
    assert measured.panel("Prefix cache hits", "hit tokens")[""] == near(load.cached_tokens / load.prompt_tokens)


def test_the_phases_rates_belong_together(measured):
    """Wall rate = busy rate * share of the time, for each phase; and the attribution shares out all of the measured time."""
    value = lambda expr: measured.prometheus.value(expr, measured.end)
    for phase in ("prefill", "decode"):
        title = phase.capitalize()
        busy_rate = measured.panel(f"{title}: tokens per busy second", "attributed")[""]
        share = measured.panel("Busy time by phase, attributed", "{{phase}}")[phase]
        wall = value(measured.fill(f'sum(rate(twostroke_phase_tokens_total{{phase="{phase}"}}[$__rate_interval]))'))
        assert busy_rate * share == near(wall)
        assert 0 < share < 1
    attributed = value("sum(twostroke_attributed_seconds_total)")
    assert attributed == pytest.approx(value("sum(twostroke_step_duration_seconds_sum)"), rel=1e-6)
    for step_class in ("prefill", "decode"):
        pure = value(f'twostroke_step_duration_seconds_sum{{class="{step_class}"}}')
        assert 0 < pure <= value(f'twostroke_attributed_seconds_total{{phase="{step_class}"}}')


def test_utilisation_is_a_share_of_the_measured_peak(measured):
    for title in ("Prefill: FLOPs utilisation (MFU)", "Decode: bandwidth utilisation (MBU)"):
        busy, wall = (measured.panel(title, legend)[""] for legend in ("busy", "wall"))
        assert 0 < wall < busy
        assert busy < 3  # a peak that was measured beside other work may be too low, but not by this
    # 2 FLOPs for each of SmolLM2's 106 million weights in layers, and attention and the output product beside.
    flops = measured.prometheus.value("sum(twostroke_flops_total)", measured.end)
    tokens = measured.prometheus.value("sum(twostroke_phase_tokens_total)", measured.end)
    assert 2 * 106e6 < flops / tokens < 2 * 135e6 * 1.5  # drafts that are not accepted are work too


def test_every_metric_that_the_files_name_is_there(measured):
    _, text = measured.server.get("/metrics")
    families = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    known = families | {family + end for family in families for end in ("_bucket", "_sum", "_count")}
    for path in (GRAFANA / "twostroke.json", PROMETHEUS / "twostroke.rules.yml"):
        named = set(re.findall(r"\btwostroke_(?!bad_requests)\w+", path.read_text()))
        assert named and named <= known, path


def test_the_alerts_rules_are_evaluated_and_none_of_health_fires(measured):
    groups = measured.prometheus.get("rules")["groups"]
    assert {group["name"] for group in groups} == {"twostroke-objective", "twostroke-health"}
    for group in groups:
        for rule in group["rules"]:
            assert rule["health"] != "err", rule
            if rule["type"] == "alerting":
                assert rule["state"] != "firing", rule


def test_the_readme_of_ops_names_every_metric(measured):
    _, text = measured.server.get("/metrics")
    readme = (ROOT / "server/ops/README.md").read_text()
    families = re.findall(r"^# TYPE (\w+)", text, re.M)
    assert [family for family in families if f"`{family}" not in readme] == []
