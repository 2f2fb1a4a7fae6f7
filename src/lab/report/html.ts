/** Parts of self-contained HTML pages: no script and no external resource. Texts are escaped. */
import type { Chart } from "./chart.ts";
import { drawChart } from "./draw.ts";
import { escaped, SVG_STYLE, svgInline } from "./svg.ts";

export function htmlPage(title: string, body: readonly string[]): string {
  return [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    `<title>${escaped(title)}</title>`,
    `<style>\n${PAGE_STYLE}\n</style>`,
    "</head>",
    "<body>",
    "<main>",
    ...body,
    "</main>",
    "</body>",
    "</html>",
    "",
  ].join("\n");
}

export function htmlFigure(chart: Chart): string {
  return [
    "<figure>",
    `<h2>${escaped(chart.title)}</h2>`,
    `<figcaption>${escaped(chart.caption)}</figcaption>`,
    `<div class="scroll">${svgInline(drawChart(chart))}</div>`,
    "</figure>",
  ].join("\n");
}

export function htmlTable(caption: string, head: string, rows: readonly string[]): string {
  const parts = [
    caption === "" ? "" : `<caption>${escaped(caption)}</caption>`,
    head === "" ? "" : `<thead><tr>${head}</tr></thead>`,
    `<tbody>\n${rows.join("\n")}\n</tbody>`,
  ].filter((part) => part !== "");
  return `<div class="scroll"><table>\n${parts.join("\n")}\n</table></div>`;
}

export function htmlList(items: readonly string[]): string {
  return `<ul>\n${items.map((item) => `<li>${escaped(item)}</li>`).join("\n")}\n</ul>`;
}

const PAGE_STYLE = `:root{--ground:#f5f6f8;--card:#ffffff;--ink:#3c4450;--strong:#15181d;--rule:#e1e5ea;--best:#0d7a5f}
@media (prefers-color-scheme:dark){
:root{--ground:#0f1115;--card:#171a20;--ink:#b4bcc8;--strong:#eef1f5;--rule:#2b303a;--best:#45d0a6}
}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
main{max-width:948px;margin:0 auto;padding:32px 20px 64px}
h1,h2{color:var(--strong);line-height:1.25}
h1{font-size:28px;margin:0 0 8px}
h2{font-size:20px;margin:40px 0 8px}
.description{font-size:17px;max-width:70ch}
figure{margin:28px 0;padding:20px 24px;background:var(--card);border:1px solid var(--rule);border-radius:10px}
figure h2{margin:0 0 4px}
figcaption{max-width:78ch;margin:0 0 12px}
.scroll{overflow-x:auto}
svg{display:block;max-width:100%;height:auto}
table{border-collapse:collapse;margin:12px 0 20px;font-size:14px;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;color:var(--strong);padding:4px 0 6px;white-space:nowrap}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--rule);text-align:right;vertical-align:baseline;white-space:nowrap}
th{font-weight:600;color:var(--strong)}
th[scope=row]{text-align:left}
thead th:first-child{text-align:left}
td.text{text-align:left;white-space:normal;min-width:9ch}
td b{color:var(--best)}
small{opacity:.72;font-size:11.5px}
code{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:var(--strong)}
details{margin:12px 0}
summary{cursor:pointer}
${SVG_STYLE}`;
