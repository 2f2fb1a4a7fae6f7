/** The tasks of a measuring process and their figures, exchanged as JSON. */
export type Task =
  | LoopTask
  | PairedTask
  | ServeTask
  | LockTask
  | ParkedTask
  | LatenessTask
  | TimersTask
  | SchedulesTask
  | FillListsTask
  | PolicyTask
  | AdmissionTask
  | FanTask
  | FanControlTask
  | FanWorkersTask;

export type BackendSpec =
  | {
      readonly kind: "bullmq";
      readonly redisUrl: string;
      readonly concurrency: number;
      /** Of a flow: one queue and worker for all steps, or for each. */
      readonly queues?: "one" | "each";
    }
  /** `concurrency` is the size of its connection pool. */
  | { readonly kind: "dbos"; readonly postgresUrl: string; readonly concurrency: number }
  | ({ readonly kind: "cluster"; readonly redisUrl: string; readonly natsUrl: string } & CordumOptions)
  | ({ readonly kind: "embedded"; readonly dataDir: string } & CordumOptions);

export interface CordumOptions {
  readonly concurrency: number;
}

/** The parts of a system in one process: all, or one of them. */
export type Role = "all" | "submitter" | "control" | "worker";

export interface Times {
  readonly warmMs: number;
  readonly measureMs: number;
}

/** A closed loop: a new job or run is submitted when one has ended. */
export interface LoopTask extends Times {
  readonly kind: "loop";
  /** What is submitted: single jobs, or runs of a workflow of three steps. */
  readonly load: "jobs" | "runs";
  readonly backend: BackendSpec;
  readonly role: "all" | "submitter";
  readonly inFlight: number;
  /** The jobs in flight are written to the backlog before the start. */
  readonly prefilled: boolean;
  /** Other processes whose CPU time is measured. */
  readonly serverPids: readonly number[];
  readonly clientPids: readonly number[];
}

/** Short blocks of one closed loop with a feature off and on, in the order off, on, on, off. */
export interface PairedTask {
  readonly kind: "paired";
  readonly feature: PairedFeature;
  readonly load: PairedLoad;
  readonly backend: BackendSpec;
  readonly inFlight: number;
  readonly serverPids: readonly number[];
  readonly warmMs: number;
  /** Jobs or runs. */
  readonly blockSize: number;
  /** Groups of four blocks. */
  readonly groups: number;
}

/** An active rollout of `lock_busy`, or the record of lock contention. */
export type PairedFeature = "rollout" | "record";
/** Single jobs, runs of three steps, or runs of three steps that end at the same time and contend for their run. */
export type PairedLoad = "jobs" | "runs" | "wide runs";

/** A control plane or a worker in its own process, until it is stopped. */
export interface ServeTask {
  readonly kind: "serve";
  readonly backend: BackendSpec;
  readonly role: "control" | "worker";
}

export interface LockTask {
  readonly kind: "lock";
  readonly peer: LockPeer;
  readonly redisUrl: string;
  readonly contenders: number;
  readonly holdMs: number;
}

export const LOCK_PEERS = ["cordum", "redlock", "redlock 10 ms", "redis-semaphore", "fixed poll 10 ms"] as const;
export type LockPeer = (typeof LOCK_PEERS)[number];

/** The channel of the start signal. */
export const GO_CHANNEL = "bench:go";

/** Healthy jobs at a steady rate: without parked retries, with many, and while they return. */
export interface ParkedTask extends Times {
  readonly kind: "parked";
  readonly backend: BackendSpec;
  readonly healthyPerSecond: number;
  readonly parked: number;
  /** Uniform in [base·(1−pct), base·(1+pct)]: the policy `bounded`. */
  readonly delayMs: number;
  readonly delayPct: number;
}

/** Probes that wait for a due time in the store, next to a closed loop of jobs. */
export interface LatenessTask extends Times {
  readonly kind: "lateness";
  readonly backend: BackendSpec;
  readonly inFlight: number;
  readonly probesPerSecond: number;
  /** A probe waits once to twice as long. */
  readonly delayMs: number;
}

/** Sweeps with pending timers and schedules of which none is due. */
export interface TimersTask {
  readonly kind: "timers";
  readonly backend: BackendSpec;
  readonly pending: number;
  readonly rounds: number;
  /** Per round. */
  readonly sweeps: number;
  readonly serverPids: readonly number[];
}

/** Schedules with a slot in the same second. */
export interface SchedulesTask {
  readonly kind: "schedules";
  readonly backend: BackendSpec;
  readonly schedules: number;
  readonly jitterMs: number;
  readonly serverPids: readonly number[];
}

/** Writes the records of the `lists` suite. */
export interface FillListsTask {
  readonly kind: "fill-lists";
  readonly backend: BackendSpec;
  readonly jobs: number;
}

/** Sequential policy checks. */
export interface PolicyTask extends Times {
  readonly kind: "policy";
  readonly peer: PolicyPeer;
  readonly rules: number;
}

