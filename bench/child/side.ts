import type { Input } from "./ours/payload.ts";
import type { Role, SideSpec } from "./task.ts";

/** One of the systems that are compared, as the measurement sees it. */
export interface Side {
  /** Resolves when the job is accepted. */
  submit(input: Input): Promise<void>;
  /** Writes jobs that wait to be worked on, many at a time; before `start`. */
  fill(count: number, next: () => Input): Promise<void>;
  /** Begins to work. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export interface Events {
  /** A worker has begun with the job, or with this step of the run. What it throws, the job fails with. */
  worked(input: Input, attempt: number, step?: number): void;
  /** The final state of the job or of the run is committed. */
  ended(n: number): void;
  /** The job was put off until then. Only ours says so. */
  retrying?(n: number, dueMs: number): void;
}

export type OpenSide = (spec: SideSpec, role: Role, events: Events) => Promise<Side>;
