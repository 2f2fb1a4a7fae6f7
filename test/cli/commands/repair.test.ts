import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cordum } from "../run.ts";
import { Ups } from "../up/ups.ts";

const ups = new Ups("repair");

test("a damaged record ends the start, and repair shows and saves what is valid", async () => {
  const data = join(ups.dir, "data");
  const first = ups.start(["--port", "0", "--data", data]);
  const env = { CORDUM_URL: await first.url };
  const ids: string[] = [];
  for (const text of ["first", "needle", "third"]) {
    ids.push((await cordum(["job", "submit", "idle.topic", JSON.stringify({ text })], env)).out.trim());
  }
  first.child.kill("SIGTERM");
  await first.ended;
  const file = join(data, "cordum.db");
  const bytes = readFileSync(file);
  for (let at = bytes.indexOf("needle"); at >= 0; at = bytes.indexOf("needle", at)) bytes[at]! ^= 1;
  writeFileSync(file, bytes);

  const refused = await ups.start(["--port", "0", "--data", data]).ended;
  expect(refused.exitCode).toBe(1);
  expect(refused.err).toMatch(/damaged data: .*cordum\.db: job `.*` does not match its checksum/);
  expect(refused.err).toContain(`next: cordum repair ${data}\n`);

  const shown = await cordum(["repair", data]);
  expect(shown.exitCode).toBe(1);
  expect(shown.out).toMatch(/^damaged:\n {2}cordum\.db: job .*\n(.*\n)*can be saved:\n(.*\n)+lost:\n {2}job .*\n/);
  expect(shown.err).toContain(`cordum repair ${data} --write`);
  const written = await cordum(["repair", data, "--write", "--json"]);
  expect(written.exitCode).toBe(0);
  expect(JSON.parse(written.out)).toMatchObject({ ok: true, copy: expect.stringContaining("damaged-") });
  expect(await cordum(["repair", data])).toMatchObject({ exitCode: 0, out: "no damage found\n" });

  const again = { CORDUM_URL: await ups.start(["--port", "0", "--data", data]).url };
  const found = await Promise.all(ids.map((id) => cordum(["job", "get", id], again)));
  expect(found.map(({ exitCode }) => exitCode)).toEqual([0, 3, 0]);
  expect(await cordum(["repair", data])).toMatchObject({ exitCode: 4 });
});
