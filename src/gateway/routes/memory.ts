/**
 * Payloads by pointer of the wire protocol: inputs and results of the tenant's jobs, and payloads of its runs that are
 * stored outside their record. Keys with `work` access receive the bytes; others receive redacted text.
 */
import { Type } from "typebox";
import type { Payload } from "../../core/model/job.ts";
import { payloadFaultText } from "../../core/model/payload.ts";
import { redact, redactText } from "../../core/model/redact.ts";
import { RUNS, type StepRun } from "../../core/model/run.ts";
import { loadTenantJob } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { readPayload } from "../../engine/payloads.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { keyIn, toPointer } from "../../protocol/pointer.ts";
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
      json: Type.Optional(Type.Unknown({ description: "Any JSON value; if the text is JSON." })),
    }),
    handle: getMemory,
  },
];

async function getMemory({ engine }: Gateway, { org, query, principal }: GatewayRequest): Promise<GatewayResponse> {
  const key = keyIn(queryText(query, "ptr") ?? "");
  const payload = await payloadNamed(engine, org, key);
  const read =
    payload === null ? null : payload.kind === "inline" ? bytesOf(payload.value) : await readPayload(engine, payload);
  // Payloads of other tenants and unknown ones are indistinguishable.
  if (read === null) {
    const name = key.slice(0, NAME_LENGTH_MAX);
    throw new Problem(
      "memory_not_found",
      `no payload of tenant \`${org}\` at \`${name}\`; \`GET /api/v1/jobs\` lists the jobs`,
    );
  }
  if (typeof read === "string")
    throw new Problem("memory_not_found", payloadFaultText(`the payload at \`${key}\``, read));
  const isInput = key.startsWith("ctx");
  const decoded = decode(read);
  const content = ROLE_ACCESS[principal.role].includes("work")
    ? { base64: toBase64(read), ...decoded }
    : redactContent(decoded, engine.settings.current.redaction.paths, isInput ? "input" : "result");
  const kind = isInput ? "context" : "result";
  return ok({ pointer: toPointer(key), key, kind, size_bytes: read.length, ...content });
}

/**
 * Names are resolved through the records of the tenant, never as keys of the blob store: `ctx:` or `res:` and the id of a
 * run, of a step (`<run id>:<step>@1`) or of a job. Runs come first: clients choose job ids, but not run ids.
 */
async function payloadNamed(engine: Engine, org: string, key: string): Promise<Payload | null> {
  const [, kind, id] = /^(ctx|res)[:/](.{1,300})$/.exec(key) ?? [];
  if (kind === undefined || id === undefined) return null;
  const [, runId = id, stepId] = /^([^:]+):([A-Za-z0-9_-]+)@1$/.exec(id) ?? [];
  const run = (await engine.world.store.load(RUNS, runId))?.value;
  if (run?.org === org) {
    const ofRun = stepId === undefined ? run : stepPayloads(run.steps[stepId]);
    const payload = kind === "ctx" ? ofRun.input : ofRun.output;
    if (payload) return payload;
  }
  const job = (await loadTenantJob(engine, { org, jobId: id }))?.value;
  if (!job) return null;
  return kind === "ctx" ? job.input : job.output;
}

/** Lists and outputs that the run holds; the input of other steps is on their job. */
function stepPayloads(step: StepRun | undefined): { readonly input: Payload | null; readonly output: Payload | null } {
  const { output, fan } = step ?? {};
  return { input: fan?.items ?? null, output: output === undefined || output.kind === "children" ? null : output };
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

const NAME_LENGTH_MAX = 100;
