/** What a bulk operation would change: the filter, the frozen count and the oldest of them, before it starts (L49). */
import { type Signal, useSignal } from "@preact/signals";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { RequestMenu } from "../action.tsx";
import { Dialog } from "../dialog.tsx";
import { Facts } from "../layout.tsx";
import { count, duration } from "../numbers.ts";
import { Empty, Show } from "../state.tsx";
import { type Column, Table } from "../table.tsx";
import { absolute } from "../time.tsx";
import "./bulk.css";
import type { BulkAction, BulkFilter, BulkRunner } from "./operation.ts";

export interface BulkTarget<T> {
  readonly runner: BulkRunner;
  /** Plural: `dead letters`. */
  readonly what: string;
  /** Group of the CLI: `dlq`. */
  readonly command: string;
  readonly columns: readonly Column<T>[];
  readonly keyOf: (record: T) => string;
}

/** The filter on the screen (L50). */
export interface BulkQuery {
  readonly filter: BulkFilter;
  readonly text: string;
}

interface BulkButtonsProps<T> {
  readonly target: BulkTarget<T>;
  readonly query: BulkQuery;
  readonly actions: readonly BulkAction[];
  readonly isSmall?: boolean;
}

/** Buttons that open the dialog; for roles that may operate. */
export function BulkButtons<T>({ target, query, actions, isSmall = false }: BulkButtonsProps<T>) {
  const asked = useSignal<BulkAction | null>(null);
  if (!may("operate")) return null;
  const close = () => {
    asked.value = null;
  };
  return (
    <>
      {actions.map((action) => (
        <button
          key={action}
          type="button"
          class={`button ${action === "retry" ? "" : "danger"} ${isSmall ? "small" : ""}`}
          onClick={() => {
            asked.value = action;
          }}
        >
          {VERBS[action]} …
        </button>
      ))}
      {asked.value !== null && <BulkDialog action={asked.value} target={target} query={query} onClose={close} />}
    </>
  );
}

const VERBS = { cancel: "Cancel", retry: "Retry", drop: "Drop" } as const;

interface BulkDialogProps<T> extends Pick<BulkButtonsProps<T>, "target" | "query"> {
  readonly action: BulkAction;
  readonly onClose: () => void;
}

function BulkDialog<T>({ action, target, query, onClose }: BulkDialogProps<T>) {
  const { runner, what } = target;
  const { filter, text } = query;
  const perSecond = useSignal(50);
  const dryRun = useResource(`bulk ${action} ${what} ${JSON.stringify(filter)}`, async (signal) => ({
    page: await runner.send({ action, ...filter, dry_run: true }, signal),
    countedMs: Date.now(),
  }));
  const shown = dryRun.shown.value;
  const found = shown.kind === "ready" ? shown.value.page : null;
  const start = () => {
    if (found === null || found.next_cursor === null) return;
    const { matched, next_cursor: cursor } = found;
    runner.start({ action, filter, text, matched, cursor, perSecond: perSecond.value });
    onClose();
  };
  const matched = found?.matched ?? null;
  return (
    <Dialog
      kind="wide"
      title={`${VERBS[action]} ${what}`}
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={onClose}>
            Back
          </button>
          <StartButton {...{ action, target, filter, matched, start }} perSecond={perSecond.value} />
        </>
      }
    >
      <Show of={dryRun} what="what matches">
        {({ page, countedMs }) => (
          <Matches
            {...{ target, text, countedMs }}
            matched={page.matched}
            sample={page.sample as readonly T[]}
            perSecond={perSecond.value}
          />
        )}
      </Show>
      <Pace perSecond={perSecond} />
    </Dialog>
  );
}

interface StartButtonProps<T> {
  readonly action: BulkAction;
  readonly target: BulkTarget<T>;
  readonly filter: BulkFilter;
  /** Null until it is counted. */
  readonly matched: number | null;
  readonly perSecond: number;
  readonly start: () => void;
}

function StartButton<T>({ action, target, filter, matched, perSecond, start }: StartButtonProps<T>) {
  const { runner, what, command } = target;
  const isOther = runner.operation.value?.state === "running";
  const verb = VERBS[action];
  return (
    <span class="action">
      <button
        type="button"
        class={`button ${action === "retry" ? "main" : "danger"}`}
        disabled={matched === null || matched === 0 || isOther}
        title={isOther ? "another operation is running: pause or end it first" : undefined}
        onClick={start}
      >
        {matched === null ? `${verb} …` : `${verb} ${count(matched)}`}
      </button>
      <RequestMenu
        label={`${verb} these ${what}`}
        request={{ name: runner.route, body: { action, ...filter } }}
        cli={[`${command} ${action}`, ...flagsOf(filter), "--rate", `${perSecond}/s`]}
      />
    </span>
  );
}

interface MatchesProps<T> {
  readonly target: BulkTarget<T>;
  readonly text: string;
  readonly countedMs: number;
  readonly matched: number;
  readonly sample: readonly T[];
  readonly perSecond: number;
}

function Matches<T>({ target, text, countedMs, matched, sample, perSecond }: MatchesProps<T>) {
  if (matched === 0) return <Empty title={`no ${target.what} match`}>Close this dialog and change the filters.</Empty>;
  return (
    <>
      <Facts
        of={[
          ["filter", text],
          ["matches", `${count(matched)}, counted at ${absolute(countedMs)}; later ones are not part of it`],
          ["takes", `at least ${duration((matched / perSecond) * 1_000)}`],
        ]}
      />
      <div>
        <h3>The oldest of them</h3>
        <Table label="sample" columns={target.columns} rows={sample} keyOf={target.keyOf} />
      </div>
    </>
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

/** The filter as flags of the CLI. */
function flagsOf(filter: BulkFilter): readonly string[] {
  const flags = Object.entries(filter).flatMap(([name, value]) => [`--${name.replaceAll("_", "-")}`, value]);
  return flags.length === 0 ? ["--all"] : flags;
}