export const POLICY_PEERS = ["cordum", "cedar"] as const;
export type PolicyPeer = (typeof POLICY_PEERS)[number];

/** Simultaneous run starts of an org with a low limit; no run ends meanwhile. */
export interface AdmissionTask {
  readonly kind: "admission";
  readonly backend: BackendSpec;
  readonly strategy: AdmissionStrategy;
  /** Limit of open runs. */
  readonly limit: number;
  /** Starts of this process. */
  readonly starts: number;
  /** Redis of the start signal; null with one process. */
  readonly goRedisUrl: string | null;
}

export const ADMISSION_STRATEGIES = ["atomic", "polled fixed:10ms", "polled bounded:10ms:0.5"] as const;
export type AdmissionStrategy = (typeof ADMISSION_STRATEGIES)[number];

/** One wide `for_each`, next to small runs at a steady rate. */
export interface FanTask {
  readonly kind: "fan";
  readonly backend: BackendSpec;
  /** `all`: control plane and workers are in this process. */
  readonly role: "all" | "submitter";
  readonly items: number;
  readonly workers: number;
  readonly othersPerSecond: number;
  readonly warmMs: number;
  /** Measured time of the small runs before the wide one. */
  readonly quietMs: number;
}

/** A control plane in its own process, until it is stopped. */
export interface FanControlTask {
  readonly kind: "fan-control";
  readonly backend: BackendSpec;
}

/** Workers in their own process, until they are stopped. */
export interface FanWorkersTask {
  readonly kind: "fan-workers";
  readonly backend: BackendSpec;
  readonly workers: number;
}

/** Of jobs, or of runs. */
export interface LoopFigures {
  readonly jobs: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly clientUs: number;
  readonly serverUs: number;
  /** Jobs submitted since the start, the warm-up included. */
  readonly submitted: number;
  /** Violations of exactly-once processing. */
  readonly faults: readonly string[];
}

export interface PairedFigures {
  readonly groups: readonly PairedGroup[];
  /** CPU of the judgement per unit, and the number of units; null without a rollout. */
  readonly judge: { readonly cpuUs: number; readonly units: number } | null;
  readonly faults: readonly string[];
}

/** CPU time per job or run. */
export interface PairedGroup {
  readonly offUs: number;
  readonly onUs: number;
}

export interface ServeFigures {
  /** Distinct jobs, and repeated executions. */
  readonly worked: number;
  readonly again: number;
}

export interface LockFigures {
  /** From the acquisition to just before the release, by the monotonic clock of the machine. */
  readonly holdsMs: readonly (readonly [number, number])[];
  /** As counted by the lock. */
  readonly attempts: number;
  /** Redis commands of the process, for acquisition, wait and release. */
  readonly requests: number;
}

export interface ParkedFigures {
  readonly p95NoneMs: number;
  readonly p95ParkedMs: number;
  readonly p95ReturnMs: number;
  readonly peakToMean: number;
  readonly peakToMeanIdeal: number;
  readonly lateP95Ms: number;
  readonly faults: readonly string[];
}

export interface LatenessFigures {
  /** Of the load. */
  readonly jobs: number;
  readonly seconds: number;
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
  readonly lateMaxMs: number;
  readonly faults: readonly string[];
}

export interface TimersFigures {
  /** CPU time of one sweep, client and servers; the minimum of the rounds. */
  readonly sweepUs: number;
  readonly faults: readonly string[];
}

export interface SchedulesFigures {
  /** From the start of a slot, with its jitter, to its run. */
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
  readonly lateMaxMs: number;
  /** Client and servers, per start. */
  readonly startUs: number;
  readonly faults: readonly string[];
}

export interface PolicyFigures {
  readonly checks: number;
  readonly seconds: number;
  readonly cpuUs: number;
  /** Decisions in the order of the requests, to compare the engines. */
  readonly answers: readonly ("allow" | "deny")[];
}

export interface AdmissionFigures {
  readonly latenciesMs: readonly number[];
  /** Outcomes by HTTP status. */
  readonly statuses: Readonly<Record<number, number>>;
}

export interface FanFigures {
  readonly runId: string;
  readonly seconds: number;
  readonly p95QuietMs: number;
  readonly p95MeanwhileMs: number;
  /** null when they run in other processes. */
  readonly control: FanControlFigures | null;
  readonly workers: ServeFigures | null;
  readonly faults: readonly string[];
}

export interface FanControlFigures {
  /** By run: lock acquisitions, busy replies, committed results. */
  readonly acquisitions: Readonly<Record<string, number>>;
  readonly busy: Readonly<Record<string, number>>;
  readonly results: Readonly<Record<string, number>>;
}

export type ToChild = { readonly kind: "task"; readonly task: Task } | { readonly kind: "stop" };

export type FromChild =
  | { readonly kind: "ready" }
  | { readonly kind: "done"; readonly figures: unknown }
  | { readonly kind: "failed"; readonly error: string };
