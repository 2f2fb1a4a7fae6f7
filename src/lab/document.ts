/** The JSON document of an experiment, printed with `--json`. */
import { figureAt, type Outcome, type Summary } from "./experiment.ts";
import type { LiveOutcome } from "./live.ts";
import { errorPct, finishedFigure, liveRowOf } from "./live-compare.ts";
import { paramsDocument } from "./params.ts";

export function outcomeDocument({ experiment, seed, seeds, centre, params, rows, live }: Outcome): object {
  const results = rows.map((summary) => {
    const { key, figures, spread } = summary;
    const row = { ...key, ...figures, ...(live && liveRowDocument(summary, live)) };
    return spread === null ? row : { ...row, spread: { centre, ...spread } };
  });
  const liveField = live && { live: liveDocument(live) };
  return { experiment, seed, params: { seeds, ...paramsDocument(params) }, ...liveField, results };
}

/** The fields `live` and `error_pct` of a row. */
function liveRowDocument(row: Summary, live: LiveOutcome): object {
  const found = liveRowOf(live, row);
  if (found === null) return {};
  const errors = live.compared.flatMap(({ path }): [string, number][] => {
    const error = errorPct(figureAt(row.figures, path), finishedFigure(found, path));
    return error === null ? [] : [[path, error]];
  });
  return { live: { finished: found.isFinished, ...found.figures }, error_pct: Object.fromEntries(errors) };
}

function liveDocument(live: LiveOutcome): object {
  const { on, processes, secondsMax, pingMs, busPingMs, times, cores, load } = live;
  return {
    ...{ on, processes, seconds_max: secondsMax, times, cores, load, ping_ms: pingMs, bus_ping_ms: busPingMs },
    ...{ simulated_latency_ms: live.latencyMs, simulated_step_ms: live.stepMs, simulated_nak_look_ms: live.nakLookMs },
    tuned_by: live.calibratedBy,
  };
}
