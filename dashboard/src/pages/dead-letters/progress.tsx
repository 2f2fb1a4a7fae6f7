/** The bulk operation of this window: progress, pause, and what was left as it is. */
import { may } from "../../data/session.ts";
import { Meter, Section } from "../../kit/layout.tsx";
import { count, duration, percent } from "../../kit/numbers.ts";
import { closeOperation, type Operation, operation, pauseOperation, resumeOperation } from "./operation.ts";
import { describeFilter } from "./query.ts";

const VERBS = { retry: ["Retrying", "Retried"], drop: ["Dropping", "Dropped"] } as const;

export function BulkProgress() {
  const now = operation.value;
  if (now === null || !may("operate")) return null;
  const { action, filter, matched, done, rejectedCount, rejected, state, why } = now;
  const handled = done + rejectedCount;
  const [doing, did] = VERBS[action];
  const tone = state === "ended" ? "good" : state === "paused" ? "warn" : "busy";
  return (
    <Section
      title={`${state === "ended" ? did : doing} ${describeFilter(filter)}`}
      tools={<Buttons state={state} />}
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
                <a class="mono" href={`/dead-letters/${encodeURIComponent(id)}`}>
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

function Buttons({ state }: Pick<Operation, "state">) {
  return (
    <>
      {state === "running" && (
        <button type="button" class="button" onClick={() => pauseOperation()}>
          Pause
        </button>
      )}
      {state === "paused" && (
        <button type="button" class="button main" onClick={resumeOperation}>
          Resume
        </button>
      )}
      {state !== "running" && (
        <button type="button" class="button" onClick={closeOperation}>
          {state === "ended" ? "Close" : "End here"}
        </button>
      )}
    </>
  );
}

const leftText = ({ matched, done, rejectedCount, perSecond }: Operation): string =>
  `about ${duration(((matched - done - rejectedCount) / perSecond) * 1_000)} left`;
