import { CONTENTION } from "../core/contention/acquisition.ts";
import { RESERVATIONS } from "../core/jobs/idempotency.ts";
import { NOTIFICATIONS } from "../core/jobs/notification.ts";
import { API_KEYS, KEY_USES, ROOT_REVOCATIONS, SESSIONS } from "../core/model/api-key.ts";
import { AUDIT_HEADS, AUDIT_PAGES, AUDIT_PENDING } from "../core/model/audit.ts";
import { BREAKERS } from "../core/model/breaker.ts";
import { SPENT } from "../core/model/budgets/hold.ts";
import { DEAD_LETTERS } from "../core/model/dead-letter.ts";
import { FAIL_OPENS } from "../core/model/fail-open.ts";
import { JOBS } from "../core/model/job.ts";
import { isKillId, KILLS, POOLS } from "../core/model/kill-switch.ts";
import { PARKED, RETRY_STATES } from "../core/model/parked-message.ts";
import { POLICY_CHOICE, POLICY_RELEASES, POLICY_TEXTS } from "../core/model/policy-release.ts";
import { RUN_RESERVATIONS, RUNS, TIMELINE } from "../core/model/run.ts";
import type { Placement, Table } from "../core/model/table.ts";
import { WORKFLOW_HEADS, WORKFLOW_VERSIONS } from "../core/model/workflow.ts";
import { WINDOWS } from "../core/policy/limits/window.ts";
import { isRolloutRecord, ROLLOUTS } from "../core/rollout/rollout.ts";
import { JUDGEMENTS } from "../core/rollout/stored-judgement.ts";
import { SCHEDULES } from "../core/schedule/schedule.ts";

/** Every table. */
export const TABLES: readonly Table<never>[] = [
  API_KEYS,
  AUDIT_HEADS,
  AUDIT_PAGES,
  AUDIT_PENDING,
  BREAKERS,
  CONTENTION,
  DEAD_LETTERS,
  FAIL_OPENS,
  JOBS,
  JUDGEMENTS,
  KEY_USES,
  KILLS,
  NOTIFICATIONS,
  PARKED,
  POLICY_CHOICE,
  POLICY_RELEASES,
  POLICY_TEXTS,
  POOLS,
  RESERVATIONS,
  RETRY_STATES,
  ROLLOUTS,
  ROOT_REVOCATIONS,
  RUN_RESERVATIONS,
  RUNS,
  SCHEDULES,
  SESSIONS,
  SPENT,
  TIMELINE,
  WINDOWS,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
];

/** The lists, queue, counters and due time of a stored record, by the name of its table. */
export const PLACEMENTS: ReadonlyMap<string, (id: string, value: never) => Placement> = new Map(
  TABLES.map(({ name, placement }) => [name, (_id: string, value: never) => placement(value)] as const),
).set(POOLS.name, (id, value) => {
  if (isKillId(id)) return KILLS.placement(value);
  return isRolloutRecord(id) ? ROLLOUTS.placement(value) : POOLS.placement(value);
});
