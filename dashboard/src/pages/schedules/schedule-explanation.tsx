import type { Schedule } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { copyText } from "../../kit/action.tsx";
import { Facts, Id } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { ScheduleState } from "./schedule-state.tsx";

/** What a schedule waits for, and why its last slot was not started. */
export function ScheduleExplanation({ id }: { readonly id: string }) {
  const explanation = useResource(
    `explain schedule ${id}`,
    (signal) => api.value.request("GET /schedules/{id}/explain", { path: { id } }, { signal }),
    { refreshMs: 5_000 },
  );
  return (
    <Show of={explanation} what="the explanation">
      {({ state, reasons }) => (
        <>
          <p class="lead">
            <ScheduleState state={state as Schedule["state"]} />
          </p>
          <Facts of={[["schedule", <Id key="id" id={id} to={`/schedules/${segment(id)}`} />]]} />
          <ul class="remedies">
            {reasons.map(({ reason, until, unblocks }) => (
              <li key={reason}>
                <span>
                  <Prose text={reason} /> {until !== null && <Time at={until} both />}
                </span>
                {unblocks !== null && (
                  <button type="button" class="command mono" title="copy" onClick={() => void copyText(unblocks)}>
                    {unblocks}
                  </button>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </Show>
  );
}
