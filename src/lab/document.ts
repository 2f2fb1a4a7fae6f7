import { figureAt, type Outcome, type Summary } from "./experiment.ts";
import type { LiveOutcome } from "./live.ts";
import { errorPct, figureOf, liveRowOf } from "./live-compare.ts";
import { paramsDocument } from "./params.ts";

/** The one JSON document (1). */
export function outcomeDocument({ experiment: name, seed, seeds, centre, params, rows, live }: Outcome): object {
  const results = rows.map((summary) => {
    const { key, figures, spread } = summary;
    const row = { ...key, ...figures, ...(live && liveMembers(summary, live)) };
    return spread === null ? row : { ...row, spread: { centre, ...spread } };
  });
  const besides = live && { live: liveDocument(live) };
  return { experiment: name, seed, params: { seeds, ...paramsDocument(params) }, ...besides, results };
}

/** What a row's `live` and `error_pct` are in the document. */
function liveMembers(row: Summary, live: LiveOutcome): object {
  const found = liveRowOf(live, row);
  if (found === null) return {};
  const errors = live.compared.flatMap((column): [string, number][] => {
    const error = errorPct(figureAt(row.figures, column.path), figureOf(found, column));
    return error === null ? [] : [[column.path, error]];
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
