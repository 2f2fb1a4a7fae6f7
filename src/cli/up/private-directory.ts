/** The data directory and its files are accessible by their owner only, also those that an earlier umask left open. */
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** Creates the directory if needed. Returns a warning for each path whose mode cannot be changed. */
export function makePrivate(dir: string): readonly string[] {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const files = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isFile());
  return [dir, ...files.map(({ name }) => join(dir, name))].flatMap((path) => {
    try {
      const { mode } = statSync(path);
      if ((mode & OTHERS) !== 0) chmodSync(path, mode & ~OTHERS & 0o777);
      return [];
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return [`\`${path}\` is accessible by other users (${why}); run \`chmod go-rwx\` on it`];
    }
  });
}

const OTHERS = 0o077;
