/** Retries as they arrive, and the locks that they meet. Figures of this process, over all tenants. */
import { Type } from "typebox";
import { BIN_MS, BINS, poissonCounts } from "../../../engine/observe/index.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../../route.ts";
import { queryText } from "../../views/page.ts";
import { instant, orNull } from "../../views/schemas.ts";
import { LOCK, locksByContention } from "../locks.ts";

const BIN_COUNTS = Type.Array(Type.Integer(), { description: "By bin, oldest first." });
const SPREAD = {
  total: Type.Integer(),
  peak: Type.Integer({ description: "The largest bin." }),
  mean: Type.Number({ description: "Arrivals per bin." }),
  peak_to_mean: Type.Number(),
};

const WAVES = Type.Object(
  {
    at: instant("The end of the last bin."),
    process: Type.String(),
    covers_all_processes: Type.Boolean({ description: "False in a cluster: each process records its own arrivals." }),
    bin_ms: Type.Integer(),
    bins: Type.Integer(),
    series: Type.Array(
      Type.Object({
        class: Type.String(),
        arm: orNull(Type.String({ description: "`control` or `treatment` of a rollout; part of the class." })),
        ...SPREAD,
        counts: BIN_COUNTS,
        poisson: Type.Object(
          { ...SPREAD, counts: BIN_COUNTS },
          {
            description:
              "As many arrivals at random times between the first and the last arrival (at least 10 s), for comparison.",
          },
        ),
      }),
      { description: "Only with arrivals in the last minute." },
    ),
    locks: Type.Array(LOCK, { description: "The 20 locks with the most contention." }),
  },
  { title: "Waves" },
);

export const WAVES_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/waves",
    summary:
      "Get the retries of the last minute in bins of 50 ms, beside a Poisson stream, and the most contended locks",
    access: "read",
    allTenants: true,
    query: Type.Object({
      seed: Type.Optional(Type.String({ pattern: "^\\d{1,9}$", description: "Of the Poisson stream; 1 by default." })),
    }),
    response: WAVES,
    handle: getWaves,
  },
];

async function getWaves({ engine, info }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  const { clock, name } = engine.world;
  const nowMs = clock.now();
  const seed = Number(queryText(query, "seed") ?? 1);
  const series = engine.arrivals.series(nowMs).map(({ retryClass, arm, counts }) => {
    const spread = spreadOf(counts);
    return {
      class: retryClass,
      arm,
      ...spread,
      counts,
      poisson: withCounts(poissonCounts(counts, seed)),
    };
  });
  return ok({
    at: new Date((Math.floor(nowMs / BIN_MS) + 1) * BIN_MS).toISOString(),
    process: name,
    covers_all_processes: info.mode === "embedded",
    bin_ms: BIN_MS,
    bins: BINS,
    series,
    locks: await locksByContention(engine, LOCKS_MAX),
  });
}

const withCounts = (counts: readonly number[]) => ({ ...spreadOf(counts), counts });

function spreadOf(counts: readonly number[]) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const peak = counts.reduce((max, count) => Math.max(max, count), 0);
  const mean = total / counts.length;
  return { total, peak, mean, peak_to_mean: total === 0 ? 0 : peak / mean };
}

const LOCKS_MAX = 20;
