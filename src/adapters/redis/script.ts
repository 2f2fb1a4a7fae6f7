import { createHash } from "node:crypto";
import { type Encoded, encodeArgs } from "./encode.ts";

/** A Lua script, called by its SHA-1. */
export interface Script {
  /** The first argument of EVALSHA. */
  readonly sha: Encoded;
  /** The first argument of EVAL. */
  readonly source: Encoded;
}

export function script(source: string): Script {
  const text = source.trim();
  return { sha: encodeArgs([createHash("sha1").update(text).digest("hex")]), source: encodeArgs([text]) };
}
