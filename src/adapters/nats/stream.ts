import {
  AckPolicy,
  type ConsumerConfig,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import type { BusOptions } from "../../ports/bus.ts";
import { describeError, type NatsFailure, refused, unavailable } from "./errors.ts";

/**
 * Creates the stream of the durable subjects and its consumers, or updates them if no message can be lost by it. Any other
 * difference is an error with instructions. Rationale: decision 0003.
 *
 * The stream has interest retention: it would confirm and drop a message that arrives before its consumers exist. So it
 * is created closed (the maximum message size rejects every message) and opened once its consumers exist. After a crash in
 * between, the next call continues from there.
 */
export async function ensureStream(
  manager: JetStreamManager,
  plan: StreamPlan,
  groups: readonly GroupPlan[],
): Promise<void> {
  const what = `stream \`${plan.name}\``;
  const config = await findOrCreate(manager, plan);
  checkStream(config, plan);
  for (const group of groups) await ensureGroup(manager, group);
  const isComplete =
    plan.subjects.every((subject) => config.subjects.includes(subject)) &&
    config.discard === DiscardPolicy.New &&
    config.duplicate_window === DUPLICATE_WINDOW_NS &&
    config.max_msg_size !== CLOSED;
  if (isComplete) return;
  const update = {
    subjects: [...plan.subjects],
    discard: DiscardPolicy.New,
    duplicate_window: DUPLICATE_WINDOW_NS,
    max_msg_size: config.max_msg_size === CLOSED ? OPEN : config.max_msg_size,
  };
  await translateErrors(manager.streams.update(plan.name, update), what);
}

export interface StreamPlan {
  readonly name: string;
  readonly subjects: readonly string[];
  readonly bytesMax: number;
  readonly messagesMax: number;
  readonly replicas: number;
}

export interface GroupPlan {
  readonly stream: string;
  readonly consumer: string;
  readonly subject: string;
  readonly ackPendingMax: number;
  readonly options: BusOptions;
}

/** One durable consumer per group and subject. */
export async function ensureGroup(manager: JetStreamManager, plan: GroupPlan): Promise<void> {
  const wanted = consumerConfig(plan);
  const what = `consumer \`${plan.consumer}\` of stream \`${plan.stream}\``;
  const found = await orNull(manager.consumers.info(plan.stream, plan.consumer));
  if (found === null) {
    await translateErrors(manager.consumers.add(plan.stream, wanted), what);
    return;
  }
  const { config } = found;
  if (config.filter_subject !== plan.subject || config.ack_policy !== AckPolicy.Explicit) {
    throw refused(`${what} has another configuration: delete it with \`nats consumer rm\`, it is created again`);
  }
  const isSame =
    config.ack_wait === wanted.ack_wait &&
    config.max_deliver === wanted.max_deliver &&
    config.max_ack_pending === wanted.max_ack_pending;
  if (!isSame) await translateErrors(manager.consumers.update(plan.stream, plan.consumer, wanted), what);
}

/** Streams bound to a dispatch subject: their acknowledgement would hide "no responders". */
export async function streamsOn(manager: JetStreamManager, subject: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const name of manager.streams.names(subject)) names.push(name);
  return names;
}

/** Consumer names must not contain dots. */
export const consumerName = (group: string, subject: string): string => `${group}_${subject.replaceAll(".", "_")}`;

export const NANOS_PER_MS = 1_000_000;
const DUPLICATE_WINDOW_NS = 2 * 60_000 * NANOS_PER_MS;

/** Values of `max_msg_size`: `CLOSED` rejects every message, `OPEN` means unlimited. */
const CLOSED = 1;
const OPEN = -1;

async function findOrCreate(manager: JetStreamManager, plan: StreamPlan): Promise<StreamConfig> {
  const found = await orNull(manager.streams.info(plan.name));
  if (found !== null) return found.config;
  try {
    return (await manager.streams.add(streamConfig(plan))).config;
  } catch (error) {
    // Another process may have created it concurrently.
    const made = await orNull(manager.streams.info(plan.name));
    if (made !== null) return made.config;
    throw failureOf(error, `stream \`${plan.name}\``);
  }
}

function streamConfig(plan: StreamPlan): Partial<StreamConfig> & { name: string } {
  return {
    name: plan.name,
    subjects: [...plan.subjects],
    storage: StorageType.File,
    retention: RetentionPolicy.Interest,
    discard: DiscardPolicy.New,
    max_bytes: plan.bytesMax,
    max_msgs: plan.messagesMax,
    max_msg_size: CLOSED,
    num_replicas: plan.replicas,
    duplicate_window: DUPLICATE_WINDOW_NS,
  };
}

function consumerConfig({ consumer, subject, ackPendingMax, options }: GroupPlan): Partial<ConsumerConfig> {
  return {
    durable_name: consumer,
    filter_subject: subject,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.All,
    replay_policy: ReplayPolicy.Instant,
    ack_wait: options.ackWaitMs * NANOS_PER_MS,
    max_deliver: options.deliverMax,
    max_ack_pending: ackPendingMax,
  };
}

/** Checks what cannot be changed in place. Limits set by an operator are kept. */
function checkStream(config: StreamConfig, plan: StreamPlan): void {
  const what = `stream \`${plan.name}\``;
  const fix = `once it is empty, delete it with \`nats stream rm ${plan.name}\`; the next start creates it`;
  if (config.retention !== RetentionPolicy.Interest) {
    throw refused(`${what} has retention \`${config.retention}\` instead of \`interest\`: ${fix}`);
  }
  if (config.storage !== StorageType.File) throw refused(`${what} does not use file storage: ${fix}`);
  const foreign = config.subjects.find((subject) => !plan.subjects.includes(subject));
  if (foreign !== undefined) {
    throw refused(`${what} has the unknown subject \`${foreign}\`: remove it with \`nats stream edit\``);
  }
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof JetStreamApiError && error.status === 404) return null;
    throw failureOf(error, "jetstream");
  }
}

async function translateErrors<T>(answer: Promise<T>, what: string): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw failureOf(error, what);
  }
}

function failureOf(error: unknown, what: string): NatsFailure {
  if (error instanceof JetStreamApiError && error.status < 500) {
    return refused(`nats rejected ${what}: ${describeError(error)}`, error);
  }
  return unavailable(`nats unavailable for ${what}: ${describeError(error)}`, error);
}
