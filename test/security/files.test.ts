import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
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
