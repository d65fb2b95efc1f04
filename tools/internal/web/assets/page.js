"use strict";
// The page asks /status every two seconds and writes the answer down. All text
// from the server goes in as text, never as markup.

const every = 2000; // milliseconds
const span = 300; // seconds that the graph shows
const $ = (id) => document.getElementById(id);
let secret = "";
let samples = []; // {t, read, put} in seconds and bytes
let timer = 0;

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytes(n) {
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)) + " " + units[i];
}
const count = (n) => n.toLocaleString("en-GB");
const share = (a, b) => (b > 0 ? a / b : 0);
const percent = (x) => (100 * x).toFixed(1) + " %";
function duration(s) {
  if (s < 0.001) return (s * 1e6).toFixed(0) + " µs";
  if (s < 1) return (s * 1e3).toFixed(1) + " ms";
  if (s < 120) return s.toFixed(s < 10 ? 1 : 0) + " s";
  if (s < 7200) return (s / 60).toFixed(0) + " min";
  return s < 172800 ? (s / 3600).toFixed(0) + " h" : (s / 86400).toFixed(0) + " days";
}
function text(id, value) { if ($(id).textContent !== value) $(id).textContent = value; }
function bar(id, part) {
  $(id).setAttribute("width", String(100 * Math.min(1, part)));
  $(id).classList.toggle("warn", part > 0.97);
}
function rows(id, list) {
  const body = $(id).tBodies[0];
  body.replaceChildren(...list.map((cells) => {
    const tr = document.createElement("tr");
    for (const c of cells) {
      const td = document.createElement("td");
      td.textContent = c.text ?? c;
      if (c.kind) td.className = c.kind;
      tr.append(td);
    }
    return tr;
  }));
}
const number = (value) => ({ text: value, kind: "n" });
const why = (value) => ({ text: value, kind: "why" });

function showState(s) {
  let word = s.phase, kind = "warn", sign = "… ";
  if (!s.alive) { word = "wedged"; kind = "bad"; sign = "✕ "; }
  else if (s.phase === "serving") {
    word = s.health.state;
    [kind, sign] = word === "ok" ? ["good", "✓ "] : word === "read-only" ? ["warn", "! "] : ["bad", "✕ "];
  }
  text("badge", sign + word);
  $("badge").className = "badge " + kind;
  text("reasons", [s.phase_detail, ...s.health.reasons].filter(Boolean).join("; "));
  text("where", s.store.dir + ", up " + duration(s.uptime_seconds));
  text("version", "sealstone " + s.version);
}

function showCards(s) {
  const st = s.store, kinds = Object.values(s.server.values || {});
  const sum = (name) => kinds.reduce((n, k) => n + k[name], 0);
  text("disk", percent(share(st.disk_bytes, st.capacity_bytes)));
  bar("disk-bar", share(st.disk_bytes, st.capacity_bytes));
  text("disk-detail", bytes(st.disk_bytes) + " of " + bytes(st.capacity_bytes) + ", " + bytes(st.live_bytes) + " in use");
  const gets = sum("gets_total"), hits = sum("hits_total");
  text("hit", gets > 0 ? percent(share(hits, gets)) : "no gets yet");
  text("hit-detail", count(hits) + " of " + count(gets) + " values" + (st.match_blocks_total > 0 ? "; " + percent(share(st.match_hits_total, st.match_blocks_total)) + " of blocks matched" : ""));
  const h = s.host_tier;
  text("host", h.capacity_bytes > 0 ? percent(share(h.hits_total, h.hits_total + h.misses_total)) + " hits" : "off");
  bar("host-bar", share(h.bytes, h.capacity_bytes));
  text("host-detail", bytes(h.bytes) + " of " + bytes(h.capacity_bytes) + (h.corrupt_total > 0 ? ", " + count(h.corrupt_total) + " corrupt in memory" : ""));
  text("connections", count(s.server.connections));
  text("connections-detail", "of " + count(s.server.connections_max) + " at most" + (s.server.connections_refused_total > 0 ? ", " + count(s.server.connections_refused_total) + " refused" : "") + (s.server.auth_failures_total > 0 ? ", " + count(s.server.auth_failures_total) + " wrong secrets" : ""));
  const corrupt = st.quarantined_blocks_total, shed = sum("shed_total");
  text("bad", count(corrupt + shed));
  text("bad-detail", count(corrupt) + " quarantined, " + count(shed) + " shed, " + count(st.evicted_blocks_total) + " evicted");
}

