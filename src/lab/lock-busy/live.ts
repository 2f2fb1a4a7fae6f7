/**
 * One row of `cordum lab lock-busy` with real processes, seen from the command: each process is a control plane, and the
 * results come over the bus as they would from workers.
 *
 * 1. What the processes saw is put in one order by the machine's clock and shown to the same `Probe` that looks at a
 *    simulated history: the figures are made by the same lines.
 * 2. A result that was applied twice is an error, as in the simulation.
 */
import type { Message } from "../../ports/bus.ts";
import type { Change } from "../../ports/store.ts";
import type { LiveFigures, LiveRowRequest, ProcessGroup } from "../live.ts";
import type { LockBusyParams, Variant } from "./experiment.ts";
import type { Fans, Sighting, Staged, Told } from "./member.ts";
import { Probe } from "./probe.ts";
import { settingsOf } from "./rows.ts";
import { idealOf, resultOf } from "./world.ts";

export async function conductLockBusy(
  crew: ProcessGroup,
  { key, params }: LiveRowRequest<LockBusyParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const { warmUp, measured } = (await crew.request(0, { do: "stage" })) as Staged;
  await crew.requestAll({ do: "start" });
  const isInTime = (done: Promise<void>): Promise<boolean> =>
    Promise.race([done.then(() => true), timeUp.then(() => false)]);
  if (!(await isInTime(brought(crew, warmUp)))) return { figures: {}, isFinished: false };
  await crew.requestAll({ do: "begin" });
  const isFinished = await isInTime(brought(crew, measured));
  const told = (await crew.requestAll({ do: "tell" })) as readonly Told[];
  const seen = told.map(({ sightings }) => sightings);
  const busyMs = told.reduce((sum, one) => sum + one.busyMs, 0);
  // Time was up before the first of them was tried: there is nothing to make figures of.
  if (!seen.some((sightings) => sightings.some(({ kind }) => kind === "asked"))) return { figures: {}, isFinished };
  const { contenders } = measured;
  const probe = replayed(seen.flat(), contenders);
  if (probe.twice.length > 0) {
    throw new Error(`${probe.twice.length} results were applied twice, such as \`${probe.twice[0]}\``);
  }
  const { binMs, holdMs, replicas, cap } = params;
  const settings = settingsOf(String(key.policy), cap === "on");
  const order = { settings, replicas, holdMs, variant: params.variant as Variant };
  return { ...probe.figures({ binMs, idealMs: idealOf(measured, order) }), isFinished, busyMs };
}

/** All of them at once; resolves when the last is in. */
async function brought(crew: ProcessGroup, { contenders }: Fans): Promise<void> {
  // Only counts who is in: news of several processes come in any order.
  const count = new Probe(contenders, () => 0);
  crew.onEvent((news) => {
    for (const change of news as readonly Change[]) count.committed(change);
  });
  const messages: readonly Message[] = contenders.map(({ jobId }) => resultOf(jobId));
  await crew.request(0, { do: "bring", messages });
  await count.done;
}

/** (1) */
function replayed(seen: readonly Sighting[], contenders: Fans["contenders"]): Probe {
  let nowMs = 0;
  const probe = new Probe(contenders, () => nowMs);
  for (const sighting of seen.toSorted((a, b) => a.atMs - b.atMs)) {
    nowMs = sighting.atMs;
    switch (sighting.kind) {
      case "delivered":
        probe.delivered(sighting.jobId);
        break;
      case "asked":
        probe.asked();
        break;
      case "answered":
        probe.answered(sighting.fence);
        break;
      case "committed":
        probe.committed(sighting.change);
        break;
      default:
        sighting satisfies never;
    }
  }
  return probe;
}
