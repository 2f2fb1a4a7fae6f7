import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { placesIn } from "../../src/cli/commands/completion.ts";
import { newContext } from "../../src/cli/context.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { formatRange, formatValue } from "../../src/config/explain.ts";
import { SECTIONS } from "../../src/config/sections.ts";
import type { Setting } from "../../src/config/setting.ts";
import { SETTINGS } from "../../src/config/table.ts";
import { ERRORS } from "../../src/core/model/errors.ts";
import { readPolicy } from "../../src/core/policy/document.ts";
import { ioFor } from "./run.ts";

const FILE = new URL("../../docs/operations.md", import.meta.url);

/** The tables are generated; update them with `npx vitest run test/cli/docs.test.ts -u`. */
test("docs/operations.md lists all settings, errors and commands", async () => {
  const written = readFileSync(FILE, "utf8");
  const tables = { settings: settingsTable(), errors: errorsTable(), commands: commandsTable() };
  const fresh = Object.entries(tables).reduce((text, [name, table]) => withTable(text, name, table), written);
  await expect(fresh).toMatchFileSnapshot("../../docs/operations.md");
});

test("the policy in the README is valid", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, text = ""] = /```yaml\n(.*?)```/s.exec(readme) ?? [];
  const read = readPolicy({ name: "README.md", text });
  expect(read).toMatchObject({ kind: "ok" });
  expect(read.kind === "ok" && read.document.rules.length).toBeGreaterThan(1);
});

function withTable(text: string, name: string, table: string): string {
  const [begin, end] = [`<!-- ${name}: generated -->\n`, `<!-- ${name}: end -->`];
  expect(text).toContain(begin);
  expect(text).toContain(end);
  return `${text.slice(0, text.indexOf(begin))}${begin}${table}${text.slice(text.indexOf(end))}`;
}

function settingsTable(): string {
  const rows = [...SETTINGS, ...SECTIONS].map((setting: Setting) => {
    const baseline = setting.baseline === undefined ? "" : code(formatValue(setting, setting.baseline));
    return `| \`${setting.name}\` | ${code(formatValue(setting, setting.default))} | ${baseline} | ${formatRange(setting.type)} | ${setting.help} |`;
  });
  return ["| setting | default | baseline | range | description |", "|---|---|---|---|---|", ...rows, ""].join("\n");
}

function errorsTable(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, { status, retryable, title }]) => `| \`${code}\` | ${status} | ${retryable ? "yes" : "no"} | ${title} |`,
  );
  return ["| code | status | retryable | title |", "|---|---|---|---|", ...rows, ""].join("\n");
}

function commandsTable(): string {
  const places = placesIn(buildProgram(newContext(ioFor({}).io, "1.2.3", () => {})));
  const leaves = places.filter(({ commands }) => commands.length === 0);
  const rows = leaves.map(({ path, usage, description, options }) => {
    const flags = options
      .filter(({ long }) => long !== "--json")
      .map(({ flags }) => `\`${flags.replaceAll("|", "\\|")}\``);
    return `| \`${[path, ...usage].join(" ")}\` | ${description} | ${flags.join(", ")} |`;
  });
  return ["| command | description | flags |", "|---|---|---|", ...rows, ""].join("\n");
}

function code(text: string): string {
  return text === "–" ? text : `\`${text}\``;
}
