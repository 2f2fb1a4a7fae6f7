/** Workers with their load and what they work on, the pools they belong to, and the topics they serve. */
import type { Job, Pool, Topic, Worker } from "../../../../src/client/schema.ts";
import { href, param, segment } from "../../data/location.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Meter, Page, Section, Stat } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { Empty, Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import "./pool-explanation.tsx";
import "./worker-explanation.tsx";
import "./workers.css";

interface Fleet {
  readonly workers: readonly Worker[];
  readonly pools: readonly Pool[];
  readonly topics: readonly Topic[];
  /** Dispatched and running jobs by worker; the newest 200 of each state. */
  readonly jobs: ReadonlyMap<string, readonly Job[]>;
}

async function loadFleet(signal: AbortSignal): Promise<Fleet> {
  const client = api.value;
  const inState = (state: "DISPATCHED" | "RUNNING") =>
    client.request("GET /jobs", { query: { state, limit: 200 } }, { signal });
  const [workers, pools, topics, dispatched, running] = await Promise.all([
    client.request("GET /workers", {}, { signal }),
    client.request("GET /pools", {}, { signal }),
    client.request("GET /topics", {}, { signal }),
    inState("DISPATCHED"),
    inState("RUNNING"),
  ]);
  const jobs = new Map<string, Job[]>();
  for (const job of [...running.items, ...dispatched.items]) {
    if (job.worker_id !== null) jobs.set(job.worker_id, [...(jobs.get(job.worker_id) ?? []), job]);
  }
  return { workers: workers.items, pools: pools.items, topics: topics.items, jobs };
}

export function WorkersPage() {
  const fleet = useResource("workers", loadFleet, { refreshMs: 2_000 });
  return (
    <Page title="Workers">
      <Show of={fleet} what="workers">
        {(value) => <FleetView fleet={value} of={fleet} />}
      </Show>
    </Page>
  );
}

function FleetView({ fleet, of }: { readonly fleet: Fleet; readonly of: Resource<Fleet> }) {
  const { workers, pools, topics, jobs } = fleet;
  const [pool, topic] = [param("pool"), param("topic")];
  const shown = workers.filter(
    (worker) =>
      (pool === "" || worker.pool === pool) && (topic === "" || worker.topics.some((one) => one.includes(topic))),
  );
  return (
    <>
      <Totals fleet={fleet} />
      <Section title="Workers" about="live: seen within the last heartbeats">
        <Filters names={["pool", "topic"]}>
          <SelectFilter name="pool" label="Pool" options={pools.map(({ name }) => [name, name] as const)} />
          <TextFilter name="topic" label="Topic" placeholder="any" suggestions={topics.map(({ topic }) => topic)} />
        </Filters>
        {shown.length === 0 ? (
          <Empty title={workers.length === 0 ? "no workers" : "no workers match"}>
            {workers.length === 0
              ? "A worker appears with its first heartbeat or lease. Jobs wait until one serves their topic."
              : "Clear the filters to see all."}
          </Empty>
        ) : (
          <Table label="workers" columns={workerColumns(jobs)} rows={shown} keyOf={({ worker_id }) => worker_id} />
        )}
      </Section>
      <div class="columns">
        <Section title="Pools" about="workers of a pool can be drained together">
          {pools.length === 0 ? (
            <Empty title="no pools">
              A worker names its pool in its heartbeat; the settings <code>pools.*</code> say what a pool serves.
            </Empty>
          ) : (
            <Table
              label="pools"
              columns={poolColumns(() => void of.reload())}
              rows={pools}
              keyOf={({ name }) => name}
            />
          )}
        </Section>
        <Section title="Topics" about="with workers or jobs">
          {topics.length === 0 ? (
            <Empty title="no topics" />
          ) : (
            <Table label="topics" columns={TOPICS} rows={topics} keyOf={({ topic }) => topic} />
          )}
        </Section>
      </div>
    </>
  );
}

