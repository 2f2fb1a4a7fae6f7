/** What is stuck, why, and which button fixes it. */
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Page, Stat } from "../../kit/layout.tsx";
import { count } from "../../kit/numbers.ts";
import { Show } from "../../kit/state.tsx";

export function NowPage() {
  const status = useResource("status", (signal) => api.value.status({ signal }), { refreshMs: 3_000 });
  return (
    <Page title="Now">
      <Show of={status} what="the status">
        {(value) => (
          <div class="stats">
            <Stat
              label="Backlog"
              value={count(value.backlog_total)}
              unit="jobs"
              about="awaiting dispatch"
              to="/jobs?state=SCHEDULED"
            />
            <Stat label="In flight" value={count(value.in_flight_total)} unit="jobs" about="dispatched to workers" />
            <Stat label="Runs" value={count(value.runs.open)} unit="open" to="/runs?state=RUNNING" />
            <Stat
              label="Approvals"
              value={count(value.approvals)}
              unit="jobs"
              tone={value.approvals > 0 ? "warn" : undefined}
            />
            <Stat
              label="Dead letters"
              value={count(value.dead_letters)}
              unit="stored"
              tone={value.dead_letters > 0 ? "bad" : undefined}
            />
            <Stat label="Workers" value={count(value.workers.total)} unit="live" />
          </div>
        )}
      </Show>
    </Page>
  );
}
