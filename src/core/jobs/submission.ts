import type { JobPriority, Packet } from "../../protocol/packet.ts";
import { inputKey, keyIn, ownKeyIn } from "../../protocol/pointer.ts";
import { isTopic, TOPIC_LENGTH_MAX } from "../../protocol/subjects.ts";
import type { Caller } from "../model/caller.ts";
import { bareTopic, hasBareForm, nfcEntries, nfcList, nonFiniteIn } from "../model/canonical.ts";
import type { Job } from "../model/job.ts";
import type { JobDetails } from "../model/job-details.ts";
import { clientJobId, DEFAULT_ORG, isStepJobId, wireJobId } from "../model/job-id.ts";
import { RESERVED_LABELS } from "../model/lists/labels.ts";
import type { Writable } from "../model/table.ts";
import type { ActorType, Remediation } from "../policy/decision.ts";
import type { Settings } from "../settings.ts";
import { withoutBypassLabels } from "./bypass.ts";
import { checkDetails } from "./check-details.ts";

/** A validated submission in canonical spelling. */
export interface Submission {
  readonly org: string;
  readonly topic: string;
  readonly input: unknown;
  /** The input contains the submission time as `created_at`, which is ignored when submissions are compared. */
  readonly isStamped: boolean;
  /** The key at which the client stored the input; it is copied once, at admission. */
  readonly inputPtr: string | null;
  readonly jobId: string | null;
  readonly priority: JobPriority;
  readonly labels: Readonly<Record<string, string>>;
  readonly riskTags: readonly string[];
  readonly requires: readonly string[];
  readonly capability: string | null;
  readonly actorId: string | null;
  readonly idempotencyKey: string | null;
  readonly traceId: string | null;
  readonly actorType: ActorType | null;
  readonly packId: string | null;
  /** The key or bus client of the sender. */
  readonly submittedBy: string | null;
  /** Absent if the sender is not authenticated. */
  readonly caller?: Caller | undefined;
  readonly traceparent: string | null;
  /** Absent if there are none: idempotency fingerprints of other submissions do not change. */
  readonly details?: JobDetails;
}

export type CheckedSubmission =
  | { readonly kind: "ok"; readonly submission: Submission }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export const LABELS_MAX = 64;
export const TEXT_LENGTH_MAX = 256;
const PRIORITIES: readonly JobPriority[] = ["interactive", "batch", "critical"];
/** W3C trace context, version 00. Invalid values are dropped, not rejected. */
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const NAME = /^[A-Za-z0-9_.:@-]+$/;

/** Reports all problems of a submission at once. */
export function checkSubmission(raw: Readonly<Record<string, unknown>>): CheckedSubmission {
  const problems: string[] = [];
  const name = (field: string, value: unknown, fallback: string | null): string | null => {
    if (value === undefined || value === null) return fallback;
    if (typeof value === "string" && value.length > 0 && value.length <= TEXT_LENGTH_MAX && NAME.test(value))
      return value;
    problems.push(`\`${field}\` must be 1 to ${TEXT_LENGTH_MAX} letters, digits or any of \`_ . : @ -\``);
    return fallback;
  };
  const names = (field: string, value: unknown): readonly string[] => {
    if (value === undefined || value === null) return [];
    if (Array.isArray(value) && value.length <= LABELS_MAX && value.every(isText)) return nfcList(value);
    problems.push(
      `\`${field}\` must be a list of at most ${LABELS_MAX} strings of up to ${TEXT_LENGTH_MAX} characters`,
    );
    return [];
  };
  const topic = typeof raw.topic === "string" ? raw.topic : "";
  if (!isTopic(topic)) {
    problems.push(
      `\`topic\` must be tokens of letters, digits, \`_\` and \`-\` joined by dots, at most ${TOPIC_LENGTH_MAX} characters, such as \`demo.echo\``,
    );
  }
  if (!hasBareForm(topic))
    problems.push("`topic` must not start with `job.job.`; the prefix `job.` is added on dispatch");
  const badNumber = nonFiniteIn(raw.input, "input");
  if (badNumber !== null) problems.push(outOfRange(badNumber));
  const priority = PRIORITIES.find((known) => known === (raw.priority ?? "batch"));
  if (!priority) problems.push(`\`priority\` must be one of ${PRIORITIES.map((known) => `\`${known}\``).join(", ")}`);
  const org = name("org", raw.org, DEFAULT_ORG) ?? DEFAULT_ORG;
  const submission: Writable<Submission> = {
    org,
    topic: bareTopic(topic),
    input: raw.input ?? null,
    isStamped: raw.isStamped === true,
    inputPtr: checkPointer(raw.inputPtr, org, raw.jobId, problems),
    jobId: rejectStepJobId(name("jobId", raw.jobId, null), problems),
    priority: priority ?? "batch",
    labels: checkLabels(raw.labels, problems),
    riskTags: names("riskTags", raw.riskTags),
    requires: names("requires", raw.requires),
    capability: name("capability", raw.capability, null),
    actorId: name("actorId", raw.actorId, null),
    idempotencyKey: checkKey(raw.idempotencyKey, problems),
    traceId: name("traceId", raw.traceId, null),
    actorType: checkActorType(raw.actorType, problems),
    packId: name("packId", raw.packId, null),
    submittedBy: name("submittedBy", raw.submittedBy, null),
    traceparent: typeof raw.traceparent === "string" && TRACEPARENT.test(raw.traceparent) ? raw.traceparent : null,
  };
  const details = checkDetails(raw.details, submission.actorId, problems);
  checkCompensation(details, org, problems);
  if (problems.length > 0) return { kind: "bad", problems };
  // Set by the gateway or the bus handler, never by a client.
  if (raw.caller !== undefined) submission.caller = raw.caller as Caller;
  if (details !== undefined) submission.details = details;
  return { kind: "ok", submission };
}

export const outOfRange = (path: string): string =>
  `\`${path}\` is a number out of range; send it as a string, or within ±1.8e308`;

