// page.js -- reads the page's data and fills its sections. The file has no network; where `trireme report --serve` has
// sent it, it asks for the newest data while the run goes.
"use strict";

const REFRESH_MS = 5000, MOST_BARS = 32;
let logarithmic = false;

function section(id) {
    const box = $(id), title = box.querySelector("h2");
    box.replaceChildren(...(title ? [title] : []));
    return box;
}
const note = (box, words) => box.append(make("p", {class: "soft small"}, words));
const hide = (id, hidden) => { $(id).hidden = hidden; };

// ---- Head and verdict

function head(d) {
    const s = d.settings || {}, state = d.run.state, box = $("head");
    const word = state === "ended" && d.run.reason && d.run.reason !== "done" ? d.run.reason : state;
    const facts = [["model", s.model], ["ranks", d.run.ranks], ["policy", s.policy], ["precision", s.precision],
                   ["device", s.device], ["step", s.steps ? `${d.run.step} of ${s.steps}` : d.run.step],
                   ["took", d.run.seconds === null ? null : showMs(d.run.seconds * 1e3)],
                   ["loss", last(d.log.loss) === null ? null : show(last(d.log.loss))]];
    document.title = d.run.folder + " - Trireme";
    const good = state === "running" || (state === "ended" && word !== "failed" && word !== "interrupted");
    box.replaceChildren(make("h1", {}, d.run.folder, make("span", {class: "badge " + (good ? "good" : "bad")}, word)),
        make("div", {class: "facts"}, ...facts.filter(f => f[1] !== null && f[1] !== undefined && f[1] !== "")
            .map(f => make("span", {}, f[0] + " ", make("b", {}, String(f[1]))))));
    if (d.run.error) box.append(make("p", {class: "bad"}, d.run.error));
    $("foot").textContent = `Made ${d.run.made} from ${d.run.recorded} of ${d.run.ranks} records and the log of this run.`;
}
const last = list => list.length ? list[list.length - 1] : null;

function verdict(d) {
    const box = $("verdict"), r = d.report;
    hide("verdict", !r);
    if (!r) return;
    box.replaceChildren(make("h2", {}, r.verdict), make("p", {}, r.line),
        make("ul", {}, ...r.evidence.map(one => make("li", {}, one))));
    if (r.next) box.append(make("p", {class: "next"}, make("b", {}, "Next: "), r.next));
}

// ---- Curves

// The median of the points around each: a spike is not spread.
function smooth(list) {
    const half = Math.floor(list.length / 60);
    return list.map((_, i) => {
        const reach = Math.min(half, i, list.length - 1 - i);
        const near = list.slice(i - reach, i + reach + 1).filter(v => v !== null).sort((a, b) => a - b);
        return near.length ? near[near.length >> 1] : null;
    });
}
function loss(d) {
    const box = section("loss"), log = d.log;
    const button = make("button", {}, logarithmic ? "linear" : "logarithmic");
    button.addEventListener("click", () => { logarithmic = !logarithmic; loss(d); });
    box.prepend(button);
    const series = [{name: "train", y: log.loss, colour: "train", width: 1, faint: true},
                    {name: "train, smoothed", y: smooth(log.loss), colour: "train", width: 2}];
    if (d.eval.step.length)
        series.push({name: "evaluation", x: d.eval.step, y: d.eval.loss, colour: "eval", points: true});
    box.append(legend(["train", "eval"].slice(0, d.eval.step.length ? 2 : 1), ["train", "evaluation"]));
    lines(box, {x: log.step, height: 200, log: logarithmic, series, marks: d.save.step});
    if (log.steps_of_a_point > 1) note(box, `Each point is the mean of ${log.steps_of_a_point} steps.`);
    if (log.skipped.length) note(box, `Skipped steps: ${log.skipped.slice(0, 20).join(", ")}${log.skipped.length > 20 ? ", ..." : ""}.`);
    if (d.save.step.length) note(box, "Dotted lines are checkpoints.");
}
function curves(d) {
    for (const [id, key, zero] of [["rates", "tokens_per_s", true], ["seconds", "seconds", true], ["norm", "grad_norm", false],
                                   ["lr", "lr", true]])
        lines(section(id), {x: d.log.step, zero, height: 140, series: [{name: key, y: d.log[key], colour: "train"}]});
}

