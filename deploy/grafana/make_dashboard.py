#!/usr/bin/env python3
"""Writes twostroke.json, the Grafana dashboard: panels are easier to read and to change here than there.

    make_dashboard.py            writes twostroke.json beside this file
    make_dashboard.py --check    says whether it is what would be written, and writes nothing

Rules for a panel: its description says what to look for; a quotient has `> 0` under it and a quantile `>= 0` behind it, so that
an idle server shows a gap and not NaN; nothing is an average over a process's lifetime. tests/e2e/test_dashboard.py runs every query on a real Prometheus.
"""

import json
import pathlib
import sys

TARGET = pathlib.Path(__file__).with_name("twostroke.json")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
HEIGHT = 8


# ---- PromQL


def series(name, **labels):
    """The metric on the chosen instances."""
    matchers = ['instance=~"$instance"', *(f'{key}="{value}"' for key, value in labels.items())]
    return f"twostroke_{name}{{{','.join(matchers)}}}"


def rate(name, by="", **labels):
    """Per second, summed over instances."""
    return f"sum{f' by ({by}) ' if by else ''}(rate({series(name, **labels)}[$__rate_interval]))"


def increase(name, by="", **labels):
    """Over the dashboard's whole range."""
    return f"sum{f' by ({by}) ' if by else ''}(increase({series(name, **labels)}[$__range]))"


def total(name, by="", **labels):
    return f"sum{f' by ({by}) ' if by else ''}({series(name, **labels)})"


def ours(expr):
    """Without series of the same name that other programs have, such as process_*."""
    return f"{expr} and on (job, instance) {series('ready')}"


def ratio(above, below):
    return f"{above} / ({below} > 0)"


def quantile(q, name, by="", **labels):
    buckets = f"rate({series(name + '_bucket', **labels)}[$__rate_interval])"
    return f"histogram_quantile({q}, sum by ({', '.join(['le', *([by] if by else [])])}) ({buckets})) >= 0"


def busy_share(work, phase, peak):
    """Of what the machine could have done in the seconds attributed to the phase. Each instance has a peak of its own."""
    seconds = f"rate({series('attributed_seconds_total', phase=phase)}[$__rate_interval])"
    return ratio(
        rate(work, phase=phase), f"sum({seconds} * on (job, instance) group_left () {series(peak)})"
    )


# ---- Panels


def target(expr, legend="", **more):
    return {"expr": expr, "legendFormat": legend, "range": True, **more}


def targets(given):
    return [
        {"refId": chr(ord("A") + i), "datasource": DATASOURCE, **one} for i, one in enumerate(given)
    ]


def timeseries(title, description, unit, given, width=8, stack=False, minimum=0, maximum=None):
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 25 if stack else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
    }
    defaults = {"unit": unit, "custom": custom, "color": {"mode": "palette-classic"}}
    if minimum is not None:
        defaults["min"] = minimum
    if maximum is not None:
        defaults["max"] = maximum
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "width": width,
        "targets": targets(given),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def stat(title, description, unit, given, width=4, thresholds=None):
    steps = thresholds or [{"color": "green", "value": None}]
    return {
        "type": "stat",
        "title": title,
        "description": description,
        "width": width,
        "height": 4,
        "targets": targets([{**one, "range": False, "instant": True} for one in given]),
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "auto",
        },
    }


def heatmap(title, description, name, unit, width=8):
    expr = f"sum by (le) (increase({series(name + '_bucket')}[$__rate_interval]))"
    return {
        "type": "heatmap",
        "title": title,
        "description": description,
        "width": width,
        "targets": targets([target(expr, "{{le}}", format="heatmap")]),
        "fieldConfig": {"defaults": {"custom": {"scaleDistribution": {"type": "linear"}}}, "overrides": []},
        "options": {
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5},
            "yAxis": {"unit": unit, "axisPlacement": "left"},
            "legend": {"show": True},
            "tooltip": {"mode": "single", "yHistogram": False},
        },
    }


def quantiles(title, description, name, width=8):
    return timeseries(
        title,
        description,
        "s",
        [target(quantile(q, name), f"p{round(q * 100)}") for q in (0.5, 0.9, 0.99)],
        width,
    )


# ---- What is on the dashboard