function checkActorType(value: unknown, problems: string[]): ActorType | null {
  if (value === undefined || value === null) return null;
  if (value === "human" || value === "service") return value;
  problems.push("`actorType` must be `human` or `service`");
  return null;
}

function checkLabels(value: unknown, problems: string[]): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (typeof value === "object" && !Array.isArray(value)) {
    const entries = Object.entries(value);
    const ours = entries.find(([key]) => RESERVED_LABELS.includes(key));
    if (ours) {
      problems.push(`the label \`${ours[0]}\` is reserved for the control plane; remove it`);
      return {};
    }
    if (entries.length <= LABELS_MAX && entries.every(([key, text]) => isText(key) && isText(text))) {
      const labels = nfcEntries(value as Readonly<Record<string, string>>);
      if (labels !== null) return labels;
      problems.push("`labels` has two spellings of one key: keys are compared in Unicode NFC; remove one");
      return {};
    }
  }
  problems.push(`\`labels\` must be an object of at most ${LABELS_MAX} strings of up to ${TEXT_LENGTH_MAX} characters`);
  return {};
}

/** Job ids of steps are derived from run ids: a client that takes one would block that run, in any tenant. */
function rejectStepJobId(jobId: string | null, problems: string[]): string | null {
  if (jobId === null || !isStepJobId(jobId)) return jobId;
  problems.push("`jobId` must not have the form `run:step@1`, which is reserved for workflow steps");
  return null;
}

/** A pointer may refer only to the job's own input; other keys may belong to other jobs and tenants. */
function checkPointer(value: unknown, org: string, jobId: unknown, problems: string[]): string | null {
  if (value === undefined || value === null) return null;
  const id = wireJobId(org, typeof jobId === "string" ? jobId : "");
  const key = typeof value === "string" ? ownKeyIn(value, "ctx", id) : null;
  if (key === null) problems.push(`the context pointer must name the job's own input, \`${inputKey(id)}\``);
  return key;
}

/**
 * Workers read what a pointer names, so that of a compensation must be the tenant's own: a name of an input or result of
 * one of its jobs, or the address of another store.
 */
