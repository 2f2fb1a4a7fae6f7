/** What the status page does: plain JavaScript, kept as the text that is sent. */
export const SCRIPT = `
"use strict";
const byId = (id) => document.getElementById(id);
let key = null, stream = null, latest = [], timer = null, isAsking = false;

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
function rows(id, lines) {
  byId(id).replaceChildren(...lines.map((cells) => {
    const row = element("tr");
    const made = cells.map((cell) => typeof cell === "number" ? element("td", cell.toLocaleString("en"), "count")
      : Array.isArray(cell) ? element("td", cell[0], cell[1]) : element("td", cell));
    if (made.length === 1) made[0].colSpan = 4;
    row.append(...made);
    return row;
  }));
}
const headers = () => key === null ? {} : { "x-api-key": key };
const entries = (counted) => Object.entries(counted ?? {});

const FOR_ALL = "kept for all tenants together; ask with a key of tenant *";
const CLASSES = {
  lock_busy: "a lock that somebody else holds", safety_unavailable: "a safety kernel that does not answer",
  store_unavailable: "a store that does not answer", no_worker: "nobody there who can do it",
  throttled: "a rule that says later, or a limit that is reached", poison: "a message that cannot be read",
  unclassified: "a failure of the work itself",
};

function showCards(status) {
  const leases = status.safety.fail_open.length;
  const cards = [
    ["Waiting", status.backlog_total, "jobs", "allowed, until a worker is free", ""],
    ["With workers", status.in_flight_total, "jobs", "sent out and not answered yet", ""],
    ["Runs", status.runs.open, "open", status.runs.limit === undefined ? "of workflows, not ended yet"
      : "of workflows, at most " + status.runs.limit, status.runs.open >= status.runs.limit ? "warn" : ""],
    ["Approvals", status.approvals, "jobs", "a human has to decide", status.approvals ? "warn" : ""],
    ["Dead letters", status.dead_letters, "kept", "given up, kept whole to be tried again", status.dead_letters ? "bad" : ""],
    ["Workers", status.workers.total, "there", status.workers.leaving + " of them about to leave", status.workers.total ? "" : "warn"],
    ["Fail-open", leases, leases === 1 ? "lease" : "leases", "jobs may go unchecked while one is in force", leases ? "bad" : ""],
  ];
  byId("cards").replaceChildren(...cards.map(([title, count, unit, about, kind]) => {
    const card = element("div", undefined, "card");
    const number = element("div", count.toLocaleString("en"), "number " + kind);
    number.append(element("small", unit));
    card.append(element("h2", title), number, element("p", about, "soft"));
    return card;
  }));
}

function showTables(status) {
  const topics = [...new Set([...Object.keys(status.backlog), ...Object.keys(status.in_flight ?? {})])].sort();
  rows("queues", topics.map((topic) => [topic, status.backlog[topic] ?? 0,
    status.in_flight === null ? ["–", "count"] : status.in_flight[topic] ?? 0]));
  const classes = [...new Set([...entries(status.waiting), ...entries(status.parked_retries)].map(([name]) => name))].sort();
  rows("retries", status.waiting === null ? [[FOR_ALL]]
    : classes.map((name) => [name, status.waiting[name] ?? 0, status.parked_retries[name] ?? 0, CLASSES[name] ?? ""]));
  rows("workers", (status.workers.items ?? []).map((worker) => [worker.id + (worker.leaving ? " (leaving)" : ""),
    worker.topics.join(", ") || worker.pool || "", [worker.active_jobs + " / " + (worker.max_parallel_jobs ?? "any"), "count"],
    [(worker.seen_ago_ms / 1000).toFixed(1), "count"]]));
  byId("workers").dataset.none = status.workers.total ? "who they are is shown to keys of tenant *" : "no worker was heard of: jobs wait";
}

function showFacts(status) {
  const { safety, policy, durability } = status;
  const breaker = { closed: ["closed: the kernel is asked", "good"], open: ["open: the kernel is left alone for a while", "bad"],
    half_open: ["half open: a few calls try whether it is back", "warn"] }[safety.breaker] ?? [safety.breaker];
  rows("safety", [
    ["kernel", safety.kernel],
    ["breaker", safety.breaker_reason ? [breaker[0] + " (" + safety.breaker_reason + ")", breaker[1]] : breaker],
    ...safety.fail_open.map((lease) => ["fail-open lease", ["for " + (lease.scope === "*" ? "all tenants" : lease.scope) +
      " until " + lease.ends_at.slice(11, 19) + " UTC: " + lease.reason, "bad"]]),
    ["policy", policy.source + ": " + policy.rules + " rules, else " + policy.default_decision],
    ["snapshot", policy.snapshot],
    ["sent unchecked", status.input_fail_open_total === null ? FOR_ALL
      : status.input_fail_open_total + " jobs ever, under fail-open leases"],
  ]);
  rows("about", [
    ["process", status.name], ["version", status.version + ", " + status.mode + ", profile " + status.profile],
    ["up for", Math.round(status.uptime_ms / 1000).toLocaleString("en") + " s"],
    ["durability", durability.profile + ": " + durability.meaning],
    ["shown", status.tenant === "*" ? "all tenants" : "tenant " + status.tenant],
    ["access", status.needs_key ? "by API key" : "anybody on this machine: there is no API key yet"],
  ]);
  const ms = (value) => value === null ? ["–", "count"] : [value.toFixed(1) + " ms", "count"];
  rows("figures", status.lock_busy_retry_count === null ? [[FOR_ALL]] : [
    ["lock_busy_retry_count", status.lock_busy_retry_count, "retries because a lock was held"],
    ["lock_busy_retry_delay_ms p50", ms(status.lock_busy_retry_delay_ms.p50), "half of those waited less"],
    ["lock_busy_retry_delay_ms p95", ms(status.lock_busy_retry_delay_ms.p95), "nearly all of those waited less"],
    ["run_lock_wait_ms_p95", ms(status.run_lock_wait_ms_p95), "from asking for a lock to holding it"],
    ["run_lock_wait_ms_p99", ms(status.run_lock_wait_ms_p99), "the same for the slowest in a hundred"],
    ["job_result_latency_ms_p95", ms(status.job_result_latency_ms_p95), "from sending a job out to its result being kept"],
  ]);
}

function show(status) {
  byId("ask").hidden = true;
  byId("ready").textContent = status.ready ? "ready" : "not ready: " + status.not_ready_because;
  byId("ready").className = "badge " + (status.ready ? "good" : "bad");
  byId("who").textContent = status.name + " · version " + status.version + " · " + status.mode;
  byId("warnings").hidden = status.warnings.length === 0;
  byId("warning-lines").replaceChildren(...status.warnings.map((text) => element("p", text)));
  showCards(status); showTables(status); showFacts(status);
  byId("fresh").textContent = "as of " + new Date().toLocaleTimeString();
  if (stream === null) listen();
}

function lost(text) { byId("ready").textContent = text; byId("ready").className = "badge bad"; }

async function ask() {
  if (isAsking) return;
  isAsking = true;
  try {
    const answer = await fetch("/api/v1/status", { headers: headers(), cache: "no-store" });
    const body = await answer.json();
    if (answer.status === 401 || answer.status === 403) {
      byId("ask").hidden = false;
      byId("refused").textContent = key === null ? "" : body.title + ": " + body.detail;
      key = null;
      lost("an API key is needed");
    } else if (answer.ok) show(body);
    else lost(body.title ?? "answered " + answer.status);
  } catch { lost("does not answer"); }
  isAsking = false;
}

async function listen() {
  const mine = stream = new AbortController();
  try {
    const answer = await fetch("/api/v1/stream", { headers: headers(), signal: mine.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); answer.ok && !part.done; part = await reader.read()) {
      const events = (text + part.value).split("\\n\\n");
      text = events.pop();
      events.map((event) => /^data: (.*)$/m.exec(event)).filter(Boolean).forEach((data) => latest.unshift(JSON.parse(data[1])));
      latest = latest.slice(0, 20);
      rows("live", latest.map((news) => [news.at.slice(11, 23), news.job_id ?? "run " + news.run_id,
        news.topic ?? news.workflow_id, news.state]));
    }
  } catch { /* asked again with the next status */ }
  setTimeout(() => { if (stream === mine) stream = null; }, 2000);
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim() || null;
  byId("key").value = "";
  if (stream !== null) stream.abort();
  stream = null;
  ask();
});
ask();
timer = setInterval(ask, 2000);
`;
