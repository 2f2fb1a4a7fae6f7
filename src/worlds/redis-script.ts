import { createHash } from "node:crypto";

/** A Lua script, known to the server by its hash. Each one documents its KEYS, its ARGV and what it returns. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

export function script(source: string): Script {
  const text = source.trim();
  return { source: text, sha: createHash("sha1").update(text).digest("hex") };
}
