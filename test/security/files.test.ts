import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cordum } from "../cli/run.ts";
import { Ups } from "../cli/up/ups.ts";

const ups = new Ups("files");

test("the files of a data directory are private, also in one that exists and is open to all", async () => {
  const dir = join(ups.dir, "data");
  mkdirSync(dir);
  writeFileSync(join(dir, "older"), "");
  chmodSync(dir, 0o777);
  chmodSync(join(dir, "older"), 0o666);
  const up = ups.start(["--port", "0", "--data", dir]);
  await up.url;
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  const open = readdirSync(dir).filter((name) => (statSync(join(dir, name)).mode & 0o077) !== 0);
  expect(open).toEqual([]);
  expect(readdirSync(dir).length).toBeGreaterThan(2);
});

test("doctor reports files that other users can access", async () => {
  const dir = join(ups.dir, "later");
  const up = ups.start(["--port", "0", "--data", dir]);
  const env = { CORDUM_URL: await up.url, CORDUM_DATA_DIR: dir };
  const doctor = async () => (await cordum(["doctor"], env)).out;
  expect(await doctor()).not.toContain("other users;");
  chmodSync(join(dir, "token"), 0o644);
  expect(await doctor()).toMatch(/caution: `.*token` can be accessed by other users; run `chmod -R go-rwx`/);
});
