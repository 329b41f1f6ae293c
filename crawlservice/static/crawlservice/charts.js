// Draws the canvases below each [data-chart-url], and polls for new points while the page is
// visible and there may be more.
"use strict";

(() => {
  const color = (tone) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--cf-${tone}`).trim();

  const stamp = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
  const clock = (ms, span) =>
    span > 86400e3 ? stamp(ms).slice(5, 16) : stamp(ms).slice(11, span < 600e3 ? 19 : 16);

  // Dashed lines with a label, where something changed: chart.marks is a list of {at, label}.
  const marks = {
    id: "marks",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales } = chart;
      let free = area.left;  // labels must not cover each other
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = color("muted");
      ctx.font = "10px sans-serif";
      for (const { at, label } of chart.marks || []) {
        const x = scales.x.getPixelForValue(at);
        ctx.setLineDash([3, 3]);
        ctx.beginPath();
        ctx.moveTo(x, area.top);
        ctx.lineTo(x, area.bottom);
        ctx.stroke();
        const width = ctx.measureText(label).width;
        const left = Math.max(area.left, Math.min(x + 3, area.right - width));
        if (left < free) continue;
        ctx.fillText(label, left, area.top + 9);
        free = left + width + 6;
      }
      ctx.restore();
    },
  };

  const make = (canvas) => {
    const labels = canvas.dataset.labels.split("|");
    const tones = canvas.dataset.tones.split("|");
    const datasets = canvas.dataset.series.split("|").map((name, n) => ({
      name,
      tone: tones[n],
      label: labels[n],
      data: [],
      borderWidth: 1.5,
      pointRadius: "dots" in canvas.dataset ? 3 : 0,
      pointHitRadius: 8,
      spanGaps: false,
      clip: 4,  // points at the edge are not cut
    }));
    const spanOf = (scale) => scale.max - scale.min;
    return new Chart(canvas, {
      type: "line",
      data: { datasets },
      plugins: [marks],
      options: {
        animation: false,
        maintainAspectRatio: false,
        parsing: false,
        normalized: true,
        interaction: { mode: "nearest", axis: "x", intersect: false },
        scales: {
          x: {
            type: "linear",
            ticks: {
              maxRotation: 0,
              maxTicksLimit: 5,
              callback(value) { return clock(value, spanOf(this)); },
            },
            grid: { display: false },
          },
          y: { beginAtZero: true, ticks: { maxTicksLimit: 5 } },
        },
        plugins: {
          legend: { display: datasets.length > 1, labels: { boxWidth: 10, boxHeight: 2 } },
          tooltip: {
            callbacks: {
              title: (items) => stamp(items[0].parsed.x),
            },
          },
        },
      },
    });
  };

  const paint = (chart) => {
    for (const dataset of chart.data.datasets) {
      dataset.borderColor = dataset.backgroundColor = color(dataset.tone);
    }
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks.color = color("muted");
      scale.grid.color = `${color("muted")}33`;
    }
    chart.options.plugins.legend.labels.color = color("muted");
  };

  const start = (box) => {
    const shown = [...box.querySelectorAll("canvas")].map(make);
    const least = Number(box.dataset.least || 2);  // one point is no line
    let timer;

    const draw = ({ points }) => {
      const at = (points.at || []).length >= least ? points.at : [];
      box.querySelectorAll("figure").forEach((figure) => { figure.hidden = at.length === 0; });
      const empty = box.querySelector(".cf-empty");
      if (empty) empty.hidden = at.length > 0;
      for (const chart of shown) {
        for (const dataset of chart.data.datasets) {
          const values = points[dataset.name] || [];
          dataset.data = at.map((x, n) => ({ x, y: values[n] ?? NaN }));
        }
        chart.marks = points.marks;
        const one = at.length === 1 ? 3600e3 : 0;  // milliseconds around a single point
        chart.options.scales.x.min = at[0] - one;
        chart.options.scales.x.max = at[at.length - 1] + one;
        paint(chart);
        chart.update();
      }
    };

    const ask = async () => {
      clearTimeout(timer);
      let ended = false;
      if (!document.hidden) {
        const address = new URL(box.dataset.chartUrl, location.href);
        if (box.dataset.span) address.searchParams.set("span", box.dataset.span);
        try {
          const answer = await fetch(address, { headers: { Accept: "application/json" } });
          if (answer.ok) {
            const found = await answer.json();
            draw(found);
            ended = found.ended;
          }
        } catch {
          // The service is unreachable; a later poll may succeed.
        }
      }
      if (!ended) timer = setTimeout(ask, Number(box.dataset.every) * 1000);
    };

    document.addEventListener("visibilitychange", () => { if (!document.hidden && timer) ask(); });
    new MutationObserver(() => shown.forEach((chart) => { paint(chart); chart.update(); }))
      .observe(document.documentElement, { attributeFilter: ["class"] });
    const buttons = box.parentElement.querySelectorAll("[data-chart-switch] button");
    buttons.forEach((button) => button.addEventListener("click", () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      box.dataset.span = button.dataset.span;
      ask();
    }));
    ask();
  };

  document.querySelectorAll("[data-chart-url]").forEach(start);
})();
