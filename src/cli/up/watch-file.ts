import { statSync } from "node:fs";

/** Changes with the file. Read it before the file, so that later changes are detected. */
export function fileVersion(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? "absent" : `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
}

/** Polls, because editors replace files. */
export function watchFile(file: string, version: string, onChange: () => void): () => void {
  return watchVersion(() => fileVersion(file), version, onChange);
}

export function watchVersion(readVersion: () => string, version: string, onChange: () => void): () => void {
  let seen = version;
  const timer = setInterval(() => {
    const now = readVersion();
    if (now === seen) return;
    seen = now;
    onChange();
  }, POLL_MS);
  return () => clearInterval(timer);
}

const POLL_MS = 500;
