import { createHash } from "node:crypto";
import { type Encoded, encodeArgs } from "./encode.ts";

/** A Lua script, called by its SHA-1. */
export interface Script {
  /** The first argument of EVALSHA. */
  readonly sha: Encoded;
  /** The first argument of EVAL. */
  readonly source: Encoded;
}

/**
 * Version of the data in Redis: keys, record texts, lock values. A change that a process of the previous version cannot read,
 * or would misread, increases it and comes with a migration (`schema-guard.ts`).
 */
export const SCHEMA = 2;

/** Every script of the engine refuses to run on data of another schema, so a newer process stops an older one at once. */
export function script(source: string): Script {
  const text = `if redis.call('GET', KEYS[1] .. 'schema') ~= '${SCHEMA}' then return redis.error_reply('SCHEMA differs') end
${source.trim()}`;
  return { sha: encodeArgs([createHash("sha1").update(text).digest("hex")]), source: encodeArgs([text]) };
}