function checkCompensation(details: JobDetails | undefined, org: string, problems: string[]): void {
  const { contextPtr } = (details?.compensation ?? {}) as { readonly contextPtr?: string };
  if (contextPtr === undefined || /^(?!redis)[a-z][a-z0-9+.-]*:\/\//i.test(contextPtr)) return;
  const [, id] = /^(?:ctx|res)[:/]([^/]+)(?:\/[A-Za-z0-9_-]+)?$/.exec(keyIn(contextPtr)) ?? [];
  const own = id === undefined || isStepJobId(id) ? "" : clientJobId(org, id);
  if (NAME.test(own) && wireJobId(org, own) === id) return;
  const example = inputKey(wireJobId(org, "job-1"));
  problems.push(`\`compensation.contextPtr\` must name an input or result of the tenant, such as \`${example}\``);
}

function checkKey(value: unknown, problems: string[]): string | null {
  if (value === undefined || value === null) return null;
  if (isText(value) && value.length > 0) return value;
  problems.push(`the idempotency key must be 1 to ${TEXT_LENGTH_MAX} characters`);
  return null;
}

const isText = (value: unknown): value is string => typeof value === "string" && value.length <= TEXT_LENGTH_MAX;

/** The submission that results from applying an offered remediation to a denied job; not checked yet. */
export function applyRemediation(
  job: Job,
  remediation: Remediation,
  input: unknown,
): Readonly<Record<string, unknown>> {
  const { addLabels = {}, removeLabels = [], replacementTopic, replacementCapability } = remediation;
  const kept = Object.entries(withoutBypassLabels(job.labels)).filter(([name]) => !removeLabels.includes(name));
  return {
    org: job.org,
    topic: replacementTopic ?? job.topic,
    input,
    priority: job.priority,
    labels: { ...Object.fromEntries(kept), ...addLabels },
    riskTags: job.riskTags,
    requires: job.requires,
    capability: replacementCapability ?? job.capability,
    actorId: job.actorId,
    actorType: job.actorType,
    packId: job.packId,
    traceId: job.traceId,
    traceparent: job.traceparent,
    details: job.details,
  };
}

/**
 * The tenants for which the sender of a packet may submit. Returns null if allowed, else the reason and what to do.
 *
 * 1. Any bus client can write any tenant into a packet. A signed packet is accepted for the tenants of its sender's
 *    entry, an unsigned one for `cap.unsigned_tenants`.
 * 2. The control plane's own signature grants no tenant. Its packets announce jobs that are already stored. A dispatch
 *    packet that is replayed on the submit subject must not become a new job.
 */
export function tenantClaimProblem(
  { origin }: Packet,
  org: string,
  { unsignedTenants, senders }: Pick<Settings, "unsignedTenants" | "senders">,
): string | null {
  const sender = origin?.kind === "arrived" ? origin.signedBy : null;
  if (sender !== null) {
    if (senders[sender]?.tenants.includes(org)) return null;
    return `sender \`${sender}\` may not act for tenant \`${org}\`; add the tenant to \`cap.senders.${sender}.tenants\``;
  }
  if (unsignedTenants.includes(org)) return null;
  return (
    `an unsigned packet may not act for tenant \`${org}\`; submit over HTTP with an API key of the tenant, sign the packet ` +
    "(see `cap.signatures`), or add the tenant to `cap.unsigned_tenants`"
  );
}

/**
 * Whether the sender of a packet may report on jobs of a tenant. Returns null if allowed, else the reason and what to do.
 *
 * 1. A signed packet is accepted for the tenants of its sender's entry; an entry without tenants is a worker for all.
 * 2. Unsigned packets, which reach the engine only if signatures are not enforced, and those of the control plane are
 *    accepted.
 */
export function reportProblem(
  { origin }: Pick<Packet, "origin">,
  org: string,
  { senders }: Pick<Settings, "senders">,
): string | null {
  const sender = origin?.kind === "arrived" ? origin.signedBy : null;
  if (sender === null) return null;
  const tenants = senders[sender]?.tenants;
  if (tenants !== undefined && (tenants.length === 0 || tenants.includes(org))) return null;
  return (
    `sender \`${sender}\` may not report on jobs of tenant \`${org}\`; add the tenant to ` +
    `\`cap.senders.${sender}.tenants\``
  );
}

/**
 * Whether another worker holds the current attempt: an HTTP worker by its lease, or the worker that the attempt was sent
 * to. Reports of others are ignored, also those about earlier attempts.
 */
export function isHeldByAnother(
  { origin }: Pick<Packet, "origin">,
  { leaseId, sentTo }: Pick<Job, "leaseId" | "sentTo">,
): boolean {
  if (leaseId !== undefined) return true;
  const sender = origin?.kind === "arrived" ? origin.signedBy : null;
  return sender !== null && sentTo !== undefined && sentTo !== sender;
}
