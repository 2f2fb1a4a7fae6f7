import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { cordum } from "../run.ts";

let dir: string;
let gateway: TestGateway;
let env: { CORDUM_URL: string };

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-policy-"));
  gateway = await openTestGateway();
  env = { CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) };
});

afterAll(async () => {
  await gateway.close();
  rmSync(dir, { recursive: true, force: true });
});

const file = (name: string, text: string) => {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
};
const NOWHERE = { CORDUM_URL: "http://127.0.0.1:9" };
const rule = (decision: string) => `rules:\n  - {id: r, match: {topics: [a.*]}, decision: ${decision}, reason: why}\n`;

describe("without a control plane", () => {
  test("check accepts a valid file and reports all problems with their lines, exit 2", async () => {
    const good = await cordum(["policy", "check", file("good.yaml", rule("allow")), "--json"], NOWHERE);
    expect(good.exitCode).toBe(0);
    expect(JSON.parse(good.out)).toMatchObject({ ok: true, rules: 1, default_decision: "deny" });
    const path = file("bad.yaml", "rules:\n  - {id: r, mach: {}, decision: alow, reason: why}\n");
    const bad = await cordum(["policy", "check", path, "--json"], NOWHERE);
    expect(bad.exitCode).toBe(2);
    expect(JSON.parse(bad.out).problems.length).toBeGreaterThanOrEqual(2);
    expect(bad.err).toContain("bad.yaml:2");
    expect(await cordum(["policy", "check", join(dir, "absent.yaml")], NOWHERE)).toMatchObject({ exitCode: 2 });
  });

  test("diff, explain and simulate work on files", async () => {
    const [one, two] = [file("one.yaml", rule("allow")), file("two.yaml", rule("deny"))];
    expect((await cordum(["policy", "diff", one, two], NOWHERE)).out).toBe("changed r: decision\n");
    expect((await cordum(["policy", "diff", one, one], NOWHERE)).out).toBe("no differences\n");
    const why = await cordum(["policy", "explain", "b.c", "--policy", one], NOWHERE);
    expect(why.out).toContain("DENY by default decision");
    expect(why.out).toContain("rule r did not match:\n    topics: ");
    const many = ["policy", "simulate", "-", "--policy", one, "--offline", "--json"];
    const ran = await cordum(many, NOWHERE, '{"topic":"a.b"}\n{"topic":"b.b"}\n');
    expect(JSON.parse(ran.out)).toMatchObject({ by_decision: { ALLOW: 1, DENY: 1 } });
    expect(await cordum(many, NOWHERE, "{topic}")).toMatchObject({ exitCode: 2 });
    expect(await cordum(["policy", "explain", "no topic", "--policy", one], NOWHERE)).toMatchObject({ exitCode: 2 });
  });

  test("commands that need a control plane exit with 6", async () => {
    const one = file("one.yaml", rule("allow"));
    for (const argv of [["list"], ["publish", one], ["diff", one], ["explain", "a.b"], ["rollback"]]) {
      expect(await cordum(["policy", ...argv], NOWHERE)).toMatchObject({ exitCode: 6 });
    }
  });
});

test("publish, list, explain, diff, simulate and rollback work against a gateway", async () => {
  const [allow, deny] = [file("allow.yaml", rule("allow")), file("deny.yaml", rule("deny"))];
  const run = (...argv: string[]) => cordum(["policy", ...argv], env);
  expect((await run("publish", allow, "--note", "the first")).out).toContain("previous: the built-in policy");
  expect((await run("publish", allow)).out).toContain("is already in force");
  expect((await run("diff", deny)).out).toBe("changed r: decision\n");
  const requests = file("requests.json", '[{"topic":"a.b"},{"topic":"b.b"}]');
  expect((await run("simulate", requests, "--policy", deny)).out).toContain("1 of 2 decisions would change");
  expect((await run("publish", deny)).exitCode).toBe(0);
  expect((await run("explain", "a.b", '{"x":1}', "--label", "k=v", "--mcp", "tool=rm")).out).toContain(
    "DENY by rule r",
  );
  const listed = JSON.parse((await run("list", "--json")).out);
  expect(listed.items.map((one: { in_force: boolean; name: string }) => [one.in_force, one.name])).toEqual([
    [true, basename(deny)],
    [false, basename(allow)],
  ]);
  expect((await run("list")).out).toContain("the first");
  expect((await run("rollback")).exitCode).toBe(0);
  const first = await run("rollback");
  expect(first).toMatchObject({ exitCode: 4 });
  expect(first.err).toContain("next: cordum policy list");
  expect(await run("rollback", "nothing")).toMatchObject({ exitCode: 3 });
  const wrong = file("wrong.yaml", "rules: 7\n");
  expect(await run("publish", wrong)).toMatchObject({ exitCode: 2 });
});
