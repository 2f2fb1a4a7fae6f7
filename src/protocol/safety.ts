/**
 * Encoding and decoding of safety checks and decisions.
 *
 * 1. Encoding and decoding preserve a message, except that empty lists and maps become absent.
 * 2. A decision is never weakened. A decision that cannot be carried out here (quarantine, redacted context) becomes a
 *    denial with that reason; a response without a decision is malformed.
 * 3. Malformed bytes throw a `MalformedError`.
 * 4. A check without its input, or with an input of an unsupported type, sets `inputOmitted`, which differs from having no
 *    input. Third parties express this by a size without content.
 * 5. Limits and budgets of rules are extension fields. A kernel that does not send them has decided without them.
 * 6. The caller is an extension field, which only the control plane writes: labels and metadata come from submitters.
 * 7. So is the time of the evaluation: the kernel evaluates at the time of the caller, which records it.
 */
import type {
  BudgetTerms,
  Constraints,
  Decision,
  Effect,
  PolicyRequest,
  Remediation,
  ShadowVerdict,
} from "../core/policy/decision.ts";
import type { Limit } from "../core/policy/limits/limit.ts";
import { MalformedError } from "./bytes.ts";
import type { PlainMessage } from "./fields.ts";
import { compile } from "./protobuf.ts";
import { SAFETY } from "./safety-schema.ts";

/** Above the size of any input: checks contain the whole input. */
export const SAFETY_BYTES_MAX = 4 * 1024 * 1024;

export function encodeCheck(request: PolicyRequest): Uint8Array {
  const { org, actorId, actorType, capability, packId } = request;
  const content = request.input === null || request.input === undefined ? undefined : jsonBytes(request.input);
  return REQUEST.encode({
    jobId: request.jobId,
    topic: request.topic,
    tenant: org,
    priority: request.priority,
    principalId: actorId ?? undefined,
    labels: request.labels,
    meta: {
      tenantId: org,
      actorId: actorId ?? undefined,
      actorType: actorType ?? undefined,
      capability: capability ?? undefined,
      riskTags: request.riskTags,
      requires: request.requires,
      packId: packId ?? undefined,
    },
    inputContent: content,
    inputContentType: content === undefined ? undefined : JSON_TYPE,
    inputSizeBytes: content?.length ?? (request.inputOmitted?.bytes || undefined),
    inputOmitted: request.inputOmitted === undefined ? undefined : true,
    caller: request.caller === undefined ? undefined : callerOnWire(request),
    nowMs: request.nowMs,
  });
}

/** Absent fields get the defaults of a submission. */
export function decodeCheck(bytes: Uint8Array): PolicyRequest {
  const message = REQUEST.decode(bytes);
  const meta = (message.meta ?? {}) as PlainMessage;
  const topic = nonEmpty(message.topic);
  if (topic === null) throw new MalformedError("PolicyCheckRequest without `topic`");
  const input = contentOf(message);
  const request = {
    jobId: (message.jobId as string | undefined) ?? "",
    org: nonEmpty(message.tenant) ?? nonEmpty(meta.tenantId) ?? "default",
    topic,
    priority: (message.priority as string | undefined) ?? "batch",
    capability: (meta.capability as string | undefined) ?? null,
    riskTags: (meta.riskTags as string[] | undefined) ?? [],
    requires: (meta.requires as string[] | undefined) ?? [],
    labels: { ...(meta.labels as object | undefined), ...(message.labels as object | undefined) },
    actorId: (meta.actorId as string | undefined) ?? (message.principalId as string | undefined) ?? null,
    actorType: (meta.actorType as PolicyRequest["actorType"] | undefined) ?? null,
    packId: (meta.packId as string | undefined) ?? null,
    input: input ?? null,
    ...(message.caller === undefined ? {} : callerIn(message.caller as PlainMessage)),
    ...(message.nowMs === undefined ? {} : { nowMs: safeNumber(message.nowMs) }),
  };
  if (input !== undefined) return request;
  return { ...request, inputOmitted: { bytes: safeNumber(message.inputSizeBytes) ?? 0 } };
}

function callerOnWire({ callerKey: key, caller }: PolicyRequest) {
  return { key, name: caller?.name, role: caller?.role, tenant: caller?.tenant };
}

function callerIn({ key, ...parts }: PlainMessage): Pick<PolicyRequest, "callerKey" | "caller"> {
  const known = ["name", "role", "tenant"].filter((part) => typeof parts[part] === "string");
  const caller = Object.fromEntries(known.map((part) => [part, parts[part]]));
  return { callerKey: typeof key === "string" ? key : undefined, caller };
}

