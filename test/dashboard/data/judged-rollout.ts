/** A rollout with a judgement, from real runs. */
import type { Client } from "../../../src/client/client.ts";

const RUNS = 280;
/** Fewer than a tenant may have open. */
const LANES = 8;

/** `R1` was rolled back by hand; `R2` runs, with units of both arms. */
export async function judgedRollout(api: Client): Promise<void> {
  const each = { topic: "demo.echo", for_each: "${input.items}", input: "${item}" };
  await api.request("POST /workflows", { body: { id: "price-items", steps: { each } } as never });
  await api.request("POST /rollouts", { body: { class: "no_worker", policy: "fixed:1s", share: 0.1 } });
  const undone = { reason: "jobs of the batch queue waited longer; see CHG-41" };
  await api.request("POST /rollouts/{id}/rollback", { path: { id: "R1" }, body: undone });
  const body = {
    class: "lock_busy",
    policy: "bounded:250ms:0.3",
    share: [0.5, 0.7],
    horizon_ms: 1_000,
    reason: "CHG-42",
  };
  await api.request("POST /rollouts", { body });
  let started = 0;
  const lane = async (): Promise<void> => {
    while (started++ < RUNS) await runToEnd(api);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

async function runToEnd(api: Client): Promise<void> {
  const body = { input: { items: [1, 2, 3] } };
  const { run_id: id } = await api.request("POST /workflows/{id}/runs", { path: { id: "price-items" }, body });
  for (;;) {
    const { state } = await api.runs.get(id);
    if (state === "SUCCEEDED") return;
    if (["FAILED", "CANCELLED", "TIMEOUT"].includes(state)) throw new Error(`run \`${id}\` ended as ${state}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
