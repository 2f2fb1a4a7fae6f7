import { DEFAULT_ORG, tenantClaimProblem } from "../../core/jobs/submission.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { JOBS } from "../../core/model/job.ts";
import { RETRY_STATES, type StoredRetryState } from "../../core/model/parked-message.ts";
import { DEADLINE_MS_DEFAULT, type RetryState } from "../../core/retry/budget.ts";
import type { RetryClass } from "../../core/retry/classes.ts";
import { isStoreAway, judgeFailure } from "../../core/retry/failure.ts";
import { toWire, type WireError } from "../../core/retry/intent.ts";
import {
  actionFor,
  afterDeadLetter,
  afterPark,
  type DeadLetterReason,
  isDeliveryCapNear,
  type Outcome,
} from "../../core/retry/outcome.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { Content, Delivery, Handler, Settlement } from "../../ports/bus.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { toBase64 } from "../../protocol/base64.ts";
import { encodePacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { commit } from "../commit.ts";
import { decisionContext } from "../context.ts";
import type { Engine } from "../engine.ts";
import { originalId, parkMessage, redeliveryId } from "./park-message.ts";

/**
 * Between the bus and a station: whatever a station throws becomes the one action that its retry intent asks for.
 *
 * 1. Only a station that returned is acknowledged as done.
 * 2. Budgets are counted in the store, on an account of what the message is about; never by the broker's deliveries.
 * 3. `term` comes after the dead letter was written, `ack` of a parked message after it was parked; if the write fails
 *    the broker keeps the message.
 * 4. A store that is away cannot count: the message is retried by the policy of `store_unavailable` alone. Before the
 *    broker would give up on it, it goes back as a new message.
 */
export interface MessageHandler {
  readonly name: string;
  /** The record that the message is about: its failures share one account. */
  about(packet: Packet): string;
  /** `patience`: what its account says of the times that it came before. */
  handle(engine: Engine, packet: Packet, retryState: RetryState): Promise<void>;
}

/** The account of a packet that is about a job; empty for one that is about nothing but itself. */
export function retryKeyOf({ body }: Packet): string {
  return body.kind === "job_request" || body.kind === "job_result" ? `job/${body.jobId}` : "";
}

export function deliverTo(engine: Engine, messageHandler: MessageHandler): Handler {
  return async (delivery) => {
    const { metrics } = engine.world;
    const { content } = delivery;
    let failure: Failure | null = null;
    let account: Account | null = null;
    if (content.kind === "packet") {
      try {
        if (comesAgain(delivery)) {
          account = await engine.world.store.load(RETRY_STATES, accountId(messageHandler, delivery, content.packet));
        }
        await messageHandler.handle(engine, content.packet, account?.value.patience ?? {});
        if (account) await closeAccount(engine, account);
      } catch (error) {
        failure = await failed(engine, messageHandler, delivery, content.packet, account, error);
      }
    } else {
      failure = unread(delivery, content);
    }
    const settlement = failure ? await settleFailure(engine, delivery, failure) : ACK;
    metrics.add("cordum_bus_deliveries_total", { subject: delivery.subject, action: settlement.kind });
    if (delivery.attempt > 1) metrics.add("cordum_bus_redeliveries_total", { subject: delivery.subject });
    return settlement;
  };
}

type Account = Versioned<StoredRetryState>;

const accountId = ({ about }: MessageHandler, { id }: Delivery, packet: Packet): string =>
  about(packet) || originalId(id);

/** One that comes for the first time has no account: healthy messages cost no load. */
const comesAgain = ({ id, attempt }: Delivery): boolean => attempt > 1 || id !== originalId(id);

interface Failure {
  readonly outcome: Outcome;
  readonly error: WireError;
}

/** What cannot be read, or comes from nobody who may send it. */
function unread({ attempt }: Delivery, content: Exclude<Delivery["content"], { kind: "packet" }>): Failure {
  if (content.kind === "undecodable") {
    return {
      outcome: { kind: "undecodable", delivery: attempt },
      error: { name: "Undecodable", message: content.error },
    };
  }
  const error = { name: "SignatureError", code: content.code, message: content.error };
  return { outcome: { kind: "permanent" }, error };
}

async function failed(
  engine: Engine,
  messageHandler: MessageHandler,
  delivery: Delivery,
  packet: Packet,
  account: Account | null,
  error: unknown,
): Promise<Failure> {
  const wire = toWire(error);
  engine.world.log.write("warn", "delivery_failed", {
    messageHandler: messageHandler.name,
    message: delivery.id,
    error: wire.message,
  });
  const id = accountId(messageHandler, delivery, packet);
  return { outcome: await judge(engine, id, account, delivery, error), error: wire };
}

async function judge(
  engine: Engine,
  id: string,
  known: Account | null,
  delivery: Delivery,
  error: unknown,
): Promise<Outcome> {
  if (isStoreAway(error)) return uncounted(engine, delivery, "store_unavailable");
  try {
    const { settings, nowMs, random } = decisionContext(engine);
    const account = known ?? (await engine.world.store.load(RETRY_STATES, id));
    const before = account?.value.patience ?? {};
    const { outcome, retryState } = judgeFailure(error, {
      settings: settings.retry,
      retryState: before,
      nowMs,
      deadlineMs: null,
      random,
      deliveryCapNear: isLate(engine, delivery),
    });
    if (retryState !== before) {
      const stored: StoredRetryState = { patience: retryState, dueMs: nowMs + DEADLINE_MS_DEFAULT };
      // A stale version: two failures at once, of which one is counted. The budget ends one try later, at worst.
      await commit(engine, { org: DEFAULT_ORG, puts: [put(RETRY_STATES, id, account, stored)] });
    }
    return outcome;
  } catch (accountError) {
    return uncounted(engine, delivery, isStoreAway(accountError) ? "store_unavailable" : "unclassified");
  }
}

/** What was waited for has come: the next wait is counted from its own beginning. */
async function closeAccount(engine: Engine, account: Account): Promise<void> {
  const { id } = account;
  try {
    await commit(engine, { org: DEFAULT_ORG, puts: [put(RETRY_STATES, id, account, null)] });
  } catch (error) {
    engine.world.log.write("debug", "account_left_to_expire", { id, error: String(error) });
  }
}

/** A failure that could not be counted is tried again by the policy of its class alone. */
function uncounted(engine: Engine, delivery: Delivery, retryClass: RetryClass): Outcome {
  const { settings, random } = decisionContext(engine);
  return {
    kind: "retryable",
    retryClass,
    delayMs: nextDelay(settings.retry[retryClass].policy, delivery.attempt, random),
    spent: false,
    deliveryCapNear: isLate(engine, delivery),
  };
}

async function settleFailure(engine: Engine, delivery: Delivery, failure: Failure): Promise<Settlement> {
  const { parkAfterMs, poisonDelayMs } = engine.settings.current.bus;
  const poison = engine.settings.current.retry.poison.budget;
  const poisonMax = poison.kind === "count" ? poison.max : POISON_MAX_DEFAULT;
  const action = actionFor(failure.outcome, { parkAfterMs, poisonMax, poisonDelayMs });
  switch (action.kind) {
    case "ack":
    case "nak":
      return action;
    case "nakDelay":
      if (failure.outcome.kind === "retryable") {
        engine.arrivals.note(failure.outcome.retryClass, engine.world.clock.now() + action.delayMs);
      }
      return action;
    case "park": {
      const written = await parkMessage(engine, delivery, failure.outcome, failure.error.message, action.delayMs);
      return afterPark(written || (await renew(engine, delivery)), action.delayMs);
    }
    case "deadLetter": {
      const written = await writeDeadLetter(engine, delivery, action.reason, failure.error);
      return afterDeadLetter(written, isLate(engine, delivery) ? LATE_DELAY_MS : poisonDelayMs);
    }
    default:
      return action satisfies never;
  }
}

/**
 * The store is away and the broker will soon give up on the message: it goes back as a new one, whose deliveries count
 * from the beginning. True if the broker has it.
 */
async function renew(engine: Engine, delivery: Delivery): Promise<boolean> {
  if (delivery.content.kind !== "packet" || !isLate(engine, delivery)) return false;
  try {
    const { subject, content } = delivery;
    await engine.world.bus.publish({
      id: redeliveryId(delivery.id, engine.world.clock.now()),
      subject,
      packet: content.packet,
    });
    return true;
  } catch {
    return false;
  }
}

function isLate(engine: Engine, delivery: Delivery): boolean {
  const { deliverMax, parkAfterMs } = engine.settings.current.bus;
  return isDeliveryCapNear(delivery.attempt, deliverMax, parkAfterMs !== null);
}

/** True once the letter is in the store, whoever wrote it. */
async function writeDeadLetter(
  engine: Engine,
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
    const deadLetter = {
      id,
      org: await orgOf(engine, content),
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
    };
    const committed = await commit(engine, { org: deadLetter.org, puts: [put(DEAD_LETTERS, id, null, deadLetter)] });
    if (committed.kind === "committed") engine.world.metrics.add("cordum_dead_letters_total", { reason });
    return true;
  } catch (writeError) {
    engine.world.log.write("error", "dead_letter_not_written", { id, error: String(writeError) });
    return false;
  }
}

/**
 * Whose message it was. What cannot be read, or is about no job that is known, is the operators': it may be anybody's, so
 * no tenant sees it, not even the default one.
 */
async function orgOf(engine: Engine, content: Content): Promise<string> {
  if (content.kind !== "packet") return EVERY_ORG;
  const { body } = content.packet;
  if (body.kind !== "job_result" && body.kind !== "job_request") return EVERY_ORG;
  const found = await engine.world.store.load(JOBS, body.jobId);
  if (body.kind === "job_result") return found?.value.org ?? EVERY_ORG;
  // Anybody can write a tenant's name into a packet: that puts no letter before a tenant it may not speak for.
  const claimed = body.tenantId || DEFAULT_ORG;
  const isBelieved = tenantClaimProblem(content.packet, claimed, engine.settings.current) === null;
  return isBelieved || found?.value.org === claimed ? claimed : EVERY_ORG;
}

const ACK: Settlement = { kind: "ack" };
const POISON_MAX_DEFAULT = 3;
/** The few deliveries that are left have to last until the store is back. */
const LATE_DELAY_MS = 600_000;
