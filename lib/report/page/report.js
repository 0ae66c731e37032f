"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const state = { compile: 0, tab: "summary", node: null, sizes: {}, target: null };

// Elements: el("td", {class: "n"}, "text", child, ...). Attributes that are functions are listeners.
function el(tag, attributes = {}, ...children) {
  const e = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes))
    if (typeof v === "function") e.addEventListener(k, v);
    else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  for (const c of children.flat()) if (c !== null && c !== undefined) e.append(c);
  return e;
}
const bytesText = n => {
  if (typeof n !== "number") return String(n);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  for (; Math.abs(n) >= 1024 && u < 4; ++u) n /= 1024;
  return (u ? n.toFixed(n < 10 ? 2 : 1) : n) + " " + units[u];
};
const countText = n => {
  const units = ["", " K", " M", " G", " T"];
  let u = 0;
  for (; n >= 1000 && u < 4; ++u) n /= 1000;
  return (u ? n.toPrecision(3) : n) + units[u];
};
const timeText = ns => ns < 1e3 ? ns.toFixed(0) + " ns" : ns < 1e6 ? (ns / 1e3).toFixed(1) + " µs" : ns < 1e9 ? (ns / 1e6).toFixed(2) + " ms" : (ns / 1e9).toFixed(2) + " s";

// Sizes: numbers, or expressions over symbols with + - * ( ) floordiv mod min max.
function evaluate(size, sizes) {
  if (typeof size !== "string") return size;
  let at = 0;
  const skip = () => { while (size[at] === " ") ++at; };
  const eat = c => { skip(); return size[at] === c ? (++at, true) : false; };
  function factor() {
    skip();
    if (eat("(")) { const v = sum(); eat(")"); return v; }
    const number = /^\d+/.exec(size.slice(at));
    if (number) { at += number[0].length; return Number(number[0]); }
    let name;
    if (size[at] === '"') {
      const quoted = /^"(?:[^"\\]|\\.)*"/.exec(size.slice(at))[0];
      at += quoted.length;
      name = quoted.slice(1, -1);
    } else {
      name = (/^[\w.]+/.exec(size.slice(at)) || [""])[0];
      if (!name) throw new Error(size);
      at += name.length;
      if (eat("(")) {
        const a = sum(); eat(",");
        const b = sum(); eat(")");
        return { floordiv: Math.floor(a / b), mod: ((a % b) + b) % b, min: Math.min(a, b), max: Math.max(a, b) }[name];
      }
    }
    return sizes[name] ?? 128;
  }
  function term() { let v = factor(); while (eat("*")) v *= factor(); return v; }
  function sum() {
    let v = eat("-") ? -term() : term();
    for (;;) if (eat("+")) v += term(); else if (eat("-")) v -= term(); else return v;
  }
  try { return sum(); } catch { return 0; }
}

// A type as text: f32[batch,4]. Older files have that.
function typeText(t) {
  if (!t || typeof t === "string") return t || "";
  const tensor = t.keys ? `map<${t.keys},${t.dtype}>` : `${t.dtype}[${t.dims ? t.dims.join(",") : "*"}]`;
  const inner = t.kind === "sequence" || t.of === "sequence" ? `seq<${tensor}>` : tensor;
  return t.kind === "optional" ? `optional<${inner}>` : inner;
}
// Makes types texts, and gives files of older formats the members of new ones.
function normalise({ lir, plan, fusion }) {
  for (const g of lir.graphs)
    for (const n of g.nodes) n.results = (n.results || []).map(r => Array.isArray(r) ? { value: r[0], type: r[1], name: r[2] } : { ...r, type: typeText(r.type) });
  for (const list of [lir.io.inputs, lir.io.outputs, (plan && plan.peak && plan.peak.tensors) || [], ...((plan && plan.graphs) || []).map(g => g.slots)])
    for (const x of list) x.type = typeText(x.type);
  if (fusion && fusion.groups)
    for (const x of [fusion, fusion.summary, ...fusion.patterns]) { x.formed = x.groups; x.declined = x.misses; }
}
const nodeName = n => n.name || (n.results && n.results[0] && n.results[0].name) || (n.sources && n.sources[0]) || "%" + n.id;

// A compile with its tables joined by id.
function join(c) {
  normalise(c.files);
  const { lir, plan, fusion } = c.files, main = lir.graphs[0];
  const nodes = new Map(), def = new Map(), buffers = new Map(), readers = new Map();
  for (const n of main.nodes) {
    nodes.set(n.id, n);
    for (const { value, type, name } of n.results) def.set(value, { node: n, type, name });
  }
  for (const n of main.nodes)
    for (const v of n.operands || []) if (v !== null) (readers.get(v) || readers.set(v, []).get(v)).push(n);
  for (const b of main.buffers) buffers.set(b.value, b);
  const launches = new Map();
  ((fusion && fusion.launches) || []).filter(l => !l.graph).forEach((l, i) => {
    l.number = i;
    for (const n of l.nodes || [l.node]) launches.set(n, l);
  });
  const members = new Map();  // values by the root of their bytes
  for (const b of main.buffers) {
    const root = b.root ?? b.value;
    (members.get(root) || members.set(root, []).get(root)).push(b.value);
  }
  const steps = [];
  for (const n of main.nodes) steps[n.step] = n;
  return Object.assign(c, { main, nodes, def, buffers, readers, launches, members, steps,
    valueName: v => (def.get(v) && (def.get(v).name || nodeName(def.get(v).node))) || "%" + v, nodeName });
}
DATA.compiles.forEach(join);
const current = () => DATA.compiles[state.compile];
// The symbols that sizes of the plan depend on.
function symbolsOf(c) {
  const { lir, plan } = c.files, known = new Set(lir.symbols.map(s => s.name || s)), used = new Set();
  const texts = [plan.arena.bytes, ...plan.regions.map(r => r.bytes), ...plan.graphs[0].slots.filter(s => s.region === "activations").map(s => s.bytes)];
  for (const t of texts)
    if (typeof t === "string") for (const word of t.match(/"(?:[^"\\]|\\.)*"|[A-Za-z_][\w.]*/g) || []) if (known.has(word.replace(/^"|"$/g, ""))) used.add(word.replace(/^"|"$/g, ""));
  return [...used];
}
for (const c of DATA.compiles) {
  c.symbols = symbolsOf(c);
  for (const s of c.symbols) state.sizes[s] ??= 128;
  const corners = (c.files.plan && c.files.plan.at_sizes) || [];
  if (corners.length) Object.assign(state.sizes, corners[corners.length - 1].sizes);
}
state.target = current().files.lir.target in DATA.machines ? current().files.lir.target : Object.keys(DATA.machines)[0];

