// page_charts.js -- draws charts into the sections of the page: lines, stacks, bars, a matrix, a timeline. page.js calls
// it. It does not know what a run is.
"use strict";

const $ = id => document.getElementById(id);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || name;

function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {}))
        if (value !== null && value !== undefined) node.setAttribute(key, value);
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
}
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// ---- Numbers

function show(x) {
    if (x === null || x === undefined || !isFinite(x)) return "-";
    const size = Math.abs(x);
    if (size !== 0 && (size < 1e-3 || size >= 1e15)) return x.toExponential(2);
    for (const [unit, word] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
        if (size >= unit) return +(x / (word === "k" ? 1e3 : unit)).toPrecision(4) + word;
    return String(+x.toPrecision(5));
}
function showMs(x) {
    if (x === null || x === undefined || !isFinite(x)) return "-";
    const size = Math.abs(x);
    if (size >= 1e4) return +(x / 1e3).toPrecision(4) + " s";
    if (size >= 1) return +x.toPrecision(4) + " ms";
    return size === 0 ? "0" : +(x * 1e3).toPrecision(3) + " us";
}
function showBytes(x) {
    if (x === null || x === undefined || !isFinite(x)) return "-";
    const words = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; Math.abs(x) >= 1024 && i < 4; i++) x /= 1024;
    return +x.toPrecision(4) + " " + words[i];
}
// Round numbers between two values; of bytes, powers of two.
function ticks(low, high, most, format) {
    const raw = (high - low) / Math.max(1, most), power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = format === showBytes ? 2 ** Math.ceil(Math.log2(raw))
                                      : [1, 2, 5, 10].map(f => f * power).find(s => s >= raw) || raw;
    const list = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) list.push(+(i * step).toPrecision(12));
    return list;
}

// ---- The tooltip. Names come from the run, so they are added as text.

function tip(event, title, rows) {
    const box = $("tip"), table = make("table");
    for (const [key, value, name] of rows)
        table.append(make("tr", {}, make("td", {}, name ? make("i", {style: `background:${colour(name)}`}) : "", key),
                          make("td", {}, value)));
    box.replaceChildren(make("b", {}, title), table);
    box.hidden = false;
    const x = event.clientX + 14, y = event.clientY + 14;
    box.style.left = Math.max(4, x + box.offsetWidth > innerWidth ? x - box.offsetWidth - 28 : x) + "px";
    box.style.top = Math.max(4, y + box.offsetHeight > innerHeight ? y - box.offsetHeight - 28 : y) + "px";
}
const untip = () => { $("tip").hidden = true; };

function legend(names, words) {
    return make("div", {class: "legend"}, ...names.map((name, i) =>
        make("span", {}, make("i", {style: `background:${colour(name)}`}), (words || names)[i])));
}

// ---- Axes

const EDGE = {left: 56, right: 12, top: 8, bottom: 22};

// A frame with grid and numbers; x and y are {low, high}. Returns the places of values.
function frame(box, x, y, height, format, xFormat) {
    const width = Math.max(200, box.clientWidth - 34);
    const node = draw("svg", {viewBox: `0 0 ${width} ${height}`, height});
    const right = width - EDGE.right, bottom = height - EDGE.bottom;
    const toY = v => y.log ? Math.log(v / y.low) / Math.log(y.high / y.low) : (v - y.low) / (y.high - y.low || 1);
    const at = {
        node, width, height, right, bottom,
        x: v => EDGE.left + (v - x.low) / (x.high - x.low || 1) * (right - EDGE.left),
        y: v => bottom - toY(v) * (bottom - EDGE.top),
        back: px => x.low + (px - EDGE.left) / (right - EDGE.left) * (x.high - x.low),
    };
    const marks = y.log ? logTicks(y.low, y.high) : ticks(y.low, y.high, height / 45, format);
    for (const v of marks) {
        node.append(draw("line", {class: "grid", x1: EDGE.left, x2: right, y1: at.y(v), y2: at.y(v)}),
                    draw("text", {x: EDGE.left - 6, y: at.y(v) + 4, "text-anchor": "end"}, format(v)));
    }
    for (const v of ticks(x.low, x.high, width / 80))
        if (Number.isInteger(v))
            node.append(draw("text", {x: at.x(v), y: height - 6, "text-anchor": "middle"}, (xFormat || show)(v)));
    box.append(node);
    return at;
}
function logTicks(low, high) {
    const list = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
        for (const f of [1, 2, 3, 5]) if (f * 10 ** p >= low && f * 10 ** p <= high) list.push(f * 10 ** p);
    return list.length > 1 ? list : ticks(low, high, 4);
}
function range(lists) {
    let low = Infinity, high = -Infinity;
    for (const list of lists)
        for (const v of list) if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
    return {low, high};
}
function nearest(list, value) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (list[middle] < value) low = middle; else high = middle;
    }
    return Math.abs(list[low] - value) <= Math.abs(list[high] - value) ? low : high;
}

