import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ACT_TYPES, KEYS_OF_ACT } from "../../src/core/workflow/definition/read-action.ts";
import { readWorkflow } from "../../src/core/workflow/definition/read-workflow.ts";

const text = readFileSync(new URL("../../docs/workflows.md", import.meta.url), "utf8");
const blocks = [...text.matchAll(/```yaml\n(.*?)```/gs)].map(([, block = ""]) => block);

test("accepts every definition and every step in docs/workflows.md", () => {
  expect(blocks.length).toBeGreaterThan(9);
  const problems = blocks.flatMap((block) => {
    const isWhole = block.startsWith("id:");
    const steps = block.replace(/^(?=.)/gm, "  ");
    const read = readWorkflow({ text: isWhole ? block : `id: x\nsteps:\n${steps}`, file: "docs/workflows.md" });
    return read.kind === "bad" ? [...read.problems, block] : [];
  });
  expect(problems).toEqual([]);
});

test("docs/workflows.md has an example of every step type and mentions every key", () => {
  const undocumented = ACT_TYPES.filter((type) => !blocks.some((block) => block.includes(`# ${type}: `)));
  expect(undocumented).toEqual([]);
  const keys = Object.values(KEYS_OF_ACT).flat();
  const missing = keys.filter((key) => !new RegExp(`\\b${key}\\b`).test(text));
  expect(missing).toEqual([]);
});

test("accepts every example workflow", () => {
  const dir = new URL("../../examples/workflows/", import.meta.url);
  for (const file of readdirSync(dir)) {
    const read = readWorkflow({ text: readFileSync(new URL(file, dir), "utf8"), file });
    expect(read, file).toMatchObject({ kind: "ok" });
  }
});
