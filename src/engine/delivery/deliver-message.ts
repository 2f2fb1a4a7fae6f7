import { tenantClaimProblem } from "../../core/jobs/submission.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import type { Arms } from "../../core/model/arms.ts";
import { armsOf, DEAD_LETTERS, withFingerprint } from "../../core/model/dead-letter.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { DEFAULT_ORG, wireJobId } from "../../core/model/job-id.ts";
import { RETRY_STATES, type StoredRetryState } from "../../core/model/parked-message.ts";
import { DEADLINE_MS_DEFAULT, type RetryState } from "../../core/retry/budget.ts";
import {
  actionFor,
  afterDeadLetter,
  afterPark,
  type DeadLetterReason,
  type DeliveryOutcome,
  isDeliveryCapNear,
  type Settlement,
} from "../../core/retry/bus-action.ts";
import { classifyFailure, isStoreAway } from "../../core/retry/failure.ts";
import { intentOf, toWire, type WireError } from "../../core/retry/intent.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { RetryClass } from "../../core/retry/retry-classes.ts";
import type { Content, Delivery, Handler } from "../../ports/bus.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { encodePacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { decisionContext, NO_UNIT } from "../context.ts";
import type { Needs } from "../engine.ts";
import { originalId, parkMessage, redeliveryId } from "./park-message.ts";
import { refusalMessage } from "./refusal-message.ts";

/**
 * Adapter between the bus and a message handler: an error that the handler throws becomes one bus action, by its retry
 * intent (`core/retry/failure.ts`, `core/retry/bus-action.ts`).
 *
 * 1. Only a handler that returned is acknowledged as done.
 * 2. Budgets are counted in the store, per record that the message is about, never by the broker's delivery count.
 * 3. `term` follows a written dead letter, `ack` of a parked message follows the write. If the write fails, the broker
 *    keeps the message.
 * 4. Without a store nothing can be counted: the message is retried by the `store_unavailable` policy alone. Before the
 *    broker's delivery cap it is republished as a new message.
 */
export interface MessageHandler {
  readonly name: string;
  /** The record that the message is about; messages about one record share its retry state. Empty: the message itself. */
  about(packet: Packet): string;
  /** `retryState`: earlier failures of messages about this record. */
  handle(packet: Packet, retryState: RetryState): Promise<void>;
}

type DeliveryContext = Needs<"world" | "settings" | "rollouts" | "commit" | "arrivals">;

/** `about` of packets that concern a job. */
export function retryKeyOf({ body }: Packet): string {
  if (body.kind === "job_request") return `${ABOUT_JOB}${wireJobId(body.tenantId || DEFAULT_ORG, body.jobId)}`;
  return body.kind === "job_result" ? `${ABOUT_JOB}${body.jobId}` : "";
}

const ABOUT_JOB = "job/";

export function deliverTo(engine: DeliveryContext, handler: MessageHandler): Handler {
  return async (delivery) => {
    const { metrics } = engine.world;
    const { content } = delivery;
    let failure: FailedDelivery | null = null;
    let stored: Versioned<StoredRetryState> | null = null;
    if (content.kind === "packet") {
      try {
        if (isRedelivery(delivery)) {
          stored = await engine.world.store.load(RETRY_STATES, retryStateId(handler, delivery, content.packet));
        }
        await handler.handle(content.packet, stored?.value.patience ?? {});
        if (stored) await removeRetryState(engine, stored);
      } catch (error) {
        failure = await fail(engine, handler, delivery, content.packet, stored, error);
      }
    } else {
      failure = unreadable(delivery, content);
    }
    const settlement = failure ? await settleFailure(engine, delivery, failure) : ACK;
    metrics.add("cordum_bus_deliveries_total", { subject: delivery.subject, action: settlement.kind });
    if (delivery.attempt > 1) metrics.add("cordum_bus_redeliveries_total", { subject: delivery.subject });
    return settlement;
  };
}

const retryStateId = ({ about }: MessageHandler, { id }: Delivery, packet: Packet): string =>
  about(packet) || originalId(id);

/** A first delivery has no stored retry state, so a healthy message costs no load. */
const isRedelivery = ({ id, attempt }: Delivery): boolean => attempt > 1 || id !== originalId(id);

interface FailedDelivery {
  readonly outcome: DeliveryOutcome;
  readonly error: WireError;
  /** The arm of the unit whose run lock was busy. */
  readonly arm?: string | undefined;
}

