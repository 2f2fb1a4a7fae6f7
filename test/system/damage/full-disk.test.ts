// A file system of 32 MiB that is filled while the control plane runs. Mounting needs root; elsewhere the test is skipped.
import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Ups } from "../../cli/up/ups.ts";
import { Api } from "../api.ts";

const ups = new Ups("full-disk");

function mount(dir: string): boolean {
  mkdirSync(dir);
  return spawnSync("mount", ["-t", "tmpfs", "-o", "size=32m", "tmpfs", dir]).status === 0;
}

/** Writes until the file system is full. */
function fill(file: string): void {
  const fd = openSync(file, "w");
  const bytes = Buffer.alloc(4_096, 1);
  try {
    for (;;) writeSync(fd, bytes);
  } catch (error) {
    expect(error).toMatchObject({ code: "ENOSPC" });
  } finally {
    closeSync(fd);
  }
}

test("refuses commits on a full disk, exits with a message on SIGTERM, and loses no acknowledged job", async ({
  skip,
}) => {
  const disk = join(ups.dir, "disk");
  if (!mount(disk)) skip("mounting a small file system needs root on Linux");
  try {
    const [data, filler] = [join(disk, "data"), join(disk, "filler")];
    const first = ups.start(["--port", "0", "--data", data]);
    const api = new Api(await first.url);
    const acknowledged = [await api.submit("idle.full", { text: "before" })];
    fill(filler);
    let refused = null;
    for (let count = 0; refused === null && count < 5_000; count++) {
      // Some inputs are stored as blobs, which need space at once.
      const input = { text: "x".repeat(count % 50 === 49 ? 9_000 : 200) };
      const { status, body } = await api.post("/jobs", { topic: "idle.full", input });
      if (status === 200) acknowledged.push(body.job_id);
      else refused = { status, code: body.code };
    }
    expect(refused).toEqual({ status: 503, code: "store_unavailable" });
    first.child.kill("SIGTERM");
    const { exitCode, err } = await first.ended;
    expect(err).toContain("could not be closed cleanly");
    expect(err).toContain("the next start recovers them");
    expect(err).not.toMatch(/^\s+at /m);
    expect(exitCode).toBe(6);

    rmSync(filler);
    const second = ups.start(["--port", "0", "--data", data]);
    const again = new Api(await second.url);
    for (const id of acknowledged) expect(await again.job(id)).toMatchObject({ job_id: id, topic: "idle.full" });
    second.child.kill("SIGTERM");
    expect((await second.ended).exitCode).toBe(0);
  } finally {
    spawnSync("umount", ["-l", disk]);
  }
});