def overview():
    bad_end = [{"color": "green", "value": None}, {"color": "red", "value": 0.01}]
    return [
        stat(
            "Instances ready",
            "How many of the chosen servers take requests. Fewer than run: one is loading its model, draining, or has lost "
            "its backend for good (see its log).",
            "none",
            [target(total("ready"), "ready"), target(f"count({series('ready')})", "scraped")],
        ),
        stat(
            "Requests in range",
            "How requests ended within the dashboard's time range. Cancelled are those whose client went away: many of "
            "them mean that answers come too late.",
            "short",
            [target(increase("requests_total", "outcome"), "{{outcome}}")],
            width=8,
        ),
        stat(
            "Tokens in range",
            "Prompt tokens by where they came from, and output tokens, within the dashboard's time range.",
            "short",
            [
                target(increase("prefill_tokens_total", "source"), "prompt, {{source}}"),
                target(increase("output_tokens_total"), "output"),
            ],
            width=8,
        ),
        stat(
            "Failed or refused",
            "Share of all requests now that failed in the engine or were refused before they started, client errors (400) "
            "included. Above one percent something is wrong; the panel of refusals says what.",
            "percentunit",
            [
                target(
                    ratio(
                        f"({rate('requests_total', outcome='failed')} + {rate('requests_total', outcome='refused')})",
                        rate("requests_total"),
                    ),
                    "share",
                )
            ],
            thresholds=bad_end,
        ),
        timeseries(
            "Requests per second",
            "By how they ended. Refused ones rising while finished ones stay flat: the server is at its limit.",
            "reqps",
            [target(rate("requests_total", "outcome"), "{{outcome}}")],
            stack=True,
        ),
        timeseries(
            "Refusals per second",
            "By reason. limit: the queue is full, objective: first tokens would come later than clients ask (slo): add "
            "servers or lower the load. unattainable: they ask for more than this server could do alone. unavailable: "
            "draining, or the backend is dead. invalid: they ask for what cannot be. Empty while nothing was ever refused.",
            "reqps",
            [target(rate("refusals_total", "reason"), "{{reason}}")],
        ),
        timeseries(
            "Goodput",
            "Finished requests per second that had objectives (time to first token, time per output token), by whether they met "
            "all of them. The rate of those that did is what the server is worth; refused ones are in the panel of refusals.",
            "reqps",
            [target(rate("objective_requests_total", "met"), "met: {{met}}")],
            stack=True,
        ),
        timeseries(
            "Sequences finished per second",
            "By reason. Mostly `length`: answers are cut off by max_tokens or the context.",
            "ops",
            [target(rate("sequences_finished_total", "reason"), "{{reason}}")],
        ),
    ]


