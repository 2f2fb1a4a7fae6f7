/**
 * Payloads by pointer of the wire protocol: inputs and results of the tenant's jobs, and payloads of its runs that are
 * stored outside their record. Keys with `work` access receive the bytes; others receive redacted text.
 */
import { Type } from "typebox";
import { JOBS, type Job, type Payload } from "../../core/model/job.ts";
import { redact, redactText } from "../../core/model/redact.ts";
import { RUNS } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { inputKey, keyIn, outputKey, toPointer } from "../../protocol/pointer.ts";
import { ROLE_ACCESS } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { queryText } from "../views/page.ts";

export const MEMORY_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/memory",
    summary:
      "Get the input (`ctx:`) or result (`res:`) of a job, run or step by its pointer; " +
      "redacted for keys without `work` access",
    access: "read",
    orAccess: "work",
    query: Type.Object({
      ptr: Type.String({ maxLength: 600, description: "Such as `redis://ctx:<job id>`, or only the key." }),
    }),
    response: Type.Object({
      pointer: Type.String(),
      key: Type.String(),
      kind: Type.String({ description: "`context` or `result`." }),
      size_bytes: Type.Integer(),
      base64: Type.Optional(Type.String({ description: "The bytes; only for keys with `work` access." })),
      text: Type.Optional(Type.String({ description: "If the bytes are UTF-8 text." })),
      json: Type.Optional(Type.Unknown({ description: "If the text is JSON." })),
    }),
    handle: getMemory,
  },
];

async function getMemory({ engine }: Gateway, { org, query, principal }: GatewayRequest): Promise<GatewayResponse> {
  const { store, blobs } = engine.world;
  const key = keyIn(queryText(query, "ptr") ?? "");
  const found = await findOwner(key, async (id) => (await store.load(JOBS, id))?.value ?? null);
  const ofJob = found !== null && found.org === org ? payloadAt(found, key) : null;
  const payload = ofJob ?? (await payloadOfRun(engine, org, key));
  const bytes =
    payload === null ? null : payload.kind === "inline" ? bytesOf(payload.value) : await blobs.get(payload.ptr);
  // Payloads of other tenants, expired and unknown ones are indistinguishable.
  if (bytes === null) {
    throw new Problem(
      "memory_not_found",
      `no payload of tenant \`${org}\` at \`${key.slice(0, 100)}\`; it has expired or never existed`,
    );
  }
  const isInput = key.startsWith("ctx:");
  const decoded = decode(bytes);
  const content = ROLE_ACCESS[principal.role].includes("work")
    ? { base64: toBase64(bytes), ...decoded }
    : redactContent(decoded, engine.settings.current.redaction.paths, isInput ? "input" : "result");
  const kind = isInput ? "context" : "result";
  return ok({ pointer: toPointer(key), key, kind, size_bytes: bytes.length, ...content });
}

/** The job of a key: `<job id>`, optionally followed by a dot and a unique suffix. */
async function findOwner(key: string, load: (id: string) => Promise<Job | null>): Promise<Job | null> {
  const id = /^(?:ctx|res):(.{1,300})$/.exec(key)?.[1];
  if (id === undefined) return null;
  const dot = id.lastIndexOf(".");
  return (await load(id)) ?? (dot > 0 ? load(id.slice(0, dot)) : null);
}

function payloadAt(job: Job, key: string): Payload | null {
  const payloads: readonly (readonly [Payload | null, string])[] = [
    [job.input, inputKey(job.id)],
    [job.output, outputKey(job.id)],
  ];
  for (const [payload, inlineKey] of payloads) {
    if (payload?.kind === "inline" ? key === inlineKey : payload && isAt(payload.ptr, key)) return payload;
  }
  return null;
}

/** A key without the unique suffix also matches. */
const isAt = (ptr: string, key: string): boolean => ptr === key || ptr.startsWith(`${key}.`);

/** Steps without a job store large payloads under their run: `res:<run id>:<step>@1`. */
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

/** Redaction paths apply to values, so the text of a JSON payload is rendered from the redacted value. */
function redactContent({ text, json }: Content, paths: readonly string[], at: string): Content {
  if (text === undefined) return {};
  if (json === undefined) return { text: redactText(text) };
  const clean = redact(json, { paths, at });
  return { text: JSON.stringify(clean), json: clean };
}

function decode(bytes: Uint8Array): Content {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { text, ...jsonIn(text) };
  } catch {
    return {}; // Binary.
  }
}

function jsonIn(text: string): { readonly json?: unknown } {
  try {
    return { json: JSON.parse(text) };
  } catch {
    return {};
  }
}