// A vertical line that follows the pointer; `rows` gives the text of an index of `x`.
function hover(at, x, title, rows) {
    const cross = draw("line", {class: "cross", y1: EDGE.top, y2: at.bottom, visibility: "hidden"});
    at.node.append(cross);
    at.node.addEventListener("mousemove", event => {
        const all = at.node.getBoundingClientRect();
        const i = nearest(x, at.back((event.clientX - all.left) * at.width / all.width));
        fill(cross, {x1: at.x(x[i]), x2: at.x(x[i]), visibility: "visible"}, []);
        tip(event, title(i), rows(i));
    });
    at.node.addEventListener("mouseleave", () => { untip(); cross.setAttribute("visibility", "hidden"); });
}

// ---- Lines: {x, xWord, height, log, zero, format, series: [{name, y, colour, width, faint, x, points}], marks: [x]}

function linePath(at, x, y) {
    let path = "", pen = false;
    for (let i = 0; i < x.length; i++) {
        if (y[i] === null) { pen = false; continue; }
        path += (pen ? "L" : "M") + at.x(x[i]).toFixed(1) + " " + at.y(y[i]).toFixed(1);
        pen = true;
    }
    return path;
}
function lines(box, c) {
    const y = range(c.series.map(s => s.y));
    if (!isFinite(y.low)) { box.append(make("p", {class: "soft"}, "Nothing was recorded.")); return; }
    const space = (y.high - y.low) * 0.06 || Math.abs(y.high) * 0.1 || 1;
    y.log = c.log && y.low > 0;
    if (c.zero) y.low = 0; else if (!y.log) y.low -= space;
    y.high += space;
    const x = range(c.series.map(s => s.x || c.x));
    const at = frame(box, x, y, c.height || 170, c.format || show);
    for (const mark of c.marks || [])
        at.node.append(draw("line", {class: "mark", x1: at.x(mark), x2: at.x(mark), y1: EDGE.top, y2: at.bottom}));
    for (const s of c.series) {
        at.node.append(draw("path", {d: linePath(at, s.x || c.x, s.y), fill: "none", stroke: colour(s.colour),
                                     "stroke-width": s.width || 1.6, "stroke-opacity": s.faint ? 0.35 : 1,
                                     "stroke-linejoin": "round"}));
        if (s.points && s.y.length <= 200)
            s.y.forEach((v, i) => v !== null &&
                at.node.append(draw("circle", {cx: at.x(s.x[i]), cy: at.y(v), r: 3, fill: colour(s.colour)})));
    }
    hover(at, c.x, i => `${c.xWord || "step"} ${c.x[i]}`, i => c.series.filter(s => !s.quiet).map(s => {
        const k = s.x ? nearest(s.x, c.x[i]) : i;
        return [s.x ? `${s.name} at ${s.x[k]}` : s.name, (c.format || show)(s.y[k]), s.colour];
    }));
}

// ---- Stacks: {x, names, values: [[of a name]], format, title(i), extra(i)}; each item of x is a column.

function stack(box, c) {
    const totals = c.x.map((_, i) => c.values.reduce((sum, v) => sum + (v[i] || 0), 0));
    const half = c.x.length > 1 ? (c.x[1] - c.x[0]) / 2 : 0.5;
    const x = {low: c.x[0] - half, high: c.x[c.x.length - 1] + half};
    // One column that is much higher than the others would hide them.
    const sorted = [...totals].sort((a, b) => a - b), high = sorted[sorted.length - 1];
    const usual = sorted[Math.floor((sorted.length - 1) * 0.97)];
    const top = (usual > 0 && high > 2.5 * usual ? usual * 1.5 : high || 1) * 1.04;
    const at = frame(box, x, {low: 0, high: top}, c.height || 210, c.format);
    const floor = c.x.map(() => 0);
    c.names.forEach((name, k) => {
        if (!c.values[k].some(v => v > 0)) return;
        let path = "";
        c.x.forEach((v, i) => {
            const a = floor[i];
            floor[i] += c.values[k][i] || 0;
            if (floor[i] === a) return;
            const gap = c.x.length <= 90 ? 0.6 : 0;
            const left = (at.x(v - half) + gap).toFixed(1), right = (at.x(v + half) - gap).toFixed(1);
            const low = at.y(Math.min(a, top)).toFixed(1), up = at.y(Math.min(floor[i], top)).toFixed(1);
            path += `M${left} ${low}V${up}H${right}V${low}Z`;
        });
        at.node.append(draw("path", {d: path, fill: colour(name)}));
    });
    hover(at, c.x, c.title, i => c.names.map((name, k) => [name, c.format(c.values[k][i]), name, c.values[k][i]])
        .filter(row => row[3] > 0).concat([["in all", c.format(totals[i])]], c.extra ? c.extra(i) : []));
}

