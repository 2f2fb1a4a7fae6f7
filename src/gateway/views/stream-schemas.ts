/** The `data` of server-sent events. */
import { Type } from "typebox";
import { JOB_STATES } from "../../core/model/job.ts";
import { RUN_STATES } from "../../core/model/run.ts";
import { instant, RECORD_VERSION } from "./schemas.ts";

const VERSION = RECORD_VERSION;
const AT = instant("Time of the change.");
const JOB_EVENT = Type.Object(
  {
    job_id: Type.String(),
    tenant_id: Type.String(),
    topic: Type.String(),
    state: Type.Enum([...JOB_STATES], { title: "JobState" }),
    at: AT,
    record_version: VERSION,
  },
  { title: "JobEvent", description: "`event: job`" },
);
const RUN_EVENT = Type.Object(
  {
    run_id: Type.String(),
    tenant_id: Type.String(),
    workflow_id: Type.String(),
    state: Type.Enum([...RUN_STATES], { title: "RunState" }),
    at: AT,
    record_version: VERSION,
  },
  { title: "RunEvent", description: "`event: run`" },
);
const ROLLOUT_EVENT = Type.Object(
  { rollout_id: Type.String(), class: Type.String(), state: Type.String(), at: AT, record_version: VERSION },
  { title: "RolloutEvent", description: "`event: rollout`" },
);
const READY_EVENT = Type.Object(
  { resumed: Type.Boolean({ description: "The events since `Last-Event-ID` follow." }) },
  { title: "ReadyEvent", description: "`event: ready`, the first of a connection" },
);
const RESET_EVENT = Type.Object(
  { reason: Type.Enum(["unknown_id", "events_lost"]) },
  { title: "ResetEvent", description: "`event: reset`: events are missing, reload what you show" },
);
export const STREAM_EVENT = Type.Union([JOB_EVENT, RUN_EVENT, ROLLOUT_EVENT, READY_EVENT, RESET_EVENT], {
  title: "StreamEvent",
  description: "The JSON in the `data` line of one event.",
});
