import { statfs } from "node:fs/promises";
import type { Disk, DiskUsage } from "../../ports/disk.ts";

/** The disk of a directory, which must exist. */
export const diskOf = (path: string): Disk => ({ usage: () => diskUsage(path) });

export async function diskUsage(path: string): Promise<DiskUsage> {
  const { bavail, blocks, bsize } = await statfs(path);
  return { path, freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}
