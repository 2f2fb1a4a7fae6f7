import { BACKLOG_GROUP, IN_FLIGHT_GROUP } from "../model/job.ts";
import { PARKED_GROUP } from "../model/parked.ts";
import { readinessOf } from "./health.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "./route.ts";

export const STATUS_ROUTES: readonly Route[] = [{ method: "GET", path: "/api/v1/status", handle: getStatus }];

/** How it is: what runs here, under which policy and promise of durability, what waits, and the founding figures. */
async function getStatus(gateway: Gateway, { org }: GatewayRequest): Promise<Answer> {
  const { flow, about, metrics, startedMs } = gateway;
  const { store, clock, name } = flow.world;
  const [readiness, backlog, inFlight, parked, letters] = await Promise.all([
    readinessOf(gateway),
    store.counts(BACKLOG_GROUP, TOPICS_MAX),
    store.counts(IN_FLIGHT_GROUP, TOPICS_MAX),
    store.counts(PARKED_GROUP, TOPICS_MAX),
    store.counts("dead_letters", TOPICS_MAX),
  ]);
  return ok({
    name,
    ...about,
    uptime_ms: Math.max(0, Math.round(clock.now() - startedMs)),
    ready: readiness.ready,
    ...(readiness.ready ? {} : { not_ready_because: readiness.reason }),
    backlog: Object.fromEntries(backlog),
    in_flight: Object.fromEntries(inFlight),
    parked_retries: Object.fromEntries(parked),
    dead_letters: letters.get(org) ?? 0,
    ...metrics.figures(),
  });
}

const TOPICS_MAX = 1_000;
