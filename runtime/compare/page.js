"use strict";
// Page of `kpusim diff --html`: what the data says, drawn. Names are only ever set as text.
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const letter = index => String.fromCharCode(65 + index);
const runs = data.runs, names = data.operations, others = runs.slice(1);
const kinds = [["compute", "#2f7d4f"], ["memory stall", "#d1495b"], ["other", "#aab4c0"]];
const bands = data.bands.map((label, i) => [label, ["#2f7d4f", "#8fc46b", "#d1495b", "#e0a030", "#d3d9e0"][i % 5]]);

const number = value => Math.abs(value) < 1e15 && Number.isInteger(value) ? value.toLocaleString("en-US") : value === 0 ? "0" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(+value.toPrecision(5));
const signed = value => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + number(Math.abs(value));
const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : part === 0 ? "0.0 %" : "new";
const change = (to, from) => from > 0 ? `${to >= from ? "+" : "\u2212"}${(100 * Math.abs(to / from - 1)).toFixed(1)} %` : to === from ? "" : "new";
const energyText = pj => { const a = Math.abs(pj); return a >= 1e9 ? `${(pj / 1e9).toPrecision(4)} mJ` : a >= 1e6 ? `${(pj / 1e6).toPrecision(4)} \u00b5J` : a >= 1e3 ? `${(pj / 1e3).toPrecision(4)} nJ` : `${+pj.toPrecision(4)} pJ`; };
const bytesText = bytes => { const a = Math.abs(bytes); return a >= 1 << 20 ? `${(bytes / (1 << 20)).toFixed(2)} MiB` : a >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} B`; };
const stat = (run, key) => run.stats[key] === undefined ? null : run.stats[key];
const clip = (text, most) => text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
const opName = index => names[index][0];

// operation of a run by the page's index
for (const run of runs) run.by_op = new Map(run.operations.map(row => [row.op, row]));

function element(tag, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
function html(tag, parent, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (kind) made.className = kind;
  if (parent) parent.appendChild(made);
  return made;
}
function drawing(id, width, height) {
  const place = at(id);
  place.textContent = "";
  return element("svg", { viewBox: `0 0 ${width} ${height}` }, place);
}
function legend(id, entries) {
  const place = at(id);
  place.textContent = "";
  for (const [text, colour] of entries) html("i", html("span", place)).style.background = colour;
  [...place.children].forEach((span, i) => span.append(entries[i][0]));
}
// one of several, as buttons; `choose` is told the key
function choice(id, entries, chosen, choose) {
  const place = at(id);
  place.textContent = "";
  for (const [key, text, why] of entries) {
    const button = html("button", place, text, key === chosen ? "on" : "");
    button.dataset.key = key;
    if (why) { button.disabled = true; button.title = why; }
    button.onclick = () => choose(key);
  }
}

// ---- what the pointer is on
const tip = at("tip");
document.addEventListener("mousemove", event => {
  const text = event.target.dataset && event.target.dataset.text;
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
});

// ---- a table that sorts: columns are {name, value(row), text(row), kind, tone(row), make(cell, row)}
function table(place, columns, rows, options = {}) {
  place.textContent = "";
  const box = html("table", place, null, options.wide === false ? "" : "wide"), head = html("tr", html("thead", box)), body = html("tbody", box);
  const most = options.most || 500;
  let all = false, order = options.order || null;
  if (options.id) box.id = options.id;
  const draw = () => {
    const sorted = [...rows];
    if (order) {
      const value = columns[order.column].value;
      sorted.sort((a, b) => {
        const x = value(a), y = value(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return (x < y ? -1 : x > y ? 1 : 0) * (order.down ? -1 : 1);
      });
    }
    [...head.children].forEach((cell, i) => { cell.textContent = columns[i].name + (order && order.column === i ? (order.down ? " \u25bc" : " \u25b2") : ""); });
    body.textContent = "";
    for (const row of all ? sorted : sorted.slice(0, most)) {
      const line = html("tr", body);
      if (options.each) options.each(line, row);
      for (const column of columns) {
        const cell = html("td", line, column.make ? null : column.text(row), `${column.kind || ""} ${column.tone ? column.tone(row) : ""}`.trim());
        if (column.make) column.make(cell, row);
      }
    }
    for (const total of options.totals || []) {
      const line = html("tr", body, null, "total");
      for (const [i, column] of columns.entries()) html("td", line, total[i], column.kind || "");
    }
    if (!all && sorted.length > most) {
      const more = html("button", html("td", html("tr", body)), `show all ${number(sorted.length)}`);
      more.parentNode.colSpan = columns.length;
      more.onclick = () => { all = true; draw(); };
    }
  };
  columns.forEach((column, i) => {
    const cell = html("th", head, column.name, `${column.kind || ""} ${column.value ? "sort" : ""}`.trim());
    if (!column.value) return;
    cell.tabIndex = 0;
    const sort = () => {
      order = { column: i, down: order && order.column === i ? !order.down : column.kind === "n" };
      if (options.sorted) options.sorted(order);
      draw();
    };
    cell.onclick = sort;
    cell.onkeydown = event => { if (event.key === "Enter") sort(); };
  });
  draw();
}
const tone = value => value > 0 ? "more" : value < 0 ? "less" : "";

// ---- the head of the page
(function head() {
  const programs = [...new Set(runs.map(run => run.program))], platforms = [...new Set(runs.map(run => run.platform))];
  at("title").textContent = `${programs.join(", ")} on ${platforms.join(", ")}: ${runs.length} runs`;
  document.title = `kpusim diff: ${runs.map(run => run.path).join(", ")}`;
  at("subtitle").textContent = `Differences are to A, ${runs[0].path}.`;
  const warn = text => html("div", at("warnings"), text, "warn");
  runs.forEach((run, i) => {
    if (!run.complete) warn(`${letter(i)} (${run.path}) did not run to its end.`);
    if (stat(run, "cycles.total") === null) warn(`${letter(i)} (${run.path}) has no cycles: it ran in ${run.made.mode} mode.`);
    else if (!run.events) warn(`${letter(i)}: ${run.no_events}, so its timeline shows the charged cycles of each operation, one after another.`);
  });
  data.differences.forEach((difference, i) => { if (difference.equal) warn(`${letter(i + 1)} (${others[i].path}) does not differ from A.`); });
  const total = run => stat(run, "cycles.total"), energy = run => stat(run, "energy.total_uj"), most = Math.max(...runs.map(run => total(run) || 0), 1);
  const first = runs[0], or = (value, text) => value === null ? "\u2013" : text(value);
  const against = read => ({ run }) => run === first || read(run) === null || read(first) === null ? "" : change(read(run), read(first));
  const colour = read => ({ run }) => read(run) === null || read(first) === null ? "" : tone(read(run) - read(first));
  const power = run => stat(run, "power.average_w");
  table(at("runs"), [
    { name: "run", make: (cell, { run, i }) => { html("span", cell, letter(i), "letter"); cell.append(run.path); } },
    { name: "program", text: ({ run }) => `${run.program} on ${run.platform}` },
    { name: "cycles", kind: "n", text: ({ run }) => or(total(run), number) },
    { name: "", kind: "n", text: against(total), tone: colour(total) },
    { name: "compute, memory stall, other", make: (cell, { run }) => shares(cell, run, most) },
    { name: "time", kind: "n", text: ({ run }) => or(stat(run, "time.total_us"), us => `${number(us)} \u00b5s`) },
    { name: "energy", kind: "n", text: ({ run }) => or(energy(run), uj => energyText(uj * 1e6)) },
    { name: "", kind: "n", text: against(energy), tone: colour(energy) },
    { name: "power", kind: "n", text: ({ run }) => or(power(run), w => `${w.toPrecision(3)} W`) },
  ], runs.map((run, i) => ({ run, i })));
})();
function shares(cell, run, most) {
  const svg = element("svg", { viewBox: "0 0 340 16", style: "width:340px" }, cell);
  let x = 0;
  ["cycles.compute", "cycles.memory_stall", "cycles.other"].forEach((key, i) => {
    const cycles = stat(run, key) || 0, width = 340 * cycles / most;
    element("rect", { x, y: 2, width, height: 12, fill: kinds[i][1], class: "bar share" }, svg).dataset.text = `${kinds[i][0]}: ${number(cycles)} cycles, ${percent(cycles, stat(run, "cycles.total"))}`;
    x += width;
  });
}

// ---- timelines
const clocks = new Set(runs.filter(run => stat(run, "cycles.total") > 0).map(run => (stat(run, "time.total_us") / stat(run, "cycles.total")).toPrecision(9)));
const view = { rows: "operations", alignment: "absolute", unit: clocks.size > 1 ? "time" : "cycles", from: 0, to: 1, filter: "", picked: null };
const inUnit = run => view.unit === "time" && stat(run, "cycles.total") > 0 ? stat(run, "time.total_us") / stat(run, "cycles.total") : 1;
const length = (run, cycles) => view.unit === "time" ? `${number(cycles)} cycles, ${number(+(cycles * inUnit(run)).toPrecision(6))} \u00b5s` : `${number(cycles)} cycles`;
const matches = op => view.filter === "" || names[op].some(text => text.toLowerCase().includes(view.filter));
const faded = op => view.picked !== null ? op !== view.picked : !matches(op);
// without events: an operation whose work is moving data computes nothing; of the others unit-cycles say it
function kindsOf(row) {
  if (row.kinds) return row.kinds;
  const [useful, fill, memory, wait, idle] = row.bands, moves = /^(transfer|store)/.test(names[row.op][1]);
  const sums = moves ? [0, useful + fill + memory, wait + idle] : [useful + fill, memory, wait + idle], all = sums[0] + sums[1] + sums[2];
  return all > 0 ? sums.map(sum => row.charged * sum / all) : [0, 0, row.charged];
}
const describe = (run, index, row) => `${letter(index)}  ${opName(row.op)} (${names[row.op][1] || "no operation"})\n${length(run, row.charged)} charged, ${percent(row.charged, stat(run, "cycles.total"))} of the run: ` +
  kindsOf(row).map((cycles, k) => `${run.events ? "" : "about "}${number(Math.round(cycles))} ${kinds[k][0]}`).join(", ") + (index > 0 ? `\n${against(index, row)}` : "");
function against(index, row) {
  const first = runs[0].by_op.get(row.op);
  return first ? `${signed(row.charged - first.charged)} against A (${change(row.charged, first.charged) || "no change"})` : "A does not have it";
}

// Each gives {rows: [{label, head, bars: [{from, to, op, colour, text, kind}]}], end, slots}; times in the unit of the axis.
const charged = (run, op) => run.by_op.has(op) ? run.by_op.get(op).charged * inUnit(run) : 0;
function alignedOperations() {
  const slots = [];
  let end = 0;
  for (let op = 0; op < names.length; ++op) {
    const most = Math.max(...runs.map(run => charged(run, op)));
    if (most > 0) { slots.push({ op, from: end, to: end + most }); end += most; }
  }
  const rows = runs.map((run, i) => ({ label: letter(i), note: run.path, bars: slots.flatMap(slot => run.by_op.has(slot.op) ? chargedBars(run, i, run.by_op.get(slot.op), slot.from) : []) }));
  return { rows, end, slots };
}
function chargedBars(run, index, row, from) {
  const text = describe(run, index, row), scale = inUnit(run), bars = [];
  kindsOf(row).forEach((cycles, kind) => {
    if (cycles > 0) bars.push({ from, to: from + cycles * scale, op: row.op, colour: kinds[kind][1], text, name: bars.length === 0 });
    from += cycles * scale;
  });
  return bars;
}
function operationsInTime() {
  const rows = runs.map((run, i) => {
    const scale = inUnit(run);
    let from = 0;
    const bars = run.events ? run.device.map(([begin, end, op, kind]) => ({
      from: begin * scale, to: end * scale, op, colour: kinds[kind][1], name: true,
      text: `${letter(i)}  ${opName(op)}: ${kinds[kind][0]}\ncycles ${number(begin)} to ${number(end)} (${number(end - begin)})\n` + (run.by_op.has(op) ? describe(run, i, run.by_op.get(op)).split("\n").slice(1).join("\n") : ""),
    })) : run.operations.flatMap(row => { const made = chargedBars(run, i, row, from); from += row.charged * scale; return made; });
    return { label: letter(i), note: run.path, bars };
  });
  return { rows, end: Math.max(...runs.map(run => (stat(run, "cycles.total") || 0) * inUnit(run))) };
}
// from first issue to last end; aligned: from where the first run that has it begins
function spans() {
  const rows = [];
  let end = Math.max(...runs.map(run => (stat(run, "cycles.total") || 0) * inUnit(run)));
  for (let op = 0; op < names.length; ++op) {
    if (!matches(op) || !runs.some(run => run.by_op.has(op) && run.by_op.get(op).time)) continue;
    let start = null;
    runs.forEach((run, i) => {
      const row = run.by_op.get(op), bars = [];
      if (row && row.time) {
        const scale = inUnit(run), [begin, last] = row.time, own = begin * scale;
        if (start === null) start = own;
        const from = view.alignment === "aligned" ? start : own;
        end = Math.max(end, from + (last - begin) * scale);
        const sums = kindsOf(row), whole = row.charged || 1;
        bars.push({ from, to: from + (last - begin) * scale, op, colour: row.charged > 0 ? kinds[sums.indexOf(Math.max(...sums))][1] : kinds[2][1], name: false,
          text: `${letter(i)}  ${opName(op)}: under way from cycle ${number(begin)} to ${number(last)} (${length(run, last - begin)})\n${number(row.charged)} of its cycles charged to it, ${percent(sums[0], whole)} of them compute` });
      }
      rows.push({ label: letter(i), op, head: i === 0 ? opName(op) : "", bars, thin: true });
    });
  }
  return { rows: rows.slice(0, 300 * runs.length), end, cut: rows.length > 300 * runs.length };
}
function units() {
  const rows = [], all = [...new Set(runs.flatMap(run => run.units.map(([name]) => name)))];
  for (const name of all) runs.forEach((run, i) => {
    const unit = run.units.find(([each]) => each === name), scale = inUnit(run);
    rows.push({ label: letter(i), head: i === 0 ? name : "", thin: true, bars: (unit ? unit[1] : []).map(([from, to, op, band]) => ({
      from: from * scale, to: to * scale, op, colour: bands[band][1], name: false, text: `${letter(i)}  ${name}: ${bands[band][0]}, ${opName(op)}\ncycles ${number(from)} to ${number(to)} (${number(to - from)})` })) });
  });
  return { rows, end: Math.max(...runs.map(run => (stat(run, "cycles.total") || 0) * inUnit(run))) };
}

const notes = {
  operations: { absolute: "Each cycle of the device is charged to one operation; a row is a run from begin to end.", aligned: "Each operation begins at the same place in all runs, in the order of the program, and is as long as the cycles that are charged to it: one sees where a run is longer." },
  spans: { absolute: "Each operation from its first issue to its last completion, by its largest kind of charged cycles.", aligned: "Each operation from where it began in A: one sees which run had it under way for longer." },
  units: { absolute: "What each unit did, in all runs.", aligned: "What each unit did, in all runs." },
};
function timeline() {
  const drawn = view.rows === "spans" ? spans() : view.rows === "units" ? units() : view.alignment === "aligned" ? alignedOperations() : operationsInTime();
  const end = drawn.end || 1, label = 150, width = 1280, from = view.from * end, to = view.to * end;
  const place = t => label + (width - label) * (t - from) / (to - from);
  const tops = [];
  let y = drawn.slots ? 22 : 4;
  for (const row of drawn.rows) { if (row.head && tops.length > 0) y += 5; tops.push(y); y += row.thin ? 11 : 30; }
  const svg = drawing("timeline", width, y + 24);
  svg.classList.add("wheel");
  const boundary = Math.max(from, 0);
  if (drawn.slots) drawn.slots.forEach((slot, i) => {
    if (slot.to <= boundary || slot.from >= to) return;
    const x = Math.max(label, place(slot.from)), right = Math.min(width, place(slot.to));
    element("rect", { x, y: 0, width: right - x, height: y, fill: i % 2 ? "#f3f5f8" : "#e9edf2", class: "slot" }, svg);
    if (right - x > 24) element("text", { x: x + 3, y: 14, class: "soft" }, svg, clip(opName(slot.op), Math.floor((right - x) / 7.6)));
  });
  drawn.rows.forEach((row, i) => {
    const height = row.thin ? 9 : 24;
    if (row.thin) { if (row.head) element("text", { x: 0, y: tops[i] + 9 }, svg, clip(row.head, 17)); element("text", { x: label - 8, y: tops[i] + 9, class: "soft", "text-anchor": "end", "font-size": 9 }, svg, row.label); }
    else { element("text", { x: 0, y: tops[i] + 16, "font-weight": 600 }, svg, row.label); element("text", { x: 18, y: tops[i] + 16, class: "soft" }, svg, clip(row.note, 18)).dataset.text = row.note; }
    for (const bar of row.bars) {
      if (bar.to <= from || bar.from >= to) continue;
      const x = Math.max(label, place(bar.from)), whole = Math.min(width, place(bar.to)), right = whole - x > 3 ? whole - 0.7 : whole;
      const made = element("rect", { x: x.toFixed(2), y: tops[i], width: Math.max(0.4, right - x).toFixed(2), height, fill: bar.colour, class: faded(bar.op) ? "bar dim" : "bar" }, svg);
      made.dataset.text = bar.text;
      made.dataset.run = row.label;
      made.dataset.op = opName(bar.op);
      made.onclick = () => pick(bar.op);
      if (bar.name && !drawn.slots && right - x > 34) element("text", { x: x + 4, y: tops[i] + 16, class: "inside" }, svg, clip(opName(bar.op), Math.floor((right - x - 4) / 6.5)));
    }
  });
  for (let i = 0; i <= 8; ++i) {
    const t = from + (to - from) * i / 8, x = place(t);
    element("line", { x1: x, x2: x, y1: 0, y2: y + 2, stroke: "#8795a4", "stroke-width": 0.3 }, svg);
    element("text", { x, y: y + 17, class: "soft", "text-anchor": i === 0 ? "start" : i === 8 ? "end" : "middle" }, svg, view.unit === "time" ? String(+t.toPrecision(5)) : number(Math.round(t)));
  }
  element("text", { x: 0, y: y + 17, class: "soft" }, svg, view.unit === "time" ? "\u00b5s" : "cycles");
  svg.addEventListener("wheel", event => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width * width - label) / (width - label))));
  }, { passive: false });
  const traced = runs.some(run => run.events);
  choice("rows", [["operations", "operations"], ["spans", "spans", traced ? "" : "needs event files"], ["units", "units", traced ? "" : "needs event files"]], view.rows, key => { view.rows = key; reset(); });
  choice("alignment", [["absolute", "absolute time"], ["aligned", "aligned by operation", view.rows === "units" ? "units work on several operations" : ""]], view.rows === "units" ? "absolute" : view.alignment, key => { view.alignment = key; reset(); });
  choice("unit", [["cycles", "cycles"], ["time", "\u00b5s"]], view.unit, key => { view.unit = key; timeline(); });
  at("timeline_note").textContent = notes[view.rows][view.alignment] + (drawn.cut ? " The first 300 are shown: the filter of the table below chooses." : "") + (runs.some(run => !run.events) && view.rows === "operations" ? " Where there are no events, kinds are estimated from unit-cycles, and the order is that of the program." : "");
  at("readout").textContent = view.picked === null ? "Point at a bar to read it, click it to pick out its operation, turn the wheel to zoom." : `${opName(view.picked)} is picked out; click it again to see all.`;
  legend("legend", view.rows === "units" ? bands : kinds);
}
function reset() { view.from = 0; view.to = 1; timeline(); }
function zoom(factor, where) {
  const centre = view.from + (view.to - view.from) * where, span = Math.min(1, Math.max(1e-6, (view.to - view.from) * factor));
  view.from = Math.max(0, Math.min(centre - span * where, 1 - span));
  view.to = view.from + span;
  timeline();
}
function shift(part) {
  const span = view.to - view.from;
  view.from = Math.max(0, Math.min(view.from + span * part, 1 - span));
  view.to = view.from + span;
  timeline();
}
function pick(op) {
  view.picked = view.picked === op ? null : op;
  timeline();
  operations();
}
at("in").onclick = () => zoom(0.5, 0.5);
at("out").onclick = () => zoom(2, 0.5);
at("left").onclick = () => shift(-0.5);
at("right").onclick = () => shift(0.5);
at("all").onclick = () => reset();
timeline();

// ---- operations
const measures = {
  charged: ["charged cycles", row => row.charged, number], span: ["span, cycles", row => row.span, number],
  energy: ["energy", row => row.energy_pj === undefined ? null : row.energy_pj, energyText],
  bytes: ["DRAM bytes", row => row.bytes, bytesText],
};
const list = { measure: "charged", changed: false, order: null };
function operations() {
  const [title, read, text] = measures[list.measure];
  const of = (run, op) => run.by_op.has(op) ? read(run.by_op.get(op)) : null;
  const rows = names.map((_, op) => ({ op, values: runs.map(run => of(run, op)) }))
    .filter(({ op, values }) => matches(op) && (!list.changed || values.some(value => value !== values[0])));
  const difference = (row, i) => row.values[i] === null && row.values[0] === null ? null : (row.values[i] || 0) - (row.values[0] || 0);
  const cause = others.map((_, i) => new Map(data.differences[i].operations.map(row => [row.op, row])));
  const columns = [
    { name: "operation", value: row => opName(row.op), text: row => opName(row.op) },
    { name: "type", value: row => names[row.op][1], text: row => names[row.op][1] },
    ...runs.map((run, i) => ({ name: letter(i), kind: "n", value: row => row.values[i], text: row => row.values[i] === null ? "\u2013" : text(row.values[i]) })),
    ...others.flatMap((_, k) => { const i = k + 1; return [
      { name: `${letter(i)} \u2212 A`, kind: "n", value: row => difference(row, i), text: row => { const d = difference(row, i); return !d ? "" : (d > 0 ? "+" : "\u2212") + text(Math.abs(d)); }, tone: row => tone(difference(row, i)) },
      { name: "", kind: "n", text: row => difference(row, i) ? change(row.values[i] || 0, row.values[0] || 0) : "", tone: row => tone(difference(row, i)) },
    ]; }),
    ...(others.length === 1 ? [{ name: "cause that changed most, unit-cycles", text: row => { const found = cause[0].get(opName(row.op)); return found && found.cause_change ? `${found.cause} ${signed(found.cause_change)}` : ""; } }] : []),
  ];
  const sum = i => rows.reduce((all, row) => all + (row.values[i] || 0), 0), sums = runs.map((_, i) => sum(i));
  const totals = list.measure === "span" ? [] : [["sum", "", ...sums.map(text), ...others.flatMap((_, k) => { const d = sums[k + 1] - sums[0]; return [d === 0 ? "" : (d > 0 ? "+" : "\u2212") + text(Math.abs(d)), d === 0 ? "" : change(sums[k + 1], sums[0])]; }), ""]];
  table(at("operations"), columns, rows, { id: "operation_table", order: list.order, sorted: order => { list.order = order; }, totals, each: (line, row) => {
    line.dataset.op = opName(row.op);
    line.style.cursor = "pointer";
    if (row.op === view.picked) line.className = "picked";
    line.onclick = () => pick(row.op);
  } });
  choice("measure", Object.entries(measures).map(([key, [name]]) => [key, name]), list.measure, key => { list.measure = key; operations(); });
  at("operations_note").textContent = `By ${title}${list.measure === "charged" ? ", which sum to the cycles of the run" : list.measure === "span" ? ", first issue to last completion: they may overlap" : ""}. A click on a heading sorts, a click on a row picks the operation out in the timelines.`;
  at("operations_count").textContent = rows.length === names.length ? `${number(names.length)} operations` : `${number(rows.length)} of ${number(names.length)} operations`;
}
at("filter").oninput = () => { view.filter = at("filter").value.trim().toLowerCase(); operations(); timeline(); };
at("changed").onchange = () => { list.changed = at("changed").checked; operations(); };
operations();

// ---- what moved
function moved(index) {
  const found = data.differences[index], place = at("moved"), b = letter(index + 1);
  place.textContent = "";
  choice("pairs", others.map((_, i) => [i, `${letter(i + 1)} against A`]), index, moved);
  const left = html("div", null), right = html("div", null), pair = html("div", place, null, "pair");
  pair.append(left, right);
  if (found.equal) html("p", left, `${b} and A have no difference.`);
  const part = (title, rows, columns, options = {}) => {
    if (!rows || rows.length === 0) return;
    const where = options.where || place;
    html("h3", where, title);
    if (options.note) html("p", where, options.note);
    table(html("div", where, null, "scroll"), columns, rows, { wide: false, most: 20, ...options });
    if (found.left_out && found.left_out[options.key]) html("p", where, `... and ${number(found.left_out[options.key])} more: kpusim diff --json has all`);
  };
  const text = (name, read) => ({ name, value: read, text: row => read(row) });
  const count = (name, read, show = number) => ({ name, kind: "n", value: read, text: row => read(row) === null ? "\u2013" : show(read(row)) });
  const delta = (name, read, plain) => ({ name, kind: "n", value: read, text: row => signed(read(row)), tone: row => plain && plain(row) ? "" : tone(read(row)) });
  const both = [text("A", row => row.a || "\u2013"), text(b, row => row.b || "\u2013")];
  part("Parameters", found.parameters, [text("parameter", row => row.name), ...both], { where: right });
  part("Tensors that changed place", found.places, [text("tensor", row => row.name), ...both, count("bytes", row => data.tensor_bytes[row.name] === undefined ? null : data.tensor_bytes[row.name])], { where: right });
  part("Causes: unit-cycles of all units", causes(index), [text("cause", row => row.cause), count("A", row => row.a), count(b, row => row.b), delta("change", row => row.b - row.a, row => !row.cause.startsWith("stalled"))], { most: 12, where: right });
  // more of these is not worse
  const neutral = row => /^(utilization|memory|tasks|ops|data)\.|\.(busy|idle)\.|hits/.test(row.key);
  const relative = row => row.a === null || row.a === 0 ? Infinity : row.b === null ? -1 : (row.b - row.a) / Math.abs(row.a);
  part("Statistics", found.statistics, [
    { name: "statistic", value: row => row.key, make: (cell, row) => { cell.textContent = row.key; cell.title = data.statistics[row.key] ? data.statistics[row.key][1] : ""; } },
    count("A", row => row.a), count(b, row => row.b), text("unit", row => row.unit), delta("change", row => row.change, neutral),
    { name: "relative", kind: "n", value: relative, text: row => row.b === null ? "gone" : Number.isFinite(relative(row)) ? change(row.b, row.a) || signed(100 * relative(row)) + " %" : "new", tone: row => neutral(row) ? "" : tone(row.change) },
  ], { key: "statistics", where: left, note: `Totals first, then units by cycles.${found.small_changes ? ` ${number(found.small_changes)} more changed by less than the threshold.` : ""}` });
  const first = found.first_divergence;
  if (first) {
    html("h3", place, "First difference in time");
    html("p", place, `Task ${first.task}${first.place ? " at " + first.place : ""} ${first.step} at cycle ${first.a === null ? "never" : number(first.a)} in A, ${first.b === null ? "never" : number(first.b)} in ${b}${first.why ? "; " + first.why : ""}.`);
    part(`Cycles of ${first.unit_a} in that time`, first.causes, [text("cause", row => row.cause), count("A", row => row.a), count(b, row => row.b)]);
  } else if (found.no_divergence) { html("h3", place, "First difference in time"); html("p", place, `${found.no_divergence}.`); }
  part("Data and results", found.data, [text("array", row => row.name), ...both]);
  const path = found.critical_path, lost = [text("operation", row => row.op), count("A", row => row.a), count(b, row => row.b), delta("change", row => row.change),
    { name: "causes", text: row => row.causes.slice(0, 4).map(part => `${part.cause} ${signed(part.change)}`).join(", ") + (row.causes.length > 4 ? ", \u2026" : "") }];
  if (path) {
    part("Critical path: cycles", path.on_path, lost, { key: "on_path", note: "The chain of tasks that decides when the run ends: what each operation lost or won on it. The changes sum to that of the run.",
      totals: [["all", number(path.cycles_a), number(path.cycles_b), signed(path.cycles_b - path.cycles_a), ""]] });
    part("Off the path: unit-cycles", path.off_path, lost, { key: "off_path", note: "Beside that chain: no time was lost or won by these." });
  } else if (found.no_critical_path) { html("h3", place, "Critical path"); html("p", place, `Not compared: ${found.no_critical_path}.`); }
  part("Schedule", found.schedule, [text("operation", row => row.op), text("task", row => row.task), text("what", row => row.kind), ...both, count("line in A", row => row.line_a), count(`line in ${b}`, row => row.line_b), count("further", row => row.further)], { key: "schedule" });
  if (found.no_schedule) { html("h3", place, "Schedule"); html("p", place, `Not compared: ${found.no_schedule}`); }
  const code = side => ({ name: side === "a" ? "A" : b, make: (cell, row) => html("pre", cell, row[side]) });
  part("Program", found.program, [text("place", row => row.name), code("a"), code("b")], { key: "program", most: 5 });
}
// over all units but the device as a whole
function causes(index) {
  const sums = new Map();
  [runs[0], others[index]].forEach((run, side) => {
    for (const [key, value] of Object.entries(run.stats)) {
      const found = /^units\.([a-z0-9_]+)\.((?:busy|stalled|idle)\..+)$/.exec(key);
      if (!found || found[1] === "device") continue;
      if (!sums.has(found[2])) sums.set(found[2], [0, 0]);
      sums.get(found[2])[side] += value;
    }
  });
  return [...sums].map(([cause, [a, b]]) => ({ cause, a, b })).filter(row => row.a !== row.b).sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a));
}
moved(0);

// ---- energy
(function energy() {
  const known = runs.map((run, i) => ({ run, i })).filter(({ run }) => stat(run, "energy.total_uj") !== null);
  if (known.length === 0) { at("energy_note").textContent = "Energy is not modelled on these platforms."; return; }
  const pattern = /^energy\.by_component\.(.+)_uj$/;
  const components = [...new Set(known.flatMap(({ run }) => Object.keys(run.stats).map(key => pattern.exec(key)).filter(Boolean).map(found => found[1])))];
  const value = (run, name) => stat(run, `energy.by_component.${name}_uj`) || 0;
  components.sort((a, b) => Math.max(...known.map(({ run }) => value(run, b))) - Math.max(...known.map(({ run }) => value(run, a))));
  const tones = ["#2e6f9e", "#d1874b", "#5b8c5a", "#a05195", "#c9a227", "#5f9ea0", "#8d6e63", "#7a86b8", "#c2607a", "#9aa5b1"];
  const shown = components.filter(name => known.some(({ run }) => value(run, name) > 0));
  const high = ({ run }) => Math.max(stat(run, "energy.total_uj"), run.energy_band ? run.energy_band.high_uj : 0), most = Math.max(...known.map(high), 1e-12);
  const label = 150, width = 1280, bar = 1280 - 150 - 210, row = 46, svg = drawing("energy", width, known.length * row + 24), x = uj => label + bar * uj / most;
  known.forEach(({ run, i }, line) => {
    const y = line * row, total = stat(run, "energy.total_uj"), first = stat(runs[0], "energy.total_uj");
    element("text", { x: 0, y: y + 20, "font-weight": 600 }, svg, letter(i));
    element("text", { x: 18, y: y + 20, class: "soft" }, svg, clip(run.path, 18)).dataset.text = run.path;
    let sum = 0;
    shown.forEach((name, c) => {
      const part = value(run, name), fixed = stat(run, `energy.static.${name}_uj`) || 0;
      const made = element("rect", { x: x(sum).toFixed(2), y: y + 4, width: (x(part) - label).toFixed(2), height: 24, fill: tones[c % tones.length], class: "bar energy" }, svg);
      made.dataset.text = `${letter(i)}  ${name}: ${energyText(part * 1e6)}, ${percent(part, total)} of the run\n${energyText((part - fixed) * 1e6)} dynamic, ${energyText(fixed * 1e6)} static${i > 0 ? `\nA: ${energyText(value(runs[0], name) * 1e6)} (${change(part, value(runs[0], name)) || "no change"})` : ""}`;
      sum += part;
    });
    const band = run.energy_band;
    if (band) {
      for (const uj of [band.low_uj, band.high_uj]) element("line", { x1: x(uj), x2: x(uj), y1: y + 31, y2: y + 39, stroke: "#34465a", "stroke-width": 1.5 }, svg);
      element("line", { x1: x(band.low_uj), x2: x(band.high_uj), y1: y + 35, y2: y + 35, stroke: "#34465a", "stroke-width": 1.5, class: "band" }, svg).dataset.text = `${letter(i)}  low to high corner of the energy table: ${energyText(band.low_uj * 1e6)} to ${energyText(band.high_uj * 1e6)}`;
      element("circle", { cx: x(total), cy: y + 35, r: 3, fill: "#34465a" }, svg);
    }
    element("text", { x: width, y: y + 20, "text-anchor": "end", "font-weight": 600 }, svg, `${energyText(total * 1e6)}${i > 0 && first ? `  ${change(total, first)}` : ""}`);
    if (band) element("text", { x: width, y: y + 36, "text-anchor": "end", class: "soft" }, svg, `${energyText(band.low_uj * 1e6)} to ${energyText(band.high_uj * 1e6)}`);
  });
  for (let i = 0; i <= 4; ++i) element("text", { x: x(most * i / 4), y: known.length * row + 14, class: "soft", "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle" }, svg, energyText(most * 1e6 * i / 4));
  legend("energy_legend", shown.map((name, c) => [name, tones[c % tones.length]]));
  at("energy_note").textContent = `By component, static energy included${known.some(({ run }) => run.energy_band) ? "; the line below a bar spans what the run would take at the low and the high corner of its energy table" : ""}.`;
})();

// ---- how it was made
(function made() {
  const quoted = word => /^[\w@%+=:,.\/-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
  const pairs = values => values.length ? values.map(([name, value]) => `${name}=${value}`).join(" ") : "\u2013";
  const file = f => [f.name, f.path && f.path !== f.name ? f.path : "", f.sha256 ? `sha256 ${f.sha256}` : ""].filter(Boolean).join(", ") || "\u2013";
  const rows = [
    ["command", run => (run.made.command_line || []).map(quoted).join(" ") || "\u2013"], ["version", run => run.made.version], ["time", run => run.made.time],
    ["mode, seed", run => `${run.made.mode}, ${run.made.seed}`], ["program", run => file(run.made.program)], ["parameters", run => pairs(run.made.parameters)], ["platform", run => file(run.made.platform)],
    ["energy table", run => run.made.energy_table ? `${run.made.energy_table}, ${run.made.energy_corner}` : "\u2013"], ["inputs", run => run.made.inputs.map(file).join("; ") || "\u2013"], ["events", run => run.events ? "yes" : run.no_events],
  ];
  table(at("made"), [{ name: "", kind: "head", text: row => row[0] }, ...runs.map((run, i) => ({ name: `${letter(i)}  ${run.path}`, make: (cell, row) => html("code", cell, row[1](run)) }))], rows);
  html("p", at("made"), `This page: kpusim diff ${runs.map(run => quoted(run.path)).join(" ")} --html, version ${data.version}.`).style.marginTop = "10px";
})();
