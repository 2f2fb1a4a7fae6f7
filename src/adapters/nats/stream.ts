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
 * The stream that holds the durable subjects, and the consumers that read it: made if they are not there, else
 * checked. What can be changed without losing a message is changed; anything else is an error that says what to do.
 * Why the stream is as it is: docs/decisions/0003-stream.md.
 *
 * The stream keeps only what somebody has to read, so a message that comes before its reader would be confirmed and
 * dropped. Therefore it is made closed (it refuses every message as too large), and is opened when its consumers are
 * there. Whoever finds it closed, after a crash in between, goes on from there.
 */
export async function ensureStream(
  manager: JetStreamManager,
  plan: StreamPlan,
  groups: readonly GroupPlan[],
): Promise<void> {
  const what = `stream \`${plan.name}\``;
  const config = await foundOrMade(manager, plan);
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
  await answered(manager.streams.update(plan.name, update), what);
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

/** One durable consumer for each group and subject. */
export async function ensureGroup(manager: JetStreamManager, plan: GroupPlan): Promise<void> {
  const wanted = consumerConfig(plan);
  const what = `consumer \`${plan.consumer}\` of stream \`${plan.stream}\``;
  const found = await orNull(manager.consumers.info(plan.stream, plan.consumer));
  if (found === null) {
    await answered(manager.consumers.add(plan.stream, wanted), what);
    return;
  }
  const { config } = found;
  if (config.filter_subject !== plan.subject || config.ack_policy !== AckPolicy.Explicit) {
    throw refused(`${what} was made for something else: delete it with \`nats consumer rm\`, it is made anew`);
  }
  const isSame =
    config.ack_wait === wanted.ack_wait &&
    config.max_deliver === wanted.max_deliver &&
    config.max_ack_pending === wanted.max_ack_pending;
  if (!isSame) await answered(manager.consumers.update(plan.stream, plan.consumer, wanted), what);
}

/** Streams that hold what must be held by none: an acknowledgement of theirs would hide "no responders". */
export async function streamsOn(manager: JetStreamManager, subject: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const name of manager.streams.names(subject)) names.push(name);
  return names;
}

/** Names of consumers take no dots. */
export const consumerName = (group: string, subject: string): string => `${group}_${subject.replaceAll(".", "_")}`;

export const NANOS_PER_MS = 1_000_000;
const DUPLICATE_WINDOW_NS = 2 * 60_000 * NANOS_PER_MS;

/** The largest message in bytes: none is as small as the first, the second stands for "any". */
const CLOSED = 1;
const OPEN = -1;

async function foundOrMade(manager: JetStreamManager, plan: StreamPlan): Promise<StreamConfig> {
  const found = await orNull(manager.streams.info(plan.name));
  if (found !== null) return found.config;
  try {
    return (await manager.streams.add(streamConfig(plan))).config;
  } catch (error) {
    // Another process was faster; its stream is checked like any other.
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

/** What cannot be changed in place. Limits are the operator's: a stream that has others keeps them. */
function checkStream(config: StreamConfig, plan: StreamPlan): void {
  const what = `stream \`${plan.name}\``;
  const fix = `once it is empty, delete it with \`nats stream rm ${plan.name}\`: it is made anew at the next start`;
  if (config.retention !== RetentionPolicy.Interest) {
    throw refused(`${what} has the retention \`${config.retention}\`, not \`interest\`: ${fix}`);
  }
  if (config.storage !== StorageType.File) throw refused(`${what} is not kept in files: ${fix}`);
  const foreign = config.subjects.find((subject) => !plan.subjects.includes(subject));
  if (foreign !== undefined) {
    throw refused(`${what} also holds \`${foreign}\`, which is not ours: remove it with \`nats stream edit\``);
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

async function answered<T>(answer: Promise<T>, what: string): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw failureOf(error, what);
  }
}

function failureOf(error: unknown, what: string): NatsFailure {
  if (error instanceof JetStreamApiError && error.status < 500) {
    return refused(`nats refused ${what}: ${describeError(error)}`, error);
  }
  return unavailable(`nats does not answer about ${what}: ${describeError(error)}`, error);
}