// ---- Bars: {rows: [{label, values: [of a name], marks: [[colour, value, word]]}], names: [colour], words, format}

function bars(box, c) {
    const width = Math.max(200, box.clientWidth - 34), size = 22, left = c.left || 96;
    const height = c.rows.length * size + 20;
    const sum = row => row.values.reduce((a, b) => a + (b || 0), 0);
    const high = Math.max(...c.rows.map(r => Math.max(sum(r), ...(r.marks || []).map(m => m[1] || 0)))) || 1;
    const node = draw("svg", {viewBox: `0 0 ${width} ${height}`, height});
    const x = v => left + v / (high * 1.02) * (width - left - EDGE.right);
    for (const v of ticks(0, high, (width - left) / 90, c.format))
        node.append(draw("line", {class: "grid", x1: x(v), x2: x(v), y1: 0, y2: height - 18}),
                    draw("text", {x: x(v), y: height - 5, "text-anchor": "middle"}, c.format(v)));
    c.rows.forEach((row, i) => {
        const y = i * size + 3;
        let at = 0;
        const group = draw("g", {});
        group.append(draw("text", {x: left - 8, y: y + 12, "text-anchor": "end"}, row.label),
                     draw("rect", {x: 0, y, width, height: size - 6, fill: "transparent"}));
        row.values.forEach((v, k) => {
            if (!v) return;
            group.append(draw("rect", {x: x(at), y, width: Math.max(0.5, x(at + v) - x(at)), height: size - 6,
                                       fill: colour(c.names[k])}));
            at += v;
        });
        for (const [name, value, word] of row.marks || [])
            if (value) group.append(draw("rect", {x: x(value) - 1.5, y: y - 2, width: 3, height: size - 2, fill: colour(name)}));
        group.addEventListener("mousemove", event => tip(event, row.title || row.label,
            c.names.map((name, k) => [(c.words || c.names)[k], c.format(row.values[k]), name, row.values[k]])
                .filter(r => r[3] > 0)
                .concat([["in all", c.format(sum(row))]], (row.marks || []).map(m => [m[2], c.format(m[1]), m[0]]),
                        row.extra || [])));
        group.addEventListener("mouseleave", untip);
        node.append(group);
    });
    box.append(node);
}

// ---- A matrix: {values: [row][column], rowWord, columnWord, format, title(row, column)}

function matrix(box, c) {
    const n = c.values.length, width = Math.max(200, box.clientWidth - 34), left = 46, top = 34;
    const cell = Math.min(34, (width - left - 4) / n), height = top + cell * n + 4;
    const high = Math.max(...c.values.map(row => Math.max(...row))) || 1;
    const node = draw("svg", {viewBox: `0 0 ${width} ${height}`, height});
    const each = Math.ceil(n * 16 / (cell * n));
    node.append(draw("text", {x: left, y: 11}, c.columnWord), draw("text", {x: 0, y: top - 6}, c.rowWord));
    for (let i = 0; i < n; i += each)
        node.append(draw("text", {x: left + cell * (i + 0.5), y: top - 6, "text-anchor": "middle"}, String(i)),
                    draw("text", {x: left - 6, y: top + cell * (i + 0.5) + 4, "text-anchor": "end"}, String(i)));
    c.values.forEach((row, r) => row.forEach((v, k) => {
        const one = draw("rect", {x: left + k * cell, y: top + r * cell, width: cell - 1, height: cell - 1, rx: 2,
                                  fill: colour(v > 0 ? "wait" : "line"),
                                  "fill-opacity": v > 0 ? 0.12 + 0.88 * Math.sqrt(v / high) : 0.6});
        one.addEventListener("mousemove", event => tip(event, c.title(r, k), [["in all", c.format(v)]]));
        one.addEventListener("mouseleave", untip);
        node.append(one);
    }));
    box.append(node);
}

// ---- A table: heads [[word, "text"?]], rows of texts

function table(box, heads, rows) {
    const head = make("tr", {}, ...heads.map(h => make("th", {class: h[1]}, h[0])));
    box.append(make("div", {class: "scroll"}, make("table", {class: "rows"}, make("thead", {}, head),
        make("tbody", {}, ...rows.map(row => make("tr", {}, ...row.map((cell, i) => make("td", {class: heads[i][1]}, cell))))))));
}
