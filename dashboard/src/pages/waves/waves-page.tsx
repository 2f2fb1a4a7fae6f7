/** Retries as they arrive, beside as many at random times, and the locks that they meet. */
import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { Waves } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { addExplainer } from "../../kit/explain.tsx";
import { Filters, SelectFilter } from "../../kit/filters.tsx";
import { Page } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { useShortcuts } from "../../kit/shortcuts.tsx";
import { Empty, Show } from "../../kit/state.tsx";
import { absolute } from "../../kit/time.tsx";
import { Arrivals } from "./arrivals.tsx";
import { LockExplanation, Locks } from "./locks.tsx";

addExplainer("lock", LockExplanation);

export function WavesPage() {
  const held = useSignal<Waves | null>(null);
  const latest = useRef<Waves | null>(null);
  const shortcuts = useMemo(() => {
    const swap = () => {
      held.value = held.peek() === null ? latest.current : null;
    };
    return [{ keys: "p", does: "pause or continue", run: swap }];
  }, [held]);
  useShortcuts(shortcuts);
  return (
    <Page
      title="Waves"
      beside={
        held.value === null ? (
          <Badge tone="good">every second</Badge>
        ) : (
          <Badge tone="warn">{`paused at ${absolute(Date.parse(held.value.at))}`}</Badge>
        )
      }
      actions={
        <button type="button" class="button" aria-keyshortcuts="p" onClick={() => shortcuts[0]?.run()}>
          {held.value === null ? "Pause" : "Continue"}
          <span class="key" aria-hidden="true">
            p
          </span>
        </button>
      }
    >
      <Filters names={["window"]}>
        <SelectFilter
          name="window"
          label="Time shown"
          all="last minute"
          options={[
            ["20", "last 20 s"],
            ["5", "last 5 s"],
          ]}
        />
      </Filters>
      {held.value === null ? (
        <Live
          onLoaded={(waves) => {
            latest.current = waves;
          }}
        />
      ) : (
        <View waves={held.value} />
      )}
    </Page>
  );
}

/** Loads only while it is on the page. */
function Live({ onLoaded }: { readonly onLoaded: (waves: Waves) => void }) {
  const load = async (signal: AbortSignal) => {
    const loaded = await api.value.request("GET /waves", {}, { signal });
    onLoaded(loaded);
    return loaded;
  };
  const waves = useResource("waves", load, { refreshMs: REFRESH_MS });
  return (
    <Show of={waves} what="waves">
      {(value) => <View waves={value} />}
    </Show>
  );
}

function View({ waves }: { readonly waves: Waves }) {
  const classes = [...new Set(waves.series.map((one) => one.class))].sort();
  return (
    <>
      {!waves.covers_all_processes && (
        <Note tone="warn">
          These are the arrivals of process <code>{waves.process}</code>. Each process of a cluster records its own;
          locks are those of all processes.
        </Note>
      )}
      {classes.length === 0 && (
        <div class="section">
          <Empty title="no retries in the last minute">
            A retry that arrives is counted here by its class, in bins of {waves.bin_ms} ms. Retries that return
            together show as peaks.
          </Empty>
        </div>
      )}
      {classes.map((name) => (
        <Arrivals key={name} of={name} waves={waves} />
      ))}
      <Locks locks={waves.locks} />
    </>
  );
}

const REFRESH_MS = 1_000;
