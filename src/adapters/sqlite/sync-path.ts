import { closeSync, fsyncSync, openSync } from "node:fs";

/** Waits until a file, or the names in a directory, are on disk: a new file is itself only durable once its directory is. */
export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