function table(columns, rows, options = {}) {
  const body = el("tbody");
  const shown = options.limit || 200;
  const show = list => list.forEach(r => {
    const attributes = options.click ? { class: "link", tabindex: 0, click: () => options.click(r), keydown: e => e.key === "Enter" && options.click(r) } : {};
    body.append(el("tr", attributes, columns.map(([, f, numeric]) => el("td", numeric ? { class: "n" } : {}, f(r)))));
  });
  show(rows.slice(0, shown));
  const t = el("table", { class: options.class }, el("thead", {}, el("tr", {}, columns.map(([name, , numeric]) => el("th", numeric ? { class: "n" } : {}, name)))), body);
  if (rows.length <= shown) return t;
  const more = el("button", { type: "button", click: () => { show(rows.slice(shown)); more.remove(); } }, `show ${rows.length - shown} more`);
  return el("div", {}, t, more);
}
function tip(text, event) {
  const t = $("tip");
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  t.style.left = Math.min(event.clientX + 14, innerWidth - t.offsetWidth - 8) + "px";
  t.style.top = Math.min(event.clientY + 14, innerHeight - t.offsetHeight - 8) + "px";
}
const reasonText = r => DATA.reasons[r] ? DATA.reasons[r].filter(Boolean).join(" ") : "";
const nodeLink = (c, n) => el("button", { class: "as-link", type: "button", click: () => goTo(n.id) }, `${n.op} ${c.nodeName(n)}`);
function goTo(id) { state.node = id; open("graph"); }

// Summary.
function summary(view) {
  const c = current(), { lir, plan, fusion, dispatch, manifest } = c.files;
  const card = (name, value, note) => el("div", { class: "card" }, name, el("b", {}, value), el("span", { class: "soft" }, note || ""));
  const arena = evaluate(plan.arena.bytes, state.sizes), s = fusion && fusion.summary;
  const cards = el("div", { class: "cards" }, card("target", lir.target, lir.module),
    s ? card("launches", s.launches.after, `${s.launches.before} before`) : null,
    s ? card("memory traffic", bytesText(s.traffic.after), `${bytesText(s.traffic.before)} before`) : null,
    card("arena", bytesText(arena), plan.symbolic ? sizesNote() : `lower bound ${bytesText(plan.arena.lower_bound)}`),
    s ? card("fusions", s.formed, `${s.declined} declined`) : null,
    dispatch ? card("unsupported", dispatch.summary.unsupported, `${dispatch.summary.rewritten} rewritten`) : null);
  view.append(cards);
  const ports = (title, list) => [el("h2", {}, title), table([["name", p => p.name], ["type", p => el("code", {}, p.type)], ["bytes", p => bytesText(evaluate(p.bytes, state.sizes)), 1]], list)];
  view.append(...ports("Inputs", lir.io.inputs), ...ports("Outputs", lir.io.outputs));
  if (current().symbols.length) view.append(el("h2", {}, "Symbols"), sizeInputs());
  if (fusion) view.append(el("h2", {}, "Operations"), table([["op", o => o.op], ["in the model", o => o.before, 1], ["compiled", o => o.after, 1]], fusion.ops.filter(o => o.before !== o.after), { limit: 40 }));
  if (manifest && manifest.options) {
    const changed = Object.entries(manifest.options).filter(([, v]) => v !== null && v !== "" && v !== false && !(Array.isArray(v) && !v.length) && !(typeof v === "object" && !Object.keys(v).length));
    view.append(el("details", {}, el("summary", {}, "Options"), table([["option", o => o[0]], ["value", o => JSON.stringify(o[1])]], changed)));
  }
  view.append(el("p", { class: "soft" }, `${DATA.generator}; input ${lir.input.name}; fingerprint ${lir.fingerprint}`));
}
const sizesNote = () => "with " + Object.entries(state.sizes).map(([k, v]) => `${k}=${v}`).join(", ");
function sizeInputs() {
  const names = current().symbols;
  return el("div", { class: "cards" }, names.map(name => el("label", {}, name + " ", el("input", {
    type: "number", min: 0, value: state.sizes[name] ?? 128, style: "width:90px",
    change: e => { state.sizes[name] = Number(e.target.value); render(); } }))));
}

// Graph: boxes of the main graph without weights; repeated layers collapse.
const classOf = op => /MatMul|DotGeneral|Gemm|SwiGLU/.test(op) ? "matmul" : /Conv/.test(op) ? "conv" : /Attention/.test(op) ? "attention" : /Norm|LN$/.test(op) ? "norm"
  : /Input|Return/.test(op) ? "input" : /Reduce|Softmax|Pool|ArgM|TopK|CumSum/.test(op) ? "reduce"
  : /Reshape|Transpose|Expand|Narrow|Concat|Slice|Gather|Scatter|Pad|Split|Squeeze|Cast/.test(op) ? "move" : "elem";
