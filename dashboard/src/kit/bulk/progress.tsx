/** The bulk operation of this window: progress, pause, and what was left as it is. */
import { may } from "../../data/session.ts";
import { Meter, Section } from "../layout.tsx";
import { count, duration, percent } from "../numbers.ts";
import type { BulkRunner, Operation } from "./operation.ts";

const VERBS = {
  cancel: ["Cancelling", "Cancelled"],
  retry: ["Retrying", "Retried"],
  drop: ["Dropping", "Dropped"],
} as const;

interface BulkProgressProps {
  readonly runner: BulkRunner;
  /** Path of a record, before its id. */
  readonly path: string;
}

export function BulkProgress({ runner, path }: BulkProgressProps) {
  const now = runner.operation.value;
  if (now === null || !may("operate")) return null;
  const { action, text, matched, done, rejectedCount, rejected, state, why } = now;
  const handled = done + rejectedCount;
  const [doing, did] = VERBS[action];
  const tone = state === "ended" ? "good" : state === "paused" ? "warn" : "busy";
  return (
    <Section
      title={`${state === "ended" ? did : doing} ${text}`}
      tools={<Buttons runner={runner} state={state} />}
      {...(state === "paused" ? { tone: "warn" as const } : {})}
    >
      <p role="status" data-state={state}>
        <strong>
          {count(handled)} of {count(matched)}
        </strong>{" "}
        ({percent(matched === 0 ? 1 : handled / matched)})
        {rejectedCount > 0 && `, ${count(rejectedCount)} left unchanged`}
        {state === "running" && `, ${count(now.perSecond)} per second, ${leftText(now)}`}
        {state === "paused" && `: paused${why === null ? "" : `, ${why}`}`}
        {state === "ended" && handled < matched && `; ${count(matched - handled)} were changed by others`}
      </p>
      <Meter share={matched === 0 ? 1 : handled / matched} tone={tone} label={`${handled} of ${matched}`} />
      {rejected.length > 0 && (
        <details>
          <summary>Left unchanged</summary>
          <ul class="rejected">
            {rejected.map(({ id, error }) => (
              <li key={id}>
                <a class="mono" href={`${path}/${encodeURIComponent(id)}`}>
                  {id}
                </a>{" "}
                {error}
              </li>
            ))}
          </ul>
        </details>
      )}
    </Section>
  );
}

function Buttons({ runner, state }: { readonly runner: BulkRunner } & Pick<Operation, "state">) {
  return (
    <>
      {state === "running" && (
        <button type="button" class="button" onClick={() => runner.pause()}>
          Pause
        </button>
      )}
      {state === "paused" && (
        <button type="button" class="button main" onClick={() => runner.resume()}>
          Resume
        </button>
      )}
      {state !== "running" && (
        <button type="button" class="button" onClick={() => runner.close()}>
          {state === "ended" ? "Close" : "End here"}
        </button>
      )}
    </>
  );
}

const leftText = ({ matched, done, rejectedCount, perSecond }: Operation): string =>
  `about ${duration(((matched - done - rejectedCount) / perSecond) * 1_000)} left`;
