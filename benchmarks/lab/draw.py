"""Run by chart.py where matplotlib is installed: JSON on standard input, the SVG file as
argument."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

INK = "#010203"  # a placeholder for the colour of text, which the page decides
COLOURS = ("#3b82c4", "#d9822b", "#4fa36b", "#b0567e", "#8a7fd1", "#8c8c8c")  # on white and black
WIDTH = 8.0  # inches
BAR, FRAME, LINES = 0.3, 1.1, 3.2  # inches: one bar, the frame around them, a diagram of lines
STYLE = (
    "<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}"
    "text{font-family:system-ui,sans-serif}</style>"
)


def main(data: dict[str, Any], output: Path) -> None:
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",  # text stays text
            "svg.hashsalt": "crawlframe",  # the same figures give the same file
            "font.size": 9,
            **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK),
            **dict.fromkeys(("xtick.color", "ytick.color"), INK),
        }
    )
    panels = data["panels"]
    heights = [FRAME + BAR * len(panel["bars"]) if panel["bars"] else LINES for panel in panels]
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.4), layout="constrained")
    figure.suptitle(data["title"], fontsize=11)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        (draw_bars if panel["bars"] else draw_lines)(panel, axis)
        axis.set_title(panel["title"], loc="left", fontsize=10)
        axis.set_xlabel(panel["x"])
        axis.set_xscale(panel["scale"])
        axis.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue().replace(INK, "currentColor")
    head, mark, body = svg.partition("<defs>")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(head + STYLE + mark + body, encoding="utf-8")


def draw_bars(panel: dict[str, Any], axis: Any) -> None:
    bars = panel["bars"]
    names = list(dict.fromkeys(name for bar in bars for name in bar["parts"]))
    starts = [0.0] * len(bars)
    for name, colour in zip(names, COLOURS, strict=False):
        lengths = [bar["parts"].get(name, 0.0) for bar in bars]
        axis.barh(range(len(bars)), lengths, 0.7, left=starts, color=colour, label=name)
        starts = [start + length for start, length in zip(starts, lengths, strict=True)]
    for place, (bar, end) in enumerate(zip(bars, starts, strict=True)):
        low, high = bar["low"], bar["high"]
        if low is not None and high is not None:
            axis.plot([low, high], [place, place], color=INK, linewidth=1, marker="|")
        axis.annotate(
            f"{end:,.3g}" if end < 1000 else f"{end:,.0f}",
            (max(end, high or 0), place), xytext=(5, 0), textcoords="offset points", va="center",
        )  # fmt: skip
    axis.set_yticks(range(len(bars)), [bar["label"] for bar in bars])
    axis.invert_yaxis()
    axis.margins(x=0.12)
    if len(names) > 1:
        axis.legend(frameon=False, loc="lower right")


def draw_lines(panel: dict[str, Any], axis: Any) -> None:
    for line, colour in zip(panel["lines"], COLOURS, strict=False):
        axis.plot(*zip(*line["points"], strict=True), color=colour, marker="o", label=line["label"])
    axis.set_ylabel(panel["y"])
    axis.set_ylim(bottom=0)
    if len(panel["lines"]) > 1:
        axis.legend(frameon=False)


if __name__ == "__main__":
    main(json.load(sys.stdin), Path(sys.argv[1]))
