/** Every attempt with its delay and who chose it, newest first. */
import type { JobDetail } from "../../../../src/client/schema.ts";
import { everySecond } from "../../data/clock.ts";
import type { Tone } from "../../kit/badge.tsx";
import { Section } from "../../kit/layout.tsx";
import { duration } from "../../kit/numbers.ts";
import { Time } from "../../kit/time.tsx";
import { isShortened, type Span, spansOf } from "./attempts.ts";
import { isFinal } from "./job-states.ts";
import "./jobs.css";

export function Waterfall({ job }: { readonly job: JobDetail }) {
  const isOpen = !isFinal(job.state);
  const nowMs = isOpen ? everySecond.value : Date.parse(job.updated_at);
  const spans = spansOf(job, isOpen, nowMs);
  const startMs = Date.parse(job.created_at);
  const endMs = Math.max(startMs + 1, nowMs, ...spans.map(({ toMs, delay }) => Math.max(toMs, delay?.toMs ?? 0)));
  return (
    <Section title="Attempts" about={`newest first; the bars cover ${duration(endMs - startMs)}`}>
      <ol class="waterfall">
        {spans.map((span) => (
          <SpanRow key={span.key} span={span} job={job} startMs={startMs} wholeMs={endMs - startMs} />
        ))}
      </ol>
      {isShortened(job.history) && (
        <p class="soft">Attempts in between are not kept: the history has the first and the latest.</p>
      )}
    </Section>
  );
}

interface RowProps {
  readonly span: Span;
  readonly job: JobDetail;
  readonly startMs: number;
  readonly wholeMs: number;
}

function SpanRow({ span, job, startMs, wholeMs }: RowProps) {
  const share = (ms: number) => `${(ms / wholeMs) * 100}%`;
  const { fromMs, toMs, delay } = span;
  return (
    <li>
      <div class="waterfall-head">
        <strong>{span.kind === "check" ? "Check" : `Attempt ${span.attempt}`}</strong>
        <span class={`tone-${toneOf(span)}`}>
          {span.event?.replaceAll("_", " ") ?? job.state.toLowerCase().replaceAll("_", " ")}
        </span>
        <span class="soft">
          {duration(toMs - fromMs)}
          {span.who !== null && `, ${span.who}`}, <Time at={toMs} />
        </span>
      </div>
      <div class="waterfall-bar" aria-hidden="true">
        <span class={`bar ${toneOf(span)}`} style={{ left: share(fromMs - startMs), width: share(toMs - fromMs) }} />
        {delay !== null && (
          <span class="bar delay" style={{ left: share(toMs - startMs), width: share(delay.toMs - toMs) }} />
        )}
      </div>
      {span.why !== null && <p class={`message ${toneOf(span) === "bad" ? "tone-bad" : ""}`}>{span.why}</p>}
      {delay !== null && (
        <p class="soft">
          then a delay of {duration(delay.ms)}, chosen by{" "}
          {delay.policy === "worker" ? "the worker" : <code>{delay.policy}</code>}, class{" "}
          {delay.retryClass.replaceAll("_", " ")}
        </p>
      )}
    </li>
  );
}

function toneOf({ event, kind }: Span): Tone {
  if (event === null) return kind === "check" ? "warn" : "busy";
  if (["succeeded", "approved"].includes(event)) return "good";
  if (["approval_required", "throttled", "bypassed", "unavailable", "no_worker", "approval_void"].includes(event))
    return "warn";
  return event === "revived" || event === "cancelled" ? "quiet" : "bad";
}
