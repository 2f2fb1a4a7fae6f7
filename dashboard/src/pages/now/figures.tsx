/** The figures of the queues, each a link to what it counts. */
import type { Overview } from "../../../../src/client/schema.ts";
import { Stat } from "../../kit/layout.tsx";
import { count, counted, duration, rate } from "../../kit/numbers.ts";

export function Figures({ of: { throughput, ...of } }: { readonly of: Overview }) {
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
      <Waiting of={of} />
    </div>
  );
}

function Waiting({ of }: { readonly of: Pick<Overview, "runs" | "approvals" | "dead_letters" | "workers"> }) {
  return (
    <>
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
    </>
  );
}