// ---- Phases

function phases(d) {
    const s = d.steps, r = d.ranks, names = d.phase_words.filter((_, k) => s.phase_ms[k].some(v => v > 0));
    const some = !s.step.length;
    for (const id of ["steps", "ranks", "timeline", "waits", "worst", "plan", "memory"]) hide(id, some);
    if (some) return;
    let box = section("steps");
    box.append(legend(names));
    stack(box, {x: s.step, names: d.phase_words, values: s.phase_ms, format: showMs, title: i => "step " + s.step[i],
                extra: i => s.gap_ms[i] > 0 ? [["before it", showMs(s.gap_ms[i])]] : []});
    note(box, `Mean over ${s.ranks} of ${d.run.ranks} ranks` + (s.each > 1 ? `; one of ${s.each} steps.` : "."));
    box = section("ranks");
    box.append(legend(names));
    if (r.rank.length <= MOST_BARS)
        bars(box, {names: d.phase_words, format: showMs, rows: r.rank.map((rank, i) => ({
            label: label(d, rank), title: title(d, i), values: r.phase_ms.map(p => p[i]), extra: waited(r, i)}))});
    else
        stack(box, {x: r.rank, names: d.phase_words, values: r.phase_ms, format: showMs, title: i => title(d, i),
                    extra: i => waited(r, i)});
    note(box, `Means of the last ${r.recent} steps at most. Communication is what no pass runs beside.`);
}
const waited = (r, i) => [["waited for others", showMs(r.waited_ms[i])], ["others waited for it", showMs(r.caused_ms[i])]];
function title(d, i) {
    const r = d.ranks;
    return `rank ${r.rank[i]} on ${r.hosts[r.host[i]]}` + (r.places[r.place[i]] ? ", " + r.places[r.place[i]] : "");
}
function label(d, rank) {
    const r = d.ranks, i = r.rank.indexOf(rank);
    return r.hosts.length > 1 && i >= 0 ? `rank ${rank} \u00b7 ${r.hosts[r.host[i]].slice(0, 9)}` : "rank " + rank;
}

// ---- A step, waits

function oneStep(d) {
    const box = section("timeline"), t = d.timeline;
    hide("timeline", !t || !t.ranks.length);
    if (!t || !t.ranks.length) return;
    box.querySelector("h2").textContent = `Step ${t.step} over ranks`;
    const there = [...new Set(t.rows.map(row => row[1]))].sort((a, b) => a - b).map(k => d.phase_words[k]);
    box.append(legend([...there, "wait"], [...there, "waited for the last arriver"]));
    timeline(box, t, d.phase_words, rank => label(d, rank));
    const dropped = t.ranks.reduce((sum, r) => sum + r.left_out, 0), loose = t.ranks.filter(r => !r.aligned).length;
    note(box, "Rows of a rank: compute, communication, copy, host. Drag to zoom, double-click to show all." +
        (t.ranks.length < d.ranks.rank.length
            ? ` Shown are ${t.ranks.length} of ${d.ranks.rank.length} ranks: those that others waited for longest, and some in the middle.` : "") +
        (dropped ? ` The ${dropped} shortest spans are left out.` : "") +
        (t.clock_error_ns > 0 ? ` Clocks of hosts agree to ${showMs(t.clock_error_ns / 1e6)}.` : "") +
        (loose ? ` The clocks of ${loose} ranks are not known: their step begins at 0.` : ""));
}
function waits(d) {
    const box = section("waits"), w = d.waits;
    if (w.ms) {
        matrix(box, {values: w.ms, rowWord: "waiter", columnWord: "last arriver", format: showMs,
                     title: (a, b) => `rank ${a} waited for rank ${b}`});
    } else {
        stack(box, {x: w.caused_ms.map((_, i) => i), names: ["wait"], values: [w.caused_ms], format: showMs, height: 170,
                    title: i => "waited for rank " + i});
        table(box, [["waiter"], ["last arriver"], ["waited"]],
              w.pairs.map(p => ["rank " + p[0], "rank " + p[1], showMs(p[2])]));
    }
    note(box, "Since the run began.");
}
function worst(d) {
    const r = d.ranks, order = r.rank.map((_, i) => i).sort((a, b) => r.caused_ms[b] - r.caused_ms[a]).slice(0, 24);
    const box = section("worst");
    table(box, [["rank"], ["host", "text"], ["place", "text"], ["step"], ["waited"], ["others waited"], ["memory peak"]],
          order.map(i => [String(r.rank[i]), r.hosts[r.host[i]], r.places[r.place[i]], showMs(r.step_ms[i]),
                          showMs(r.waited_ms[i]), showMs(r.caused_ms[i]), showBytes(r.peak[i])]));
    note(box, `Means of a step, of the last ${r.recent} at most. "Others waited" adds the waits of all ranks.`);
}

