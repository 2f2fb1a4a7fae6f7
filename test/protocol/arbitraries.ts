import fc from "fast-check";
import type { Packet, PacketBody } from "../../src/protocol/packet.ts";
import { CAP, camelCase, type Field } from "../../src/protocol/schema.ts";

/** Arbitrary messages and packets, generated from the schema. */
export function messageOf(name: string): fc.Arbitrary<Record<string, unknown>> {
  const fields = (CAP.messages as Record<string, readonly Field[]>)[name]!;
  const plain = fields.filter((field) => field.oneof === undefined);
  const payloads = fields.filter((field) => field.oneof !== undefined);
  const base = fc.record(Object.fromEntries(plain.map((field) => [camelCase(field.name), fieldOf(field)])), {
    requiredKeys: [],
  });
  if (payloads.length === 0) return base;
  const payload = fc.oneof(...payloads.map((field) => fieldOf(field).map((one) => ({ [camelCase(field.name)]: one }))));
  return fc.tuple(base, payload).map(([a, b]) => ({ ...a, ...b }));
}

export const messageNames = Object.keys(CAP.messages);

export const text = (): fc.Arbitrary<string> =>
  fc.oneof(fc.string({ maxLength: 60 }), fc.string({ unit: "grapheme", maxLength: 60 }), fc.constant("__proto__"));

/** JSON values that survive a JSON round trip. */
export const json = (): fc.Arbitrary<unknown> => fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)));

function fieldOf(field: Field): fc.Arbitrary<unknown> {
  const one = valuesOf(field);
  if (field.shape === "repeated") return fc.array(one, { minLength: 1, maxLength: 5 });
  if (field.shape === "map") {
    return fc
      .array(fc.tuple(text(), one), { minLength: 1, maxLength: 4 })
      .map((entries) => Object.fromEntries(entries));
  }
  return one;
}

function valuesOf({ type }: Field): fc.Arbitrary<unknown> {
  switch (type.kind) {
    case "message":
      return messageOf(type.of);
    case "enum":
      return fc.constantFrom(...Object.values((CAP.enums as Record<string, Record<number, string>>)[type.of]!));
    case "json":
      return json();
    case "timestamp":
      return fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 });
    case "scalar":
      return SCALARS[type.scalar];
    default:
      throw new Error(`unknown type ${type satisfies never}`);
  }
}

const SCALARS = {
  string: text(),
  bytes: fc.uint8Array({ maxLength: 20 }),
  bool: fc.boolean(),
  int32: fc.integer(),
  int64: fc.oneof(
    fc.maxSafeInteger(),
    fc
      .bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
      .map((value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value)),
  ),
  float: fc.float({ noNaN: true }),
  double: fc.double({ noNaN: true }),
};

const id = (): fc.Arbitrary<string> => fc.string({ minLength: 1, maxLength: 36 });
const labels = () => fc.dictionary(text(), text(), { minKeys: 1, maxKeys: 4 });
const texts = () => fc.array(text(), { minLength: 1, maxLength: 4 });

const meta = fc.record(
  {
    tenantId: text(),
    actorId: text(),
    idempotencyKey: text(),
    capability: text(),
    riskTags: texts(),
    requires: texts(),
    labels: labels(),
  },
  { requiredKeys: [] },
);

const hints = fc.record(
  { maxInputTokens: fc.nat(), allowSummarization: fc.boolean(), allowRetrieval: fc.boolean(), tags: texts() },
  { requiredKeys: [] },
);

const budget = fc.record(
  { maxInputTokens: fc.maxSafeNat(), maxOutputTokens: fc.maxSafeNat(), deadlineMs: fc.maxSafeNat() },
  { requiredKeys: [] },
);

