import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { rangeOf, shown } from "../../src/cli/explain.ts";
import { SETTINGS } from "../../src/config/table.ts";
import { ERRORS } from "../../src/model/errors.ts";
import { readPolicy } from "../../src/policy/document.ts";

const FILE = new URL("../../docs/operations.md", import.meta.url);

/** The tables are made from the code; `npx vitest run test/cli/docs.test.ts -u` writes them anew. */
test("docs/operations.md has the settings and the errors that there are", async () => {
  const written = readFileSync(FILE, "utf8");
  const fresh = withTable(withTable(written, "settings", settingsTable()), "errors", errorsTable());
  await expect(fresh).toMatchFileSnapshot("../../docs/operations.md");
});

test("the policy in the README is one that is taken", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, text = ""] = /```yaml\n(.*?)```/s.exec(readme) ?? [];
  const read = readPolicy({ name: "README.md", text });
  expect(read).toMatchObject({ kind: "ok", document: { rules: [{ decision: "deny" }, { decision: "allow" }] } });
});

function withTable(text: string, name: string, table: string): string {
  const [begin, end] = [`<!-- ${name}: generated -->\n`, `<!-- ${name}: end -->`];
  expect(text).toContain(begin);
  expect(text).toContain(end);
  return `${text.slice(0, text.indexOf(begin))}${begin}${table}${text.slice(text.indexOf(end))}`;
}

function settingsTable(): string {
  const rows = SETTINGS.map((setting) => {
    const founding = setting.founding === undefined ? "" : code(shown(setting, setting.founding));
    return `| \`${setting.name}\` | ${code(shown(setting, setting.default))} | ${founding} | ${rangeOf(setting.type)} | ${setting.help} |`;
  });
  return ["| setting | default | founding | range | what it does |", "|---|---|---|---|---|", ...rows, ""].join("\n");
}

function errorsTable(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, { status, retryable, title }]) => `| \`${code}\` | ${status} | ${retryable ? "yes" : "no"} | ${title} |`,
  );
  return ["| code | status | try again | meaning |", "|---|---|---|---|", ...rows, ""].join("\n");
}

function code(text: string): string {
  return text === "–" ? text : `\`${text}\``;
}
