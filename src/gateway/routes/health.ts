/**
 * `/healthz`: the process is alive. `/readyz`: it makes progress, which is more: the sweeper has come round lately and the
 * store answers. A process that only answers pings while nothing moves must not look healthy (L20).
 */
import { Type } from "typebox";
import { JOBS } from "../../core/model/job.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, ok, type Route } from "../route.ts";

export const HEALTH_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/healthz",
    summary: "Whether the process is alive",
    access: "open",
    always: true,
    answer: Type.Object({ alive: Type.Boolean() }),
    handle: async () => ok({ alive: true }),
  },
  {
    method: "GET",
    path: "/readyz",
    summary: "Whether it makes progress: the sweeper comes round and the store answers",
    access: "open",
    always: true,
    answer: Type.Object({ ready: Type.Boolean(), swept_ago_ms: Type.Integer() }),
    handle: getReady,
  },
  {
    method: "GET",
    path: "/metrics",
    summary:
      "Metrics of this process in the Prometheus text format; labels name tenants, so it takes a key of tenant `*`",
    access: "read",
    everyTenant: true,
    always: true,
    handle: getMetrics,
  },
];

export type Readiness =
  | { readonly ready: true; readonly sweptAgoMs: number }
  | { readonly ready: false; readonly reason: string };

export async function readinessOf({ engine, control, isDraining }: Gateway): Promise<Readiness> {
  const { clock, store } = engine.world;
  if (isDraining()) return { ready: false, reason: "this process is shutting down" };
  const sweptAgoMs = Math.max(0, Math.round(clock.now() - control.sweptMs()));
  const limitMs = Math.max(SWEEPS_MISSED_MAX * engine.settings.current.sweep.everyMs, SWEPT_AGO_MS_MIN);
  if (sweptAgoMs > limitMs) return { ready: false, reason: `the last complete sweep ended ${sweptAgoMs} ms ago` };
  let cancel = () => {};
  const late = new Promise<string>((resolve) => {
    cancel = clock.after(STORE_MS_MAX, () => resolve(`the store has not answered for ${STORE_MS_MAX} ms`));
  });
  const asked = store.load(JOBS, PROBE_ID).then(
    () => null,
    (error: unknown) => `the store does not answer: ${String(error)}`,
  );
  const reason = await Promise.race([asked, late]).finally(() => cancel());
  return reason === null ? { ready: true, sweptAgoMs } : { ready: false, reason };
}

async function getReady(gateway: Gateway): Promise<Answer> {
  const readiness = await readinessOf(gateway);
  if (!readiness.ready) throw new Problem(gateway.isDraining() ? "shutting_down" : "not_ready", readiness.reason);
  return ok({ ready: true, swept_ago_ms: readiness.sweptAgoMs });
}

async function getMetrics({ metrics }: Gateway): Promise<Answer> {
  return { status: 200, body: await metrics.text(), contentType: metrics.contentType };
}

const PROBE_ID = "readiness-probe";
const SWEEPS_MISSED_MAX = 10;
/** However often it sweeps: a pause of a few seconds is no illness. */
const SWEPT_AGO_MS_MIN = 15_000;
const STORE_MS_MAX = 2_000;