const request = fc.record(
  {
    kind: fc.constant("job_request" as const),
    jobId: id(),
    topic: id(),
    priority: fc.constantFrom("interactive" as const, "batch" as const, "critical" as const),
    contextPtr: text(),
    tenantId: text(),
    principalId: text(),
    labels: labels(),
    env: labels(),
    adapterId: text(),
    parentJobId: text(),
    workflowId: text(),
    stepIndex: fc.nat(),
    memoryId: text(),
    contextHints: hints,
    budget,
    compensation: fc.record({ topic: text(), env: labels(), contextHints: hints, budget, meta }, { requiredKeys: [] }),
    meta,
    attempt: fc.nat(),
    input: json(),
    deadlineMs: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
  },
  { requiredKeys: ["kind", "jobId", "topic"] },
);

const result = fc.record(
  {
    kind: fc.constant("job_result" as const),
    jobId: id(),
    status: fc.constantFrom("succeeded" as const, "failed_retryable" as const, "timeout" as const, "denied" as const),
    workerId: id(),
    resultPtr: text(),
    executionMs: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    errorCode: text(),
    errorMessage: text(),
    artifactPtrs: texts(),
    errorCodeEnum: fc.constantFrom("timeout" as const, "denied" as const, 1_234),
    attempt: fc.nat(),
    output: json(),
    retryAfterMs: fc.nat(),
    retryClass: fc.constantFrom("lock_busy" as const, "no_worker" as const),
    isWaiting: fc.constant(true),
  },
  { requiredKeys: ["kind", "jobId", "status", "workerId"] },
);

const heartbeat = fc.record(
  {
    kind: fc.constant("heartbeat" as const),
    workerId: id(),
    activeJobs: fc.nat(),
    maxParallelJobs: fc.nat(),
    pool: text(),
    capabilities: texts(),
    labels: labels(),
  },
  { requiredKeys: ["kind", "workerId"] },
);

const handshake = fc.record(
  {
    kind: fc.constant("handshake" as const),
    componentId: id(),
    role: fc.constantFrom("worker" as const, "scheduler" as const, "gateway" as const),
    readyTopics: texts(),
    sdkVersion: text(),
  },
  { requiredKeys: ["kind", "componentId", "role"] },
);

const alert = fc.record(
  {
    kind: fc.constant("alert" as const),
    level: text(),
    message: text(),
    component: text(),
    code: text(),
    details: labels(),
  },
  { requiredKeys: ["kind", "level", "message"] },
);

const progress = fc.record(
  {
    kind: fc.constant("job_progress" as const),
    jobId: id(),
    percent: fc.nat({ max: 100 }),
    message: text(),
    attempt: fc.nat(),
    extendMs: fc.nat(),
  },
  { requiredKeys: ["kind", "jobId"] },
);

const cancel = fc.record(
  { kind: fc.constant("job_cancel" as const), jobId: id(), reason: text(), requestedBy: text() },
  { requiredKeys: ["kind", "jobId"] },
);

/** Packets without values that equal a proto3 default. */
export const packet: fc.Arbitrary<Packet> = fc.record({
  traceId: text(),
  senderId: text(),
  createdAtMs: fc.nat({ max: 253_402_300_799_999 }),
  body: fc
    .oneof(request, result, progress, cancel, heartbeat, handshake, alert)
    .map((body) => withoutDefaults({ ...body }) as PacketBody),
});

/** Extensions keep their defaults, and alerts always have a level and a message in memory. */
function withoutDefaults(body: Readonly<Record<string, unknown>>): object {
  const kept = body.kind === undefined ? [] : body.kind === "alert" ? ["level", "message"] : KEPT;
  const entries = Object.entries(body).filter(
    ([name, value]) => kept.includes(name) || (value !== "" && value !== 0 && value !== false),
  );
  return Object.fromEntries(
    entries.map(([name, value]) => [
      name,
      MESSAGES.has(name) ? withoutDefaults(value as Record<string, unknown>) : value,
    ]),
  );
}

const KEPT = ["percent", "attempt", "extendMs", "deadlineMs", "retryAfterMs", "input", "output"];
const MESSAGES = new Set(["meta", "contextHints", "budget", "compensation"]);
