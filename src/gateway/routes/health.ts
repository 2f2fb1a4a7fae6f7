/**
 * Liveness (`/healthz`), readiness (`/readyz`) and metrics. Readiness means progress: the sweeper completed recently and
 * the store responds. A process that serves requests while its sweeper is stuck is not ready (L20).
 */
import { Type } from "typebox";
import { JOBS } from "../../core/model/job.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayResponse, ok, type Route } from "../route.ts";

export const HEALTH_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/healthz",
    summary: "Liveness: the process responds",
    access: "open",
    isHealth: true,
    response: Type.Object({ alive: Type.Boolean() }),
    handle: async () => ok({ alive: true }),
  },
  {
    method: "GET",
    path: "/readyz",
    summary: "Readiness: the sweeper makes progress and the store responds",
    access: "open",
    isHealth: true,
    response: Type.Object({ ready: Type.Boolean(), swept_ago_ms: Type.Integer() }),
    handle: getReady,
  },
  {
    method: "GET",
    path: "/metrics",
    summary:
      "Metrics of this process in the Prometheus text format; labels contain tenants, so a key of tenant `*` is required",
    access: "read",
    allTenants: true,
    isHealth: true,
    handle: getMetrics,
  },
];

export type Readiness =
  | { readonly ready: true; readonly sweptAgoMs: number }
  | { readonly ready: false; readonly reason: string };

export async function readinessOf({ engine, sweeper: control, isDraining }: Gateway): Promise<Readiness> {
  const { clock, store } = engine.world;
  if (isDraining()) return { ready: false, reason: "shutting down; send requests to another process" };
  const sweptAgoMs = Math.max(0, Math.round(clock.now() - control.sweptMs()));
  const limitMs = Math.max(SWEEPS_MISSED_MAX * engine.settings.current.sweep.everyMs, SWEPT_AGO_MS_MIN);
  if (sweptAgoMs > limitMs)
    return {
      ready: false,
      reason: `the last complete sweep ended ${sweptAgoMs} ms ago (limit ${limitMs} ms); see the server log`,
    };
  let cancel = () => {};
  const late = new Promise<string>((resolve) => {
    cancel = clock.after(STORE_MS_MAX, () => resolve(`the store has not responded for ${STORE_MS_MAX} ms`));
  });
  const probe = store.load(JOBS, PROBE_ID).then(
    () => null,
    (error: unknown) => `store unavailable: ${String(error)}`,
  );
  const reason = await Promise.race([probe, late]).finally(() => cancel());
  return reason === null ? { ready: true, sweptAgoMs } : { ready: false, reason };
}

async function getReady(gateway: Gateway): Promise<GatewayResponse> {
  const readiness = await readinessOf(gateway);
  if (!readiness.ready) throw new Problem(gateway.isDraining() ? "shutting_down" : "not_ready", readiness.reason);
  return ok({ ready: true, swept_ago_ms: readiness.sweptAgoMs });
}

async function getMetrics({ metrics }: Gateway): Promise<GatewayResponse> {
  return { status: 200, body: await metrics.text(), contentType: metrics.contentType };
}

const PROBE_ID = "readiness-probe";
const SWEEPS_MISSED_MAX = 10;
/** Lower bound of the limit, so that a short sweep interval does not make a pause of seconds fatal. */
const SWEPT_AGO_MS_MIN = 15_000;
const STORE_MS_MAX = 2_000;
