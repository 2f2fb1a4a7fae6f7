/**
 * The page at `/`: how it is, for people. One document without requests to anybody else; it reads `/api/v1/status` every two
 * seconds and listens to `/api/v1/stream`. It changes nothing.
 *
 * 1. Only this very style and script run in it (by their hashes), and it talks to this gateway alone.
 * 2. What it shows is written as text, never as markup.
 * 3. The page itself is open to everybody and says nothing; where keys are needed it asks for one and keeps it in memory.
 */
import { createHash } from "node:crypto";
import type { Route } from "../route.ts";
import { SCRIPT } from "./status-page-script.ts";

export const STATUS_PAGE_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/",
    summary: "A page that shows how it is, for people",
    access: "open",
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
input { flex: 1; font: inherit; padding: 6px 10px; border: 1px solid var(--line); border-radius: 6px; background: var(--back);
  color: inherit; }
button { font: inherit; padding: 6px 14px; border: 0; border-radius: 6px; background: var(--accent); color: var(--card); }
@media (max-width: 760px) { section { grid-column: span 12; } }
`;

/** What stands first in tables that say one thing a row: short, and never worth a line of its own. */
const FACTS: ReadonlySet<string> = new Set(["what", "class"]);

const section = (title: string, about: string, id: string, none: string, head: readonly string[]): string => `
<section><h2>${title}</h2><p class="soft">${about}</p><table${FACTS.has(head[0] ?? "") ? ' class="facts"' : ""}>
<thead><tr>${head.map((name) => `<th${name.startsWith("#") ? ' class="count"' : ""}>${name.replace("#", "")}</th>`).join("")}</tr></thead>
<tbody id="${id}" data-none="${none}"></tbody></table></section>`;

export const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Cordum</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head><body>
<header><h1>Cordum</h1><span id="ready" class="badge soft">asking…</span><span id="who" class="soft"></span>
<span id="fresh" class="soft"></span></header>
<main>
<section class="wide" id="ask" hidden><h2>An API key is needed</h2>
<p class="soft">One that may read. It is kept in the memory of this page only, and forgotten when you close it.</p>
<form id="key-form"><input id="key" type="password" autocomplete="off" placeholder="cordum_…" aria-label="API key">
<button>Show</button></form><p id="refused" class="bad"></p></section>
<section class="wide" id="warnings" hidden><h2 class="warn">What to know</h2><div id="warning-lines"></div></section>
<section class="wide" id="cards"></section>
${section("Queues", "Jobs by topic: allowed and waiting for a free worker, and sent out to one.", "queues", "nothing waits, nothing is out", ["topic", "#waiting (jobs)", "#with workers (jobs)"])}
${section("Retries", "What waits for its next try, by the class of what was in the way.", "retries", "nothing waits to be tried again", ["class", "#jobs", "#messages", "in the way is"])}
${section("Workers", "Those heard of lately, by what they said of themselves; a silent one leaves the list.", "workers", "no worker was heard of: jobs wait", ["worker", "topics", "#jobs / most", "#heard (s ago)"])}
${section("Safety", "Every job is checked before it goes out. Without an answer jobs wait, unless somebody has opened a lease.", "safety", "", ["what", "how it stands"])}
${section("This control plane", "What runs here, and what it promises to keep.", "about", "", ["what", "how it stands"])}
${section("Figures", "Of this process since its start; the founding documents measure by them.", "figures", "", ["figure", "#value", "meaning"])}
<section class="wide"><h2>Live</h2><p class="soft" id="live-about">The latest changes of jobs and runs, newest first; best effort.</p><table class="facts">
<thead><tr><th>at</th><th>job or run</th><th>topic or workflow</th><th>is now</th></tr></thead>
<tbody id="live" data-none="nothing has happened since this page was opened"></tbody></table></section>
</main><script>${SCRIPT}</script></body></html>
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
