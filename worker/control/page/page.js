// The job's page: shows /status, as /events sends it. All text from the job is set as text, never as HTML.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const POLL_MS = 5000;
  const GRACE_MS = 4000; // a chief that begins to train, or that starts again, answers within this time
  const QUIET_MS = 4000; // without news the page asks whether the chief still answers
  const ANSWER_MS = 4000; // the chief's process answers within this time, even while it computes
  const $ = (id) => document.getElementById(id);
  let last = null; // the last status
  let heard = 0; // when it came
  let over = false; // the job has ended, and no more events will come
  let failing = 0; // since when no connection is possible; 0: it is
  let asking = false;

  // ---- words ----

  const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
  const count = (x) => (isNumber(x) ? Math.round(x).toLocaleString("en-US") : "–");
  const short = (x) => (!isNumber(x) ? "–" : x !== 0 && (Math.abs(x) < 0.001 || Math.abs(x) >= 1e9)
    ? x.toExponential(2) : Math.abs(x) >= 1e4 ? count(x) : Number(x.toPrecision(4)).toString());
  const percent = (x) => (isNumber(x) ? `${Math.round(100 * x)} %` : "");

  function bytes(n) {
    if (!isNumber(n)) return "";
    return n < 1e9 ? `${Math.round(n / 1e6)} MB` : `${(n / 1e9).toFixed(1)} GB`;
  }

  function duration(s) {
    if (!isNumber(s)) return "–";
    const whole = Math.max(0, Math.round(s));
    const two = (n) => String(n).padStart(2, "0");
    const [h, m, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, two(whole % 60)];
    return h ? `${h}:${two(m)}:${rest}` : `${m}:${rest}`;
  }

  const stepTime = (s) => (!isNumber(s) ? "" : s < 1 ? `${short(1000 * s)} ms` : `${short(s)} s`);

  function loadingWords(l) {
    if (!l || !isNumber(l.bytes)) return "The processes read their data.";
    const of = l.of_bytes ? ` of ${bytes(l.of_bytes)}` : "";
    const left = isNumber(l.left_s) ? `, ${duration(l.left_s)} left` : "";
    return `The processes read their data: ${bytes(l.bytes)}${of}, ${count(l.rows)} rows${left}.`;
  }

  const ARRIVALS_SHOWN = 16; // as on the terminal

  // As the terminal and the logs name it: number 0 is a chief that is a process of its own.
  const workerName = (n, s) => (s.role !== "chief" ? `worker ${n}` : n ? `worker ${n - 1}` : "the chief");

  function arrivalWords(s) {
    const all = s.arrivals || [], more = all.length - ARRIVALS_SHOWN;
    return [...all.slice(0, ARRIVALS_SHOWN).map((w) => `${sentence(workerName(w.worker, s))}: ${loadingState(w)}.`),
      ...(more > 0 ? [`And ${count(more)} more.`] : [])];
  }

  // [class of the badge, its word, a sentence]
  function stateWords(s) {
    const job = s.whole_job;
    if (s.end) {
      const text = s.end.text || "";
      if (s.end.exit_code === 0) return ["done", "done", text || "The training is done."];
      if (s.end.exit_code === 143 || s.end.exit_code === 130)
        return ["stopped", "stopped", `${text ? `${text}. ` : ""}Run gradwire train again to resume.`];
      if (s.end.exit_code === 138) return ["waiting", "restarting", text];
      return ["failed", "failed", text];
    }
    if (s.state === "loading")
      return ["waiting", "loading", [loadingWords(s.loading), ...arrivalWords(s)].join(" ")];
    if (s.draining) return ["stopped", "stopping", "The job was asked to stop; it saves a checkpoint first."];
    if (s.waits_for) return ["waiting", "waiting", sentence(s.waits_for)];
    if (s.state === "done") return ["done", "done", "The training is done."];
    if (job && job.planned_steps && job.steps >= job.planned_steps)
      return ["training", "ending", "All steps are made; the last evaluation and checkpoint follow."];
    return ["training", "training", ""];
  }

  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  // ---- elements ----

  function element(name, text, className) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }

  function drawing(name, attributes, text) {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  function note(id, text) {
    $(id).textContent = text;
    $(id).hidden = !text;
  }

  // ---- curves ----

  const WIDTH = 360, HEIGHT = 170, LEFT = 52, RIGHT = 8, TOP = 10, BOTTOM = 22;

  const tick = (x) => (x !== 0 && (Math.abs(x) < 0.001 || Math.abs(x) >= 1e5) ? x.toExponential(1)
    : Number(x.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 }));

  function range(values) {
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    return [low, high];
  }

  // One curve for each line: {name, className, points: [[x, y], ...], dots}
  function plot(lines, title, fromZero) {
    const points = lines.flatMap((line) => line.points);
    const [x0, x1] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
    const [y0, y1] = range([...points.map((p) => p[1]), ...(fromZero ? [0] : [])]);
    const x = (v) => LEFT + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * (WIDTH - LEFT - RIGHT);
    const y = (v) => TOP + (1 - (v - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    const svg = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
    for (const part of [0, 0.5, 1]) {
      const value = y0 + part * (y1 - y0);
      svg.append(drawing("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(drawing("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, tick(value)));
    }
    svg.append(drawing("text", { x: LEFT, y: HEIGHT - 5 }, `step ${count(x0)}`));
    if (x1 > x0)
      svg.append(drawing("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, count(x1)));
    for (const line of lines) {
      const path = line.points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ");
      svg.append(drawing("polyline", { class: line.className, points: path }));
      for (const p of line.dots || line.points.length === 1 ? line.points : [])
        svg.append(drawing("circle", { class: line.className, cx: x(p[0]), cy: y(p[1]), r: 3 }));
    }
    return svg;
  }

  function figure(title, lines, fromZero) {
    const shown = lines.filter((line) => line.points.length);
    const f = element("figure");
    const caption = element("figcaption");
    caption.append(element("span", title));
    for (const line of shown) {
      const value = short(line.points[line.points.length - 1][1]);
      caption.append(element("span", `${line.name} ${value}`, `key ${line.className}`));
    }
    f.append(caption, shown.length ? plot(shown, title, fromZero) : element("p", "No value yet.", "who"));
    return f;
  }

  const column = (points, i, xOf) => points.filter((p) => isNumber(p[i])).map((p) => [xOf(p), p[i]]);

  function showCurves(job) {
    const perEpoch = job.epochs ? job.planned_steps / job.epochs : 0;
    const steps = job.curve || [], epochs = job.epoch_curve || [];
    const atStep = (p) => p[0], atEpoch = (p) => p[0] * perEpoch;
    const metrics = job.metrics || [], judged = job.evaluator_curve || [];
    // i: 0 for the loss, then the metrics
    const evaluated = (i) => (judged.length ? column(judged, 1 + i, atStep) : column(epochs, 2 + metrics.length + i, atEpoch));
    const of = (at, i) => [
      { name: "training", className: "train", points: column(steps, at, atStep) },
      { name: "evaluation", className: "eval", points: evaluated(i), dots: true }];
    const figures = [figure("Loss", of(1, 0))];
    metrics.forEach((name, i) => figures.push(figure(sentence(name.replaceAll("_", " ")), of(3 + i, 1 + i))));
    figures.push(figure("Examples per second", [{ name: "now", className: "train", points: column(steps, 2, atStep) }], true));
    $("curves").replaceChildren(...figures);
  }

  // ---- progress ----

  function checkpointWords(job) {
    if (!job.cut) return "none yet";
    const age = job.cuts && isNumber(job.cuts.age_s) ? `, ${duration(job.cuts.age_s)} ago` : "";
    const failed = job.cuts && job.cuts.failed ? `, ${job.cuts.failed} failed` : "";
    return `step ${count(job.cut.step)}${age}${failed}`;
  }

  function timeLeft(job) {
    return `${job.eta_at_most ? "at most " : ""}${job.eta_early ? "about " : ""}${duration(job.eta_s)}`;
  }

  function showFacts(s, job) {
    const facts = [
      ["epoch", job.epochs ? `${count(Math.min(job.epoch, job.epochs))} of ${count(job.epochs)}` : count(job.epoch)],
      ["step", `${count(job.steps)} of ${count(job.planned_steps)}`],
      ["time left", s.end || job.steps >= job.planned_steps ? "–" : timeLeft(job)],
      ["examples per second", count(job.examples_per_s)],
      ["last checkpoint", checkpointWords(job)],
      ["update mode", s.update],
    ];
    if (job.eval) facts.push([`evaluation, step ${count(job.eval.step)}`, evalWords(job.eval)]);
    if (job.rejected || job.recoveries) facts.push(["not finite", `${count(job.rejected)} batches rejected, ${count(job.recoveries)} rollbacks`]);
    if (job.lost) facts.push(["lost batches", count(job.lost)]);
    $("facts").replaceChildren(...facts.flatMap(([name, value]) => {
      const pair = element("div", undefined, name.startsWith("evaluation") ? "wide" : "");
      pair.append(element("dt", name), element("dd", value));
      return [pair];
    }));
    $("bar").max = job.planned_steps || 1;
    $("bar").value = job.steps || 0;
  }

  function evalWords(evaluation) {
    return Object.entries(evaluation).filter(([key]) => key !== "step")
      .map(([key, value]) => `${key} ${short(value)}`).join(", ");
  }

  // ---- processes ----

  const PLACE = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}$/;
  const LOOPBACK = /^(127\.|localhost:|\[::1\]:)/;

  // A process that serves HTTP only on its host's loopback is linked only if this page came directly from the chief's own address.
  function linkOf(process, chief) {
    const at = process.http;
    if (typeof at !== "string" || !PLACE.test(at)) return null;
    if (LOOPBACK.test(at) && location.host !== chief) return null;
    return `http://${at}/`;
  }

  function loadingState(l) {
    const share = l.of_bytes ? ` ${percent(l.bytes / l.of_bytes)}` : "";
    return `loading${share}${isNumber(l.left_s) ? `, ${duration(l.left_s)} left` : ""}`;
  }

  function processState(p, s) {
    const ends = s.end || (isNumber(s.whole_job.steps) && s.whole_job.steps >= s.whole_job.planned_steps);
    if (!p.up && ends) return ["ended", ""];
    if (p.loading && !p.up) return [loadingState(p.loading), ""];
    if (!p.up) return [`away ${duration(p.away_s)}`, "bad"];
    if (p.heard_s > 5 && !ends) return [`silent ${duration(p.heard_s)}`, "bad"];
    const waiting = s.whole_job.waiting;
    if (waiting && waiting.role === p.role && waiting.index === p.index) return ["waited for", "bad"];
    if (p.slow) return ["slow", "slow"];
    if (p.role === "worker" && !p.member) return ["joining", ""];
    return [isNumber(p.heard_s) ? "runs" : "connected", ""];
  }

  function lagOf(p) {
    if (p.staleness) return `${short(p.staleness.mean)} updates, at most ${count(p.staleness.max)}`;
    return isNumber(p.wait_share) ? `waits for others ${percent(p.wait_share)}` : "";
  }

  const COLUMNS = ["process", "state", "memory", "examples/s", "time for a step", "lag"];

  function row(p, s, chief) {
    const tr = element("tr");
    const [state, className] = processState(p, s);
    const cells = [null, state, bytes(p.resident_bytes), isNumber(p.examples_per_s) ? count(p.examples_per_s) : "",
      stepTime(p.task_s), lagOf(p)];
    cells.forEach((text, i) => {
      const td = element("td", text === null ? undefined : text, i === 1 ? className : "");
      td.dataset.name = COLUMNS[i];
      tr.append(td);
    });
    const own = p.role === "worker" ? workerName(p.index, s) : `ps ${p.index}`;
    const name = `${own}${p.chief && s.role !== "chief" ? " (chief)" : ""}`, at = linkOf(p, chief);
    const cell = at ? element("a", name) : element("span", name);
    if (at) cell.href = at;
    tr.firstChild.append(cell);
    return tr;
  }

  function showProcesses(s, job) {
    const ps = job.ps.map((p) => ({ ...p, role: "ps", index: p.ps }));
    const workers = job.workers.map((p) => ({ ...p, role: "worker", index: p.worker, chief: p.worker === s.worker && s.is_chief }));
    const chief = (workers.find((p) => p.chief) || {}).http;
    const head = element("thead"), body = element("tbody"), names = element("tr");
    names.append(...COLUMNS.map((name) => element("th", name)));
    head.append(names);
    body.append(...[...ps, ...workers].map((p) => row(p, s, chief)));
    $("processes").replaceChildren(head, body);
    const slow = workers.filter((p) => p.slow && p.up);
    note("slow", slow.length ? `Slow: ${slow.map((p) => `${workerName(p.index, s)}, ${stepTime(p.task_s)} for a step`).join("; ")}. ` +
      (s.update === "sync" ? "In sync mode every other worker waits for it." : "") : "");
  }

  // ---- warnings ----

  function showWarnings(job) {
    const lines = (job.warnings || []).map((w) => {
      const li = element("li");
      const at = new Date(w.time_ms);
      const time = element("time", Number.isNaN(at.getTime()) ? "" : at.toLocaleTimeString());
      li.append(time, element("span", w.process, "who"), element("span", w.text, w.level === "error" ? "bad" : ""));
      return li;
    });
    $("warnings").replaceChildren(...(lines.length ? lines : [element("li", "None.")]));
  }

  // ---- all of it ----

  function show(s) {
    last = s;
    heard = Date.now();
    failing = 0;
    over = Boolean(s.end) && s.end.exit_code !== 138;
    const [className, word, words] = stateWords(s);
    document.title = `${word}: ${s.job}`;
    $("name").textContent = s.job;
    $("badge").textContent = word;
    $("badge").className = `badge ${className}`;
    $("words").textContent = words;
    note("link", "");
    $("about").textContent = `gradwire ${s.version}, ${s.process}`;
    const job = s.whole_job;
    $("main").hidden = !job;
    if (!job) return;
    showFacts(s, job);
    showCurves(job);
    showProcesses(s, job);
    showWarnings(job);
    document.body.dataset.shown = word; // for tests
  }

  function noAnswer(why) {
    const since = heard ? ` since ${new Date(heard).toLocaleTimeString()}` : "";
    $("badge").textContent = "no answer";
    $("badge").className = "badge lost";
    $("words").textContent = "";
    note("link", `The chief has not answered${since}: ${why}. This page keeps trying; gradwire status shows the state of the job.`);
  }

  function lost() {
    failing = failing || Date.now();
  }

  // Its process takes the connection, and says nothing.
  async function ask() {
    asking = true;
    try {
      const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
      if (answer.ok) show(await answer.json());
    } catch (e) {
      if (e.name === "TimeoutError") noAnswer("its process hangs, is stopped, or has no time");
      else lost();
    }
    asking = false;
  }

  function watch() {
    const now = Date.now();
    if (over) return;
    if (failing && now - failing >= GRACE_MS) noAnswer("it restarts, or the job has ended");
    else if (!failing && heard && !asking && now - heard >= QUIET_MS) ask();
  }

  async function poll() {
    try {
      const answer = await fetch("status", { cache: "no-store" });
      if (answer.ok) show(await answer.json());
    } catch {
      lost();
    }
    if (!over) setTimeout(poll, POLL_MS);
  }

  function listen() {
    const events = new EventSource("events");
    events.onmessage = (m) => {
      show(JSON.parse(m.data));
      if (over) events.close();
    };
    events.onerror = () => {
      lost();
      if (events.readyState === EventSource.CLOSED && !over) setTimeout(poll, heard ? POLL_MS : 0); // too many readers: poll
    };
  }

  listen();
  setInterval(watch, 500);
})();