def phases():
    return [
        timeseries(
            "Prefill: prompt tokens per second",
            "Wall rate, by source: computed, or found in the prefix cache. What clients get; it falls with the load, so look "
            "at the busy rate to judge the machine.",
            "short",
            [target(rate("prefill_tokens_total", "source"), "{{source}}")],
            width=12,
            stack=True,
        ),
        timeseries(
            "Decode: tokens per second",
            "Wall rate of tokens made by decode rows, and of all output tokens: the first token of an answer comes from its "
            "prompt's last chunk.",
            "short",
            [target(rate("decode_tokens_total"), "decode"), target(rate("output_tokens_total"), "output")],
            width=12,
        ),
        timeseries(
            "Prefill: tokens per busy second",
            "Tokens over the time that they took: by attribution (all steps; mixed ones shared out by the cost model), and "
            "measured in steps of prefill alone. A fall at equal chunk size means a slower machine or longer contexts.",
            "short",
            [
                target(
                    ratio(rate("phase_tokens_total", phase="prefill"), rate("attributed_seconds_total", phase="prefill")),
                    "attributed",
                ),
                target(
                    ratio(
                        rate("phase_tokens_total", **{"class": "prefill"}),
                        rate("step_duration_seconds_sum", **{"class": "prefill"}),
                    ),
                    "measured, prefill steps",
                ),
            ],
            width=12,
        ),
        timeseries(
            "Decode: tokens per busy second",
            "As beside it, for decode. It rises with the number of rows in a step, since all share one read of the weights: "
            "compare at equal batch size.",
            "short",
            [
                target(
                    ratio(rate("phase_tokens_total", phase="decode"), rate("attributed_seconds_total", phase="decode")),
                    "attributed",
                ),
                target(
                    ratio(
                        rate("phase_tokens_total", **{"class": "decode"}),
                        rate("step_duration_seconds_sum", **{"class": "decode"}),
                    ),
                    "measured, decode steps",
                ),
            ],
            width=12,
        ),
        timeseries(
            "Prefill: FLOPs utilisation (MFU)",
            "Estimated FLOPs of prefill over the machine's measured peak: in the seconds attributed to prefill (busy), and in "
            "all seconds (wall). Busy far below what it was: chunks are too small, or something else uses the machine. "
            "Above 1: the peak was measured while something else ran.",
            "percentunit",
            [
                target(busy_share("flops_total", "prefill", "peak_flops_per_second"), "busy"),
                target(ratio(rate("flops_total", phase="prefill"), total("peak_flops_per_second")), "wall"),
            ],
            width=12,
        ),
        timeseries(
            "Decode: bandwidth utilisation (MBU)",
            "Estimated bytes of weights and KV that decode reads over the machine's measured peak: busy and wall, as beside it. "
            "A low busy value with many rows means that decode is bound by arithmetic, not by memory. A model that fits "
            "into the last-level cache can exceed 1.",
            "percentunit",
            [
                target(busy_share("read_bytes_total", "decode", "peak_read_bytes_per_second"), "busy"),
                target(ratio(rate("read_bytes_total", phase="decode"), total("peak_read_bytes_per_second")), "wall"),
            ],
            width=12,
        ),
        timeseries(
            "Busy time by phase, attributed",
            "Seconds per second and instance that each phase took; mixed steps shared out by the cost model. What is missing "
            "to 1 is idle. Decode near 1 with prompts waiting: long answers hold the machine.",
            "percentunit",
            [
                target(f"{rate('attributed_seconds_total', 'phase')} / scalar(count({series('ready')}))", "{{phase}}")
            ],
            stack=True,
        ),
        timeseries(
            "Busy time by class of step, measured",
            "The same time as it was measured: steps of prefill alone, decode alone, and both together, which wall time cannot "
            "split.",
            "percentunit",
            [
                target(f"{rate('step_duration_seconds_sum', 'class')} / scalar(count({series('ready')}))", "{{class}}")
            ],
            stack=True,
        ),
        timeseries(
            "FLOPs per byte",
            "Arithmetic for each byte read, by phase, and the machine's ridge: below it a phase is bound by memory, above it "
            "by arithmetic. Decode climbs with the batch; where it crosses the ridge, more rows cost time.",
            "none",
            [
                target(ratio(rate("flops_total", "phase"), rate("read_bytes_total", "phase")), "{{phase}}"),
                target(
                    f"avg({series('peak_flops_per_second')} / {series('peak_read_bytes_per_second')})", "the machine's ridge"
                ),
            ],
        ),
        timeseries(
            "Prefill tokens of a step",
            "Mean chunk: prefill tokens over the steps that had any. Too small, and prefill wastes arithmetic; too large, and "
            "running streams wait for it.",
            "short",
            [
                target(
                    ratio(
                        rate("phase_tokens_total", phase="prefill"),
                        f"sum(rate(twostroke_step_duration_seconds_count{{instance=~\"$instance\",class=~\"prefill|mixed\"}}"
                        "[$__rate_interval]))",
                    ),
                    "mean",
                )
            ],
        ),
        timeseries(
            "Decode rows of a step",
            "Batch size of decode: sequences that got a token in a step that had any. The bigger it is, the better the read of "
            "the weights is used.",
            "short",
            [
                target(ratio(rate("step_rows_sum", phase="decode"), rate("step_rows_count", phase="decode")), "mean"),
                target(quantile(0.99, "step_rows", phase="decode"), "p99"),
            ],
        ),
        timeseries(
            "Attended positions per token",
            "Mean context of a token, by phase: attention's arithmetic and, for decode, the KV that it reads grow with it.",
            "short",
            [
                target(
                    ratio(
                        rate("attention_context_tokens_total", "phase"),
                        rate("phase_tokens_total", "phase"),
                    ),
                    "{{phase}}",
                )
            ],
        ),
    ]


def latency():
    return [
        quantiles(
            "Time to first token",
            "From acceptance to the first token: queue time plus the prompt's prefill. If it rises with queue time, the server "
            "is full; without, prompts have become longer or the prefix cache colder.",
            "time_to_first_token_seconds",
        ),
        quantiles(
            "Inter-token latency",
            "Every gap between two tokens of a stream: what readers feel as stutter. A p99 far above p50 comes from prefill "
            "chunks or preemptions.",
            "inter_token_latency_seconds",
        ),
        quantiles(
            "Time per output token",
            "Mean gap of a finished request. Smoother than the panel beside it, since a request's stalls are averaged.",
            "time_per_output_token_seconds",
        ),
        quantiles(
            "End to end",
            "From acceptance to the end of finished requests. Depends on the length of answers: compare with it.",
            "request_duration_seconds",
        ),
        quantiles(
            "Queue time",
            "From acceptance to the first step that a request took part in. The first thing to rise when a server is full.",
            "queue_time_seconds",
        ),
        heatmap(
            "Time to first token, all of it",
            "Where requests are. Two bands: prompts that the prefix cache has, and others.",
            "time_to_first_token_seconds",
            "s",
        ),
    ]


