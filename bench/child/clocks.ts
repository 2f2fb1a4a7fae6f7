// The monotonic clock of the machine, and CPU time.

import { readdirSync, readFileSync } from "node:fs";

/** Milliseconds of the monotonic clock that all processes of the machine share. */
export const machineMs = (): number => Number(process.hrtime.bigint()) / 1e6;

export class CpuMeter {
  readonly #clientPids: readonly number[];
  readonly #serverPids: readonly number[];
  readonly #ofServer: (pid: number) => number;
  #clientUs: number;
  #serverUs: number;

  /** `hasChildren`: the servers have child processes (one per connection), which count as well. */
  constructor(clientPids: readonly number[], serverPids: readonly number[], hasChildren = false) {
    this.#clientPids = clientPids;
    this.#serverPids = serverPids;
    this.#ofServer = hasChildren ? cpuUsOfTree : cpuUsOf;
    this.#clientUs = this.#client();
    this.#serverUs = this.#server();
  }

  /** CPU time since the construction. */
  used(): { clientUs: number; serverUs: number } {
    return { clientUs: this.#client() - this.#clientUs, serverUs: this.#server() - this.#serverUs };
  }

  #client(): number {
    const { user, system } = process.cpuUsage();
    return user + system + sum(this.#clientPids, cpuUsOf);
  }

  #server(): number {
    return sum(this.#serverPids, this.#ofServer);
  }
}

function sum(pids: readonly number[], of: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + of(pid), 0);
}

/** User and system time of a process with its threads, in ticks of 10 ms. */
function cpuUsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_US;
}

/** CPU time of the threads of this process and of others, in nanoseconds: for blocks that are much shorter than a second. */
export function threadsUs(pids: readonly number[]): number {
  return sum([process.pid, ...pids], (pid) =>
    sum(readdirSync(`/proc/${pid}/task`).map(Number), (tid) => threadUs(pid, tid)),
  );
}

function threadUs(pid: number, tid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${tid}/schedstat`, "utf8").split(" ")[0]) / 1_000;
  } catch (error) {
    // The thread has ended.
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || (error as NodeJS.ErrnoException).code === "ESRCH")
      return 0;
    throw error;
  }
}

/** Of a process and its children, ended ones included. */
function cpuUsOfTree(pid: number): number {
  const fields = statOf(pid);
  const endedUs = (Number(fields[CHILDREN_UTIME]) + Number(fields[CHILDREN_STIME])) * TICK_US;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return cpuUsOf(pid) + endedUs + sum(children.map(Number), cpuUsOf);
}

function statOf(pid: number): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The process name is in brackets and can contain spaces; the fields follow it.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

const UTIME = 11;
const STIME = 12;
const CHILDREN_UTIME = 13;
const CHILDREN_STIME = 14;
/** Linux reports CPU time to user space in hundredths of a second. */
const TICK_US = 10_000;
