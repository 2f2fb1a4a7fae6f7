/** Why the workers of a pool, and the jobs of a topic, come together or not: their workers, and what a waiting job waits for. */
import type { Worker } from "../../../../src/client/schema.ts";
import { href, hrefWith } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { addExplainer, JobExplanation, Reasons } from "../../kit/explain.tsx";
import { Facts, Section } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { Empty, Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";

addExplainer("pool", PoolExplanation, "Do the workers of this pool get jobs?");
addExplainer("topic", TopicExplanation, "Do the jobs of this topic get a worker?");

function PoolExplanation({ id }: { readonly id: string }) {
  const loaded = useResource(
    `explain pool ${id}`,
    async (signal) => {
      const [pools, workers] = await Promise.all([
        api.value.request("GET /pools", {}, { signal }),
        api.value.request("GET /workers", {}, { signal }),
      ]);
      const pool = pools.items.find(({ name }) => name === id);
      return { pool, workers: workers.items.filter((worker) => worker.pool === id) };
    },
    { refreshMs: 2_000 },
  );
  return (
    <Show of={loaded} what="the pool">
      {({ pool, workers }) => {
        if (pool === undefined) return <Empty title="no such pool">No setting and no worker names it.</Empty>;
        const { draining, topics, requires, changed_at, changed_by, changed_by_name: name } = pool;
        const drained = { reason: "it is draining: its workers finish their jobs and get no new ones", until: null };
        return (
          <>
            <p class="lead">
              <Badge tone={draining ? "warn" : "good"}>{draining ? "draining" : "open"}</Badge>
            </p>
            <Facts
              of={[
                [
                  "pool",
                  <a key="pool" href={href("/workers", { pool: id })}>
                    {id}
                  </a>,
                ],
                ["changed", changed_at && <Time at={changed_at} both />],
                ["by", name ?? changed_by],
                ["serves", topics.length > 0 ? topics.join(", ") : "the topics that its workers name"],
                ["requires", requires.join(", ")],
              ]}
            />
            {draining && <Reasons of={[{ ...drained, unblocks: `cordum pool resume ${id}` }]} />}
            <Workers of={workers} none="No live worker names this pool: jobs that only it serves wait." />
          </>
        );
      }}
    </Show>
  );
}

function TopicExplanation({ id }: { readonly id: string }) {
  const loaded = useResource(
    `explain topic ${id}`,
    async (signal) => {
      const query = { topic: bare(id), state: "SCHEDULED", limit: 1 } as const;
      const [topics, workers, waiting] = await Promise.all([
        api.value.request("GET /topics", {}, { signal }),
        api.value.request("GET /workers", {}, { signal }),
        api.value.request("GET /jobs", { query }, { signal }),
      ]);
      const serves = (worker: Worker) => worker.topics.some((topic) => bare(topic) === bare(id));
      const topic = topics.items.find((one) => one.topic === id);
      return { topic, workers: workers.items.filter(serves), waiting: waiting.items[0] };
    },
    { refreshMs: 2_000 },
  );
  return (
    <Show of={loaded} what="the topic">
      {({ topic, workers, waiting }) => (
        <>
          <Facts
            of={[
              [
                "topic",
                <a key="topic" class="mono" href={href("/jobs", { topic: bare(id) })}>
                  {id}
                </a>,
              ],
              ["waiting", topic && counted(topic.waiting, "job")],
              ["running", topic && topic.running !== null && counted(topic.running, "job")],
            ]}
          />
          <Workers of={workers} none="No live worker names this topic. The settings of a pool may give it workers." />
          <Section title="The newest waiting job">
            {waiting === undefined ? <Empty title="no job waits" /> : <JobExplanation id={waiting.job_id} />}
          </Section>
        </>
      )}
    </Show>
  );
}

const bare = (topic: string): string => topic.replace(/^job\./, "");

function Workers({ of, none }: { readonly of: readonly Worker[]; readonly none: string }) {
  return (
    <Section title="Workers" {...(of.length > SHOWN_MAX && { about: `${count(SHOWN_MAX)} of ${count(of.length)}` })}>
      {of.length === 0 ? (
        <Empty title="no workers">{none}</Empty>
      ) : (
        <ul class="remedies">
          {of.slice(0, SHOWN_MAX).map((worker) => (
            <li key={worker.worker_id}>
              <a class="mono" href={hrefWith({ explain: `worker:${worker.worker_id}` })}>
                {worker.worker_id}
              </a>{" "}
              {loadText(worker)}
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function loadText({ active_jobs: active, max_parallel_jobs: max, silent_ms, is_leaving }: Worker): string {
  if (silent_ms !== null) return "silent, holds leases";
  const load = max === null ? counted(active, "job") : `${count(active)} of ${counted(max, "slot")} used`;
  return is_leaving ? `${load}, leaving` : load;
}

const SHOWN_MAX = 20;
