import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { cordum } from "./run.ts";
import { Transcript } from "./transcript.ts";

const dir = mkdtempSync(join(tmpdir(), "cordum-lab-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const QUICK = ["lab", "occ", "--clients", "10,20", "--seeds", "2"];

test("prints tables and JSON", async () => {
  const transcript = new Transcript({});
  await transcript.both(QUICK);
  await transcript.both(["lab", "lock-busy", "--contenders", "12", "--policy", "baseline", "--policy", "default"]);
  await transcript.both([
    ...["lab", "admission", "--contenders", "8", "--policy", "atomic", "--client", "none"],
    ...["--part", "grid", "--other-for-ms", "200"],
  ]);
  await transcript.both([
    ...["lab", "safety-outage", "--contenders", "20", "--policy", "full:1s:30s", "--load", "burst"],
    ...["--breaker", "on", "--mode", "closed", "--outage-ms", "60000", "--seeds", "1"],
  ]);
  await expect(transcript.text).toMatchFileSnapshot("golden/lab.txt");
});

describe("cordum lab occ", () => {
  test("--out writes the report files and lists them on stderr", async () => {
    const into = join(dir, "new", "report");
    const ran = await cordum([...QUICK, "--policy", "full", "--json", "--out", into]);
    expect(ran.exitCode).toBe(0);
    expect(JSON.parse(ran.out)).toMatchObject({ experiment: "occ", params: { policies: ["full"] } });
    const names = readdirSync(into);
    expect(names).toContain("occ.html");
    for (const name of names) expect(ran.err).toContain(`wrote ${join(into, name)}\n`);
    expect(readFileSync(join(into, "occ.json"), "utf8")).toBe(ran.out);
    expect(readFileSync(join(into, "occ.html"), "utf8")).toContain("1.2.3");
  });

  test("shows progress on a terminal only", async () => {
    let nowMs = 0;
    const clock = { nowMs: () => (nowMs += 1_500) };
    expect((await cordum(QUICK, {}, "", clock)).err).toBe("");
    expect((await cordum(QUICK, {}, "", { ...clock, isInteractive: true })).err).toMatch(/lab occ: 50 % of 2 seeds/);
  });

  test.each([
    [["--clients", "0"], "--clients `0`: give a whole number from 1 to 2000"],
    [["--seeds", "0"], "--seeds `0`"],
    [["--seed", "-1"], "--seed"],
    [["--policy", "nonsense"], "unknown retry policy `nonsense`"],
    [["--base-ms", "3000"], "longer than the maximum"],
  ])("rejects %j", async (flags, message) => {
    const ran = await cordum(["lab", "occ", ...flags]);
    expect(ran).toMatchObject({ exitCode: 2, out: "" });
    expect(ran.err).toContain(message);
    expect(ran.err).toContain("next: cordum lab occ --help");
  });

  test("rejects an unwritable directory before the run", async () => {
    const file = join(dir, "file");
    writeFileSync(file, "");
    const ran = await cordum([...QUICK, "--out", join(file, "below")]);
    expect(ran).toMatchObject({ exitCode: 1, out: "" });
    expect(ran.err).toContain("cannot write to");
  });

  test("rejects an unknown experiment", async () => {
    expect(await cordum(["lab", "nonsense"])).toMatchObject({ exitCode: 2, out: "" });
  });
});