/** `explanation` is an extension for `Explain`: any JSON value. */
export function encodeDecision(decision: Decision, explanation?: unknown): Uint8Array {
  const { effect, approval } = decision;
  return RESPONSE.encode({
    decision: WIRE_DECISIONS[effect],
    reason: decision.reason,
    policySnapshot: decision.snapshot,
    ruleId: decision.ruleId ?? undefined,
    constraints: decision.constraints === undefined ? undefined : encodable(decision.constraints),
    approvalRequired: effect === "require_approval" ? true : undefined,
    remediations: decision.remediations,
    approvalExpiresMs: approval?.expiresMs ?? undefined,
    approvalBySubmitter: approval?.bySubmitter,
    explanation,
    limits: decision.limits,
    evaluatedAtMs: decision.atMs,
    timeDependent: decision.isTimed,
    shadow: decision.shadow?.map(({ effect: would, ...verdict }) => ({ ...verdict, decision: WIRE_DECISIONS[would] })),
    budgets: decision.budgets,
  });
}

export function decodeDecision(bytes: Uint8Array): Decision {
  const message = RESPONSE.decode(bytes);
  const { effect, reason } = verdictOf(message);
  const bySubmitter = message.approvalBySubmitter as boolean | undefined;
  const expiresMs = safeNumber(message.approvalExpiresMs) ?? null;
  const hasTerms = effect === "require_approval" && (bySubmitter !== undefined || expiresMs !== null);
  return {
    effect,
    // Third-party kernels send an empty id if no rule matched.
    ruleId: nonEmpty(message.ruleId),
    reason,
    snapshot: (message.policySnapshot as string | undefined) ?? "",
    ...(message.constraints === undefined ? {} : { constraints: constraintsOf(message.constraints as PlainMessage) }),
    ...(message.remediations === undefined
      ? {}
      : { remediations: (message.remediations as PlainMessage[]).map(remediationOf) }),
    ...(message.evaluatedAtMs === undefined ? {} : { atMs: safeNumber(message.evaluatedAtMs) ?? 0 }),
    ...(message.timeDependent === true ? { isTimed: true } : {}),
    ...(message.shadow === undefined ? {} : { shadow: shadowIn(message.shadow as PlainMessage[]) }),
    ...(hasTerms ? { approval: { expiresMs, bySubmitter: bySubmitter ?? false } } : {}),
    ...(message.limits === undefined ? {} : { limits: limitsIn(message.limits) }),
    ...(message.budgets === undefined ? {} : { budgets: budgetsIn(message.budgets) }),
  };
}

/** A limit that is not understood would let the job pass: the whole response is malformed. */
function limitsIn(value: unknown): readonly Limit[] {
  if (Array.isArray(value) && value.every(isLimit)) return value;
  throw new MalformedError("response of the safety kernel with limits of an unknown form");
}

function isLimit(value: unknown): value is Limit {
  const limit = value as Partial<Limit> | null;
  const isKnown = limit?.kind === "throttle" || limit?.kind === "velocity";
  const texts = [limit?.ruleId, limit?.by, limit?.key, limit?.exceeded?.effect, limit?.exceeded?.reason];
  const numbers = [limit?.max, limit?.withinMs, limit?.amount];
  return isKnown && texts.every((text) => typeof text === "string") && numbers.every(isPositive);
}

function budgetsIn(value: unknown): readonly BudgetTerms[] {
  if (Array.isArray(value) && value.every(isBudget)) return value;
  throw new MalformedError("response of the safety kernel with budgets of an unknown form");
}

function isBudget(value: unknown): value is BudgetTerms {
  const { per, tokens, usd, reserveTokens, reserveUsd } = (value ?? {}) as Partial<BudgetTerms>;
  const given = [tokens, usd, reserveTokens, reserveUsd].filter((amount) => amount !== undefined);
  return typeof per === "string" && (tokens ?? usd) !== undefined && given.every(isPositive);
}

const isPositive = (value: unknown): boolean => typeof value === "number" && value > 0;

/** The explanation of an `Explain` response; undefined from third-party kernels. */
export function explanationIn(bytes: Uint8Array): unknown {
  return RESPONSE.decode(bytes).explanation;
}

export function encodeSnapshots(snapshots: readonly string[]): Uint8Array {
  return SNAPSHOTS.encode({ snapshots });
}

const REQUEST = compile(SAFETY, "PolicyCheckRequest", SAFETY_BYTES_MAX);
const RESPONSE = compile(SAFETY, "PolicyCheckResponse", SAFETY_BYTES_MAX);
const SNAPSHOTS = compile(SAFETY, "ListSnapshotsResponse", SAFETY_BYTES_MAX);
const JSON_TYPE = "application/json";

