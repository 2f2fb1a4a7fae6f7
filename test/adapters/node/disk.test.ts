import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { diskOf } from "../../../src/adapters/node/disk.ts";

test("reads the free and the total space of the disk of a directory", async () => {
  const { path, freeBytes, totalBytes } = await diskOf(tmpdir()).usage();
  expect(path).toBe(tmpdir());
  expect(freeBytes).toBeGreaterThan(0);
  expect(totalBytes).toBeGreaterThanOrEqual(freeBytes);
});

test("rejects for a directory that is gone", async () => {
  await expect(diskOf("/dev/null/none").usage()).rejects.toThrow(/ENOTDIR|ENOENT/);
});
