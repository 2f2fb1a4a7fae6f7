/** Schemas of the compensation of a run (`core/model/runs/compensation.ts`). */
import { Type } from "typebox";
import { ERROR_INFO, instant, orNull } from "./schemas.ts";

export const STEP_COMPENSATION = Type.Object(
  {
    state: Type.Union([Type.Literal("RUNNING"), Type.Literal("SUCCEEDED"), Type.Literal("FAILED")]),
    job_id: orNull(Type.String({ description: "null for a list: each of its items has a job." })),
    started_at: instant("When it started."),
    ended_at: orNull(Type.String()),
    error: orNull(ERROR_INFO),
    children: Type.Optional(
      Type.Object({
        left: Type.Integer({ description: "Items that were not looked at yet." }),
        open: Type.Integer(),
        succeeded: Type.Integer(),
        failed: Type.Integer(),
      }),
    ),
  },
  { title: "StepCompensation", description: "The job that undoes the step; absent until it starts." },
);

export const RUN_COMPENSATION = Type.Object(
  {
    total: Type.Integer({ description: "Completed steps that have a `compensate`." }),
    undone: Type.Array(Type.String()),
    running: Type.Array(Type.String()),
    failed: Type.Array(Type.String()),
    left: Type.Array(Type.String(), { description: "Steps whose compensation has not started." }),
    stopped: Type.Boolean({ description: "An operator stopped it." }),
  },
  { title: "RunCompensation", description: "Steps by the state of their compensation; null if none is undone." },
);
