"""The Grafana dashboard, from the table of figures; gen_reference.py writes it."""

import json

import gen_reference

TARGET = gen_reference.ROOT / "integrations" / "grafana" / "granary.json"
SELECT = '{instance=~"$instance", command=~"$command", pid=~"$pid"}'
LABEL = "{{command}} {{pid}}"
# As in tool/internal/exporter/naming.go: the suffix of a unit, and what Grafana calls it.
UNITS = {"bytes": ("_bytes", "bytes"), "nanoseconds": ("_seconds", "s"), "count": ("", "short")}
LAYERS = [("entry", "What the program holds"), ("sizes", "Rounding"), ("front", "Caches of the CPUs"),
          ("depot", "Between the caches"), ("central", "Slabs"), ("pages", "The page heap"), ("limits", "Limits"), ("os", "The system")]
WIDTH, HEIGHT = 8, 7


def metric_name(row):
    name, kind, unit = row[0], row[1], row[2]
    suffix = UNITS[unit][0]
    return "granary_" + name.removesuffix(suffix) + suffix + ("_total" if kind == "counter" else "")


def query(expression, legend):
    return {"expr": expression, "legendFormat": legend}


def panel(title, unit, queries, description="", stacked=False, width=WIDTH):
    custom = {"fillOpacity": 30 if stacked else 0, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal"}
    for index, target in enumerate(queries):
        target["refId"] = chr(ord("A") + index)
        target["datasource"] = {"type": "prometheus", "uid": "$datasource"}
    return {
        "type": "timeseries", "title": title, "description": description, "targets": queries,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
        "gridPos": {"w": width, "h": HEIGHT},
    }


def total(name):
    return f"sum({name}{SELECT})"


def overview():
    parts = [("live", "granary_live_bytes"), ("caches", "granary_cached_bytes"), ("between caches", "granary_depot_bytes"),
             ("dirty", "granary_dirty_bytes"), ("structures", "granary_metadata_used_bytes")]
    queries = [query(total(name), label) for label, name in parts]
    queries.insert(3, query(f"{total('granary_slab_free_bytes')} - {total('granary_slab_clean_bytes')}", "free in slabs"))
    return [
        panel("What the heaps hold", "bytes", queries, "All chosen processes together.", stacked=True),
        panel("Resident memory", "bytes", [query(f"granary_process_resident_memory_bytes{SELECT}", LABEL)]),
        panel("Memory held for each byte that lives", "none", [query(f"granary:fragmentation:ratio{SELECT}", LABEL)],
              "Needs the recording rules of integrations/prometheus."),
    ]


def figure_panel(row):
    name, kind, unit, _, _, meaning = row
    metric = metric_name(row) + SELECT
    if kind != "counter":
        return panel(name.replace("_", " "), UNITS[unit][1], [query(metric, LABEL)], meaning)
    rate = f"rate({metric}[$__rate_interval])"
    shown = {"bytes": "Bps", "nanoseconds": "percentunit", "count": "cps"}[unit]
    return panel(name.replace("_", " ") + " each second", shown, [query(rate, LABEL)], meaning)


def layer_row(title, panels):
    return {"type": "row", "title": title, "collapsed": True, "panels": panels, "gridPos": {"w": 24, "h": 1, "x": 0}}


def place(panels, top):
    """Gives panels a place, three in a row; returns the next free line."""
    x = 0
    for item in panels:
        if x + item["gridPos"]["w"] > 24:
            x, top = 0, top + HEIGHT
        item["gridPos"].update(x=x, y=top)
        x += item["gridPos"]["w"]
    return top + HEIGHT


def variable(name, label, previous):
    selector = ", ".join(f'{p}=~"${p}"' for p in previous)
    text = f"label_values(granary_process_info{{{selector}}}, {name})"
    return {"type": "query", "name": name, "label": label, "multi": True, "includeAll": True, "refresh": 2, "sort": 1,
            "datasource": {"type": "prometheus", "uid": "$datasource"},
            "query": {"query": text, "refId": name}, "current": {"text": "All", "value": "$__all"}}


def dashboard():
    rows = gen_reference.rows_of(gen_reference.ROOT / "core/src/stats/counters.def", "COUNTER", 6)
    panels = overview()
    top = place(panels, 0)
    known = [layer for layer, _ in LAYERS]
    others = sorted({row[3] for row in rows} - set(known))
    for layer, title in LAYERS + [(layer, layer.capitalize()) for layer in others]:
        inner = [figure_panel(row) for row in rows if row[3] == layer]
        if not inner:
            continue
        heading = layer_row(title, inner)
        heading["gridPos"]["y"] = top
        place(inner, top + 1)
        panels.append(heading)
        top += 1
    number = 0
    for item in panels:
        for each in [item, *item.get("panels", [])]:
            number += 1
            each["id"] = number
    names = ["instance", "command", "pid"]
    return {
        "title": "Granary", "uid": "granary", "tags": ["memory"], "schemaVersion": 39, "editable": True,
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "panels": panels,
        "templating": {"list": [{"type": "datasource", "name": "datasource", "label": "Source", "query": "prometheus"}] +
                               [variable(name, name, names[:i]) for i, name in enumerate(names)]},
    }


def text():
    return json.dumps(dashboard(), indent=1) + "\n"
