import type { Schedule } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Reasons } from "../../kit/explain.tsx";
import { Facts, Id } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
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
          <Reasons of={reasons} />
        </>
      )}
    </Show>
  );
}
