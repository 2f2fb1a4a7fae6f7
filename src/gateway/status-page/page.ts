/**
 * The read-only status page at `/`. It polls `/api/v1/status` every two seconds and subscribes to `/api/v1/stream`.
 *
 * 1. The content security policy admits only this style and script (by hash) and requests to this gateway.
 * 2. Values are rendered as text, never as markup.
 * 3. The page itself contains no data and needs no key. It prompts for a key if one is required, and keeps it in memory.
 * 4. Sections are hidden until a status has been read: an empty table would look like an idle control plane.
 */
import { createHash } from "node:crypto";
import { Type } from "typebox";
import type { Route } from "../route.ts";
import { SCRIPT } from "./script.ts";

export const STATUS_PAGE_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/",
    summary: "Status page (HTML)",
    access: "open",
    response: Type.String(),
    produces: "text/html",
    handle: async () => ({ status: 200, body: PAGE, contentType: "text/html; charset=utf-8", headers: HEADERS }),
  },
];

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6878; --line: #d9dee6; --card: #fff; --back: #f4f6f9;
  --good: #12734a; --bad: #b3261e; --warn: #8a5a00; --accent: #2456b8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf1; --soft: #9aa6b8; --line: #303a49; --card: #1b222d;
  --back: #12171f; --good: #5bd19a; --bad: #ff8a80; --warn: #f0b95b; --accent: #8ab0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header, main { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 6px 14px; padding-top: 22px; }
h1 { font-size: 22px; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 15px; margin: 0 0 2px; }
p { margin: 0; }
.soft { color: var(--soft); font-size: 13px; }
.badge { padding: 1px 10px; border-radius: 99px; border: 1px solid; font-size: 13px; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
main { padding-top: 16px; padding-bottom: 48px; display: grid; gap: 14px; grid-template-columns: repeat(12, 1fr); }
section { grid-column: span 6; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px; min-width: 0; }
section.wide { grid-column: span 12; }
#cards { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); background: none;
  border: 0; padding: 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.number { font-size: 28px; font-weight: 650; line-height: 1.2; font-variant-numeric: tabular-nums; }
.number small { font-size: 13px; font-weight: 400; color: var(--soft); margin-left: 5px; }
table { width: 100%; border-collapse: collapse; margin-top: 8px; font-size: 14px; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: 12px; }
th, td { padding: 4px 16px 4px 0; border-top: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
td:first-child, th:first-child { overflow-wrap: normal; }
th:last-child, td:last-child { padding-right: 0; }
td.count, th.count { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; width: 1%; }
.facts td:first-child, .facts th:first-child { white-space: nowrap; width: 1%; }
.facts td[colspan] { white-space: normal; }
tbody:empty::after { content: attr(data-none); color: var(--soft); font-size: 13px; line-height: 2; display: block;
  width: 0; white-space: nowrap; }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
form { display: flex; gap: 8px; margin-top: 10px; } [hidden] { display: none !important; }
#content { display: contents; }
input { flex: 1; font: inherit; padding: 6px 10px; border: 1px solid var(--line); border-radius: 6px; background: var(--back);
  color: inherit; }
button { font: inherit; padding: 6px 14px; border: 0; border-radius: 6px; background: var(--accent); color: var(--card); }
@media (max-width: 760px) { section { grid-column: span 12; } }
`;

/** First columns that must not wrap. */
const NARROW_COLUMNS: ReadonlySet<string> = new Set(["property", "class"]);

const section = (title: string, about: string, id: string, none: string, head: readonly string[]): string => `
<section><h2>${title}</h2><p class="soft">${about}</p><table${NARROW_COLUMNS.has(head[0] ?? "") ? ' class="facts"' : ""}>
<thead><tr>${head.map((name) => `<th${name.startsWith("#") ? ' class="count"' : ""}>${name.replace("#", "")}</th>`).join("")}</tr></thead>
<tbody id="${id}" data-none="${none}"></tbody></table></section>`;

export const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Cordum</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head><body>
<header><h1>Cordum</h1><span id="ready" class="badge soft">loading…</span><span id="who" class="soft"></span>
<span id="fresh" class="soft"></span></header>
<main>
<section class="wide" id="ask" hidden><h2>Sign in</h2>
<p class="soft">Enter an API key with read access (<code>cordum key create --role viewer</code>). It is kept only in the memory of this page.</p>
<form id="key-form"><input id="key" type="password" autocomplete="off" placeholder="cordum_…" aria-label="API key">
<button>Show</button></form><p id="refused" class="bad"></p></section>
<div id="content" hidden>
<section class="wide" id="warnings" hidden><h2 class="warn">Warnings</h2><div id="warning-lines"></div></section>
<section class="wide" id="cards"></section>
${section("Queues", "Jobs by topic.", "queues", "no queued or running jobs", ["topic", "#backlog", "#in flight"])}
${section("Retries", "Jobs and messages awaiting their next attempt, by retry class.", "retries", "no pending retries", ["class", "#jobs", "#messages", "cause"])}
${section("Workers", "Live workers, by their last heartbeat.", "workers", "no live workers: start one, jobs wait until then", ["worker", "topics", "#jobs / max", "#last seen (s ago)"])}
${section("Safety", "Jobs are checked before dispatch. While the kernel is unavailable they wait, unless a fail-open lease is open.", "safety", "", ["property", "value"])}
${section("This control plane", "This process and its durability.", "about", "", ["property", "value"])}
${section("Figures", "Of this process since its start.", "figures", "", ["figure", "#value", "meaning"])}
<section class="wide"><h2>Live</h2><p class="soft" id="live-about">Latest changes of jobs and runs, newest first; best effort.</p><table class="facts">
<thead><tr><th>time</th><th>job or run</th><th>topic or workflow</th><th>state</th></tr></thead>
<tbody id="live" data-none="no changes since this page was opened"></tbody></table></section>
</div></main><script>${SCRIPT}</script></body></html>
`;

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    `style-src ${hashOf(STYLE)}`,
    `script-src ${hashOf(SCRIPT)}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "referrer-policy": "no-referrer",
};
