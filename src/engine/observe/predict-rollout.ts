import { CONTENTION, CONTENTION_LIST, RETENTION_MS, type StoredContention } from "../../core/contention/acquisition.ts";
import { isPredictable } from "../../core/contention/predict.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import type { RolloutPrediction } from "../../core/rollout/rollout.ts";
import type { RolloutSubject } from "../../core/rollout/subject.ts";
import type { Page } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * What the recorded contention of the last 24 hours predicts for a rollout. Null without a record, for a subject that it
 * says nothing about, and if the evaluator is busy or the replay takes too long: a rollout starts without a prediction.
 */
export async function predictRollout(
  engine: Needs<"world" | "settings">,
  subject: RolloutSubject,
  treatment: string,
): Promise<RolloutPrediction | null> {
  if (!isPredictable(subject)) return null;
  const { evaluator } = engine.world;
  const records = await readContention(engine, 0, PREDICTION_CHARS_MAX);
  if (records.length === 0) return null;
  const input = { records, settings: engine.settings.current, subject, treatment };
  const outcome = await evaluator.run(EVERY_ORG, "predictRollout", input);
  return outcome.kind === "answered" ? outcome.answer : null;
}

/** The records of all processes since a time, newest first, up to a total size. */
export async function readContention(
  { world }: Needs<"world">,
  sinceMs: number,
  charsMax = Number.POSITIVE_INFINITY,
): Promise<readonly StoredContention[]> {
  const records: StoredContention[] = [];
  const fromMs = Math.max(sinceMs, world.clock.now() - RETENTION_MS);
  let cursor: string | undefined;
  let chars = 0;
  do {
    const page: Page<StoredContention> = await world.store.list(CONTENTION, {
      index: CONTENTION_LIST,
      limit: PAGE,
      cursor,
    });
    for (const { value } of page.items) {
      chars += value.acquisitions.length;
      if (value.toMs < fromMs || chars > charsMax) return records;
      records.push(value);
    }
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return records;
}

const PAGE = 100;
/** About half a million acquisitions. */
const PREDICTION_CHARS_MAX = 6_000_000;
