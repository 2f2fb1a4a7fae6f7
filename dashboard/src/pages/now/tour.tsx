/** The tour of a control plane that runs with `--demo`: three buttons whose effects the other pages explain. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Demo } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { api, may, who } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Section } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
import { Countdown } from "../../kit/time.tsx";

/** For roles that operate all tenants. */
export const mayDemo = (): boolean => may("operate") && who.value?.tenant === "*";

export function Tour({ reload }: { readonly reload: () => void }) {
  const demo = useResource("demo", (signal) => api.value.request("GET /demo", {}, { signal }), { refreshMs: 3_000 });
  const changed = () => {
    void demo.reload();
    reload();
  };
  return (
    <Section title="Tour" about="three things to try on this demo" tools={<Badge tone="wait">demo</Badge>}>
      <Show of={demo} what="the tour">
        {(state) => (
          <ol class="tour">
            <TicketStep />
            <KernelStep state={state} changed={changed} />
            <LockStep state={state} demo={demo} />
          </ol>
        )}
      </Show>
    </Section>
  );
}

interface StepProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly action: ComponentChildren;
}

function Step({ title, children, action }: StepProps) {
  return (
    <li>
      <h3>{title}</h3>
      <p class="soft">{children}</p>
      <div class="buttons">{action}</div>
    </li>
  );
}

const TICKET = { ticket: "T-1042", text: "the parcel is lost, please refund order A-17204", amount: 120 };

function TicketStep() {
  const runId = useSignal<string | null>(null);
  return (
    <Step
      title="An agent triages a ticket"
      action={
        <>
          <Action
            label="Start a ticket"
            tone="main"
            needs="submit"
            send="POST /workflows/{id}/runs"
            args={{ path: { id: "ticket-triage" }, body: { input: TICKET } }}
            cli={["run start", "ticket-triage", JSON.stringify(TICKET)]}
            done="ticket started"
            onDone={({ run_id }) => {
              runId.value = run_id;
            }}
          />
          {runId.value !== null && (
            <>
              <a class="button" href={`/runs/${segment(runId.value)}`}>
                Watch the run
              </a>
              <a class="button" href="/approvals">
                Review the refund
              </a>
            </>
          )}
        </>
      }
    >
      It is classified, the policy requires an approval of the refund, and the customer is notified. The run waits until
      you decide.
    </Step>
  );
}

function KernelStep({ state, changed }: { readonly state: Demo; readonly changed: () => void }) {
  const { kernel_stopped: isStopped } = state;
  return (
    <Step
      title="The safety kernel stops"
      action={
        <Action
          label={isStopped ? "Start the safety kernel" : "Stop the safety kernel"}
          tone={isStopped ? "main" : "danger"}
          needs="operate"
          send="POST /demo/kernel"
          args={{ body: { stopped: !isStopped } }}
          cli={[isStopped ? "demo start-kernel" : "demo stop-kernel"]}
          done={isStopped ? "the safety kernel answers again" : "the safety kernel gives no answers"}
          onDone={changed}
        />
      }
    >
      {isStopped
        ? "It gives no answers. Start a ticket and explain its first job: it waits until the kernel is back, and nothing is dispatched unchecked."
        : "Without answers no job is dispatched: new ones wait, the circuit breaker opens, and this page says what to do."}
    </Step>
  );
}

function LockStep({ state: { hot_lock: hot }, demo }: { readonly state: Demo; readonly demo: Resource<Demo> }) {
  return (
    <Step
      title="A lock becomes hot"
      action={
        <>
          <Action
            label="Make a lock hot"
            needs="operate"
            isDisabled={hot !== null}
            send="POST /demo/lock"
            args={{}}
            cli={["demo hot-lock"]}
            done="400 results wait for the lock of one run"
            onDone={() => void demo.reload()}
          />
          {hot !== null && (
            <>
              <a class="button" href="/waves">
                Watch the waves
              </a>
              <Countdown at={hot.until} />
            </>
          )}
        </>
      }
    >
      400 results of one run meet a lock that is held again and again for 20 s. Each retries at a time of its own: see
      how much the jitter spreads them.
    </Step>
  );
}
