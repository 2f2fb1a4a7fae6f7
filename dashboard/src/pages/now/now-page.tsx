/** What is stuck, why, and which button fixes it. */
import type { Overview } from "../../../../src/client/schema.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { Page, Stat } from "../../kit/layout.tsx";
import { count, counted, duration, rate } from "../../kit/numbers.ts";
import { Show } from "../../kit/state.tsx";
import { Attention } from "./attention.tsx";
import { Overrides } from "./overrides.tsx";
import { Queues } from "./queues.tsx";
import { Rates } from "./rates.tsx";
import "./now.css";

export function NowPage() {
  const overview = useResource("overview", (signal) => api.value.request("GET /overview", {}, { signal }), {
    refreshMs: REFRESH_MS,
  });
  const shown = overview.shown.value;
  const loaded = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title="Now"
      beside={
        loaded !== null && <Badge tone={loaded.ready ? "good" : "bad"}>{loaded.ready ? "ready" : "not ready"}</Badge>
      }
    >
      <Show of={overview} what="the overview">
        {(value) => <NowView overview={value} of={overview} />}
      </Show>
    </Page>
  );
}

function NowView({ overview, of }: { readonly overview: Overview; readonly of: Resource<Overview> }) {
  const reload = () => void of.reload();
  return (
    <>
      <Overrides failOpen={overview.fail_open} kills={overview.kill} reload={reload} />
      <Attention items={overview.attention.filter(({ kind }) => !SHOWN_ABOVE.includes(kind))} reload={reload} />
      <Figures of={overview} />
      <Rates of={overview} />
      <Queues of={overview} />
    </>
  );
}

function Figures({ of: { throughput, ...of } }: { readonly of: Overview }) {
  const oldestMs = Math.max(0, ...of.topics.map(({ oldest_ms }) => oldest_ms ?? 0));
  const { last_hour, last_day } = of.budgets_exhausted;
  return (
    <div class="stats">
      <Stat
        label="Backlog"
        value={count(of.backlog_total)}
        unit="jobs"
        about={oldestMs > 0 ? `oldest ${duration(oldestMs)}` : "awaiting dispatch"}
        to="/jobs?state=SCHEDULED"
      />
      <Stat
        label="In flight"
        value={count(of.in_flight_total)}
        unit="jobs"
        about="with workers"
        to="/jobs?state=DISPATCHED"
      />
      <Stat
        label="Throughput"
        value={rate(throughput.jobs_per_s)}
        unit="jobs"
        about={`ended, over ${duration(throughput.measured_ms)}`}
      />
      <Stat
        label="Retries"
        value={rate(throughput.retries_per_s)}
        about={
          last_day > 0
            ? `${count(last_day)} budgets used up today, ${count(last_hour)} this hour`
            : "no budget used up today"
        }
        tone={last_hour > 0 ? "warn" : undefined}
        to="/waves"
      />
      <Stat
        label="Runs"
        value={count(of.runs.open)}
        unit="open"
        about={of.runs.limit === null ? "workflow runs" : `limit ${count(of.runs.limit)}`}
        tone={of.runs.limit !== null && of.runs.open >= of.runs.limit ? "warn" : undefined}
        to="/runs?state=RUNNING"
      />
      <Stat
        label="Approvals"
        value={count(of.approvals.count)}
        unit="jobs"
        about={of.approvals.oldest_ms === null ? "awaiting a decision" : `oldest ${duration(of.approvals.oldest_ms)}`}
        tone={of.approvals.count > 0 ? "warn" : undefined}
        to="/approvals"
      />
      <Stat
        label="Dead letters"
        value={count(of.dead_letters)}
        unit="stored"
        about="can be retried"
        tone={of.dead_letters > 0 ? "bad" : undefined}
        to="/dead-letters"
      />
      <Stat
        label="Workers"
        value={count(of.workers.total)}
        unit="live"
        about={of.workers.leaving > 0 ? `${counted(of.workers.leaving, "worker")} draining` : "by heartbeat"}
        tone={of.workers.total === 0 ? "warn" : undefined}
        to="/workers"
      />
    </div>
  );
}

/** `Overrides` shows them. */
const SHOWN_ABOVE = ["killed", "fail_open"];
const REFRESH_MS = 3_000;