def scheduler():
    return [
        timeseries(
            "Requests waiting and running",
            "Waiting above 0 for long: more arrives than is served, or KV blocks are full.",
            "short",
            [
                target(total("requests_waiting"), "waiting"),
                target(total("requests_running"), "running"),
                target(total("sequences_running"), "running sequences"),
            ],
        ),
        timeseries(
            "Prompt tokens waiting",
            "Prefill that is owed to requests that have not started. Over the busy rate of prefill it is the least time until "
            "the last of them starts.",
            "short",
            [target(total("waiting_prompt_tokens"), "waiting")],
        ),
        timeseries(
            "Steps per second",
            "By class. Few steps with a queue: each is long, see their duration.",
            "ops",
            [target(rate("step_duration_seconds_count", "class"), "{{class}}")],
            stack=True,
        ),
        timeseries(
            "Duration of a step, p50",
            "By class. Every running stream waits this long for its next token: mixed far above decode is the price of chunks.",
            "s",
            [
                target(quantile(0.5, "step_duration_seconds", "class"), "{{class}}")
            ],
        ),
        timeseries(
            "Duration of a step, p99",
            "By class. The stalls that the slowest tokens have met.",
            "s",
            [
                target(quantile(0.99, "step_duration_seconds", "class"), "{{class}}")
            ],
        ),
        timeseries(
            "Tokens of a step",
            "Decode and prefill together, beside --max-step-tokens: steps that are never full while requests wait are held "
            "back by something else (KV blocks, the running limit).",
            "short",
            [
                target(ratio(rate("step_tokens_sum"), rate("step_tokens_count")), "mean"),
                target(quantile(0.99, "step_tokens"), "p99"),
            ],
        ),
        timeseries(
            "Prefill that a step may carry",
            "The last step's budget, in the series of the reason that decided it, and the machine's ridge: up to there prefill "
            "tokens cost a decode step little. A budget far below the ridge is held down by an objective between tokens.",
            "short",
            [
                target(f"max by (reason) ({series('prefill_chunk_tokens')})", "{{reason}}"),
                target(f"max({series('ridge_tokens')})", "ridge"),
            ],
        ),
        timeseries(
            "What decides the prefill of a step",
            "Steps per second by the reason. A change of the reason explains a change of chunks, and with it of both latencies.",
            "ops",
            [target(rate("step_budgets_total", "reason"), "{{reason}}")],
            stack=True,
        ),
        timeseries(
            "Cost model",
            "Median error of predicted step times, and the sum of predictions over what was measured, less 1. Above 20 % for "
            "long: objectives are not held well, and the attribution of mixed steps is off.",
            "percentunit",
            [
                target(f"max({series('cost_model_error_ratio')})", "median error"),
                target(
                    ratio(rate("step_predicted_seconds_total"), rate("step_duration_seconds_sum")) + " - 1", "bias"
                ),
            ],
            minimum=None,
        ),
        timeseries(
            "Drafts per second",
            "Guesses at further tokens sent along with decodes, and those that became output. Few accepted: the text does not "
            "repeat itself, and the scheduler should soon stop guessing.",
            "short",
            [target(rate("draft_tokens_total"), "sent"), target(rate("accepted_draft_tokens_total"), "accepted")],
        ),
        timeseries(
            "Preemptions per second",
            "Sequences that had to give up their KV blocks. Now and then is fine; steadily, memory is too small for the "
            "running limit: raise --kv-memory-mb or lower --max-running.",
            "ops",
            [target(rate("preemptions_total"), "preemptions")],
        ),
        timeseries(
            "Tokens computed again per second",
            "What preemptions cost: prefill work done a second time.",
            "short",
            [target(rate("recomputed_tokens_total"), "recomputed")],
        ),
    ]


