/** The cells of `cordum lab admission`, in the order of the tables. Read whenever `cordum` starts: it loads nothing. */

import type { Row } from "../experiment.ts";
import type { AdmissionParams } from "./experiment.ts";
import { DEFAULT_POLL } from "./report.ts";
import type { CellWish } from "./rows.ts";

export const CLIENT_NAMES = ["none", "fixed", "jittered", "told"] as const;

export function cellsOf(seed: number, params: AdmissionParams): readonly CellWish[] {
  return [
    ...(params.part === "sweep" ? [] : gridOf(seed, params)),
    ...(params.part === "grid" ? [] : sweepOf(seed, params)),
  ];
}

export function keyOf({ part, contenders, policy, client, maxWaitMs, budgetMs }: CellWish): Row["key"] {
  return { part, contenders, policy, client, max_wait_ms: maxWaitMs, budget_ms: budgetMs };
}

function gridOf(seed: number, params: AdmissionParams): readonly CellWish[] {
  const clients = CLIENT_NAMES.filter((name) => params.client === "all" || params.client === name);
  return params.contenders.flatMap((contenders) =>
    params.policies.flatMap((policy) =>
      clients.map((client): CellWish => ({ ...cellOf(seed, params), part: "grid", contenders, policy, client })),
    ),
  );
}

/** Both kinds of patience together, for the smallest burst; the other org is not in it. */
function sweepOf(seed: number, params: AdmissionParams): readonly CellWish[] {
  const polled = params.policies.filter((policy) => policy !== "atomic");
  const policy = polled.includes(DEFAULT_POLL) ? DEFAULT_POLL : polled[0];
  const [contenders] = params.contenders;
  if (policy === undefined || contenders === undefined) return [];
  return params.maxWaitsMs.flatMap((maxWaitMs) =>
    params.budgetsMs.map((budgetMs): CellWish => {
      const alone = { client: "jittered", besidePerS: 0 } as const;
      return { ...cellOf(seed, params), ...alone, part: "sweep", contenders, policy, maxWaitMs, budgetMs };
    }),
  );
}

function cellOf(seed: number, params: AdmissionParams) {
  const { holdMs, budgetMs, maxWaitMs, replicas, latencyMs, storeMs, binMs } = params;
  const beside = { besidePerS: params.otherRate, besideForMs: params.otherForMs };
  return { seed, holdMs, budgetMs, maxWaitMs, replicas, latencyMs, storeMs, binMs, ...beside };
}