/** HTTP workers report no load: the jobs they lease count. */
function loadOf({ worker_id: id, active_jobs: active }: Worker, jobs: Fleet["jobs"]): number {
  return Math.max(active, jobs.get(id)?.length ?? 0);
}

function Totals({ fleet: { workers, topics, pools, jobs } }: { readonly fleet: Fleet }) {
  const live = workers.filter(({ silent_ms }) => silent_ms === null);
  const active = workers.reduce((sum, worker) => sum + loadOf(worker, jobs), 0);
  const slots = workers.reduce((sum, worker) => sum + (worker.max_parallel_jobs ?? 0), 0);
  const isOpen = workers.some((worker) => worker.max_parallel_jobs === null);
  const unserved = topics.filter((topic) => topic.workers === 0 && topic.waiting > 0);
  const draining = pools.filter((pool) => pool.draining).length;
  return (
    <div class="stats">
      <Stat
        label="Live workers"
        value={count(live.length)}
        about={`${count(live.filter((worker) => worker.is_leaving).length)} leaving${silentText(workers.length - live.length)}`}
        tone={live.length === 0 ? "bad" : undefined}
      />
      <Stat
        label="Jobs in progress"
        value={count(active)}
        about={isOpen ? `of ${count(slots)} slots, and workers without a limit` : `of ${counted(slots, "slot")}`}
      />
      <Stat
        label="Topics without workers"
        value={count(unserved.length)}
        about={unserved.length === 0 ? "none has waiting jobs" : unserved.map(({ topic }) => topic).join(", ")}
        tone={unserved.length > 0 ? "bad" : undefined}
      />
      <Stat
        label="Draining pools"
        value={count(draining)}
        about={`of ${counted(pools.length, "pool")}`}
        tone={draining > 0 ? "warn" : undefined}
      />
    </div>
  );
}

const silentText = (silent: number): string => (silent === 0 ? "" : `, ${count(silent)} silent with leases`);

const workerColumns = (jobs: Fleet["jobs"]): readonly Column<Worker>[] => [
  {
    name: "Worker",
    width: "minmax(6rem, 1.4fr)",
    cell: ({ worker_id: id, transport }) => (
      <>
        <span class="mono" title={id}>
          {id}
        </span>{" "}
        <span class="soft">{transport}</span>
      </>
    ),
  },
  {
    name: "State",
    width: "6rem",
    cell: (worker) => {
      if (worker.silent_ms !== null) return <Badge tone="bad">silent</Badge>;
      if (worker.is_leaving) return <Badge tone="warn">leaving</Badge>;
      return loadOf(worker, jobs) > 0 ? <Badge tone="busy">working</Badge> : <Badge tone="quiet">idle</Badge>;
    },
  },
  {
    name: "Load",
    width: "minmax(5rem, 8rem)",
    cell: (worker) => <Load active={loadOf(worker, jobs)} max={worker.max_parallel_jobs} />,
  },
  {
    name: "Works on",
    width: "minmax(8rem, 1.4fr)",
    priority: 2,
    cell: ({ worker_id: id }) => <WorksOn jobs={jobs.get(id) ?? []} />,
  },
  {
    name: "Pool",
    width: "minmax(4rem, 0.6fr)",
    priority: 3,
    cell: ({ pool }) => pool ?? <span class="soft">none</span>,
  },
  {
    name: "Serves",
    width: "minmax(8rem, 2fr)",
    priority: 3,
    cell: ({ topics, capabilities }) => {
      const text = [...topics, ...capabilities.map((one) => `+${one}`)].join(", ");
      return (
        <span class="mono" title={text}>
          {text}
        </span>
      );
    },
  },
  { name: "Last seen", width: "6rem", priority: 2, cell: ({ last_seen }) => <Time at={last_seen} /> },
  { name: "", width: "4.6rem", align: "end", cell: ({ worker_id: id }) => <Explain of="worker" id={id} /> },
];