const WIRE_DECISIONS: Readonly<Record<Effect, WireDecision>> = {
  allow: "allow",
  deny: "deny",
  require_approval: "require_human",
  throttle: "throttle",
  allow_with_constraints: "allow_with_constraints",
};
const EFFECTS = new Map<unknown, Effect>(
  Object.entries(WIRE_DECISIONS).map(([effect, wire]) => [wire, effect as Effect]),
);

/** Unknown decisions are left out: a shadow verdict has no effect. */
function shadowIn(verdicts: readonly PlainMessage[]): readonly ShadowVerdict[] {
  return verdicts.slice(0, SHADOW_READ_MAX).flatMap(({ ruleId, decision, fault }) => {
    const effect = EFFECTS.get(decision);
    if (typeof ruleId !== "string" || effect === undefined) return [];
    return [{ ruleId, effect, ...(typeof fault === "string" ? { fault } : {}) }];
  });
}

/** A kernel of this version sends no more. */
const SHADOW_READ_MAX = 8;

type WireDecision = (typeof SAFETY.enums.DecisionType)[keyof typeof SAFETY.enums.DecisionType];

function verdictOf(message: PlainMessage): { effect: Effect; reason: string } {
  const wire = message.decision as WireDecision | undefined;
  if (wire === undefined) throw new MalformedError("response of the safety kernel without a known decision");
  const given = (message.reason as string | undefined) ?? "";
  const denied = (cause: string) => ({ effect: "deny" as const, reason: given === "" ? cause : `${cause}: ${given}` });
  switch (wire) {
    case "quarantine":
      return denied("denied: the safety kernel decided QUARANTINE, which is not supported");
    case "redact":
      return denied("denied: the safety kernel decided REDACT, which is not supported");
    case "deny":
    case "throttle":
      return { effect: wire, reason: given };
    case "require_human":
      return { effect: "require_approval", reason: given };
    case "allow":
    case "allow_with_constraints":
      // The kernel allows only a redacted input; sending the original would exceed the permission.
      if (message.redactedContextPtr) {
        return denied("denied: the safety kernel allows only a redacted input, which is not supported");
      }
      return { effect: message.approvalRequired === true ? "require_approval" : wire, reason: given };
    default:
      return wire satisfies never;
  }
}

/** Two budgets are 32-bit integers in CAP: larger limits are clamped. */
function encodable(constraints: Constraints): Constraints {
  const { budgets } = constraints;
  if (budgets === undefined) return constraints;
  const { maxRetries, maxConcurrentJobs } = budgets;
  return {
    ...constraints,
    budgets: {
      ...budgets,
      ...(maxRetries === undefined ? {} : { maxRetries: Math.min(maxRetries, INT32_MAX) }),
      ...(maxConcurrentJobs === undefined ? {} : { maxConcurrentJobs: Math.min(maxConcurrentJobs, INT32_MAX) }),
    },
  };
}

const INT32_MAX = 2 ** 31 - 1;

function constraintsOf({ unknown: _, ...message }: PlainMessage): Constraints {
  const parts = Object.entries(message).map(([key, part]) => [
    key,
    typeof part === "object" && part !== null ? withNumbers(part as PlainMessage) : part,
  ]);
  return Object.fromEntries(parts) as Constraints;
}

function remediationOf({ unknown: _, ...message }: PlainMessage): Remediation {
  return { ...message, id: (message.id as string) ?? "", title: (message.title as string) ?? "" } as Remediation;
}

/** Clamps limits that a number cannot represent exactly. */
function withNumbers({ unknown: _, ...message }: PlainMessage): object {
  return Object.fromEntries(Object.entries(message).map(([key, value]) => [key, safeNumber(value) ?? value]));
}

function safeNumber(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value !== "bigint") return undefined;
  return value > 0n ? Number.MAX_SAFE_INTEGER : Number.MIN_SAFE_INTEGER;
}

/** The input as JSON or text; null for none; undefined if it is not in the check or has an unsupported type. */
function contentOf(message: PlainMessage): unknown {
  const content = (message.inputContent as Uint8Array | undefined) ?? new Uint8Array();
  const isWhole = content.length >= (safeNumber(message.inputSizeBytes) ?? 0);
  if (message.inputOmitted === true || !isWhole) return undefined;
  if (content.length === 0) return null;
  const type = nonEmpty(message.inputContentType)?.toLowerCase() ?? JSON_TYPE;
  if (type.startsWith("text/")) return utf8(content);
  if (!/^application\/([\w.+-]+\+)?json\b/.test(type)) return undefined;
  try {
    return JSON.parse(utf8(content)) as unknown;
  } catch {
    throw new MalformedError("`input_content` of a PolicyCheckRequest is not valid JSON");
  }
}

function jsonBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value), "utf8");
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new MalformedError("`input_content` of a PolicyCheckRequest is not valid UTF-8");
  }
}

const nonEmpty = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
