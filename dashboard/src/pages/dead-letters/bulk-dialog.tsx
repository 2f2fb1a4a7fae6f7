/** What a bulk operation would change: the filter, the frozen count and the oldest of them, before it starts (L49). */
import { type Signal, useSignal } from "@preact/signals";
import type { DeadLetter, DeadLetterBulkPage } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Facts } from "../../kit/layout.tsx";
import { count, duration } from "../../kit/numbers.ts";
import { Empty, Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { absolute, Time } from "../../kit/time.tsx";
import { type BulkAction, startOperation } from "./operation.ts";
import { type DeadLetterFilter, describeFilter, filterFlags } from "./query.ts";

interface BulkDialogProps {
  readonly action: BulkAction;
  readonly filter: DeadLetterFilter;
  readonly onClose: () => void;
}

export function BulkDialog({ action, filter, onClose }: BulkDialogProps) {
  const perSecond = useSignal(50);
  const dryRun = useResource(`bulk ${action} ${JSON.stringify(filter)}`, (signal) =>
    api.value.request("POST /dlq/bulk", { body: { action, ...filter, dry_run: true } }, { signal }),
  );
  const shown = dryRun.shown.value;
  const found = shown.kind === "ready" ? shown.value : null;
  const start = () => {
    if (found === null || found.next_cursor === null) return;
    const { matched, next_cursor: cursor } = found;
    startOperation({ action, filter, matched, cursor, perSecond: perSecond.value });
    onClose();
  };
  const verb = action === "retry" ? "Retry" : "Drop";
  return (
    <Dialog
      kind="wide"
      title={`${verb} dead letters`}
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={onClose}>
            Back
          </button>
          <span class="action">
            <button
              type="button"
              class={`button ${action === "drop" ? "danger" : "main"}`}
              disabled={found === null || found.matched === 0}
              onClick={start}
            >
              {found === null ? `${verb} …` : `${verb} ${count(found.matched)}`}
            </button>
            <RequestMenu
              label={`${verb} these dead letters`}
              request={{ name: "POST /dlq/bulk", body: { action, ...filter } }}
              cli={[`dlq ${action}`, ...filterFlags(filter), "--rate", `${perSecond.value}/s`]}
            />
          </span>
        </>
      }
    >
      <Show of={dryRun} what="what matches">
        {(page) => <Matches page={page} filter={filter} perSecond={perSecond.value} />}
      </Show>
      <Pace perSecond={perSecond} />
    </Dialog>
  );
}

function Pace({ perSecond }: { readonly perSecond: Signal<number> }) {
  return (
    <label class="field">
      <span>Pace</span>
      <select
        value={String(perSecond.value)}
        onChange={(event) => {
          perSecond.value = Number(event.currentTarget.value);
        }}
      >
        {[1, 10, 50, 200, 1_000].map((rate) => (
          <option key={rate} value={String(rate)}>
            {count(rate)} per second
          </option>
        ))}
      </select>
    </label>
  );
}

interface MatchesProps {
  readonly page: DeadLetterBulkPage;
  readonly filter: DeadLetterFilter;
  readonly perSecond: number;
}

function Matches({ page: { matched, sample }, filter, perSecond }: MatchesProps) {
  if (matched === 0) return <Empty title="no dead letters match">Close this dialog and change the filters.</Empty>;
  return (
    <>
      <Facts
        of={[
          ["filter", describeFilter(filter)],
          ["matches", `${count(matched)}, counted at ${absolute(Date.now())}; later ones are not part of it`],
          ["takes", `at least ${duration((matched / perSecond) * 1_000)}`],
        ]}
      />
      <div>
        <h3>The oldest of them</h3>
        <Table label="sample" columns={SAMPLE} rows={sample} keyOf={({ id }) => id} />
      </div>
    </>
  );
}

const SAMPLE: readonly Column<DeadLetter>[] = [
  { name: "Id", width: "minmax(8rem, 1.4fr)", cell: ({ id }) => <span class="mono">{id}</span> },
  { name: "Topic", width: "minmax(6rem, 1fr)", priority: 2, cell: ({ topic, subject }) => topic ?? subject ?? "" },
  { name: "Error", width: "minmax(8rem, 2fr)", cell: ({ error }) => error?.message ?? "" },
  { name: "Dead-lettered", width: "7rem", cell: ({ created_at }) => <Time at={created_at} /> },
];
