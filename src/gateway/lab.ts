import type { StoredContention } from "../core/contention/acquisition.ts";
import type { Busy } from "../ports/evaluator.ts";

/**
 * Experiments and simulations, run apart from the process.
 *
 * 1. One runs at a time. Those that wait are bounded in total and per tenant; beyond that the outcome is `busy`.
 * 2. One that exceeds its time or memory, or whose signal is aborted, is ended; the outcome is `over`.
 */
export interface Lab {
  /** What `run` accepts, as the response of `GET /lab`. */
  catalogue(): Promise<object>;
  /** The same request may be answered from memory. */
  run(org: string, request: LabRequest, signal: AbortSignal): Promise<LabOutcome>;
}

export type LabRequest = ExperimentRequest | SimulationRequest;

interface ExperimentRequest {
  readonly kind: "experiment";
  readonly name: string;
  /** In the syntax of the command line. */
  readonly params: Readonly<Record<string, string | readonly string[]>>;
  /** For a replay. */
  readonly records: readonly StoredContention[];
}

/** One seed of the simulator. */
interface SimulationRequest {
  readonly kind: "simulation";
  readonly seed: number;
  /** Jobs and runs of the workload. */
  readonly runs: number;
  readonly faults: string;
  readonly mutant: string | null;
}

export type LabOutcome =
  | { readonly kind: "answered"; readonly answer: object }
  /** An empty name: the request as a whole. */
  | { readonly kind: "rejected"; readonly param: string; readonly detail: string }
  | { readonly kind: "over"; readonly why: string }
  | Busy;
