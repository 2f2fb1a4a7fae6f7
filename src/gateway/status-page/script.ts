/** The client-side script of the status page, served as is. */
export const SCRIPT = `
"use strict";
const byId = (id) => document.getElementById(id);
let key = null, stream = null, latest = [], isPolling = false;

function element(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}
function rows(id, lines) {
  byId(id).replaceChildren(...lines.map((cells) => {
    const row = element("tr");
    const nodes = cells.map((cell) => typeof cell === "number" ? element("td", cell.toLocaleString("en"), "count")
      : Array.isArray(cell) ? element("td", cell[0], cell[1]) : element("td", cell));
    if (nodes.length === 1) nodes[0].colSpan = 4;
    row.append(...nodes);
    return row;
  }));
}
const headers = () => key === null ? {} : { "x-api-key": key };
const entries = (counted) => Object.entries(counted ?? {});

const OPERATORS_ONLY = "only for keys of tenant *";
const CLASSES = {
  lock_busy: "lock held by another process", safety_unavailable: "safety kernel unavailable",
  store_unavailable: "store unavailable", no_worker: "no eligible worker",
  throttled: "throttled by a rule or a limit", poison: "message cannot be decoded",
  unclassified: "job failed",
};

function showCards(status) {
  const leases = status.safety.fail_open.length;
  const cards = [
    ["Backlog", status.backlog_total, "jobs", "awaiting dispatch", ""],
    ["In flight", status.in_flight_total, "jobs", "dispatched to workers", ""],
    ["Runs", status.runs.open, "open", status.runs.limit === undefined ? "workflow runs"
      : "workflow runs, limit " + status.runs.limit, status.runs.open >= status.runs.limit ? "warn" : ""],
    ["Approvals", status.approvals, "jobs", "awaiting approval", status.approvals ? "warn" : ""],
    ["Dead letters", status.dead_letters, "stored", "failed, can be retried", status.dead_letters ? "bad" : ""],
    ["Workers", status.workers.total, "live", status.workers.leaving + " draining", status.workers.total ? "" : "warn"],
    ["Fail-open", leases, leases === 1 ? "lease" : "leases", "jobs can bypass the safety check under a lease", leases ? "bad" : ""],
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
  rows("retries", status.waiting === null ? [[OPERATORS_ONLY]]
    : classes.map((name) => [name, status.waiting[name] ?? 0, status.parked_retries[name] ?? 0, CLASSES[name] ?? ""]));
  rows("workers", (status.workers.items ?? []).map((worker) => [worker.id + (worker.leaving ? " (draining)" : ""),
    worker.topics.join(", ") || worker.pool || "", [worker.active_jobs + " / " + (worker.max_parallel_jobs ?? "any"), "count"],
    [(worker.seen_ago_ms / 1000).toFixed(1), "count"]]));
  byId("workers").dataset.none = status.workers.total ? "worker names are only shown to keys of tenant *" : "no live workers: start one, jobs wait until then";
}

function showFacts(status) {
  const { safety, policy, durability } = status;
  const breaker = { closed: ["closed: checks are sent to the kernel", "good"], open: ["open: checks are paused", "bad"],
    half_open: ["half open: probing the kernel", "warn"] }[safety.breaker] ?? [safety.breaker];
  rows("safety", [
    ["kernel", safety.kernel],
    ["breaker", safety.breaker_reason ? [breaker[0] + " (" + safety.breaker_reason + ")", breaker[1]] : breaker],
    ...safety.fail_open.map((lease) => ["fail-open lease", ["scope " + (lease.scope === "*" ? "all tenants" : lease.scope) +
      " until " + lease.ends_at.slice(11, 19) + " UTC: " + lease.reason, "bad"]]),
    ["policy", policy.source + ": " + policy.rules + " rules, default " + policy.default_decision],
    ["snapshot", policy.snapshot],
    ["bypassed", status.input_fail_open_total === null ? OPERATORS_ONLY
      : status.input_fail_open_total + " jobs in total, under fail-open leases"],
  ]);
  rows("about", [
    ["process", status.name], ["version", status.version + ", " + status.mode + ", profile " + status.profile],
    ["uptime", Math.round(status.uptime_ms / 1000).toLocaleString("en") + " s"],
    ["durability", durability.profile + ": " + durability.meaning],
    ["scope", status.tenant === "*" ? "all tenants" : "tenant " + status.tenant],
    ["access", status.needs_key ? "API key required" : "start-up token of this machine: no API key exists; create one with cordum key create"],
  ]);
  const ms = (value) => value === null ? ["–", "count"] : [value.toFixed(1) + " ms", "count"];
  rows("figures", status.lock_busy_retry_count === null ? [[OPERATORS_ONLY]] : [
    ["lock_busy_retry_count", status.lock_busy_retry_count, "retries because of a busy lock"],
    ["lock_busy_retry_delay_ms p50", ms(status.lock_busy_retry_delay_ms.p50), "median delay of these retries"],
    ["lock_busy_retry_delay_ms p95", ms(status.lock_busy_retry_delay_ms.p95), "95th percentile of the delay"],
    ["run_lock_wait_ms_p95", ms(status.run_lock_wait_ms_p95), "time to acquire the run lock, 95th percentile"],
    ["run_lock_wait_ms_p99", ms(status.run_lock_wait_ms_p99), "99th percentile"],
    ["job_result_latency_ms_p95", ms(status.job_result_latency_ms_p95), "from dispatch to the stored result, 95th percentile"],
  ]);
}

function show(status) {
  byId("ask").hidden = true;
  byId("content").hidden = false;
  byId("ready").textContent = status.ready ? "ready" : "not ready: " + status.not_ready_because;
  byId("ready").className = "badge " + (status.ready ? "good" : "bad");
  byId("who").textContent = status.name + " · version " + status.version + " · " + status.mode;
  byId("warnings").hidden = status.warnings.length === 0;
  byId("warning-lines").replaceChildren(...status.warnings.map((text) => element("p", text)));
  showCards(status); showTables(status); showFacts(status);
  byId("fresh").textContent = "as of " + new Date().toLocaleTimeString();
  if (stream === null) subscribe();
}

function showError(text) { byId("ready").textContent = text; byId("ready").className = "badge bad"; }

async function poll() {
  if (isPolling) return;
  isPolling = true;
  try {
    const response = await fetch("/api/v1/status", { headers: headers(), cache: "no-store" });
    const body = await response.json();
    if (response.status === 401 || response.status === 403) {
      byId("ask").hidden = false;
      byId("content").hidden = true;
      for (const id of ["who", "fresh"]) byId(id).textContent = "";
      byId("refused").textContent = key === null ? "" : body.title + ": " + body.detail;
      key = null;
      showError("API key required");
    } else if (response.ok) show(body);
    else showError(body.title ?? "HTTP " + response.status);
  } catch { showError("not responding"); }
  isPolling = false;
}

async function subscribe() {
  const current = stream = new AbortController();
  try {
    const response = await fetch("/api/v1/stream", { headers: headers(), signal: current.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); response.ok && !part.done; part = await reader.read()) {
      const events = (text + part.value).split("\\n\\n");
      text = events.pop();
      events.map((event) => /^data: (.*)$/m.exec(event)).filter(Boolean).forEach((data) => latest.unshift(JSON.parse(data[1])));
      latest = latest.slice(0, 20);
      rows("live", latest.map((update) => [update.at.slice(11, 23), update.job_id ?? "run " + update.run_id,
        update.topic ?? update.workflow_id, update.state]));
    }
  } catch { /* opened again after the next poll */ }
  setTimeout(() => { if (stream === current) stream = null; }, 2000);
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim() || null;
  byId("key").value = "";
  if (stream !== null) stream.abort();
  stream = null;
  poll();
});
// The link that the start prints. The fragment is not sent to the server, and is removed from the address and the history.
if (/^#cordum_\\w+$/.test(location.hash)) {
  key = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
}
poll();
setInterval(poll, 2000);
`;
