import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cordum } from "../run.ts";
import { Ups } from "../up/ups.ts";

const ups = new Ups("backup");

async function up(data: string): Promise<{ CORDUM_URL: string }> {
  const process = ups.start(["--port", "0", "--data", data]);
  return { CORDUM_URL: await process.url };
}

test("backs up a running control plane, and another one starts from the copy", async () => {
  const [data, copy] = [join(ups.dir, "data"), join(ups.dir, "copies", "one")];
  const env = await up(data);
  const submit = async (from: number) => {
    const topics = Array.from({ length: 20 }, (_, at) => `idle.t${from + at}`);
    const ran = await Promise.all(topics.map((topic) => cordum(["job", "submit", topic], env)));
    return ran.map(({ out }) => out.trim());
  };
  const before = await submit(0);
  const [made, during] = await Promise.all([cordum(["backup", copy, "--data", data, "--json"]), submit(20)]);
  expect(made).toMatchObject({ exitCode: 0, err: `to start from it: cordum up --data ${copy}\n` });
  expect(JSON.parse(made.out)).toMatchObject({ file: join(copy, "cordum.db"), schema: expect.any(Number) });
  expect(readdirSync(copy)).toEqual(["cordum.db"]);
  expect(during.every(Boolean)).toBe(true);

  const again = await up(copy);
  const page = JSON.parse((await cordum(["job", "list", "--limit", "200", "--json"], again)).out);
  const there = page.items.map(({ job_id }: { job_id: string }) => job_id);
  expect(before.filter((id) => !there.includes(id))).toEqual([]);
  expect(there.every((id: string) => [...before, ...during].includes(id))).toBe(true);
});

test("rejects an existing target and an invalid data directory", async () => {
  const [data, copy] = [join(ups.dir, "data"), join(ups.dir, "copy")];
  const plane = ups.start(["--port", "0", "--data", data]);
  await plane.url;
  plane.child.kill("SIGTERM");
  await plane.ended;
  const first = await cordum(["backup", copy], { CORDUM_DATA_DIR: data });
  expect(first).toMatchObject({ exitCode: 0, out: `${join(copy, "cordum.db")}\n` });
  const second = await cordum(["backup", copy, "--data", data]);
  expect(second).toMatchObject({ exitCode: 4, out: "" });
  expect(second.err).toContain(`next: cordum backup ${copy}-2\n`);
  writeFileSync(join(ups.dir, "cordum.db"), "not a database, but long enough to be read as one".repeat(99));
  const bad = await cordum(["backup", join(ups.dir, "bad"), "--data", ups.dir]);
  expect(bad).toMatchObject({ exitCode: 1, out: "" });
  expect(bad.err).toMatch(/^cordum: cannot back up .*not a database\nnext: cordum config explain data\.dir\n$/);
  expect(existsSync(join(ups.dir, "bad", "cordum.db"))).toBe(false);
  expect(readdirSync(join(ups.dir, "bad"))).toEqual([]);
});