// ---- Memory, settings

const PAINTS = ["weights", "gradients", "optimizer", "activations", "workspace", "copy", "other"];
function memory(d) {
    const m = d.memory, r = d.ranks, s = d.steps, box = section("plan");
    const there = d.memory_words.map((_, k) => k).filter(k => m.plan[k].some(v => v > 0));
    box.append(legend([...there.map(k => PAINTS[k]), "ink", "wait"],
                      [...there.map(k => d.memory_words[k]), "measured now", "measured peak"]));
    bars(box, {names: PAINTS, words: d.memory_words, format: showBytes, rows: m.rank.map((rank, i) => {
        const at = r.rank.indexOf(rank);
        return {label: label(d, rank), title: title(d, at), values: m.plan.map(p => p[i]),
                marks: [["wait", r.peak[at], "measured peak"], ["ink", r.now[at], "measured now"]]};
    })});
    const over = section("memory");
    lines(over, {x: s.step, zero: true, format: showBytes, height: 210, series: [
        {name: "largest rank", y: s.memory_most, colour: "wait"}, {name: "mean of ranks", y: s.memory, colour: "train"}]});
    over.append(legend(["wait", "train"], ["largest rank", "mean of ranks"]));
}
function settings(d) {
    const box = section("settings"), s = d.settings;
    hide("settings", !s);
    if (!s) return;
    const text = v => v !== null && typeof v === "object" ? Object.entries(v).map(([k, x]) => `${k} ${x}`).join(", ") : String(v);
    box.append(make("dl", {class: "settings"}, ...Object.entries(s).filter(([k]) => k !== "event")
        .map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, text(v))))));
}

// ---- All of it

let data = JSON.parse($("data").textContent);
function render() {
    const parts = [head, verdict, loss, curves, phases, oneStep, waits, worst, memory, settings];
    for (const id of ["loss", "rates", "seconds", "norm", "lr"]) hide(id, !data.log.step.length);
    for (const part of parts) {
        if (!data.log.step.length && (part === loss || part === curves)) continue;
        if (!data.steps.step.length && [oneStep, waits, worst, memory].includes(part)) continue;
        part(data);
    }
    document.body.dataset.ready = "yes";
}
render();
let later = 0;
addEventListener("resize", () => { clearTimeout(later); later = setTimeout(render, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);

async function refresh() {
    try {
        const reply = await fetch("data.json");
        if (!reply.ok) return;
        data = await reply.json();
        render();
        if (data.run.state === "running") setTimeout(refresh, REFRESH_MS);
    } catch (problem) {
        // The server has ended: the page keeps what it shows.
    }
}
if (location.protocol === "http:" && data.run.state === "running") setTimeout(refresh, REFRESH_MS);
