/**
 * One row of `cordum lab occ` with real processes, seen from the command: their clients begin at one instant of the machine's
 * clock, and update one record of a real store with the version that they have read.
 *
 * 1. The figures are made by the lines that make those of the model.
 * 2. In the end every client's update is in the record, or the experiment fails.
 */
import type { LiveFigures, LiveRowRequest, ProcessGroup } from "../live.ts";
import type { OccParams } from "./experiment.ts";
import type { OccQuestion, OccSeen } from "./member.ts";
import { measured } from "./rows.ts";

export async function conductOcc(
  crew: ProcessGroup,
  { key, params }: LiveRowRequest<OccParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const clients = Number(key.clients);
  const ask = (index: number, question: OccQuestion): Promise<unknown> => crew.request(index, question);
  await ask(0, { do: "prepare" });
  const fromMs = Number(await ask(0, { do: "now" })) + LEAD_MS;
  const all = Array.from({ length: crew.size }, (_, index) =>
    ask(index, { do: "update", clients: shareOf(clients, index, crew.size), atMs: fromMs }),
  );
  const isFinished = await Promise.race([Promise.all(all).then(() => true), timeUp.then(() => false)]);
  const seen = (await crew.requestAll({ do: "tell" } satisfies OccQuestion)) as readonly OccSeen[];
  if (isFinished) checkAllIn(Number(await ask(0, { do: "count" })), clients);
  const since = (times: readonly number[]): number[] => times.map((atMs) => atMs - fromMs).sort((a, b) => a - b);
  const callsMs = since(seen.flatMap((one) => one.callsMs));
  const waitsMs = since(seen.flatMap((one) => one.waitsMs));
  if (callsMs.length === 0) return { figures: {}, isFinished };
  const history = { timeMs: waitsMs.at(-1) ?? 0, callsMs, waitsMs };
  return { ...measured(history, clients, params.binMs), isFinished };
}

/** (2) */
function checkAllIn(updates: number, clients: number): void {
  if (updates !== clients) throw new Error(`${clients} clients were told that their update is in, and ${updates} are`);
}

/** As even as whole numbers can be. */
function shareOf(count: number, index: number, parts: number): number {
  return Math.floor(((index + 1) * count) / parts) - Math.floor((index * count) / parts);
}

/** For the question to arrive everywhere before its time. */
const LEAD_MS = 100;
