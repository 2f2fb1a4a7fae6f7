/** The data directory and its files are accessible by their owner only, also those that an earlier umask left open. */
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** Creates the directory if needed. Modes that cannot be changed are reported by `openPaths`. */
export function makePrivate(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  for (const path of pathsIn(dir)) {
    try {
      const { mode } = statSync(path);
      if ((mode & OTHERS) !== 0) chmodSync(path, mode & ~OTHERS & 0o777);
    } catch {
      // The owner is another user.
    }
  }
}

/** A warning if other users can access the directory or a file in it now: modes may have changed since the start. */
export function openPaths(dir: string): readonly string[] {
  try {
    const open = pathsIn(dir).filter((path) => (statSync(path).mode & OTHERS) !== 0);
    const [first] = open;
    if (first === undefined) return [];
    const more = open.length === 1 ? "" : ` and ${open.length - 1} more`;
    return [`\`${first}\`${more} can be accessed by other users; run \`chmod -R go-rwx\` on the data directory`];
  } catch (error) {
    return [`the data directory cannot be checked: ${error instanceof Error ? error.message : String(error)}`];
  }
}

function pathsIn(dir: string): readonly string[] {
  const files = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isFile());
  return [dir, ...files.map(({ name }) => join(dir, name))];
}

const OTHERS = 0o077;
