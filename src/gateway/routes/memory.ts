/**
 * What stands at a pointer of the wire protocol: the input or the result of one of the tenant's own jobs, or what one of its
 * runs keeps apart; nothing else.
 *
 * Who works gets it is; who only reads sees it without its secrets, as everywhere else, and never as bytes.
 */
import { Type } from "typebox";
import { JOBS, type Job, type Payload } from "../../core/model/job.ts";
import { redact, redactText } from "../../core/model/redact.ts";
import { RUNS } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { inputKey, keyIn, outputKey, toPointer } from "../../protocol/pointer.ts";
import { MAY } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { queryText } from "../views/page.ts";

export const MEMORY_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/memory",
    summary:
      "The input (`ctx:`) or the result (`res:`) of a job, a run or a step, by its pointer; " +
      "without its secrets for who may not work",
    access: "read",
    orAccess: "work",
    query: Type.Object({
      ptr: Type.String({ maxLength: 600, description: "Such as `redis://ctx:<job id>`, or the key alone." }),
    }),
    answer: Type.Object({
      pointer: Type.String(),
      key: Type.String(),
      kind: Type.String({ description: "`context` or `result`" }),
      size_bytes: Type.Integer(),
      base64: Type.Optional(Type.String({ description: "The bytes as they are; for keys that may work." })),
      text: Type.Optional(Type.String({ description: "Where the bytes are text." })),
      json: Type.Optional(Type.Unknown({ description: "Where the text is JSON." })),
    }),
    handle: getMemory,
  },
];

async function getMemory({ engine }: Gateway, { org, query, principal }: GatewayRequest): Promise<Answer> {
  const { store, blobs } = engine.world;
  const key = keyIn(queryText(query, "ptr") ?? "");
  const found = await findOwner(key, async (id) => (await store.load(JOBS, id))?.value ?? null);
  const ofJob = found !== null && found.org === org ? payloadAt(found, key) : null;
  const payload = ofJob ?? (await payloadOfRun(engine, org, key));
  const bytes =
    payload === null ? null : payload.kind === "inline" ? bytesOf(payload.value) : await blobs.get(payload.ptr);
  // Somebody else's, expired, or never there: all the same from here.
  if (bytes === null) {
    throw new Problem("memory_not_found", `nothing of tenant \`${org}\` stands at \`${key.slice(0, 100)}\``);
  }
  const isInput = key.startsWith("ctx:");
  const content = readable(bytes);
  const shown = MAY[principal.role].includes("work")
    ? { base64: toBase64(bytes), ...content }
    : withoutSecrets(content, engine.settings.current.redaction.paths, isInput ? "input" : "result");
  const kind = isInput ? "context" : "result";
  return ok({ pointer: toPointer(key), key, kind, size_bytes: bytes.length, ...shown });
}

/** The job that a key belongs to. After the job's id may come a dot and what makes the key unique. */
async function findOwner(key: string, load: (id: string) => Promise<Job | null>): Promise<Job | null> {
  const id = /^(?:ctx|res):(.{1,300})$/.exec(key)?.[1];
  if (id === undefined) return null;
  const dot = id.lastIndexOf(".");
  return (await load(id)) ?? (dot > 0 ? load(id.slice(0, dot)) : null);
}

/** What the job itself has at this key. */
function payloadAt(job: Job, key: string): Payload | null {
  const own: readonly (readonly [Payload | null, string])[] = [
    [job.input, inputKey(job.id)],
    [job.output, outputKey(job.id)],
  ];
  for (const [payload, usual] of own) {
    if (payload?.kind === "inline" ? key === usual : payload && isAt(payload.ptr, key)) return payload;
  }
  return null;
}

/** A pointer is known by what stands before the mark that makes it unique, too. */
const isAt = (ptr: string, key: string): boolean => ptr === key || ptr.startsWith(`${key}.`);

/** Steps that need no job keep what is large beside their run: `res:<run id>:<step>@1`. */
async function payloadOfRun({ world }: Engine, org: string, key: string): Promise<Payload | null> {
  const id = /^(?:ctx|res):([^:.]{1,300})(?:[:.]|$)/.exec(key)?.[1];
  const run = id === undefined ? null : (await world.store.load(RUNS, id))?.value;
  if (!run || run.org !== org) return null;
  const steps = Object.values(run.steps).flatMap(({ output, fan }) => [output, fan?.items]);
  for (const payload of [run.input, run.output, ...steps]) {
    if (payload?.kind === "pointer" && isAt(payload.ptr, key)) return payload;
  }
  return null;
}

const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

interface Content {
  readonly text?: string;
  readonly json?: unknown;
}

/** The text of a JSON value is made from what is left of the value: the places that are left out are known there alone. */
function withoutSecrets({ text, json }: Content, paths: readonly string[], at: string): Content {
  if (text === undefined) return {};
  if (json === undefined) return { text: redactText(text) };
  const clean = redact(json, { paths, at });
  return { text: JSON.stringify(clean), json: clean };
}

function readable(bytes: Uint8Array): Content {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { text, ...jsonIn(text) };
  } catch {
    return {}; // No text: the bytes say it all.
  }
}

function jsonIn(text: string): { readonly json?: unknown } {
  try {
    return { json: JSON.parse(text) };
  } catch {
    return {};
  }
}
