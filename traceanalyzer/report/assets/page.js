"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /* Figures: drawn when they come near, in the colours of the theme. */
  const LEGEND_ROOM = 70; /* px of a legend that the height of each figure has room for */
  const drawn = new Map();
  const look = () => {
    const style = getComputedStyle(root);
    const color = (name) => style.getPropertyValue(name).trim();
    return { ink: color("--ink"), soft: color("--soft"), line: color("--line"), back: color("--back") };
  };
  /* Names are escaped for plotly.js: cut as people read them, and escaped again. */
  const cut = (name, most) => {
    const all = [...name.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&")];
    if (all.length <= most) return name;
    const [head, tail] = [all.slice(0, Math.ceil(most / 2)), all.slice(-Math.floor(most / 2))];
    const text = `${head.join("")}…${tail.join("")}`;
    return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  };
  /* plotly.js keeps names of rows in an object, in which `constructor` and the like stand already. */
  const isOfRows = (trace) => trace.orientation === "h";
  const asRow = (name) => (typeof name === "string" && name in {} ? `&#${name.charCodeAt(0)};${name.slice(1)}` : name);
  /* Long names of rows leave most of the width to the bars; pointing at a bar tells the whole name. */
  const rowNames = (traces, width) => {
    const names = [...new Set(traces.filter(isOfRows).flatMap((trace) => trace.y))];
    const most = Math.max(Math.floor(width / 24), 16);
    const long = names.some((name) => typeof name === "string" && name.length > most);
    return long ? { tickmode: "array", tickvals: names, ticktext: names.map((name) => cut(name, most)) } : {};
  };
  const themed = ({ traces, layout, plot, legendHeight }) => {
    const { ink, soft, line, back } = look();
    const axis = (given) => ({
      gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line, tickfont: { color: soft },
      automargin: true, ...given,
      title: given && given.title ? { ...given.title, font: { color: soft, size: 12 } } : undefined,
    });
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: ink },
      margin: { l: 60, r: 20, t: 14, b: 46, ...(layout.margin || {}) },
      hoverlabel: { bgcolor: back, bordercolor: line, font: { color: ink }, align: "left", namelength: -1 },
      xaxis: axis(layout.xaxis), yaxis: { ...axis(layout.yaxis), ...rowNames(traces, plot.clientWidth) },
      legend: { ...layout.legend, maxheight: legendHeight },
      dragmode: "zoom", hovermode: "closest",
    };
  };
  const config = {
    displaylogo: false, responsive: true, showTips: false, typesetMath: false,
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"], displayModeBar: "hover",
  };
  const draw = (figure) => {
    if (drawn.has(figure)) return;
    if (!window.Plotly) return; /* it is being unpacked */
    const plot = figure.querySelector(".plot");
    const { traces, layout } = JSON.parse(figure.querySelector("script").textContent);
    traces.filter(isOfRows).forEach((trace) => { trace.y = trace.y.map(asRow); });
    const one = { traces, layout, plot, height: plot.clientHeight, legendHeight: undefined };
    drawn.set(figure, one);
    Plotly.newPlot(plot, traces, themed(one), config);
    fit(one);
  };
  /* On a narrow screen a legend has many lines: the figure grows by them, so that none is cut off. */
  const fit = (one) => {
    const lines = one.plot.querySelector(".legend .scrollbox");
    const legendHeight = lines ? Math.ceil(lines.getBBox().height) + 10 : 0;
    const height = `${one.height + Math.max(legendHeight - LEGEND_ROOM, 0)}px`;
    if (one.plot.style.height === height) return;
    one.plot.style.height = height;
    one.legendHeight = Math.max(legendHeight, LEGEND_ROOM);
    Plotly.relayout(one.plot, { ...themed(one), autosize: true });
  };
  const figures = all(".figure");
  const seen = new Set();
  const show = (figure) => { seen.add(figure); draw(figure); };
  if (window.unpacked) {
    window.unpacked.then(
      () => seen.forEach(draw),
      () => figures.forEach((figure) => {
        figure.querySelector(".plot").textContent = "Figures need a browser of 2023 or newer.";
      }),
    );
  }
  if ("IntersectionObserver" in window) {
    const near = new IntersectionObserver(
      (entries) => entries.forEach((entry) => {
        if (entry.isIntersecting) { near.unobserve(entry.target); show(entry.target); }
      }),
      { rootMargin: "500px" },
    );
    figures.forEach((figure) => near.observe(figure));
  } else {
    figures.forEach(show);
  }
  const redraw = () => drawn.forEach((one) => {
    Plotly.relayout(one.plot, { ...themed(one), autosize: true });
    fit(one);
  });
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 250); });

  /* Theme: that of the system until one is chosen; it is kept where the browser lets a file keep something. */
  const button = document.getElementById("theme");
  const remember = (value) => { try { localStorage.setItem("traceanalyzer-theme", value); } catch { /* not allowed */ } };
  try {
    const kept = localStorage.getItem("traceanalyzer-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* not allowed */ }
  const name = () => { if (button) button.textContent = isDark() ? "Light" : "Dark"; };
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      name();
      redraw();
    });
    name();
  }
  dark.addEventListener("change", () => { name(); redraw(); });

  /* Tables: sorted by their headings, searched by a field. */
  const keyOf = (cell) => {
    const value = cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
    return Number.isNaN(value) ? null : value;
  };
  const compare = (a, b) => {
    const [x, y] = [keyOf(a), keyOf(b)];
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x === null ? -1 : 1;
    return a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
  };
  const sort = (heading) => {
    const table = heading.closest("table");
    const place = [...heading.parentNode.children].indexOf(heading);
    const before = heading.getAttribute("aria-sort");
    const first = heading.classList.contains("number") ? "descending" : "ascending";
    const order = before ? (before === "ascending" ? "descending" : "ascending") : first;
    all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => sign * compare(a.cells[place], b.cells[place])));
  };
  all("th").forEach((heading) => {
    const label = heading.querySelector("span");
    const press = document.createElement("button");
    press.type = "button";
    press.title = label.title;
    press.textContent = label.textContent;
    label.replaceWith(press);
    press.addEventListener("click", () => sort(heading));
  });
  all(".search").forEach((label) => {
    label.hidden = false;
    const field = label.querySelector("input");
    const rows = [...label.closest(".table").querySelector("tbody").rows];
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row) => {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      });
    });
  });

  /* Commands are copied by a button, where the browser lets a page do that. */
  if (navigator.clipboard) {
    all(".command").forEach((command) => {
      const copy = document.createElement("button");
      copy.type = "button";
      copy.textContent = "copy";
      copy.setAttribute("aria-label", `copy ${command.textContent}`);
      copy.addEventListener("click", () => {
        const text = command.querySelector("code").textContent;
        navigator.clipboard.writeText(text).then(() => { copy.textContent = "copied"; }, () => { copy.textContent = "not allowed"; });
      });
      command.append(copy);
    });
  }

  /* A link into something folded opens it. */
  const hash = () => { try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; /* a stray % */ } };
  const moved = ["wheel", "touchmove", "keydown", "pointerdown"];
  const open = () => {
    const target = document.getElementById(hash());
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    const show = () => target.scrollIntoView({ block: target.tagName === "TR" ? "center" : "start" });
    show();
    /* Figures on the way are drawn by and by, and move what is below: unless the reader moves, it is shown again. */
    const again = [150, 500, 1200].map((delay) => setTimeout(show, delay));
    const stop = () => again.forEach(clearTimeout);
    moved.forEach((kind) => addEventListener(kind, stop, { once: true, passive: true }));
  };
  addEventListener("hashchange", open);
  if (location.hash) open();

  /* On paper all figures are drawn, light, as wide as paper is. */
  const PAPER = "690px";
  let before = null;
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details.fold:not([open])");
    opened.forEach((each) => { each.open = true; });
    before = root.dataset.theme || "";
    root.dataset.theme = "light";
    all(".plot").forEach((plot) => { plot.style.width = PAPER; });
    figures.forEach(draw);
    redraw();
  });
  addEventListener("afterprint", () => {
    opened.forEach((each) => { each.open = false; });
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    all(".plot").forEach((plot) => { plot.style.width = ""; });
    redraw();
  });
})();