def memory():
    return [
        timeseries(
            "KV blocks",
            "Referenced ones are in use, cached ones hold prefixes that may be used again and are given up when needed, free "
            "ones hold nothing. Preemptions begin where referenced fills it all.",
            "short",
            [target(total("kv_blocks", "state"), "{{state}}")],
            stack=True,
        ),
        timeseries(
            "KV blocks in use",
            "Share that is referenced, of the fullest instance. Above 95 % with preemptions: out of memory.",
            "percentunit",
            [
                target(
                    f"max(sum by (instance) ({series('kv_blocks', state='referenced')}) / "
                    f"(sum by (instance) ({series('kv_blocks')}) > 0))",
                    "in use",
                )
            ],
            maximum=1,
        ),
        timeseries(
            "Positions of blocks in use",
            "Used ones hold a token's keys and values; unused ones are held for tokens to come, which is what blocks waste: at "
            "most a block less one position for each sequence.",
            "short",
            [target(total("kv_positions", "state"), "{{state}}")],
            stack=True,
        ),
        timeseries(
            "Prefix cache hits",
            "Share of prompt tokens found in the cache, of those looked up. A fall means that conversations come back later "
            "than the cache remembers, or that routing has lost their server.",
            "percentunit",
            [
                target(
                    ratio(rate("prefix_cache_hit_tokens_total"), rate("prefix_cache_query_tokens_total")), "hit tokens"
                )
            ],
            maximum=1,
        ),
    ]


def workload():
    return [
        heatmap(
            "Prompt length",
            "Prompt tokens of finished requests. A shift explains most shifts of latency.",
            "request_prompt_tokens",
            "short",
            width=12,
        ),
        heatmap(
            "Answer length",
            "Output tokens of finished requests, all choices together.",
            "request_output_tokens",
            "short",
            width=12,
        ),
    ]


def process():
    return [
        timeseries(
            "HTTP requests per second",
            "By status, all routes. 5xx: see the log by request id.",
            "reqps",
            [target(rate("http_requests_total", "code"), "{{code}}")],
        ),
        timeseries(
            "HTTP answers, p99",
            "From a request's arrival to the end of its answer, by route; a stream counts to its end.",
            "s",
            [
                target(quantile(0.99, "http_request_duration_seconds", "route"), "{{route}}")
            ],
        ),
        timeseries(
            "Open connections",
            "Against --max-connections. Rising without load: clients that do not close.",
            "short",
            [target(total("http_connections"), "open")],
        ),
        timeseries(
            "Uptime",
            "Of each instance. A saw: the process is restarted over and over.",
            "s",
            [target(ours('time() - process_start_time_seconds{instance=~"$instance"}'), "{{instance}}")],
        ),
        timeseries(
            "Processors in use",
            "Processor seconds per second of each instance. Far below the number of threads while requests wait: something else "
            "than arithmetic holds the steps up.",
            "short",
            [
                target(
                    ours('rate(process_cpu_seconds_total{instance=~"$instance"}[$__rate_interval])'), "{{instance}}"
                )
            ],
        ),
        timeseries(
            "Resident memory",
            "Of each instance: weights, and KV blocks as they come into use. It levels off once all blocks were used.",
            "bytes",
            [target(ours('process_resident_memory_bytes{instance=~"$instance"}'), "{{instance}}")],
        ),
    ]


ROWS = [
    ("Overview", overview),
    ("Prefill beside decode", phases),
    ("Latency", latency),
    ("Scheduler", scheduler),
    ("KV memory", memory),
    ("Workload", workload),
    ("HTTP and process", process),
]


# ---- The file


def place(panels, y):
    """From left to right, in lines as high as their highest panel. Returns where the next line begins."""
    x = line = 0
    for panel in panels:
        width, height = panel.pop("width"), panel.pop("height", HEIGHT)
        if x + width > WIDTH:
            x, y, line = 0, y + line, 0
        panel["gridPos"] = {"x": x, "y": y, "w": width, "h": height}
        x, line = x + width, max(line, height)
    return y + line


def query_variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def dashboard():
    panels, y = [], 0
    for title, make in ROWS:
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
        row = make()
        y = place(row, y + 1)
        panels += [{"datasource": DATASOURCE, **panel} for panel in row]
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "uid": "twostroke",
        "title": "twostroke",
        "description": "Prefill and decode of a language model server, apart. Made by make_dashboard.py: change it there.",
        "tags": ["twostroke", "llm"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
                query_variable("model", "Model", "label_values(twostroke_build_info, model)"),
                query_variable("instance", "Instance", 'label_values(twostroke_build_info{model=~"$model"}, instance)'),
            ]
        },
        "panels": panels,
    }


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text() != text:
            sys.exit(f"{TARGET.name} is not what make_dashboard.py writes: run it")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        TARGET.write_text(text)


if __name__ == "__main__":
    main()
