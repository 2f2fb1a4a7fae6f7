/** Recorded decisions that the draft would flip, grouped. */
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { CordumError } from "../../../../src/client/client-error.ts";
import { type RecordedTotals, simulateRecorded } from "../../../../src/client/recorded.ts";
import type { PolicyDecidedBy, PolicyFlips } from "../../../../src/client/schema.ts";
import { api, toError } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Id, Section } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { EffectBadge } from "../../kit/rule.tsx";
import { Failed } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";

type Simulated =
  | { readonly kind: "busy"; readonly checked: number }
  | { readonly kind: "failed"; readonly error: CordumError }
  | { readonly kind: "done"; readonly text: string; readonly totals: RecordedTotals };

interface RecordedFlipsProps {
  readonly text: string;
  readonly isValid: boolean;
}

export function RecordedFlips({ text, isValid }: RecordedFlipsProps) {
  const id = useId();
  const last = useSignal("24h");
  const simulated = useSignal<Simulated | null>(null);
  const range = { last_ms: SPANS[last.value] };
  const simulate = async () => {
    simulated.value = { kind: "busy", checked: 0 };
    simulated.value = await simulateRecorded(request, {
      policy: text,
      range,
      max: RECORDS_MAX,
      onPage: ({ checked }) => {
        simulated.value = { kind: "busy", checked };
      },
    }).then(
      (totals): Simulated => ({ kind: "done", text, totals }),
      (error): Simulated => ({ kind: "failed", error: toError(error) }),
    );
  };
  return (
    <Section
      title="Recorded decisions that flip"
      about="made about jobs of this tenant, decided differently by the draft"
    >
      <div class="buttons">
        <label for={id}>Jobs of the last</label>
        <select
          id={id}
          value={last.value}
          onChange={(event) => {
            last.value = event.currentTarget.value;
          }}
        >
          {Object.keys(SPANS).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <span class="action">
          <button
            type="button"
            class="button"
            disabled={!isValid || simulated.value?.kind === "busy"}
            onClick={simulate}
          >
            Check recorded decisions
          </button>
          <RequestMenu
            label="Check recorded decisions"
            request={{ name: "POST /policy/simulate", body: { policy: text, recorded: range } }}
            cli={["policy simulate", "--recorded", "--last", last.value, "--policy", "policy.yaml"]}
          />
        </span>
      </div>
      {simulated.value !== null && <Outcome simulated={simulated.value} text={text} />}
    </Section>
  );
}

const request = (body: object) => api.peek().request("POST /policy/simulate", { body });

function Outcome({ simulated, text }: { readonly simulated: Simulated; readonly text: string }) {
  if (simulated.kind === "busy") return <p role="status">checking … {count(simulated.checked)} done</p>;
  if (simulated.kind === "failed") return <Failed what="the recorded decisions" error={simulated.error} />;
  const { checked, flipped, groups, ungrouped, truncated, limits } = simulated.totals;
  return (
    <>
      <p role="status">
        <strong>
          {count(flipped)} of {counted(checked, "recorded decision")}
        </strong>{" "}
        would flip.
        {truncated && ` Only the newest ${count(RECORDS_MAX)} jobs were read.`}
        {simulated.text !== text && " The draft has changed since: check again."}
      </p>
      {groups.length > 0 && (
        <Table label="recorded flips" columns={COLUMNS} rows={groups.slice(0, SHOWN_MAX)} keyOf={keyOf} />
      )}
      {limits?.exhausted.map(({ rule_id, per, count: jobs }) => (
        <p key={`${per} ${rule_id}`}>
          {counted(jobs, "job")} would exhaust the budget of rule <code>{rule_id}</code> per {per}.
        </p>
      ))}
      {limits && (
        <p class="soft" title={limits.approximations.join("\n")}>
          Limits and budgets are counted from <Time at={limits.counted_from} />, approximately.
        </p>
      )}
      {ungrouped > 0 && <p class="soft">and {counted(ungrouped, "flip")} in smaller groups</p>}
    </>
  );
}

const keyOf = ({ from, to, topic }: PolicyFlips): string => JSON.stringify([from, to, topic]);

function DecidedBy({ by }: { readonly by: PolicyDecidedBy }) {
  return (
    <span title={`by ${by.rule_id ?? "the default"}`}>
      <EffectBadge effect={by.decision} />
    </span>
  );
}

const COLUMNS: readonly Column<PolicyFlips>[] = [
  { name: "Jobs", width: "4rem", align: "end", cell: (flips) => count(flips.count) },
  { name: "Topic", width: "minmax(6rem, 1.4fr)", cell: ({ topic }) => <span title={topic}>{topic}</span> },
  { name: "Recorded", width: "8.8rem", cell: ({ from }) => <DecidedBy by={from} /> },
  { name: "Draft", width: "8.8rem", cell: ({ to }) => <DecidedBy by={to} /> },
  {
    name: "Rule of the draft",
    width: "minmax(6rem, 1fr)",
    priority: 2,
    cell: ({ to }) => <span title={to.rule_id ?? "default"}>{to.rule_id ?? "default"}</span>,
  },
  {
    name: "Newest",
    width: "minmax(6rem, 1fr)",
    priority: 3,
    cell: ({ examples: [newest] }) =>
      newest !== undefined && <Id id={newest} to={`/jobs/${encodeURIComponent(newest)}`} />,
  },
];

const HOUR_MS = 3_600_000;
const SPANS: Readonly<Record<string, number>> = { "1h": HOUR_MS, "24h": 24 * HOUR_MS, "168h": 168 * HOUR_MS };
const RECORDS_MAX = 100_000;
const SHOWN_MAX = 100;
