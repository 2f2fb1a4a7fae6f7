/** Requests that the draft decides differently than the policy in force, out of those of a file. */
import { signal, useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { CordumError } from "../../../../src/client/client-error.ts";
import type { PolicyRequest } from "../../../../src/client/schema.ts";
import { toError } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Section } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { EffectBadge } from "../../kit/rule.tsx";
import { Failed } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { simulate } from "./simulate.ts";
import { readRequests } from "./try-request.ts";

interface Flip {
  /** From 1, in the order of the file. */
  readonly number: number;
  readonly request: PolicyRequest;
  readonly inForce: string;
  readonly decision: string;
  readonly rule: string | null;
  readonly reason: string;
}

type Compared =
  | { readonly kind: "busy"; readonly done: number }
  | { readonly kind: "failed"; readonly error: CordumError }
  | { readonly kind: "compared"; readonly text: string; readonly total: number; readonly flips: readonly Flip[] };

/** As pasted; kept while the page is open. */
const pasted = signal("");

interface FlipsProps {
  readonly text: string;
  readonly isValid: boolean;
}

export function Flips({ text, isValid }: FlipsProps) {
  const compared = useSignal<Compared | null>(null);
  const read = readRequests(pasted.value);
  const requests = read.kind === "ok" ? read.requests : [];
  const problem = read.kind === "bad" ? read.why : requests.length > REQUESTS_MAX ? TOO_MANY : null;
  const canCompare = isValid && requests.length > 0 && problem === null && compared.value?.kind !== "busy";
  const compare = async () => {
    compared.value = { kind: "busy", done: 0 };
    compared.value = await compareAll(text, requests, (done) => {
      compared.value = { kind: "busy", done };
    }).catch((error): Compared => ({ kind: "failed", error: toError(error) }));
  };
  return (
    <Section title="Requests that flip" about="decided differently by the draft">
      <RequestsField problem={problem} />
      <span class="action">
        <button type="button" class="button" disabled={!canCompare} onClick={compare}>
          {requests.length === 0 ? "Compare" : `Compare ${counted(requests.length, "request")}`}
        </button>
        <RequestMenu
          label="Compare"
          request={{ name: "POST /policy/simulate", body: { policy: text, requests: requests.slice(0, COPIED) } }}
          cli={["policy simulate", "requests.jsonl", "--policy", "policy.yaml"]}
        />
      </span>
      {compared.value !== null && <Outcome compared={compared.value} text={text} />}
    </Section>
  );
}

function RequestsField({ problem }: { readonly problem: string | null }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class="soft">
        Requests: a JSON array, or one JSON object per line
      </label>
      <textarea
        id={id}
        class="mono"
        rows={4}
        spellcheck={false}
        value={pasted.value}
        placeholder={HINT}
        aria-invalid={problem !== null}
        onInput={(event) => {
          pasted.value = event.currentTarget.value;
        }}
      />
      <input
        type="file"
        aria-label="file of requests"
        accept=".json,.jsonl,.ndjson,.txt"
        onChange={async (event) => {
          const file = event.currentTarget.files?.[0];
          if (file !== undefined) pasted.value = await file.text();
        }}
      />
      <span class="tone-bad" role="status">
        {problem ?? ""}
      </span>
    </div>
  );
}

/** In parts, because a call takes a bounded number of requests. */
async function compareAll(
  policy: string,
  requests: readonly PolicyRequest[],
  progress: (done: number) => void,
): Promise<Compared> {
  const flips: Flip[] = [];
  for (let from = 0; from < requests.length; from += PART) {
    const part = requests.slice(from, from + PART);
    const decisions = await simulate(policy, part);
    for (const [at, { decision, in_force: inForce = decision, rule_id: rule, reason }] of decisions.entries()) {
      const request = part[at];
      if (request !== undefined && decision !== inForce)
        flips.push({ number: from + at + 1, request, inForce, decision, rule, reason });
    }
    progress(from + part.length);
  }
  return { kind: "compared", text: policy, total: requests.length, flips };
}

function Outcome({ compared, text }: { readonly compared: Compared; readonly text: string }) {
  if (compared.kind === "busy") return <p role="status">comparing … {count(compared.done)} done</p>;
  if (compared.kind === "failed") return <Failed what="the comparison" error={compared.error} />;
  const { flips, total } = compared;
  return (
    <>
      <p role="status">
        <strong>
          {count(flips.length)} of {counted(total, "request")}
        </strong>{" "}
        {flips.length === 1 ? "flips" : "flip"}.
        {compared.text !== text && " The draft has changed since: compare again."}
      </p>
      {flips.length > 0 && (
        <Table
          label="flips"
          columns={COLUMNS}
          rows={flips.slice(0, SHOWN_MAX)}
          keyOf={({ number }) => String(number)}
        />
      )}
      {flips.length > SHOWN_MAX && <p class="soft">and {counted(flips.length - SHOWN_MAX, "further flip")}</p>}
    </>
  );
}

const COLUMNS: readonly Column<Flip>[] = [
  { name: "No.", width: "3rem", align: "end", cell: ({ number }) => count(number) },
  {
    name: "Topic",
    width: "minmax(6rem, 1.4fr)",
    cell: ({ request }) => <span title={JSON.stringify(request)}>{request.topic}</span>,
  },
  { name: "In force", width: "10rem", cell: ({ inForce }) => <EffectBadge effect={inForce} /> },
  { name: "Draft", width: "10rem", cell: ({ decision }) => <EffectBadge effect={decision} /> },
  {
    name: "Rule of the draft",
    width: "minmax(6rem, 1.4fr)",
    priority: 2,
    cell: ({ rule, reason }) => <span title={reason}>{rule ?? "default"}</span>,
  },
];

/** Of `POST /policy/simulate`. */
const PART = 1_000;
const REQUESTS_MAX = 20_000;
const TOO_MANY = `at most ${count(REQUESTS_MAX)} requests at once; \`cordum policy simulate\` takes more`;
const SHOWN_MAX = 200;
/** A command with more would not fit a shell. */
const COPIED = 50;
const HINT = '{"topic": "pay.refund", "risk_tags": ["payment"]}';