function visibleNodes(c) {
  return [...c.main.nodes].filter(n => n.op === "Input" || (n.op !== "Param" && n.op !== "Constant" && n.phase !== "Prologue")).sort((a, b) => a.step - b.step);
}
function findRepeats(list) {
  const sig = list.map(n => n.op + "|" + n.results.map(r => r.type).join(",") + "|" + (n.operands || []).length);
  const groups = [];
  const search = (lo, hi) => {
    let best = null;
    for (let p = 2; p <= Math.min((hi - lo) >> 1, 400); ++p)
      for (let i = lo, run = 0; i + p <= hi; ++i) {
        if (i + p < hi && sig[i] === sig[i + p]) { ++run; continue; }
        const reps = Math.floor(run / p) + 1, saved = (reps - 1) * p;
        if (reps > 1 && saved >= 8 && (!best || saved > best.saved)) best = { start: i - run, p, reps, saved };
        run = 0;
      }
    if (!best) return;
    groups.push(best);
    search(lo, best.start);
    search(best.start + best.p * best.reps, hi);
  };
  if (list.length > 60) search(0, list.length);
  return groups.sort((a, b) => a.start - b.start);
}
function graphModel(c) {
  if (c.model) return c.model;
  const list = visibleNodes(c);
  return c.model = { list, groups: findRepeats(list).map((g, i) => Object.assign(g, { id: i, open: false })) };
}
// Boxes and edges with the groups that are closed.
function boxesOf(c) {
  const { list, groups } = graphModel(c);
  const place = new Map(), boxes = [], frames = [];
  list.forEach((n, i) => {
    const g = groups.find(q => i >= q.start && i < q.start + q.p * q.reps);
    const rep = g ? Math.floor((i - g.start) / g.p) : 0;
    if (g && rep > 0 && !g.open) {
      let box = boxes.find(b => b.group === g);
      if (!box) boxes.push(box = { group: g, head: `layers 2 to ${g.reps}`, label: `the same ${g.p} nodes, ${g.reps - 1} times`, nodes: [], cls: "group" });
      box.nodes.push(n);
      place.set(n.id, box);
      return;
    }
    const type = n.results[0] ? n.results[0].type : "";
    const box = { node: n, head: n.op === "Input" ? "Input" : n.op, label: c.nodeName(n), type, nodes: [n], cls: classOf(n.op), frame: g && rep === 0 ? g : null };
    boxes.push(box);
    place.set(n.id, box);
  });
  boxes.forEach((b, i) => b.index = i);
  const seen = new Set(), edges = [];
  const sourceOf = v => {  // through nodes that are not shown
    const d = c.def.get(v);
    return d && place.get(d.node.id);
  };
  for (const b of boxes)
    for (const n of b.nodes)
      for (const v of n.operands || []) {
        const from = v === null ? null : sourceOf(v);
        if (!from || from === b || from.index >= b.index || seen.has(from.index + ">" + b.index)) continue;
        seen.add(from.index + ">" + b.index);
        edges.push({ from, to: b });
      }
  for (const g of groups) frames.push({ group: g, boxes: boxes.filter(b => b.frame === g) });
  return { boxes, edges, frames, place };
}
// Layers, order by barycentre, positions.
function layout(boxes, edges) {
  const H = 46, GAPY = 34, GAPX = 22, LONGEST = 24;
  for (const b of boxes) { b.layer = 0; b.w = Math.max(90, 8 * Math.min(30, Math.max(b.head.length, b.label.length * .92, (b.type || "").length * .82)) + 18); b.h = H; }
  for (const e of [...edges].sort((a, b) => a.from.index - b.from.index)) e.to.layer = Math.max(e.to.layer, e.from.layer + 1);
  for (let round = 0; round < 3; ++round) for (const e of edges) e.to.layer = Math.max(e.to.layer, e.from.layer + 1);
  const order = [...boxes].sort((a, b) => a.index - b.index);
  const ins = new Map(), outs = new Map();
  for (const e of edges) {
    (outs.get(e.from) || outs.set(e.from, []).get(e.from)).push(e);
    (ins.get(e.to) || ins.set(e.to, []).get(e.to)).push(e);
  }
  for (const b of order) b.layer = Math.max(0, ...(ins.get(b) || []).map(e => e.from.layer + 1));
  for (const b of [...order].reverse())  // inputs next to their first reader
    if (!(ins.get(b) || []).length && (outs.get(b) || []).length) b.layer = Math.max(0, Math.min(...outs.get(b).map(e => e.to.layer)) - 1);
  const layers = [];
  const add = item => (layers[item.layer] || (layers[item.layer] = [])).push(item);
  order.forEach(add);
  for (const e of edges) {
    e.path = [];
    if (e.to.layer - e.from.layer > LONGEST) continue;
    for (let l = e.from.layer + 1; l < e.to.layer; ++l) {
      const d = { dummy: true, layer: l, w: 10, up: [], down: [] };
      e.path.push(d);
      add(d);
    }
  }
  const near = new Map();
  const link = (a, b) => { (near.get(a) || near.set(a, { up: [], down: [] }).get(a)).down.push(b); (near.get(b) || near.set(b, { up: [], down: [] }).get(b)).up.push(a); };
  for (const e of edges) {
    const chain = [e.from, ...e.path, e.to];
    if (e.to.layer - e.from.layer > LONGEST) continue;
    for (let i = 0; i + 1 < chain.length; ++i) link(chain[i], chain[i + 1]);
  }
  const place = layer => { let x = 0; for (const b of layer) { b.x = x + b.w / 2; x += b.w + GAPX; } };
  for (let l = 0; l < layers.length; ++l) place(layers[l] || (layers[l] = []));
  const mean = list => list.reduce((s, b) => s + b.x, 0) / list.length;
  for (let round = 0; round < 8; ++round) {
    const down = round % 2 === 0;
    for (let k = 0; k < layers.length; ++k) {
      const layer = layers[down ? k : layers.length - 1 - k];
      for (const b of layer) {
        const n = near.get(b), list = n ? (down ? n.up : n.down) : [];
        b.want = list.length ? mean(list) : b.x;
      }
      layer.sort((a, b) => a.want - b.want);
      let x = -Infinity;
      for (const b of layer) { b.x = Math.max(b.want, x + b.w / 2); x = b.x + b.w / 2 + GAPX; }
      // Centre the layer over what it wants.
      const shift = layer.length ? mean(layer.map(b => ({ x: b.want - b.x }))) : 0;
      for (const b of layer) b.x += shift;
    }
  }
  let left = Infinity, right = -Infinity;
  for (const layer of layers) for (const b of layer) { left = Math.min(left, b.x - b.w / 2); right = Math.max(right, b.x + b.w / 2); }
  for (const layer of layers) for (const b of layer) { b.x -= left; b.y = b.layer * (H + GAPY) + H / 2; }
  return { width: right - left, height: layers.length * (H + GAPY) };
}
const cut = (s, n) => s.length > n ? s.slice(0, n - 1) + "…" : s;
function graph(view) {
  const c = current();
  const { boxes, edges, frames, place } = boxesOf(c);
  const size = layout(boxes, edges);
  const world = el("svg:g"), svg = el("svg:svg", { role: "group", "aria-label": "graph", tabindex: 0 }, world);
  const camera = { x: 20, y: 50, k: 1 };
  const apply = () => world.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.k})`);
  const zoom = (f, px, py) => { camera.x = px - (px - camera.x) * f; camera.y = py - (py - camera.y) * f; camera.k *= f; apply(); };
  const middle = () => { const r = svg.getBoundingClientRect(); return [r.width / 2, r.height / 2]; };
  const fit = () => { const r = svg.getBoundingClientRect(); camera.k = Math.min(1.2, (r.width - 40) / size.width, (r.height - 70) / size.height); camera.x = (r.width - size.width * camera.k) / 2; camera.y = 50; apply(); };
  const start = () => { const r = svg.getBoundingClientRect(); camera.k = Math.max(.35, Math.min(1, (r.width - 40) / size.width)); camera.x = (r.width - size.width * camera.k) / 2; camera.y = 50; apply(); };
  const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  for (const e of edges) {
    const stops = [[e.from.x, e.from.y + 23], ...e.path.map(d => [d.x, d.y]), [e.to.x, e.to.y - 23]];
    let d = "M" + point(...stops[0]);
    for (let i = 1; i < stops.length; ++i) { const [x, y] = stops[i], [px, py] = stops[i - 1], m = (y + py) / 2; d += `C${point(px, m)} ${point(x, m)} ${point(x, y)}`; }
    if (!e.path.length && e.to.layer - e.from.layer > 24) { const x = size.width + 30; d = `M${point(e.from.x + e.from.w / 2, e.from.y)}C${point(x, e.from.y)} ${point(x, e.from.y)} ${point(x, e.from.y + 60)}L${point(x, e.to.y - 60)}C${point(x, e.to.y)} ${point(x, e.to.y)} ${point(e.to.x + e.to.w / 2, e.to.y)}`; }
    e.element = el("svg:path", { class: "edge", d });
    world.append(e.element);
  }
  for (const f of frames) {
    if (!f.boxes.length) continue;
    const x = Math.min(...f.boxes.map(b => b.x - b.w / 2)) - 10, y = Math.min(...f.boxes.map(b => b.y)) - 42;
    const w = Math.max(...f.boxes.map(b => b.x + b.w / 2)) + 10 - x, h = Math.max(...f.boxes.map(b => b.y)) + 32 - y;
    world.append(el("svg:rect", { class: "frame", x, y, width: w, height: h, rx: 8 }), el("svg:text", { class: "frame-label", x: x + 6, y: y + 14 }, `layer ×${f.group.reps}`));
  }
  const side = el("aside", { class: "side", "aria-live": "polite" });
  for (const b of boxes) {
    const g = el("svg:g", { class: "node", tabindex: 0, role: "button", "aria-label": b.head + " " + b.label, click: () => choose(b), keydown: e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(b); } },
      mousemove: e => tip(b.node ? `${b.node.op} ${b.label}\n${b.node.results.map(r => r.type).join(", ")}` : `${b.label}\nEnter or click opens all layers`, e), mouseleave: () => tip("") },
      el("svg:rect", { x: b.x - b.w / 2, y: b.y - 23, width: b.w, height: 46, rx: b.group ? 12 : 5, fill: `var(--${b.cls})` }),
      el("svg:text", { x: b.x, y: b.y - 7, "text-anchor": "middle", "font-weight": 600 }, cut(b.head, 28)),
      el("svg:text", { x: b.x, y: b.y + 6, "text-anchor": "middle", class: "type" }, cut(b.label, 34)),
      b.type ? el("svg:text", { x: b.x, y: b.y + 18, "text-anchor": "middle", class: "type" }, cut(b.type, 34)) : null);
    b.element = g;
    world.append(g);
  }
  function reveal(id) {  // opens the group of a node that is not shown
    const at = graphModel(c).list.findIndex(n => n.id === id), g = graphModel(c).groups.find(q => at >= q.start + q.p && at < q.start + q.p * q.reps);
    if (at < 0 || !g || g.open) return false;
    g.open = true;
    state.node = id;
    render();
    return true;
  }
  function centre(b) { const [x, y] = middle(); camera.k = Math.max(camera.k, .8); camera.x = x - b.x * camera.k; camera.y = y - b.y * camera.k; apply(); }
  function choose(b) {
    if (b.group) { b.group.open = true; state.node = b.nodes[0].id; render(); return; }
    state.node = b.node.id;
    for (const q of boxes) q.element.classList.toggle("chosen", q === b);
    for (const e of edges) e.element.classList.toggle("on", e.from === b || e.to === b);
    side.replaceChildren(...nodeFacts(c, b.node));
  }
  let hits = [], hit = -1;
  const found = el("span", { class: "soft" });
  const search = el("input", { type: "search", placeholder: "search (/)", "aria-label": "search nodes", id: "search",
    input: () => {
      const words = search.value.toLowerCase();
      hits = words ? graphModel(c).list.filter(n => (n.op + " " + c.nodeName(n) + " " + (n.sources || []).join(" ")).toLowerCase().includes(words)) : [];
      hit = -1;
      found.textContent = words ? `${hits.length} found` : "";
      for (const b of boxes) b.element.classList.toggle("hit", b.nodes.some(n => hits.includes(n)));
    },
    keydown: e => {
      if (e.key === "Escape") { search.value = ""; search.dispatchEvent(new Event("input")); svg.focus(); }
      if (e.key !== "Enter" || !hits.length) return;
      const n = hits[hit = (hit + (e.shiftKey ? hits.length - 1 : 1)) % hits.length];
      found.textContent = `${hit + 1} of ${hits.length}`;
      const words = search.value;
      if (reveal(n.id)) { const again = $("search"); again.value = words; again.dispatchEvent(new Event("input")); again.focus(); return; }
      const b = place.get(n.id);
      choose(b);
      centre(b);
    } });
  const groups = graphModel(c).groups;
  const button = (name, label, f) => el("button", { type: "button", title: label, "aria-label": label, click: f }, name);
  const tools = el("div", { class: "tools" }, search, found, button("+", "zoom in (+)", () => zoom(1.25, ...middle())), button("−", "zoom out (-)", () => zoom(.8, ...middle())), button("fit", "fit (0)", fit),
    groups.length ? el("button", { type: "button", id: "layers", "aria-pressed": String(groups.every(g => g.open)), click: () => { const all = groups.every(g => g.open); groups.forEach(g => g.open = !all); render(); } }, "all layers") : null);
  svg.addEventListener("wheel", e => { e.preventDefault(); const r = svg.getBoundingClientRect(); zoom(Math.exp(-e.deltaY * .0015), e.clientX - r.left, e.clientY - r.top); }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", e => { drag = { x: e.clientX - camera.x, y: e.clientY - camera.y }; });
  svg.addEventListener("pointermove", e => { if (!drag || !e.buttons) return; camera.x = e.clientX - drag.x; camera.y = e.clientY - drag.y; apply(); });
  for (const end of ["pointerup", "pointerleave"]) svg.addEventListener(end, () => { drag = null; });
  svg.addEventListener("keydown", e => {
    const move = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
    if (move) { camera.x += move[0]; camera.y += move[1]; apply(); e.preventDefault(); }
    if (e.key === "+" || e.key === "=") zoom(1.25, ...middle());
    if (e.key === "-") zoom(.8, ...middle());
    if (e.key === "0") fit();
  });
  side.append(el("h2", {}, "Graph"), el("p", {}, `${boxes.length} boxes for ${graphModel(c).list.length} nodes. Weights and what is made of them at load time are left out.`),
    el("p", { class: "soft" }, "Drag moves, the wheel and + − zoom, / searches, Tab goes from node to node, Enter shows one."),
    ...groups.map(g => el("p", {}, `${g.p} nodes, ${g.reps} times in a row `, el("button", { type: "button", click: () => { g.open = !g.open; render(); } }, g.open ? "collapse" : "expand"))));
  view.append(el("div", { class: "split" }, el("div", { class: "stage" }, svg, tools), side));
  start();
  if (state.node !== null) {
    const b = place.get(state.node);
    if (b && b.node) { choose(b); centre(b); }
    else if (state.node !== null && c.nodes.has(state.node)) { if (!reveal(state.node)) side.replaceChildren(...nodeFacts(c, c.nodes.get(state.node))); }
  }
}
function nodeFacts(c, n) {
  const out = [el("h2", {}, `${n.op} ${c.nodeName(n)}`)];
  const facts = el("dl");
  const fact = (name, ...value) => facts.append(el("dt", {}, name), el("dd", {}, ...value));
  fact("step", `${n.step} (${n.phase === "Prologue" ? "once, at load time" : "every run"})`);
  for (const { value: v, type } of n.results) {
    fact("result", el("code", {}, type));
    const b = c.buffers.get(v);
    if (b) fact("bytes", `${bytesText(evaluate(b.bytes, state.sizes))} in ${b.region}, offset ${evaluate(b.offset, state.sizes)}, steps ${b.life[0]} to ${b.life[1]}` + (b.view ? "; a view" : b.in_place ? "; written over an operand" : ""), b.root !== undefined && c.def.get(b.root) ? [" of ", nodeLink(c, c.def.get(b.root).node)] : "");
  }
  for (const [k, v] of Object.entries(n.attrs || {})) if (k !== "data") fact(k, el("code", {}, JSON.stringify(v)));
  if (n.sources) fact("from the model's", n.sources.join(", "));
  if (n.passes) fact("made by", n.passes.join(", "));
  const l = c.launches.get(n.id);
  if (l) fact("kernel", `launch ${l.number}${l.launch ? " " + l.launch : ""}: ${countText(l.flops)} flops, reads ${bytesText(l.reads)}, writes ${bytesText(l.writes)}`);
  out.push(facts);
  const list = (title, nodes) => nodes.length && out.push(el("h3", {}, title), el("ul", {}, nodes.map(q => el("li", {}, nodeLink(c, q)))));
  list("Reads", (n.operands || []).filter(v => v !== null && c.def.get(v)).map(v => c.def.get(v).node));
  list("Read by", [...new Set(n.results.flatMap(r => c.readers.get(r.value) || []))]);
  const names = new Set([c.nodeName(n), ...(n.sources || [])]);
  const decisions = [...((c.files.fusion && c.files.fusion.declined) || [])].filter(d => names.has(d.node));
  if (decisions.length) out.push(el("h3", {}, "Fusions declined here"), el("ul", {}, decisions.map(d => el("li", { title: reasonText(d.reason) }, `${d.pattern}: ${d.reason}`, d.detail ? el("span", { class: "soft" }, ` (${d.detail})`) : null))));
  return out;
}

// Memory: the arena over time.
function slotsOf(c) {
  return c.files.plan.graphs[0].slots.filter(s => s.region === "activations").map(s => ({ ...s, at: evaluate(s.offset, state.sizes), size: evaluate(s.bytes, state.sizes), label: s.name || c.valueName(s.value), parts: partsOf(c, s) })).filter(s => s.size > 0);
}
// The values that follow each other in the bytes of a slot.
function partsOf(c, s) {
  const own = (c.members.get(s.value) || []).map(v => c.buffers.get(v)).filter(b => b && !b.view && !b.part).sort((a, b) => a.life[0] - b.life[0]);
  const starts = own.length ? own.map(b => ({ label: c.valueName(b.value), from: b.life[0] })) : [{ label: s.name || c.valueName(s.value), from: s.life[0] }];
  starts[0].from = s.life[0];
  return starts.map((p, i) => ({ ...p, to: i + 1 < starts.length ? starts[i + 1].from : s.life[1] + 1 }));
}
function liveBytes(slots, steps) {
  const live = new Float64Array(steps + 1);
  for (const s of slots) for (let i = s.life[0]; i <= Math.min(s.life[1], steps); ++i) live[i] += s.size;
  return live;
}
function arenaPicture(c, onPick, height, top) {
  const slots = slotsOf(c), steps = c.files.plan.graphs[0].steps, live = liveBytes(slots, steps);
  const first = Math.max(0, Math.min(...slots.map(s => s.life[0])) - 1), last = Math.max(...slots.map(s => s.life[1])) + 1;
  const arena = Math.max(evaluate(c.files.plan.arena.bytes, state.sizes), ...slots.map(s => s.at + s.size)), scale = top || arena;
  let peak = 0;
  live.forEach((b, i) => { if (b > live[peak]) peak = i; });
  const canvas = el("canvas", { height, role: "img", tabindex: 0, "aria-label": `arena of ${bytesText(arena)}; the table below lists the values` });
  const M = { l: 78, r: 12, t: 14, b: 26 };
  let chosen = null;
  const X = step => M.l + (step - first) / Math.max(1, last - first + 1) * (canvas.clientWidth - M.l - M.r);
  const Y = b => height - M.b - b / scale * (height - M.t - M.b);
  const nice = (n, parts) => { const raw = n / parts, p = 2 ** Math.floor(Math.log2(raw || 1)); return raw > p * 1.5 ? p * 2 : p; };
  const hue = s => (s.value * 47) % 360;
  function draw() {
    const w = canvas.clientWidth, ratio = devicePixelRatio || 1, css = getComputedStyle(document.documentElement), color = n => css.getPropertyValue(n).trim();
    if (!w) return;
    canvas.width = w * ratio; canvas.height = height * ratio; canvas.style.height = height + "px";
    const g = canvas.getContext("2d"), dark = document.documentElement.classList.contains("dark");
    g.scale(ratio, ratio); g.font = "11px system-ui, sans-serif"; g.textBaseline = "middle";
    const step = nice(scale, 6);
    g.fillStyle = color("--soft"); g.strokeStyle = color("--line");
    for (let b = 0; b <= scale; b += step) { g.beginPath(); g.moveTo(M.l, Y(b)); g.lineTo(w - M.r, Y(b)); g.stroke(); g.textAlign = "right"; g.fillText(bytesText(b), M.l - 6, Y(b)); }
    const tick = Math.max(1, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find(t => (last - first) / t <= 14) || 20000);
    g.textAlign = "center";
    for (let s = Math.ceil(first / tick) * tick; s <= last; s += tick) g.fillText(s, X(s), height - M.b + 12);
    for (const s of slots) {
      const x = X(s.life[0]), y = Y(s.at + s.size), sw = Math.max(1, X(s.life[1] + 1) - x), sh = Math.max(1, Y(s.at) - y);
      g.fillStyle = `hsl(${hue(s)} 45% ${dark ? 38 : 74}%)`; g.fillRect(x, y, sw, sh);
      g.lineWidth = s === chosen ? 3 : .6; g.strokeStyle = s === chosen ? color("--accent") : color("--back"); g.strokeRect(x, y, sw, sh);
      for (const part of sh > 12 ? s.parts : []) {  // the names of values written over each other, one after another
        const px = X(part.from), pw = X(part.to) - px;
        if (pw < 40) continue;
        g.fillStyle = color("--fore"); g.textAlign = "left"; g.save(); g.beginPath(); g.rect(px, y, pw - 4, sh); g.clip(); g.fillText(part.label, px + 4, y + sh / 2); g.restore();
      }
    }
    g.lineWidth = 1.6; g.strokeStyle = color("--fore"); g.beginPath();
    for (let i = first; i <= last; ++i) { const y = Y(live[i] || 0); i === first ? g.moveTo(X(i), y) : g.lineTo(X(i), y); g.lineTo(X(i + 1), y); }
    g.stroke();
    const level = (b, name, c2, dash, side) => { g.setLineDash(dash); g.strokeStyle = c2; g.beginPath(); g.moveTo(M.l, Y(b)); g.lineTo(w - M.r, Y(b)); g.stroke(); g.setLineDash([]); g.fillStyle = c2; g.textAlign = side; g.fillText(name, side === "right" ? w - M.r - 2 : M.l + 2, Y(b) - 7); };
    level(arena, `arena ${bytesText(arena)}`, color("--accent"), [], "right");
    if (live[peak] < arena * .995) level(live[peak], `lower bound ${bytesText(live[peak])}`, color("--bad"), [5, 4], "left");
    g.setLineDash([2, 3]); g.strokeStyle = color("--bad"); g.beginPath(); g.moveTo(X(peak + .5), M.t); g.lineTo(X(peak + .5), height - M.b); g.stroke(); g.setLineDash([]);
  }
  const at = e => {
    const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    return slots.filter(s => x >= X(s.life[0]) && x < Math.max(X(s.life[1] + 1), X(s.life[0]) + 2) && y <= Y(s.at) + 1 && y >= Y(s.at + s.size) - 1).sort((a, b) => a.size - b.size)[0];
  };
  canvas.addEventListener("mousemove", e => { const s = at(e); tip(s ? `${s.label}${s.parts.length > 1 ? ` and ${s.parts.length - 1} written over it` : ""}\n${s.type}\n${bytesText(s.size)} at ${bytesText(s.at)}, steps ${s.life[0]} to ${s.life[1]}` : "", e); });
  canvas.addEventListener("mouseleave", () => tip(""));
  const pick = s => { chosen = s; draw(); if (onPick) onPick(s); };
  canvas.addEventListener("click", e => { const s = at(e); if (s) pick(s); });
  canvas.addEventListener("keydown", e => {
    const turn = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!turn || !slots.length) return;
    e.preventDefault();
    const order = [...slots].sort((a, b) => a.life[0] - b.life[0]);
    pick(order[(order.indexOf(chosen) + turn + order.length) % order.length]);
  });
  new ResizeObserver(draw).observe(canvas);
  return { canvas, draw, pick, slots, peak, live, arena };
}
function whyAlive(c, s) {
  const values = c.members.get(s.value) || [s.value];
  const readers = [...new Set(values.flatMap(v => c.readers.get(v) || []))].sort((a, b) => a.step - b.step);
  const maker = c.def.get(s.value), last = readers[readers.length - 1];
  const isOutput = values.some(v => c.main.outputs.includes(v));
  return [el("h3", {}, s.label), el("p", {}, el("code", {}, s.type), ` ${bytesText(s.size)} at offset ${s.at}`),
    el("p", {}, `Alive from step ${s.life[0]} `, maker ? ["because ", nodeLink(c, maker.node), " writes it, "] : "", `to step ${s.life[1]} `, last ? ["because ", nodeLink(c, last), " still reads it"] : "", isOutput ? "; it is an output" : "", "."),
    values.length > 1 ? el("p", { class: "soft" }, `${values.length} values share these bytes (views and results written in place): ${values.slice(0, 12).map(c.valueName).join(", ")}${values.length > 12 ? ", ..." : ""}`) : null,
    readers.length ? el("details", {}, el("summary", {}, `${readers.length} ${readers.length === 1 ? "reader" : "readers"}`), el("ul", {}, readers.map(n => el("li", {}, `step ${n.step}: `, nodeLink(c, n))))) : null];
}
function memory(view) {
  const c = current(), plan = c.files.plan, why = el("div", { class: "card", "aria-live": "polite" }, "Choose a value in the picture or in the table to see why it is alive.");
  const picture = arenaPicture(c, s => why.replaceChildren(...whyAlive(c, s).filter(Boolean)), 380);
  const peakNode = c.steps[picture.peak];
  view.append(el("p", {}, `Arena ${bytesText(picture.arena)}; most live bytes ${bytesText(picture.live[picture.peak])} at step ${picture.peak}`, peakNode ? [", ", nodeLink(c, peakNode)] : "", plan.symbolic ? ` (${sizesNote()})` : "", ". The line shows live bytes; hover for names, arrow keys go through the values."));
  if (c.symbols.length) view.append(sizeInputs());
  view.append(picture.canvas, why);
  const live = picture.slots.filter(s => s.life[0] <= picture.peak && s.life[1] >= picture.peak).sort((a, b) => b.size - a.size);
  const columns = [["value", s => s.label], ["type", s => el("code", {}, s.type)], ["bytes", s => bytesText(s.size), 1], ["offset", s => s.at, 1], ["from", s => s.life[0], 1], ["to", s => s.life[1], 1]];
  view.append(el("h2", {}, `Live at the peak (${live.length})`), table(columns, live, { click: picture.pick, limit: 40 }), el("h2", {}, "All values"), table(columns, [...picture.slots].sort((a, b) => b.size - a.size), { click: picture.pick, limit: 60 }));
  view.append(el("h2", {}, "Regions"), table([["region", r => r.region], ["bytes", r => bytesText(evaluate(r.bytes, state.sizes)), 1], ["slots", r => r.slots, 1]], plan.regions));
  requestAnimationFrame(picture.draw);
}

// Fusion.
function fusion(view) {
  const c = current(), f = c.files.fusion;
  if (!f) { view.append(el("p", {}, "fusion.json is not among the artefacts.")); return; }
  view.append(el("h2", {}, "Patterns"), table([["pattern", p => el("span", { title: (DATA.patterns[p.pattern] || [])[2] || "" }, p.pattern)], ["formed", p => p.formed, 1], ["declined", p => p.declined, 1], ["launches saved", p => p.launches_saved, 1], ["bytes saved", p => bytesText(p.bytes_saved), 1], ["meaning", p => (DATA.patterns[p.pattern] || ["", ""])[1]]], f.patterns));
  const byName = new Map();
  for (const n of c.main.nodes) for (const name of [c.nodeName(n), ...(n.sources || [])]) if (!byName.has(name)) byName.set(name, n);
  const link = name => byName.has(name) ? nodeLink(c, byName.get(name)) : name;
  view.append(el("h2", {}, `Declined (${f.declined.length})`));
  for (const r of f.reasons || []) {
    const list = f.declined.filter(m => m.pattern === r.pattern && m.reason === r.reason);
    view.append(el("details", { open: f.declined.length < 30 }, el("summary", {}, `${r.pattern}: ${r.reason} (${r.count})`, el("span", { class: "soft" }, " " + reasonText(r.reason))), table([["at", m => link(m.node)], ["why", m => m.detail || ""], ["hint", m => m.hint || ""]], list, { limit: 50 })));
  }
  view.append(el("h2", {}, `Formed (${f.formed.length})`), table([["pattern", g => g.pattern], ["at", g => link(g.node)], ["merged", g => (g.members || []).slice(0, 6).join(", ") + ((g.members || []).length > 6 ? ", ..." : "")], ["launches saved", g => g.launches_saved, 1], ["bytes saved", g => bytesText(g.bytes_saved), 1]], f.formed, { limit: 100 }));
  const between = [...(f.intermediate_values || [])].filter(v => !v.graph && v.bytes).sort((a, b) => b.bytes - a.bytes);
  view.append(el("h2", {}, "Largest values between launches"), table([["bytes", v => bytesText(v.bytes), 1], ["from", v => c.nodes.has(v.from) ? nodeLink(c, c.nodes.get(v.from)) : v.from], ["to", v => v.to.slice(0, 3).map(t => c.nodes.has(t) ? nodeLink(c, c.nodes.get(t)) : t).flatMap(x => [x, " "])], ["declined", v => (v.declined || ["no pass fuses these"]).join("; ")]], between, { limit: 30 }));
}

// Precision and quantization.
function precision(view) {
  const { precision: p, quant: q, dispatch: d } = current().files;
  if (p) {
    view.append(el("h2", {}, `Precision: ${p.policy}`));
    view.append(table([["type of results", r => r.dtype], ["values", r => r.values, 1], ["bytes", r => bytesText(evaluate(r.bytes, state.sizes)), 1]], p.results));
    if (p.summary.length) view.append(el("h3", {}, "Casts"), table([["from", s => s.from], ["to", s => s.to], ["count", s => s.count, 1]], p.summary));
    if (p.casts.length) view.append(el("details", {}, el("summary", {}, `${p.casts.length} casts with their reasons`), table([["value", x => x.value], ["from", x => x.from], ["to", x => x.to], ["reason", x => x.reason]], p.casts)));
  }
  if (q) {
    view.append(el("h2", {}, "Quantization"), q.pairs.length || q.operations.length ? "" : el("p", {}, "Nothing is quantized."));
    if (q.pairs.length) view.append(table(Object.keys(q.pairs[0]).map(k => [k, x => typeof x[k] === "object" ? JSON.stringify(x[k]) : String(x[k] ?? "")]), q.pairs));
    if (q.operations.length) view.append(table(Object.keys(q.operations[0]).map(k => [k, x => typeof x[k] === "object" ? JSON.stringify(x[k]) : String(x[k] ?? "")]), q.operations));
  }
  if (d) view.append(el("h2", {}, "Dispatch"), table([["op", k => k.op], ["native", k => k.native, 1], ["common kernel language", k => k["common-ir"], 1], ["rewritten", k => k.rewritten, 1], ["unsupported", k => k.unsupported, 1]], d.kinds));
}

// Cost: the roofline of a machine, and predicted times.
function predicted(launch, m) {
  const l = launch.at_sizes || launch;
  const bytes = l.reads + l.writes, compute = l.flops / m.gflops, traffic = bytes / m.gbps;
  return { bytes, compute, traffic, ns: m.launch_ns + Math.max(compute, traffic), intensity: bytes ? l.flops / bytes : 0, bound: m.launch_ns > Math.max(compute, traffic) ? "launch" : compute > traffic ? "compute" : "memory" };
}
function cost(view) {
  const c = current(), f = c.files.fusion;
  if (!f) { view.append(el("p", {}, "fusion.json is not among the artefacts.")); return; }
  const m = DATA.machines[state.target];
  view.append(el("p", {}, "Machine ", el("select", { id: "machine", "aria-label": "machine", change: e => { state.target = e.target.value; render(); } }, Object.keys(DATA.machines).map(t => el("option", { selected: t === state.target }, t))),
    ` ${m.gflops} GFLOP/s, ${m.gbps} GB/s, ${m.launch_ns} ns a launch: figures of the cost model, not of your device.${f.at_sizes ? ` With ${Object.entries(f.at_sizes).map(([n, v]) => `${n}=${v}`).join(", ")}.` : ""}`));
  const rows = f.launches.filter(l => !l.graph).map(l => ({ ...l, ...l.at_sizes, ...predicted(l, m) }));
  const total = rows.reduce((s, r) => s + r.ns, 0), share = k => rows.filter(r => r.bound === k).reduce((s, r) => s + r.ns, 0) / total;
  view.append(el("div", { class: "cards" }, [["predicted time of a run", timeText(total)], ["bound by memory", (100 * share("memory")).toFixed(0) + " %"], ["bound by compute", (100 * share("compute")).toFixed(0) + " %"], ["bound by launches", (100 * share("launch")).toFixed(0) + " %"]].map(([n, v]) => el("div", { class: "card" }, n, el("b", {}, v)))));
  view.append(roofline(c, rows.filter(r => r.flops > 0 && r.bytes > 0), m));
  view.append(el("h2", {}, "Launches, longest first"), table([["node", r => c.nodes.has(r.node) ? nodeLink(c, c.nodes.get(r.node)) : r.op], ["flops", r => countText(r.flops), 1], ["bytes", r => bytesText(r.bytes), 1], ["flops a byte", r => r.intensity.toFixed(2), 1], ["time", r => timeText(r.ns), 1], ["share", r => (100 * r.ns / total).toFixed(1) + " %", 1], ["bound by", r => r.bound]], rows.sort((a, b) => b.ns - a.ns), { limit: 60 }));
}
function roofline(c, rows, m) {
  const W = 720, H = 300, L = 60, B = 34, lg = Math.log10;
  const ridge = m.gflops / m.gbps, xs = rows.map(r => r.intensity).concat(ridge), lo = Math.floor(lg(Math.min(...xs, .1))), hi = Math.ceil(lg(Math.max(...xs, 10)));
  const top = Math.ceil(lg(m.gflops)), low = top - 5;
  const X = v => L + (lg(v) - lo) / (hi - lo) * (W - L - 24), Y = v => H - B - (Math.max(lg(v), low) - low) / (top - low) * (H - B - 10);
  const svg = el("svg:svg", { viewBox: `0 0 ${W} ${H}`, style: "max-width:900px;width:100%", role: "img", "aria-label": "roofline; the table below has the numbers" });
  for (let e = lo; e <= hi; ++e) svg.append(el("svg:line", { x1: X(10 ** e), x2: X(10 ** e), y1: 10, y2: H - B, stroke: "var(--line)" }), el("svg:text", { x: X(10 ** e), y: H - B + 14, "text-anchor": "middle", class: "type" }, String(10 ** e)));
  for (let e = low; e <= top; ++e) svg.append(el("svg:line", { x1: L, x2: W - 24, y1: Y(10 ** e), y2: Y(10 ** e), stroke: "var(--line)" }), el("svg:text", { x: L - 5, y: Y(10 ** e) + 4, "text-anchor": "end", class: "type" }, countText(10 ** e * 1e9)));
  svg.append(el("svg:path", { d: `M${X(10 ** lo)} ${Y(10 ** lo * m.gbps)}L${X(ridge)} ${Y(m.gflops)}L${X(10 ** hi)} ${Y(m.gflops)}`, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  svg.append(el("svg:text", { x: (W + L) / 2, y: H - 4, "text-anchor": "middle", class: "type" }, "flops a byte"), el("svg:text", { x: 12, y: H / 2, transform: `rotate(-90 12 ${H / 2})`, "text-anchor": "middle", class: "type" }, "flops a second"));
  for (const r of rows) svg.append(el("svg:circle", { cx: X(r.intensity), cy: Y(r.flops / r.ns), r: 4, fill: `var(--${classOf(r.op)})`, stroke: "var(--soft)", mousemove: e => tip(`${r.op} ${r.name || ""}\n${timeText(r.ns)}, bound by ${r.bound}`, e), mouseleave: () => tip(""), click: () => goTo(r.node) }));
  return svg;
}

// What each pass changed.
function passes(view) {
  const c = current();
  if (!c.diffs.length) { view.append(el("p", {}, "There are no diffs of passes. `rlxc compile --emit report` records them, and so does `rlxc compile --dump` for `rlxc report`.")); return; }
  if (c.omitted_diffs) view.append(el("p", { class: "soft" }, `${c.omitted_diffs} long diffs are left out.`));
  for (const d of c.diffs) {
    const lines = d.text.split("\n"), added = lines.filter(l => /^\+(?!\+\+)/.test(l)).length, removed = lines.filter(l => /^-(?!--)/.test(l)).length;
    const box = el("details", { toggle: () => {
      if (!box.open || box.dataset.done) return;
      box.dataset.done = 1;
      box.append(el("pre", {}, lines.map(l => el("span", { class: /^\+(?!\+\+)/.test(l) ? "add" : /^-(?!--)/.test(l) ? "del" : null }, l + "\n"))));
    } }, el("summary", {}, d.pass + " ", el("span", { class: "good" }, `+${added}`), " ", el("span", { class: "bad" }, `−${removed}`)));
    view.append(box);
  }
}

// Two compiles side by side.
function compare(view) {
  const [a, b] = DATA.compiles;
  const facts = c => {
    const f = c.files.fusion, p = c.files.plan, m = DATA.machines[state.target], out = new Map();
    if (f) { out.set("launches", f.summary.launches.after); out.set("nodes", f.summary.nodes.after); out.set("memory traffic (bytes)", f.summary.traffic.after); out.set("fusions formed", f.summary.formed); out.set("fusions declined", f.summary.declined);
      out.set(`predicted time on ${state.target} (ns)`, Math.round(f.launches.filter(l => !l.graph).reduce((s, l) => s + predicted(l, m).ns, 0))); }
    out.set("arena (bytes)", evaluate(p.arena.bytes, state.sizes));
    for (const r of p.regions) out.set(`${r.region} (bytes)`, evaluate(r.bytes, state.sizes));
    for (const o of f ? f.ops : []) if (o.after) out.set("nodes " + o.op, o.after);
    return out;
  };
  // Above 0 where the second is worse. More nodes of an operation are neither.
  const worth = r => r.n.startsWith("nodes ") ? 0 : r.n === "fusions formed" ? r.x - r.y : r.y - r.x;
  const fa = facts(a), fb = facts(b), names = [...new Set([...fa.keys(), ...fb.keys()])];
  const rows = names.map(n => ({ n, x: fa.get(n) || 0, y: fb.get(n) || 0 })).filter((r, i) => r.x !== r.y || i < 8);
  view.append(el("h2", {}, "Numbers"), table([["", r => r.n], [a.title, r => r.x.toLocaleString("en"), 1], [b.title, r => r.y.toLocaleString("en"), 1], ["change", r => el("span", { class: worth(r) > 0 ? "bad" : worth(r) < 0 ? "good" : "" }, r.x ? (r.y > r.x ? "+" : "") + ((r.y - r.x) / r.x * 100).toFixed(1) + " %" : r.y ? "new" : "")]], rows));
  view.append(el("h2", {}, "Memory at one scale"));
  const top = Math.max(...[a, b].map(c => evaluate(c.files.plan.arena.bytes, state.sizes)));
  const pictures = [a, b].map(c => arenaPicture(c, null, 300, top));
  view.append(el("div", { class: "pair" }, pictures.map((p, i) => el("div", {}, el("h3", {}, DATA.compiles[i].title), p.canvas))));
  const key = d => `${d.pattern} @ ${d.node}` + (d.reason ? ` (${d.reason})` : "");
  const only = (list, other) => { const have = new Set(other.map(key)); return list.filter(d => !have.has(key(d))).map(key); };
  const group = (title, f) => {
    const [x, y] = [a, b].map(c => (c.files.fusion ? c.files.fusion[f] : []));
    view.append(el("h2", {}, title), el("div", { class: "pair" }, [only(x, y), only(y, x)].map((list, i) => el("div", {}, el("h3", {}, `only in ${DATA.compiles[i].title} (${list.length})`), table([["", s => s]], list, { limit: 30 })))));
  };
  group("Fusions formed", "formed");
  group("Fusions declined", "declined");
  requestAnimationFrame(() => pictures.forEach(p => p.draw()));
}

const TABS = [["summary", "Summary", summary], ["graph", "Graph", graph], ["memory", "Memory", memory], ["fusion", "Fusion", fusion], ["precision", "Precision", precision], ["cost", "Cost", cost], ["passes", "Passes", passes]];
if (DATA.compiles.length > 1) TABS.push(["compare", "Compare", compare]);
function render() {
  const c = current(), view = $("view");
  tip("");
  $("title").textContent = c.title;
  $("choice").replaceChildren(...(DATA.compiles.length > 1 ? DATA.compiles.map((x, i) => el("button", { type: "button", "aria-pressed": String(i === state.compile), click: () => { state.compile = i; state.node = null; render(); } }, x.title)) : []));
  $("tabs").replaceChildren(...TABS.map(([id, name]) => el("button", { type: "button", role: "tab", id: "tab-" + id, "aria-selected": String(id === state.tab), tabindex: id === state.tab ? 0 : -1, click: () => open(id) }, name)), " ");
  view.replaceChildren();
  TABS.find(t => t[0] === state.tab)[2](view);
}
function open(tab) { state.tab = tab; render(); history.replaceState(null, "", "#" + tab); }
$("tabs").addEventListener("keydown", e => {
  const turn = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  if (!turn) return;
  const at = TABS.findIndex(t => t[0] === state.tab), next = TABS[(at + turn + TABS.length) % TABS.length][0];
  open(next);
  $("tab-" + next).focus();
});
addEventListener("keydown", e => {
  if (e.key !== "/" || /INPUT|SELECT/.test(document.activeElement.tagName)) return;
  e.preventDefault();
  if (state.tab !== "graph") open("graph");
  $("search").focus();
});
const dark = on => { document.documentElement.classList.toggle("dark", on); render(); };
$("theme").addEventListener("click", () => dark(!document.documentElement.classList.contains("dark")));
if (TABS.some(t => "#" + t[0] === location.hash)) state.tab = location.hash.slice(1);
dark(matchMedia("(prefers-color-scheme: dark)").matches);
