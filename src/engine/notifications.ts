import {
  approvalNotifications,
  claimNotification,
  cloudEvent,
  FAILING_AFTER_TRIES,
  NOTIFICATIONS,
  NOTIFICATIONS_GROUP,
  type Notification,
  notificationId,
  pendingOf,
  postponeNotification,
  retryNotification,
} from "../core/jobs/notification.ts";
import { JOBS, type Job } from "../core/model/job.ts";
import type { Notifier } from "../ports/notifier.ts";
import { type Change, type Committed, type Put, put, type Versioned } from "../ports/store.ts";
import type { World } from "../ports/world.ts";
import { auditPut } from "./audit/index.ts";
import type { Needs } from "./engine.ts";

/**
 * Commits a change together with the notifications about the approvals that it requests or decides. If the tenant has too
 * many, the change is committed without them: a receiver that is down must not stop jobs.
 */
export async function commitNotified(world: World, notifier: Notifier, change: Change): Promise<Committed> {
  const added = notificationPuts(notifier, change);
  if (added.length === 0) return world.store.commit(change);
  const { org, puts, guards } = change;
  const bound = { kind: "counter", counter: pendingOf(org), max: notifier.pendingMax } as const;
  const all = { ...change, puts: [...puts, ...added], guards: [...guards, bound] };
  const committed = await world.store.commit(all);
  if (committed.kind !== "refused" || committed.guard.kind !== "counter") return committed;
  if (committed.guard.counter.group !== NOTIFICATIONS_GROUP) return committed;
  const dropped = await world.store.commit(change);
  if (dropped.kind === "committed") {
    world.metrics.add("cordum_notifications_total", { outcome: "dropped" }, added.length);
    world.log.write("error", "notifications_dropped", { org, dropped: added.length, pending_max: notifier.pendingMax });
  }
  return dropped;
}

function notificationPuts({ receivers }: Notifier, { puts, atMs }: Change): readonly Put[] {
  return puts.flatMap(({ table, value, before, expect }) => {
    if (table !== JOBS.name || value === null) return [];
    const [old, next] = [(before ?? null) as Job | null, value as Job];
    return approvalNotifications(old, next, (expect ?? 0) + 1, receivers, atMs).map((notification) =>
      put(NOTIFICATIONS, notificationId(notification), null, notification),
    );
  });
}

/**
 * Timer handler of notifications. The claim is a commit, so one process sends at a time, and a notification whose process
 * dies is due again. The request runs in the background: a slow receiver delays no other timer.
 */
export async function onNotificationDue(engine: NotificationContext, found: Versioned<Notification>): Promise<void> {
  const { notifier, clock } = engine.world;
  const { receiver } = found.value;
  const release = notifier?.receivers.includes(receiver) ? notifier.reserve(receiver) : null;
  if (!notifier || !release) {
    // A process that has the receiver, or a free request, may claim it later.
    const later = postponeNotification(found.value, clock.now(), () => engine.world.random.next());
    if (later) await commit(engine, found, later);
    else await giveUp(engine, found, NOT_SENT);
    return;
  }
  const claimed = claimNotification(found.value, clock.now());
  const sent = commit(engine, found, claimed).then((isClaimed) =>
    isClaimed ? deliver(engine, notifier, { id: found.id, version: found.version + 1, value: claimed }) : undefined,
  );
  engine.tasks.track(
    sent
      .catch((error: unknown) =>
        engine.world.log.write("warn", "notification_deferred", { id: found.id, error: String(error) }),
      )
      .finally(release),
  );
}

type NotificationContext = Needs<"world" | "commit" | "tasks" | "audit">;

async function deliver(engine: NotificationContext, notifier: Notifier, found: Versioned<Notification>): Promise<void> {
  const { clock, metrics, random, log } = engine.world;
  const { org, eventId: id, receiver, type, jobId: job, tries } = found.value;
  const outcome = await notifier.send(receiver, { id, atMs: clock.now(), body: cloudEvent(found.value) });
  // Due again when the claim ends.
  if (outcome.kind === "stopped") return;
  if (outcome.kind === "accepted") {
    metrics.add("cordum_notifications_total", { outcome: "accepted" });
    await commit(engine, found, null);
    return;
  }
  const { why, retryAfterMs } = outcome;
  const later = retryNotification(found.value, clock.now(), () => random.next(), retryAfterMs);
  if (!later) return giveUp(engine, found, why);
  metrics.add("cordum_notifications_total", { outcome: "retried" });
  if (tries === FAILING_AFTER_TRIES)
    log.write("warn", "notification_failing", { org, job, type, receiver, tries, why });
  await commit(engine, found, later);
}

async function giveUp(engine: NotificationContext, found: Versioned<Notification>, why: string): Promise<void> {
  const { org, type, jobId: job, receiver, tries } = found.value;
  const facts = { job, type, receiver, tries, why };
  const line = auditPut(engine, { org, kind: "approval", who: "cordum", what: "notification_failed", facts });
  if (!(await commit(engine, found, null, [line]))) return;
  engine.world.metrics.add("cordum_notifications_total", { outcome: "failed" });
  engine.world.log.write("error", "notification_failed", { org, ...facts });
}

async function commit(
  engine: NotificationContext,
  found: Versioned<Notification>,
  next: Notification | null,
  puts: readonly Put[] = [],
): Promise<boolean> {
  const { org } = found.value;
  const committed = await engine.commit({ org, puts: [put(NOTIFICATIONS, found.id, found, next), ...puts] });
  return committed.kind === "committed";
}

const NOT_SENT = "not sent: the receiver is not in `notifications.approvals.urls`, or all its requests were in use";
