"use strict";
// Live figures: the server sends them as JSON and as markup; markup is laid over the page without losing focus or
// scroll, and pictures over time are drawn from the JSON.
(() => {
  const AGAIN = 5000; // milliseconds before a refused connection is tried again
  const figures = document.getElementById("figures");
  const link = document.getElementById("link");
  const address = document.body.dataset.live;
  if (!figures || !address) return;

  let source = null;
  let timer = 0;
  let heard = null;

  const clock = (date) => date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

  function say(state, words) {
    link.hidden = false;
    link.dataset.state = state;
    if (link.textContent !== words) link.textContent = words;
    figures.classList.toggle("stale", state === "lost");
  }

  function connect() {
    clearTimeout(timer);
    if (source) source.close();
    if (!heard) say("connecting", "Connecting…");
    source = new EventSource(address + "?html=1");
    source.onmessage = (event) => {
      heard = new Date();
      const told = JSON.parse(event.data);
      lay(figures, told.html);
      sift();
      draw(told);
      say("live", "Live");
    };
    source.onopen = () => heard && say("live", "Live");
    source.onerror = () => {
      say("lost", heard ? `Connection lost; figures are from ${clock(heard)}. Trying again…` : "No connection. Trying again…");
      if (source.readyState === EventSource.CLOSED) {
        timer = setTimeout(retry, AGAIN);
      }
    };
  }

  // The overview's words to look for: rows without all of them are hidden, also those that come later.
  const find = document.getElementById("find");

  function sift() {
    if (!find) return;
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of figures.querySelectorAll("tbody tr")) {
      const text = [...row.children].slice(0, 2).map((cell) => cell.textContent.toLowerCase()).join(" ");
      row.hidden = !words.every((word) => text.includes(word));
    }
  }

  if (find) find.addEventListener("input", sift);

  // A refused stream does not say why; the page itself does: a redirect means that somebody has to sign in again.
  async function retry() {
    try {
      const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 404) return location.reload();
    } catch { /* still away */ }
    connect();
  }

  // Browsers allow few connections per server: pages that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(timer);
      if (source) source.close();
      source = null;
    } else if (!source) connect();
  });

  function lay(target, html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    children(target, fresh.content);
  }

  function children(now, next) {
    const old = [...now.childNodes];
    const fresh = [...next.childNodes];
    fresh.forEach((node, k) => {
      if (k >= old.length) now.append(node);
      else if (same(old[k], node)) renew(old[k], node);
      else old[k].replaceWith(node);
    });
    old.slice(fresh.length).forEach((node) => node.remove());
  }

  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;

  function renew(now, next) {
    if (now.nodeType !== Node.ELEMENT_NODE) {
      if (now.nodeValue !== next.nodeValue) now.nodeValue = next.nodeValue;
      return;
    }
    if (now.hasAttribute("data-keep")) return;
    for (const { name } of [...now.attributes]) {
      if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
    }
    for (const { name, value } of [...next.attributes]) {
      if (now.getAttribute(name) !== value) now.setAttribute(name, value);
    }
    children(now, next);
  }

  // ---------------------------------------------------------------- pictures over time

  const charts = new Map();
  let last = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = ["--ink", "--alert", "--blue", "--muted", "--ink", "--alert"];
  const DASHES = [[], [], [], [], [6, 3], [6, 3]];
  const percent = (value) => (value == null ? "–" : (100 * value).toFixed(1) + " %");
  const plain = (digits) => (value) => (value == null ? "–" : value.toFixed(digits));

  const two = (n) => String(n).padStart(2, "0");

  function when(seconds, step) {
    const d = new Date(1000 * seconds);
    if (step >= 86400) return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
    return `${two(d.getHours())}:${two(d.getMinutes())}` + (step < 60 ? `:${two(d.getSeconds())}` : "");
  }

  function line(label, name, write, more) {
    return { label, stroke: colour(name), width: 1.75, value: (_, v) => write(v), points: { show: false }, ...more };
  }

  function axes(write) {
    const look = { stroke: colour("--muted"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { stroke: colour("--rule"), width: 1 } };
    return [{ ...look, space: 80, values: (_, ticks, __, ___, step) => ticks.map((t) => when(t, step)) }, { ...look, size: 58, values: (_, ticks) => ticks.map(write) }];
  }

  function chart(id, data, series, write) {
    const box = document.getElementById(id);
    if (!box || typeof uPlot === "undefined") return;
    const shape = JSON.stringify(series.map((one) => [one.label, one.stroke]));
    const known = charts.get(id);
    if (known && known.shape === shape && known.box === box) {
      known.plot.setData(data);
      return;
    }
    if (known) { known.watch.disconnect(); known.plot.destroy(); }
    box.replaceChildren();
    const size = () => ({ width: Math.max(200, box.clientWidth), height: 220 });
    const options = { ...size(), series: [{ label: "time", value: (_, t) => (t == null ? "–" : new Date(1000 * t).toLocaleString()) }, ...series], axes: axes(write), padding: [8, 16, 0, 0], cursor: { y: false, drag: { x: false, y: false } }, legend: { live: true } };
    const plot = new uPlot(options, data, box);
    const watch = new ResizeObserver(() => plot.setSize(size()));
    watch.observe(box);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", box.closest("figure").querySelector("figcaption").textContent + "; the table below has the figures");
    charts.set(id, { plot, shape, box, watch });
  }

  function draw(told) {
    last = told;
    const rows = told.over_time;
    if (!rows || rows.length < 2) return;
    const column = (name) => rows.map((row) => row[name]);
    const times = rising(column("to"));
    chart("chart-rates", [times, column("observed"), column("forecast")],
      [line("observed", "--muted", percent, { width: 1 }), line("forecast", "--blue", percent, { width: 2.5 })], percent);
    chart("chart-brier", [times, column("brier")], [line("error", "--ink", plain(3))], plain(3));
    evidence(told);
  }

  function note(id, words) {
    const text = document.querySelector(`#${id} > .empty`);
    if (text && text.textContent !== words) text.textContent = words;
  }

  function evidence(told) {
    const [first, ...rest] = told.evidence || [];
    if (!first || first.times.length < 2) return note("chart-evidence", "Appears after some hundred outcomes.");
    const times = rising(first.times.map((text) => Date.parse(text.replace(" ", "T").replace(/(T[\d:.]+)$/, "$1Z")) / 1000));
    const limit = Math.log10(told.run_length);
    const shown = [first, ...rest];
    const data = [times, ...shown.map((one) => one.change.map((v) => (v == null ? null : Math.max(v, 0)))), times.map(() => limit)];
    const series = shown.map((one, k) => line(one.group, COLOURS[k], plain(1), { dash: DASHES[k] }));
    chart("chart-evidence", data, [...series, line("alarm", "--muted", plain(1), { dash: [2, 3] })], plain(1));
  }

  // Times that do not grow cannot be drawn; many outcomes may be learned in one moment.
  function rising(times) {
    const found = [];
    for (const time of times) found.push(found.length && !(time > found[found.length - 1]) ? found[found.length - 1] + 0.001 : time);
    return found;
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => last && draw(last));

  connect();
})();