function showTables(s) {
  rows("paths", s.paths.map((p) => [p.name, p.state, number(count(p.reads_total) + " reads"), number(p.read_mib_s > 0 ? p.read_mib_s.toFixed(0) + " MiB/s" : "-"), why(p.reason)]));
  text("direct", s.direct_refused ? "No direct I/O: " + s.direct_refused : "");
  const g = s.gpus;
  text("gpu-state", g.state === "found" ? "" : (g.state + (g.reason ? ": " + g.reason : "")));
  $("gpus").hidden = g.pairs.length === 0;
  rows("gpus", g.pairs.map((p) => [p.gpu, p.path, why(p.reason)]));
  rows("tenants", s.tenants.map((t) => [t.tenant, number(bytes(t.stored_bytes)), number(t.quota_bytes > 0 ? bytes(t.quota_bytes) : "none"), number(count(t.blocks)), number(count(t.shed_blocks_total)), number(count(t.trimmed_blocks_total))]));
  const commands = Object.entries(s.server.commands || {}).filter(([, c]) => c.calls_total > 0).sort((a, b) => b[1].calls_total - a[1].calls_total);
  rows("commands", commands.map(([name, c]) => [name, number(count(c.calls_total)), number(count(c.errors_total)), number(duration(share(c.busy_seconds_total, c.calls_total)))]));
}

function showEvents(events) {
  $("events").replaceChildren(...events.slice(0, 20).map((e) => {
    const li = document.createElement("li"), time = document.createElement("time"), kind = document.createElement("strong");
    time.dateTime = e.time;
    time.textContent = e.time.slice(0, 19).replace("T", " ") + "Z";
    kind.textContent = e.kind;
    li.append(time, " ", kind, " " + e.message);
    if (e.advice) {
      const advice = document.createElement("span");
      advice.className = "advice";
      advice.textContent = "→ " + e.advice;
      li.append(advice);
    }
    return li;
  }));
}

function sample(s) {
  const t = Date.parse(s.time) / 1000;
  const last = samples[samples.length - 1];
  // A process that began anew counts from zero.
  if (last && s.store.served_bytes_total < last.read) samples = [];
  if (!last || t - last.t > 0.2) samples.push({ t, read: s.store.served_bytes_total, put: s.store.put_bytes_total });
  samples = samples.filter((x) => x.t >= t - span - 5);
  draw();
}

function line(parent, name, attributes, content) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, String(v));
  if (content) e.textContent = content;
  parent.append(e);
}

function draw() {
  const points = [];
  for (let i = 1; i < samples.length; i++) {
    const a = samples[i - 1], b = samples[i], dt = b.t - a.t;
    points.push({ t: b.t, read: Math.max(0, b.read - a.read) / dt, put: Math.max(0, b.put - a.put) / dt });
  }
  const now = points.length ? points[points.length - 1] : null;
  text("rate-read", now ? bytes(now.read) + "/s" : "-");
  text("rate-put", now ? bytes(now.put) + "/s" : "-");
  // The graph is as wide as what was seen, till that is all of the span.
  const begin = points.length ? points[0].t : 0;
  const wide = now ? Math.min(span, Math.max(20, now.t - begin)) : span;
  text("axis-left", duration(wide) + " ago");
  const most = Math.max(1024, ...points.flatMap((p) => [p.read, p.put]));
  const step = Math.pow(2, Math.ceil(Math.log2(most / 4)));
  const top = Math.ceil(most / step) * step, height = 150, base = 156;
  const width = $("graph").clientWidth || 600; // a unit of the drawing is a pixel
  $("graph").setAttribute("viewBox", "0 0 " + width + " 160");
  const y = (v) => base - (height * v) / top;
  $("grid").replaceChildren();
  for (let v = step; v <= top; v += step) {
    line($("grid"), "line", { x1: 0, x2: width, y1: y(v), y2: y(v) });
    line($("grid"), "text", { x: 4, y: y(v) + 14 }, bytes(v) + "/s");
  }
  for (const name of ["read", "put"]) {
    const d = points.map((p, i) => (i ? "L" : "M") + (width - (width * (now.t - p.t)) / wide).toFixed(1) + " " + y(p[name]).toFixed(1)).join("");
    $("line-" + name).setAttribute("d", d);
  }
}

function stale(message) {
  $("stale").hidden = message === "";
  text("stale", message);
}

async function poll() {
  try {
    const r = await fetch("status", { headers: secret ? { Authorization: "Bearer " + secret } : {}, cache: "no-store", signal: AbortSignal.timeout(15000) });
    $("login").hidden = r.status !== 401 && r.status !== 403;
    if (!r.ok) throw new Error(r.status === 401 ? "a token is needed" : "the server answers " + r.status);
    const s = await r.json();
    if (s.schema !== 1) throw new Error("this page does not know schema " + s.schema + "; reload it");
    showState(s);
    showCards(s);
    showTables(s);
    showEvents(s.events);
    sample(s);
    stale("");
  } catch (e) {
    stale("No new figures: " + e.message);
  }
  timer = setTimeout(poll, every);
}

window.addEventListener("resize", draw);
$("login").addEventListener("submit", (e) => {
  e.preventDefault();
  secret = $("secret").value;
  clearTimeout(timer);
  poll();
});
poll();