function unreadable({ attempt }: Delivery, content: Exclude<Content, { kind: "packet" }>): FailedDelivery {
  if (content.kind === "undecodable") {
    return {
      outcome: { kind: "undecodable", delivery: attempt },
      error: { name: "Undecodable", message: content.error },
    };
  }
  const name = content.code === "VERSION_MISMATCH" ? "VersionError" : "SignatureError";
  const error = { name, code: content.code, message: content.error };
  return { outcome: { kind: "permanent" }, error };
}

async function fail(
  engine: DeliveryContext,
  handler: MessageHandler,
  delivery: Delivery,
  packet: Packet,
  stored: Versioned<StoredRetryState> | null,
  error: unknown,
): Promise<FailedDelivery> {
  const wire = toWire(error);
  engine.world.log.write("warn", "delivery_failed", {
    handler: handler.name,
    message: delivery.id,
    error: wire.message,
  });
  const id = retryStateId(handler, delivery, packet);
  // A handler may reject with any value, also `undefined`.
  const arm = (error as { readonly retryArm?: string } | null | undefined)?.retryArm;
  return { outcome: await countFailure(engine, id, stored, delivery, error), error: wire, arm };
}

async function countFailure(
  engine: DeliveryContext,
  id: string,
  known: Versioned<StoredRetryState> | null,
  delivery: Delivery,
  error: unknown,
): Promise<DeliveryOutcome> {
  if (isStoreAway(error)) return uncounted(engine, delivery, "store_unavailable");
  try {
    const arms = isArmNeeded(engine, id, error) ? await armsAbout(engine, id) : undefined;
    const { settings, nowMs, random } = decisionContext(engine, { arms });
    const stored = known ?? (await engine.world.store.load(RETRY_STATES, id));
    const before = stored?.value.patience ?? {};
    const { outcome, retryState } = classifyFailure(error, {
      settings: settings.retry,
      retryState: before,
      nowMs,
      deadlineMs: null,
      random,
      isDeliveryCapNear: isNearCap(engine, delivery),
    });
    if (retryState !== before) {
      const next: StoredRetryState = { patience: retryState, dueMs: nowMs + DEADLINE_MS_DEFAULT };
      // Stale: of two concurrent failures one is counted. The budget ends at most one attempt later.
      await engine.commit({ org: DEFAULT_ORG, puts: [put(RETRY_STATES, id, stored, next)] });
    }
    return outcome;
  } catch (storeError) {
    return uncounted(engine, delivery, isStoreAway(storeError) ? "store_unavailable" : "unclassified");
  }
}

/** Whether the arms of the job that a failed message is about decide its delay: an error with an intent states the delay. */
function isArmNeeded({ rollouts }: DeliveryContext, id: string, error: unknown): boolean {
  if (rollouts.active.length === 0 || !id.startsWith(ABOUT_JOB)) return false;
  return intentOf(error).kind === "unclassified" && rollouts.active.some(({ subject }) => subject === "unclassified");
}

async function armsAbout({ world }: DeliveryContext, id: string): Promise<Arms | undefined> {
  return (await world.store.load(JOBS, id.slice(ABOUT_JOB.length)))?.value.arms;
}

/** After a success the next failure starts with an empty retry state. */
async function removeRetryState(engine: DeliveryContext, stored: Versioned<StoredRetryState>): Promise<void> {
  const { id } = stored;
  try {
    await engine.commit({ org: DEFAULT_ORG, puts: [put(RETRY_STATES, id, stored, null)] });
  } catch (error) {
    engine.world.log.write("debug", "retry_state_delete_failed", { id, error: String(error) });
  }
}

/** A failure that could not be counted is retried by the policy of its class. */
function uncounted(engine: DeliveryContext, delivery: Delivery, retryClass: RetryClass): DeliveryOutcome {
  // Without a store the arms of the unit are not known.
  const { settings, random } = decisionContext(engine, NO_UNIT);
  return {
    kind: "retryable",
    retryClass,
    delayMs: nextDelay(settings.retry[retryClass].policy, delivery.attempt, random),
    isBudgetExhausted: false,
    isDeliveryCapNear: isNearCap(engine, delivery),
  };
}

