// Draws the charts of open rows. Where this does not work, the small charts of the page remain.
"use strict";

// startCharts gets the page's format of ages, and a function that tells whether the exporter answers.
function startCharts(age, connected) {
  const SECOND = 1000;
  const HEIGHT = 190;
  const SHORTEST = 600; // seconds that a zoomed chart shows at least

  // The first open row loads the library.
  let library;
  function load() {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = document.body.dataset.plot;
      script.onload = resolve;
      script.onerror = () => {
        library = undefined;
        reject(new Error("the chart library does not load"));
      };
      document.head.append(script);
    });
    return library;
  }

  const round = (v) => (Math.abs(v) >= 100 || Number.isInteger(v) ? Math.round(v) : Math.abs(v) >= 1 ? Number(v.toFixed(1)) : Number(v.toFixed(2)));
  function amount(v, unit) {
    if (v === null || v === undefined) return "–";
    if (unit === "seconds") return v > 0 && v < 1 ? `${round(1000 * v)} ms` : v < 60 ? `${round(v)} s` : age(v * SECOND);
    if (unit === "ratio") return `${round(100 * v)} %`;
    if (unit === "per_minute") return `${round(v)} /min`;
    if (unit === "bytes") {
      const prefixes = ["", "k", "M", "G", "T"];
      let size = v;
      while (prefixes.length > 1 && Math.abs(size) >= 999.5) {
        size /= 1000;
        prefixes.shift();
      }
      return `${round(size)} ${prefixes[0]}B`;
    }
    return String(round(v));
  }

  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const clockOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  function limitsOf(history) {
    const known = [
      { word: "warning", value: history.warning, dash: [7, 4] },
      { word: "critical", value: history.critical, dash: [2, 3] },
    ];
    return known.filter(({ value }) => value !== undefined).map((l) => ({ ...l, text: `${l.word} over ${amount(l.value, history.unit)}` }));
  }

  // The axis starts at 0 unless the numbers would fill less than a quarter of it. A threshold is on it if they still fill a quarter.
  function rangeOf(history, limits, low, high) {
    if (history.keeps === "least") return [0, 1.1]; // a state
    if (low === null || low === undefined) return [0, 1];
    const fitted = low > 0 && high > low && high - low < high / 4;
    let bottom = fitted ? low : Math.min(0, low);
    let top = high;
    const filled = fitted ? high - low : high - bottom;
    for (const { value } of limits) {
      if (filled >= (Math.max(top, value) - Math.min(bottom, value)) / 4) [bottom, top] = [Math.min(bottom, value), Math.max(top, value)];
    }
    const margin = (top - bottom) / 10;
    return top > bottom ? [bottom === 0 ? 0 : bottom - margin, top + margin] : [0, 1];
  }

  function drawLimits(plot, limits, style, unit) {
    const { ctx, bbox } = plot;
    const pixel = devicePixelRatio;
    ctx.save();
    ctx.font = `600 ${12 * pixel}px system-ui, sans-serif`;
    for (const { word, value, dash } of limits) {
      if (!isOn(plot.scales.y, value)) continue;
      const y = Math.round(plot.valToPos(value, "y", true));
      const colour = style.getPropertyValue(`--${word}`);
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.5 * pixel;
      ctx.setLineDash(dash.map((length) => length * pixel));
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      const label = `${word} ${amount(value, unit)}`;
      const room = y - bbox.top > 16 * pixel ? -16 * pixel : 2 * pixel;
      ctx.fillStyle = style.getPropertyValue("--card");
      ctx.fillRect(bbox.left + 2 * pixel, y + room, ctx.measureText(label).width + 6 * pixel, 14 * pixel);
      ctx.fillStyle = colour;
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      ctx.fillText(label, bbox.left + 5 * pixel, y + room + pixel);
    }
    ctx.restore();
  }

  const isOn = (scale, value) => value >= scale.min && value <= scale.max;

  // noteOf says what the picture alone could hide.
  function noteOf(scale, limits, unit) {
    const notes = scale.min > 0 ? [`The axis starts at ${amount(scale.min, unit)}, not at 0.`] : [];
    for (const { text, value } of limits) {
      if (!isOn(scale, value)) notes.push(`Not on the axis: ${text}.`);
    }
    return notes.join(" ");
  }

  const plots = new Map(); // plot by element
  const days = new Map(); // by the row's id: the day's first and last second
  const zooms = new Map(); // by the row's id: the same of the part that its charts show, if it is not the whole day

  async function draw(row, figure) {
    const place = figure.querySelector(".plot");
    const path = figure.dataset.chart.split("/").map(encodeURIComponent).join("/");
    const [answer] = await Promise.all([fetch(`api/v1/history/${path}`, { cache: "no-store" }), load()]);
    if (!answer.ok) throw new Error(`history: status ${answer.status}`);
    const history = await answer.json();
    erase(place);
    if (!row.open || history.values.filter((v) => v !== null).length < 2) return; // the page says that it is too new
    const start = Date.parse(history.start) / SECOND;
    const day = [start, start + history.values.length * history.step_seconds];
    days.set(row.parentElement.id, day);
    const [from, to] = zooms.get(row.parentElement.id) ?? day;
    const style = getComputedStyle(document.documentElement);
    const axis = { stroke: style.getPropertyValue("--quiet"), grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { stroke: style.getPropertyValue("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const paths = history.unit !== "bytes" && uPlot.paths.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    const line = (label, extra) => ({ label, stroke: style.getPropertyValue("--chart"), width: 1.5, paths, points: { show: false }, value: (_, v) => amount(v, history.unit), ...extra });
    const fill = style.getPropertyValue("--chart-fill");
    const data = [history.values.map((_, i) => start + i * history.step_seconds), history.values];
    const series = [{ label: "time", value: (_, v) => (v === null ? "–" : clockOfYear.format(new Date(v * SECOND))) }];
    const bands = [];
    if (history.min && history.max) {
      data.push(history.min, history.max);
      series.push(line("mean"), line("lowest", { width: 0.75 }), line("highest", { width: 0.75 }));
      bands.push({ series: [3, 2], fill });
    } else series.push(line("lowest", { fill }));
    const limits = limitsOf(history);
    const note = document.createElement("p");
    note.className = "quiet";
    const plot = new uPlot(
      {
        width: Math.max(200, place.clientWidth || figure.clientWidth),
        height: HEIGHT,
        scales: { x: { time: true, auto: false, min: from, max: to }, y: { range: (_, low, high) => rangeOf(history, limits, low, high) } },
        axes: [
          { ...axis, values: [[3600, "{HH}:{mm}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", null, null, null, null, null, null, 1]] },
          { ...axis, size: 70, values: (_, splits) => splits.map((v) => amount(v, history.unit)) },
        ],
        series,
        bands,
        cursor: { drag: { x: true, y: false, setScale: false, dist: 5 }, bind: { dblclick: () => () => zoom(row) } },
        hooks: {
          draw: [(u) => drawLimits(u, limits, style, history.unit)],
          setScale: [(u, scale) => scale === "y" && (note.textContent = noteOf(u.scales.y, limits, history.unit))],
          setSelect: [
            (u) => {
              const { left, width } = u.select;
              if (width === 0) return;
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              zoom(row, u.posToVal(left, "x"), u.posToVal(left + width, "x"));
            },
          ],
        },
      },
      data,
      place,
    );
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", [figure.querySelector("figcaption").textContent, ...limits.map((l) => l.text)].join("; "));
    place.append(note);
    plots.set(place, plot);
    addButtons(row);
  }

  // zoom shows a part of the day in all charts of a row; without one, the whole day.
  function zoom(row, from, to) {
    const id = row.parentElement.id;
    const [first, last] = days.get(id);
    const shown = Math.max(SHORTEST, to - from);
    if (from === undefined || shown >= last - first) zooms.delete(id);
    else {
      const begin = Math.min(Math.max((from + to - shown) / 2, first), last - shown);
      zooms.set(id, [begin, begin + shown]);
    }
    const [min, max] = zooms.get(id) ?? [first, last];
    for (const place of row.querySelectorAll(".plot")) plots.get(place)?.setScale("x", { min, max });
    sayZoom(row);
  }

  function sayZoom(row) {
    const part = zooms.get(row.parentElement.id);
    const time = (seconds) => clock.format(new Date(seconds * SECOND));
    row.querySelector(".zoom output").textContent = part ? `${time(part[0])} to ${time(part[1])}` : "24 hours";
  }

  function addButtons(row) {
    const bar = row.querySelector(".zoom");
    if (bar.childElementCount > 0) return;
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Time range of the charts");
    // Each button moves the two ends by a part of what is shown.
    for (const [text, left, right] of [
      ["Zoom in", 0.25, -0.25],
      ["Zoom out", -0.5, 0.5],
      ["Earlier", -0.5, -0.5],
      ["Later", 0.5, 0.5],
      ["Whole day", -Infinity, Infinity],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => {
        const [from, to] = zooms.get(row.parentElement.id) ?? days.get(row.parentElement.id);
        zoom(row, from + left * (to - from), to + right * (to - from));
      });
      bar.append(button);
    }
    bar.append(document.createElement("output"));
    sayZoom(row);
  }

  function erase(place) {
    plots.get(place)?.destroy();
    plots.delete(place);
    place.replaceChildren();
  }

  function close(row) {
    for (const place of row.querySelectorAll(".plot")) erase(place);
    row.querySelector(".zoom")?.replaceChildren();
    zooms.delete(row.parentElement.id);
  }

  function drawIn(row) {
    for (const figure of row.querySelectorAll("figure.chart")) {
      draw(row, figure).catch(() => erase(figure.querySelector(".plot"))); // the small chart remains
    }
  }

  function drawAll() {
    for (const [place] of plots) if (!place.isConnected) erase(place);
    for (const row of document.querySelectorAll("details.row[open]")) drawIn(row);
  }

  document.addEventListener(
    "toggle",
    (event) => {
      const row = event.target;
      if (!(row instanceof HTMLDetailsElement) || !row.classList.contains("row")) return;
      if (row.open) drawIn(row);
      else close(row);
    },
    true, // toggle does not bubble
  );
  setInterval(() => {
    if (!document.hidden && connected()) drawAll();
  }, 60 * SECOND);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let resized;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => {
      for (const [place, plot] of plots) plot.setSize({ width: Math.max(200, place.clientWidth), height: HEIGHT });
    }, 150);
  });
}
