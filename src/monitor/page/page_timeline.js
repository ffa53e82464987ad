// page_timeline.js -- draws one step over ranks: a band for each rank, a row of it for each stream. page.js calls it.
"use strict";

const STREAMS = [["compute", 0], ["communication", 1], ["copy", 2], ["host", -1]];
const FIELDS = 5; // numbers of a span: row, begin, duration, waited, the rank that came last
const CALL = 1; // the kind of a row
const ROW = 11, SPACE = 8, RULER = 20, MARGIN = 118;

// `c` is the data's timeline, `phases` names its phases; name(rank) is a band's label.
function timeline(box, c, phases, name) {
    const used = STREAMS.filter(([, stream]) => c.ranks.some(r => {
        for (let i = 0; i < r.spans.length; i += FIELDS) if (c.rows[r.spans[i]][2] === stream) return true;
        return false;
    }));
    const band = used.length * ROW + SPACE, height = RULER + c.ranks.length * band;
    const width = Math.max(300, box.clientWidth - 32), canvas = make("canvas", {});
    const view = {from: 0, to: c.length || 1};
    canvas.style.height = height + "px";
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    box.append(canvas);
    const x = v => MARGIN + (v - view.from) / (view.to - view.from) * (width - MARGIN - 4);
    const back = px => view.from + (px - MARGIN) / (width - MARGIN - 4) * (view.to - view.from);
    const paint = () => paintTimeline(canvas.getContext("2d"), {c, phases, name, used, band, width, height, view, x, wait: colour("wait"), card: colour("card")});
    paint();
    steer(canvas, c, view, back, paint);
    canvas.addEventListener("mousemove", event => {
        const at = canvas.getBoundingClientRect(), y = event.clientY - at.top - RULER;
        const rank = c.ranks[Math.floor(y / band)], row = used[Math.floor((y % band) / ROW)];
        const i = rank && row && y >= 0 ? find(c, rank, row[1], back(event.clientX - at.left), back(2) - back(0)) : -1;
        if (i < 0) untip(); else tell(event, c, phases, rank, i);
    });
    canvas.addEventListener("mouseleave", untip);
}

// The innermost span of a stream at a time: calls lie above their instructions.
function find(c, rank, stream, time, slack) {
    let best = -1, length = Infinity;
    for (let i = 0; i < rank.spans.length; i += FIELDS) {
        const begin = rank.spans[i + 1], duration = rank.spans[i + 2];
        if (c.rows[rank.spans[i]][2] !== stream || time < begin - slack || time > begin + duration + slack) continue;
        const call = c.rows[rank.spans[i]][3] === CALL;
        if (duration < length || (duration === length && call)) { best = i; length = duration; }
    }
    return best;
}
function tell(event, c, phases, rank, i) {
    const [row, begin, duration, waited, last] = rank.spans.slice(i, i + FIELDS), ms = c.unit_ns / 1e6;
    const [name, phase, , , bytes, group, micro] = c.rows[row];
    const rows = [["rank", String(rank.rank)], ["phase", phases[phase], phases[phase]], ["begins", showMs(begin * ms)],
                  ["takes", showMs(duration * ms)]];
    if (waited > 0) rows.push(["of it waited", showMs(waited * ms), "wait"]);
    if (last >= 0) rows.push(["last arriver", "rank " + last]);
    if (bytes) rows.push(["moves", showBytes(bytes)]);
    if (group) rows.push(["process group", group]);
    if (micro >= 0) rows.push(["micro-batch", String(micro)]);
    tip(event, name, rows);
}

function paintTimeline(pen, p) {
    const ms = p.c.unit_ns / 1e6, paints = p.phases.map(colour), line = colour("line"), soft = colour("soft");
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, p.width, p.height);
    pen.font = "11px system-ui, DejaVu Sans, sans-serif";
    for (const v of ticks(p.view.from * ms, p.view.to * ms, (p.width - MARGIN) / 100)) {
        pen.fillStyle = line;
        pen.fillRect(p.x(v / ms), RULER - 4, 1, p.height);
        pen.fillStyle = soft;
        pen.fillText(showMs(v), Math.min(p.x(v / ms) + 3, p.width - 44), 11);
    }
    p.c.ranks.forEach((rank, k) => {
        const top = RULER + k * p.band;
        pen.fillStyle = soft;
        pen.fillText(p.name(rank.rank), 0, top + Math.min(p.band - SPACE, 22) / 2 + 4, MARGIN - 8);
        pen.fillStyle = line;
        pen.fillRect(0, top - SPACE / 2, p.width, 1);
        pen.save();
        pen.beginPath();
        pen.rect(MARGIN, top, p.width - MARGIN, p.band);
        pen.clip();
        for (let i = 0; i < rank.spans.length; i += FIELDS) paintSpan(pen, p, paints, rank.spans, i, top);
        pen.restore();
    });
}
// A call is the lower half of its instruction; the part that waited is striped.
function paintSpan(pen, p, paints, spans, i, top) {
    const [row, begin, duration, waited] = [spans[i], spans[i + 1], spans[i + 2], spans[i + 3]];
    const [, phase, stream, kind] = p.c.rows[row];
    const left = p.x(begin), wide = Math.max(0.7, p.x(begin + duration) - left), call = kind === CALL;
    if (left > p.width || left + wide < MARGIN) return;
    const y = top + p.used.findIndex(u => u[1] === stream) * ROW + (call ? 5 : 0), high = call ? ROW - 6 : ROW - 1;
    pen.fillStyle = paints[phase];
    pen.globalAlpha = call ? 1 : stream > 0 ? 0.55 : 1;
    pen.fillRect(left, y, wide > 3 ? wide - 0.6 : wide, high);
    pen.globalAlpha = 1;
    if (waited > 0) {
        const end = p.x(begin + Math.min(waited, duration));
        pen.fillStyle = p.card;
        pen.fillRect(left, y, end - left, high);
        pen.fillStyle = p.wait;
        for (let s = left; s < end - 1; s += 4) pen.fillRect(s, y, 2, high);
    }
}

// Dragging shows a part of the step; a double click shows all of it.
function steer(canvas, c, view, back, paint) {
    let from = null;
    const time = event => back(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener("mousedown", event => { from = time(event); });
    canvas.addEventListener("mouseup", event => {
        const to = time(event), low = Math.max(0, Math.min(from, to)), high = Math.min(c.length, Math.max(from, to));
        if (from !== null && high - low > (view.to - view.from) / 100) Object.assign(view, {from: low, to: high});
        from = null;
        paint();
    });
    canvas.addEventListener("dblclick", () => { Object.assign(view, {from: 0, to: c.length || 1}); paint(); });
}
