/** The most contended locks, and the explanation of one. */
import type { ComponentChildren } from "preact";
import type { Lock } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Explain } from "../../kit/explain.tsx";
import { Facts, Id, Section } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { Empty, Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { Countdown, Time } from "../../kit/time.tsx";

/** Of which run a lock is; null for other locks. */
const runOf = (key: string): string | null => /^cordum:wf:run:lock:(.+)$/s.exec(key)?.[1] ?? null;

const none = <span class="soft">–</span>;

const COLUMNS: readonly Column<Lock>[] = [
  {
    name: "Lock",
    width: "minmax(9rem, 2fr)",
    cell: ({ key }) => {
      const run = runOf(key);
      return run === null ? (
        <span class="mono">{key}</span>
      ) : (
        <span>
          run{" "}
          <a class="mono" href={`/runs/${segment(run)}`}>
            {run}
          </a>
        </span>
      );
    },
  },
  { name: "Holder", width: "minmax(7rem, 1.4fr)", priority: 2, cell: ({ holder }) => holderText(holder) },
  {
    name: "Fence",
    width: "5rem",
    align: "end",
    priority: 3,
    cell: ({ fence }) => (fence === null ? none : count(fence)),
  },
  { name: "Waiters", width: "4.6rem", align: "end", cell: ({ waiters }) => hot(waiters) },
  { name: "Busy", width: "4.6rem", align: "end", cell: ({ busy_last_minute }) => hot(busy_last_minute) },
  {
    name: "Lease",
    width: "7rem",
    priority: 3,
    cell: ({ expires_at }) => (expires_at === null ? none : <Countdown at={expires_at} />),
  },
  { name: "", width: "5rem", align: "end", priority: 2, cell: ({ key }) => <Explain of="lock" id={key} /> },
];

export function Locks({ locks }: { readonly locks: readonly Lock[] }) {
  return (
    <Section
      title="Hottest locks"
      about="by waiters, then by failed attempts of this process in the last minute (busy)"
    >
      {locks.length === 0 ? (
        <Empty title="no lock is held or waited for" />
      ) : (
        <Table label="locks" columns={COLUMNS} rows={locks} keyOf={({ key }) => key} />
      )}
    </Section>
  );
}

/** `?explain=lock:KEY`. */
export function LockExplanation({ id }: { readonly id: string }) {
  const locks = useResource("locks", (signal) => api.value.request("GET /waves", {}, { signal }), {
    refreshMs: REFRESH_MS,
  });
  return (
    <Show of={locks} what="the lock">
      {({ locks: all }) => {
        const lock = all.find(({ key }) => key === id);
        return lock === undefined ? <Free id={id} /> : <Held lock={lock} />;
      }}
    </Show>
  );
}

function Free({ id }: { readonly id: string }) {
  return (
    <>
      <p class="lead">The lock is free and was not busy, or it is not among the 20 with the most contention.</p>
      <Facts
        of={[
          ["lock", <Id key="id" id={id} />],
          ["run", runLink(id)],
        ]}
      />
    </>
  );
}

function Held({ lock: { key, holder, fence, waiters, busy_last_minute, expires_at } }: { readonly lock: Lock }) {
  const run = runOf(key);
  return (
    <>
      <p class="lead">
        {holder === null ? "The lock is free now" : `${holder} holds the lock`}; {counted(waiters, "waiter")} in its
        queue.
      </p>
      <Facts
        of={[
          ["lock", <Id key="id" id={key} />],
          ["run", runLink(key)],
          ["fence", fence !== null && count(fence)],
          ["lease ends", expires_at !== null && <Time key="lease" at={expires_at} both />],
          ["failed attempts", `${count(busy_last_minute)} of this process in the last minute`],
        ]}
      />
      <Section title="What helps">
        <ul class="remedies">
          <li>
            A live holder renews the lease. If the holder has died, the next request acquires the lock when it ends.
          </li>
          <li>
            Requests that do not get the lock in time retry as <code>lock_busy</code>: with a fixed delay they return
            together, with jitter they are spread out. The policy is <code>retry.lock_busy.policy</code>.
          </li>
          {run !== null && (
            <li>
              Results of one run share one place in the queue with <code>run_lock.coalesce</code>, and wait there up to{" "}
              <code>run_lock.engine_wait_ms</code> instead of retrying.
            </li>
          )}
        </ul>
      </Section>
    </>
  );
}

function runLink(key: string): ComponentChildren {
  const run = runOf(key);
  return run === null ? null : <Id id={run} to={`/runs/${segment(run)}`} />;
}

const holderText = (holder: string | null) => holder ?? <span class="soft">free now</span>;
const hot = (value: number) => <span class={value > 0 ? "tone-warn" : "soft"}>{count(value)}</span>;

const REFRESH_MS = 2_000;
