import type { Input } from "./payload.ts";
import type { BackendSpec, Role } from "./task.ts";

/** A system under test. */
export interface Backend {
  /** Resolves when the job is accepted. */
  submit(input: Input): Promise<void>;
  /** Writes a backlog in bulk, before `start`. */
  fill(count: number, next: () => Input): Promise<void>;
  /** Starts the workers. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export interface Events {
  /** A worker has started the job, or this step of the run. An exception fails the job. */
  worked(input: Input, attempt: number, step?: number): void;
  /** The final state of the job or of the run is committed. */
  ended(n: number): void;
  /** The job is retried at this time. Reported by Cordum only. */
  retrying?(n: number, dueMs: number): void;
}

export type OpenBackend = (spec: BackendSpec, role: Role, events: Events) => Promise<Backend>;
