/**
 * One cell of `cordum lab admission` with real processes, seen from the command: each process is a control plane with its
 * share of the callers, and all of them begin at one instant of the machine's clock.
 *
 * 1. The figures are made by the lines that make those of a simulated history.
 * 2. Never are more runs of the org open than its limit, or the experiment fails. Each process knows of its own commits
 *    only from their answers, so a run counts as open from the answer to its start until somebody asked for its end: less
 *    than it was, so that what is found too much was too much for certain.
 */

import type { LiveFigures, LiveRowRequest, ProcessGroup } from "../live.ts";
import { cellsOf, keyOf } from "./cells.ts";
import type { AdmissionParams } from "./experiment.ts";
import type { AdmissionQuestion, RunSighting, Seen } from "./member.ts";
import { type CellWish, measured } from "./rows.ts";
import { LIMIT } from "./stage.ts";

export async function conductAdmission(
  crew: ProcessGroup,
  { key, params }: LiveRowRequest<AdmissionParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const request = cellOf(key, params);
  const askAll = (question: AdmissionQuestion): Promise<readonly unknown[]> => crew.requestAll(question);
  await crew.request(0, { do: "prepare" } satisfies AdmissionQuestion);
  await askAll({ do: "start" });
  const perS = request.besidePerS / crew.size;
  const alone = request.part === "sweep" ? [] : await askAll({ do: "alone", perS, forMs: ALONE_MS });
  const fromMs = Number(await crew.request(0, { do: "now" } satisfies AdmissionQuestion)) + LEAD_MS;
  const calls = sharesOf(request.contenders, crew.size).map((callers, index) =>
    crew.request(index, {
      do: "call",
      atMs: fromMs,
      callers,
      perS,
      forMs: request.besideForMs,
    } satisfies AdmissionQuestion),
  );
  const isFinished = await Promise.race([Promise.all(calls).then(() => true), timeUp.then(() => false)]);
  const seen = (await askAll({ do: "tell" })) as readonly Seen[];
  const openMax = openMaxOf(seen.flatMap(({ runs }) => runs));
  if (openMax > LIMIT) throw new Error(`${openMax} runs were open at a limit of ${LIMIT}`);
  const callers = seen.flatMap((one) => one.callers);
  const asksMs = seen.flatMap((one) => one.asksMs.filter((atMs) => atMs >= fromMs)).sort((a, b) => a - b);
  // Before the first answer there is nothing to say.
  if (asksMs.length === 0 || callers.every(({ answers }) => answers.length === 0)) return { figures: {}, isFinished };
  const history = { callers, beside: seen.flatMap((one) => one.beside), asksMs, fromMs, openMax };
  return { ...measured(request, history, (alone as readonly (readonly number[])[]).flat()), isFinished };
}

/** (2) */
export function openMaxOf(sightings: readonly RunSighting[]): number {
  const spans = new Map<string, { fromMs: number; toMs: number }>();
  for (const { runId, kind, atMs } of sightings) {
    const span = spans.get(runId) ?? { fromMs: Number.POSITIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };
    if (kind === "open") span.fromMs = Math.min(span.fromMs, atMs);
    else span.toMs = Math.min(span.toMs, atMs);
    spans.set(runId, span);
  }
  const moves = [...spans.values()]
    .filter(({ fromMs, toMs }) => fromMs < toMs)
    .flatMap(({ fromMs, toMs }) => [
      { atMs: fromMs, delta: 1 },
      { atMs: toMs, delta: -1 },
    ])
    .sort((a, b) => a.atMs - b.atMs || a.delta - b.delta);
  let open = 0;
  let most = 0;
  for (const { delta } of moves) {
    open += delta;
    most = Math.max(most, open);
  }
  return most;
}

function cellOf(key: LiveRowRequest["key"], params: AdmissionParams): CellWish {
  const name = JSON.stringify(key);
  const found = cellsOf(0, params).find((cell) => JSON.stringify(keyOf(cell)) === name);
  if (found === undefined) throw new Error(`no such cell: ${name}`);
  return found;
}

/** As even as whole numbers can be. */
function sharesOf(count: number, parts: number): readonly number[] {
  return Array.from({ length: parts }, (_, index) => {
    return Math.floor(((index + 1) * count) / parts) - Math.floor((index * count) / parts);
  });
}

/** For the question to arrive everywhere before its time. */
const LEAD_MS = 100;
/** How long the other org is looked at without anybody beside it. */
const ALONE_MS = 1_000;
