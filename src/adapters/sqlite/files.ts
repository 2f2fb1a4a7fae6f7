import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";

export function writeFully(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, position + done);
}

/** Creates or replaces a file. It has its name once it is complete and synced. */
export function writeNewFile(file: string, bytes: Uint8Array): void {
  const temporary = `${file}.new`;
  const fd = openSync(temporary, "w", 0o600);
  try {
    writeFully(fd, bytes, 0);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, file);
  syncPath(dirname(file));
}

/** Syncs a file, or the entries of a directory: a new file is durable once its directory is synced. */
export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
