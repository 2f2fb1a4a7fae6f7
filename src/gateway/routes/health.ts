/**
 * Liveness (`/healthz`), readiness (`/readyz`) and metrics. Readiness means progress: no background loop is late, and
 * the store responds. A process that serves requests while one of its loops is stuck is not ready (L20).
 */
import { Type } from "typebox";
import { JOBS } from "../../core/model/job.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayResponse, ok, type Route } from "../route.ts";

export const DUTIES = Type.Record(Type.String(), Type.Integer(), {
  description: "By how many milliseconds each background loop is behind: its overdue pass, plus the age of work left.",
});

const liveness = (path: string): Route => ({
  method: "GET",
  path,
  summary: "Liveness: the process responds",
  access: "open",
  isHealth: true,
  response: Type.Object({ alive: Type.Boolean() }),
  handle: async () => ok({ alive: true }),
});

export const HEALTH_ROUTES: readonly Route[] = [
  liveness("/healthz"),
  liveness("/health"),
  {
    method: "GET",
    path: "/readyz",
    summary: "Readiness: the background loops make progress and the store responds",
    access: "open",
    isHealth: true,
    response: Type.Object({
      ready: Type.Boolean(),
      swept_ago_ms: Type.Integer({ description: "The largest of `duties`." }),
      duties: DUTIES,
    }),
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
    response: Type.String(),
    produces: "text/plain",
    handle: getMetrics,
  },
];

export type Readiness = { readonly ready: true } | { readonly ready: false; readonly reason: string };

export async function readinessOf({ engine, sweeper, isDraining }: Gateway): Promise<Readiness> {
  const { clock, store } = engine.world;
  if (isDraining()) return { ready: false, reason: "shutting down; send requests to another process" };
  const late = sweeper.duties().flatMap((duty) => duty.late ?? []);
  if (late.length > 0) return { ready: false, reason: late.join("; ") };
  let cancel = () => {};
  const timeout = new Promise<string>((resolve) => {
    cancel = clock.after(STORE_MS_MAX, () => resolve(`the store has not responded for ${STORE_MS_MAX} ms`));
  });
  const probe = store.load(JOBS, PROBE_ID).then(
    () => null,
    (error: unknown) => `store unavailable: ${String(error)}`,
  );
  const reason = await Promise.race([probe, timeout]).finally(() => cancel());
  return reason === null ? { ready: true } : { ready: false, reason };
}

async function getReady(gateway: Gateway): Promise<GatewayResponse> {
  const readiness = await readinessOf(gateway);
  if (!readiness.ready) throw new Problem(gateway.isDraining() ? "shutting_down" : "not_ready", readiness.reason);
  const duties = dutiesView(gateway);
  return ok({ ready: true, swept_ago_ms: Math.max(0, ...Object.values(duties)), duties });
}

/** Lag in milliseconds by loop. */
export function dutiesView({ sweeper }: Gateway): Readonly<Record<string, number>> {
  return Object.fromEntries(sweeper.duties().map(({ name, lagMs }) => [name, lagMs]));
}

async function getMetrics({ engine, metrics, loadGauges }: Gateway): Promise<GatewayResponse> {
  await loadGauges.show(engine);
  return { status: 200, body: await metrics.text(), contentType: metrics.contentType };
}

const PROBE_ID = "readiness-probe";
const STORE_MS_MAX = 2_000;
