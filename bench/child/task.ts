/** What a measuring process is told to do, and what it answers. Plain data: it crosses processes as JSON. */
export type Task =
  | LoopTask
  | ServeTask
  | LockTask
  | ParkedTask
  | TimersTask
  | PolicyTask
  | AdmissionTask
  | FanTask
  | FanControlTask
  | FanWorkersTask;

export type SideSpec =
  | {
      readonly kind: "bullmq";
      readonly redisUrl: string;
      readonly concurrency: number;
      /** Of a flow: a queue and a worker for each step, or one of both for all. */
      readonly queues?: "one" | "each";
    }
  /** Here `concurrency` is the size of its pool of connections. */
  | { readonly kind: "dbos"; readonly postgresUrl: string; readonly concurrency: number }
  | { readonly kind: "cluster"; readonly redisUrl: string; readonly natsUrl: string; readonly concurrency: number }
  | { readonly kind: "embedded"; readonly dataDir: string; readonly concurrency: number };

/** Which stations stand in the process: all of them, or one where each has a process of its own. */
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
  readonly side: SideSpec;
  readonly role: "all" | "submitter";
  readonly inFlight: number;
  /** Whether the jobs in flight at the beginning are written to the backlog before anything works on it. */
  readonly prefilled: boolean;
  /** Other processes whose CPU belongs to the measurement. */
  readonly serverPids: readonly number[];
  readonly clientPids: readonly number[];
}

/** One station of several processes: serves until it is told to stop. */
export interface ServeTask {
  readonly kind: "serve";
  readonly side: SideSpec;
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

/** Where the processes that fight for the lock hear the signal. */
export const GO_CHANNEL = "bench:go";

/** Healthy jobs at a steady rate: with none parked, with many parked, and while those come back. */
export interface ParkedTask extends Times {
  readonly kind: "parked";
  readonly side: SideSpec;
  readonly healthyPerSecond: number;
  readonly parked: number;
  /** Uniform in [base·(1−pct), base·(1+pct)]: the policy `bounded`. */
  readonly delayMs: number;
  readonly delayPct: number;
}

/** Sweeps that find nothing due, with so many timers pending. */
export interface TimersTask {
  readonly kind: "timers";
  readonly side: SideSpec;
  readonly pending: number;
  readonly rounds: number;
  /** In each round. */
  readonly sweeps: number;
  readonly serverPids: readonly number[];
}

/** Checks of a policy, one after another. */
export interface PolicyTask extends Times {
  readonly kind: "policy";
  readonly peer: PolicyPeer;
  readonly rules: number;
}

export const POLICY_PEERS = ["cordum", "cedar"] as const;
export type PolicyPeer = (typeof POLICY_PEERS)[number];

/** Many starts of runs at once, for an org that may have few open; no run ends meanwhile. */
export interface AdmissionTask {
  readonly kind: "admission";
  readonly side: SideSpec;
  readonly strategy: AdmissionStrategy;
  /** Runs that may be open. */
  readonly limit: number;
  /** How many this process starts at once. */
  readonly starts: number;
  /** Where the signal comes from; null: there is no other process to wait for. */
  readonly goRedisUrl: string | null;
}

export const ADMISSION_STRATEGIES = ["atomic", "polled fixed:10ms", "polled bounded:10ms:0.5"] as const;
export type AdmissionStrategy = (typeof ADMISSION_STRATEGIES)[number];

/** One wide `for_each`, beside small runs at a steady rate. */
export interface FanTask {
  readonly kind: "fan";
  readonly side: SideSpec;
  /** Whether control plane and workers are in this process too. */
  readonly role: "all" | "submitter";
  readonly items: number;
  readonly workers: number;
  readonly othersPerSecond: number;
  readonly warmMs: number;
  /** How long the small runs are measured before the wide one. */
  readonly quietMs: number;
}

/** A control plane of its own process, until it is told to stop. */
export interface FanControlTask {
  readonly kind: "fan-control";
  readonly side: SideSpec;
}

/** Workers, until they are told to stop. */
export interface FanWorkersTask {
  readonly kind: "fan-workers";
  readonly side: SideSpec;
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
  /** What was not exactly once; empty when all is well. */
  readonly faults: readonly string[];
}

export interface ServeFigures {
  /** Different jobs that were worked on, and how often one was worked on again. */
  readonly worked: number;
  readonly again: number;
}

export interface LockFigures {
  /** From holding to just before the release, by the machine's monotonic clock. */
  readonly holdsMs: readonly (readonly [number, number])[];
  /** As the lock counts them. */
  readonly attempts: number;
  /** What the process sent to Redis meanwhile, to acquire, to wait and to release. */
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

export interface TimersFigures {
  /** CPU of one sweep, in the process and in its servers; the least of the rounds. */
  readonly sweepUs: number;
  readonly faults: readonly string[];
}

export interface PolicyFigures {
  readonly checks: number;
  readonly seconds: number;
  readonly cpuUs: number;
  /** To each of the requests, in order: whoever measures a wrong answer measures nothing. */
  readonly answers: readonly ("allow" | "deny")[];
}

export interface AdmissionFigures {
  readonly latenciesMs: readonly number[];
  /** Answers by their HTTP status. */
  readonly statuses: Readonly<Record<number, number>>;
}

export interface FanFigures {
  readonly runId: string;
  readonly seconds: number;
  readonly p95QuietMs: number;
  readonly p95MeanwhileMs: number;
  /** Of all processes, where one process is all of them. */
  readonly control: FanControlFigures | null;
  readonly workers: ServeFigures | null;
  readonly faults: readonly string[];
}

export interface FanControlFigures {
  /** By run: how often its lock was acquired, how often it was not to be had, and how many ends of its jobs were committed. */
  readonly acquisitions: Readonly<Record<string, number>>;
  readonly busy: Readonly<Record<string, number>>;
  readonly results: Readonly<Record<string, number>>;
}

export type ToChild = { readonly kind: "task"; readonly task: Task } | { readonly kind: "stop" };

export type FromChild =
  | { readonly kind: "ready" }
  | { readonly kind: "done"; readonly figures: unknown }
  | { readonly kind: "failed"; readonly error: string };
