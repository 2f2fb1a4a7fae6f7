import { statSync } from "node:fs";

/** Differs after any change to the file. Taken before the file is read, so that a change after that is seen as one. */
export function stampOf(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? "absent" : `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
}

/** Calls back after every change since the stamp. Polled: that survives editors which replace the file. */
export function watchFile(file: string, stamp: string, onChange: () => void): () => void {
  return watchStamp(() => stampOf(file), stamp, onChange);
}

/** The same for whatever has a stamp. */
export function watchStamp(stampNow: () => string, stamp: string, onChange: () => void): () => void {
  let seen = stamp;
  const timer = setInterval(() => {
    const now = stampNow();
    if (now === seen) return;
    seen = now;
    onChange();
  }, POLL_MS);
  return () => clearInterval(timer);
}

const POLL_MS = 500;
