"""Render the chart with Helm's own engine: JSON from stdin, JSON to stdout.

`{"chart": path, "cases": [{"values", "name", "namespace"}]}` to a list of answers. A process of its
own, because the engine brings another language's runtime and its signal handlers.
"""

import json
import sys

import helm_python

asked = json.load(sys.stdin)
answers: list[dict[str, object]] = []
with helm_python.Chart.load(asked["chart"]) as chart:
    for case in asked["cases"]:
        try:
            files = chart.render(case["values"], name=case["name"], namespace=case["namespace"])
            answers.append({"files": files})
        except helm_python.HelmError as error:
            answers.append({"error": str(error)})
lint = helm_python.lint(asked["chart"], strict=True)
json.dump({"lint": lint["messages"], "answers": answers}, sys.stdout)