function Load({ active, max }: { readonly active: number; readonly max: number | null }) {
  if (max === null) return <>{counted(active, "job")}</>;
  const share = max === 0 ? 1 : active / max;
  return (
    <span class="load">
      <Meter share={share} tone={share >= 1 ? "warn" : "busy"} label={`${active} of ${counted(max, "slot")} used`} />
      <span>
        {count(active)}/{count(max)}
      </span>
    </span>
  );
}

function WorksOn({ jobs }: { readonly jobs: readonly Job[] }) {
  if (jobs.length === 0) return <span class="soft">–</span>;
  const [first, ...more] = jobs as [Job, ...Job[]];
  return (
    <>
      <a href={`/jobs/${segment(first.job_id)}`} title={first.job_id}>
        {first.topic}
      </a>
      {more.length > 0 && <span class="soft"> and {counted(more.length, "other")}</span>}
    </>
  );
}

const poolColumns = (reload: () => void): readonly Column<Pool>[] => [
  {
    name: "Pool",
    width: "minmax(5rem, 1fr)",
    cell: ({ name }) => <a href={href("/workers", { pool: name })}>{name}</a>,
  },
  {
    name: "State",
    width: "6.5rem",
    cell: ({ draining }) => <Badge tone={draining ? "warn" : "good"}>{draining ? "draining" : "open"}</Badge>,
  },
  { name: "Workers", width: "4.6rem", align: "end", priority: 2, cell: ({ workers }) => count(workers) },
  {
    name: "Serves",
    width: "minmax(5rem, 1.4fr)",
    priority: 3,
    cell: ({ topics, requires }) => (
      <span class="mono">{[...topics, ...requires.map((one) => `+${one}`)].join(", ")}</span>
    ),
  },
  { name: "", width: "4.6rem", align: "end", cell: ({ name }) => <Explain of="pool" id={name} /> },
  { name: "", width: "6.9rem", align: "end", cell: (pool) => <PoolAction pool={pool} reload={reload} /> },
];

function PoolAction({
  pool: { name, draining, workers },
  reload,
}: {
  readonly pool: Pool;
  readonly reload: () => void;
}) {
  const path = { name };
  return draining ? (
    <Action
      label="Resume"
      size="small"
      needs="system"
      send="POST /pools/{name}/resume"
      args={{ path }}
      cli={["pool resume", name]}
      done={`pool ${name} gets jobs again`}
      onDone={reload}
    />
  ) : (
    <Action
      label="Drain"
      size="small"
      tone="danger"
      needs="system"
      send="POST /pools/{name}/drain"
      args={{ path }}
      cli={["pool drain", name]}
      confirm={{
        title: `Drain the pool ${name}?`,
        text: `Its ${counted(workers, "worker")} get no new jobs and finish those they have. Jobs that only this pool serves wait until it is resumed.`,
      }}
      done={`pool ${name} is draining`}
      onDone={reload}
    />
  );
}

const TOPICS: readonly Column<Topic>[] = [
  {
    name: "Topic",
    width: "minmax(7rem, 2fr)",
    cell: ({ topic }) => (
      <a class="mono" href={href("/jobs", { topic: topic.replace(/^job\./, "") })}>
        {topic}
      </a>
    ),
  },
  {
    name: "Workers",
    width: "4.5rem",
    align: "end",
    cell: ({ workers, waiting }) => (
      <span class={workers === 0 && waiting > 0 ? "tone-bad" : ""}>{count(workers)}</span>
    ),
  },
  { name: "Waiting", width: "4.5rem", align: "end", cell: ({ waiting }) => count(waiting) },
  {
    name: "Running",
    width: "4.5rem",
    align: "end",
    priority: 2,
    cell: ({ running }) => (running === null ? "–" : count(running)),
  },
  { name: "", width: "4.6rem", align: "end", cell: ({ topic }) => <Explain of="topic" id={topic} /> },
];