async function settleFailure(
  engine: DeliveryContext,
  delivery: Delivery,
  { outcome, error, arm }: FailedDelivery,
): Promise<Settlement> {
  const { parkAfterMs, poisonDelayMs } = engine.settings.current.bus;
  const { budget } = engine.settings.current.retry.poison;
  const poisonMax = budget.kind === "count" ? budget.max : POISON_MAX_DEFAULT;
  const action = actionFor(outcome, { parkAfterMs, poisonMax, poisonDelayMs });
  switch (action.kind) {
    case "ack":
    case "nak":
    case "term":
      return action;
    case "nakDelay":
      if (outcome.kind === "retryable") {
        engine.arrivals.record(outcome.retryClass, engine.world.clock.now() + action.delayMs, arm);
      }
      return action;
    case "park": {
      const isWritten = await parkMessage(engine, delivery, outcome, error.message, action.delayMs);
      return afterPark(isWritten || (await republish(engine, delivery)), action.delayMs);
    }
    case "deadLetter": {
      const isWritten = await writeDeadLetter(engine, delivery, action.reason, error);
      return afterDeadLetter(isWritten, isNearCap(engine, delivery) ? NEAR_CAP_DELAY_MS : poisonDelayMs);
    }
    default:
      return action satisfies never;
  }
}

/** Near the delivery cap, without a store: republishes the message, so that its delivery count starts again. */
async function republish(engine: DeliveryContext, delivery: Delivery): Promise<boolean> {
  if (delivery.content.kind !== "packet" || !isNearCap(engine, delivery)) return false;
  const { bus, clock } = engine.world;
  const { subject, content } = delivery;
  try {
    await bus.publish({ id: redeliveryId(delivery.id, clock.now()), subject, packet: content.packet });
    return true;
  } catch {
    return false;
  }
}

function isNearCap({ settings }: DeliveryContext, delivery: Delivery): boolean {
  const { deliverMax, parkAfterMs } = settings.current.bus;
  return isDeliveryCapNear(delivery.attempt, deliverMax, parkAfterMs !== null);
}

/** True once the dead letter is in the store. */
async function writeDeadLetter(
  engine: DeliveryContext,
  delivery: Delivery,
  reason: DeadLetterReason,
  error: WireError,
): Promise<boolean> {
  const { content, subject, attempt: deliveries } = delivery;
  const nowMs = engine.world.clock.now();
  const bytes = content.kind === "packet" ? encodePacket(content.packet) : content.bytes;
  const isVerbatim = content.kind === "packet" ? content.packet.origin !== undefined : content.kind === "refused";
  const id = `${subject}/${originalId(delivery.id)}`;
  try {
    const { org, job } = await ownerOf(engine, content);
    const deadLetter = {
      id,
      org,
      createdMs: nowMs,
      dueMs: nowMs + engine.settings.current.retention.jobsMs,
      reason,
      error,
      source: {
        kind: "message",
        subject,
        messageId: delivery.id,
        deliveries,
        base64: toBase64(bytes),
        ...(isVerbatim ? { isVerbatim } : {}),
      } as const,
      history: [],
      ...(job ? armsOf(job) : {}),
    };
    const message = await refusalMessage(engine, delivery, error);
    const committed = await engine.commit({
      org: deadLetter.org,
      puts: [put(DEAD_LETTERS, id, null, withFingerprint(deadLetter))],
      ...(message ? { sends: [message] } : {}),
    });
    if (committed.kind === "committed") {
      engine.world.metrics.add("cordum_dead_letters_total", engine.settings.labelled({ reason }, job?.arms));
    }
    return true;
  } catch (writeError) {
    engine.world.log.write("error", "dead_letter_write_failed", { id, error: String(writeError) });
    return false;
  }
}

/**
 * The tenant of a dead letter, and the job that its message is about. Unreadable messages and unknown jobs belong to the
 * operators: no tenant sees them.
 */
async function ownerOf({ world, settings }: DeliveryContext, content: Content): Promise<Owner> {
  if (content.kind !== "packet") return { org: EVERY_ORG, job: null };
  const { body } = content.packet;
  if (body.kind !== "job_result" && body.kind !== "job_request") return { org: EVERY_ORG, job: null };
  if (body.kind === "job_result") {
    const job = (await world.store.load(JOBS, body.jobId))?.value ?? null;
    return { org: job?.org ?? EVERY_ORG, job };
  }
  // The tenant in a packet is the sender's claim: it counts only if the sender may submit for that tenant.
  const claimed = body.tenantId || DEFAULT_ORG;
  const found = await world.store.load(JOBS, wireJobId(claimed, body.jobId));
  const isAllowed = tenantClaimProblem(content.packet, claimed, settings.current) === null;
  const isOwn = found?.value.org === claimed;
  return { org: isAllowed || isOwn ? claimed : EVERY_ORG, job: isOwn ? found.value : null };
}

interface Owner {
  readonly org: string;
  readonly job: Job | null;
}

const ACK: Settlement = { kind: "ack" };
const POISON_MAX_DEFAULT = 3;
/** Makes the few remaining deliveries last until the store is back. */
const NEAR_CAP_DELAY_MS = 600_000;
