/** What a rollout would compare, what the recorded contention predicts, and the smallest effect that its units can show. */
import { useEffect, useRef } from "preact/hooks";
import type { RolloutFigures, RolloutPreview } from "../../../../src/client/schema.ts";
import { Facts, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { count, decimal, duration, percent } from "../../kit/numbers.ts";
import { Time } from "../../kit/time.tsx";
import { FigureTable } from "./figure-table.tsx";
import { gateText, INTERFERENCE, shareText, tenantsText } from "./verdict.ts";

export function PreviewView({ preview }: { readonly preview: RolloutPreview }) {
  const { setting, control, policy, shares, orgs, horizon_ms, ends_at, active } = preview;
  const top = useRef<HTMLDivElement>(null);
  useEffect(() => top.current?.scrollIntoView({ block: "start" }), []);
  return (
    <div class="preview" ref={top}>
      {active !== null && (
        <Note tone="bad">
          <a href={`/rollouts/${active}`}>{active}</a> of this class is active: end it before another one starts.
        </Note>
      )}
      <Section title="What would be compared">
        <Facts
          of={[
            ["setting", <code key="setting">{setting}</code>],
            ["control", <code key="control">{control}</code>],
            ["treatment", <code key="treatment">{policy}</code>],
            ["share", `${shares.map(shareText).join(", then ")} of ${tenantsText(orgs)}`],
            ["horizon", duration(horizon_ms)],
            ["ends at the latest", <Time key="ends" at={ends_at} both />],
          ]}
        />
      </Section>
      <Prediction preview={preview} />
      <Detectable preview={preview} />
      <p class="soft caveat">
        <strong>Interference.</strong> {INTERFERENCE}
      </p>
    </div>
  );
}

const PREDICTED: readonly (readonly [string, (figures: RolloutFigures) => number | null, (value: number) => string])[] =
  [
    ["busy retries", (figures) => figures.busy_retries, count],
    ["first-retry success", (figures) => figures.first_retry_success, percent],
    ["run lock wait p50", (figures) => figures.run_lock_wait_ms.p50, duration],
    ["run lock wait p95", (figures) => figures.run_lock_wait_ms.p95, duration],
    ["run lock wait p99", (figures) => figures.run_lock_wait_ms.p99, duration],
    ["result latency p95", (figures) => figures.job_result_latency_ms.p95, duration],
  ];

function Prediction({ preview: { prediction } }: { readonly preview: RolloutPreview }) {
  if (prediction === null) {
    return (
      <Section title="Prediction">
        <p class="soft">None: no lock contention is recorded yet, or the record says nothing about this class.</p>
      </Section>
    );
  }
  const { control, treatment, acquisitions } = prediction;
  const text = (value: number | null, format: (value: number) => string) => (value === null ? "–" : format(value));
  return (
    <Section title="Prediction" about={`from ${count(acquisitions)} recorded lock acquisitions of the last 24 h`}>
      <FigureTable
        label="prediction"
        columns={["Control", "Treatment"]}
        rows={PREDICTED.map(([name, of, format]) => ({
          name,
          cells: [text(of(control), format), text(of(treatment), format)],
        }))}
      />
    </Section>
  );
}

function Detectable({ preview: { detectable, gates } }: { readonly preview: RolloutPreview }) {
  if (detectable === null) {
    return (
      <Section title="Smallest detectable effect">
        <p class="soft">Unknown: no runs were started lately, so the traffic cannot be estimated.</p>
        <p>Gates: {gates.map(gateText).join(", ")}</p>
      </Section>
    );
  }
  const { units, units_per_hour, effects } = detectable;
  return (
    <Section
      title="Smallest detectable effect"
      about={`${count(units)} units until the end, at ${decimal(units_per_hour)} per hour`}
    >
      <FigureTable
        label="smallest detectable effects"
        of="Gate"
        columns={["Rolled back from"]}
        rows={effects.map(({ gate, ratio }) => ({
          name: gateText(gate),
          cells: [ratio === null ? "no effect can be detected" : `${decimal(ratio)}× of control`],
        }))}
      />
    </Section>
  );
}
