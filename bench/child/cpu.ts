// CPU time: of this process exactly, of others from the kernel's books (in ticks of 10 ms).

import { readFileSync } from "node:fs";

export class CpuMeter {
  readonly #clientPids: readonly number[];
  readonly #serverPids: readonly number[];
  readonly #ofServer: (pid: number) => number;
  #clientUs: number;
  #serverUs: number;

  /** `hasFamilies`: the servers have a process for each connection, and those count too. */
  constructor(clientPids: readonly number[], serverPids: readonly number[], hasFamilies = false) {
    this.#clientPids = clientPids;
    this.#serverPids = serverPids;
    this.#ofServer = hasFamilies ? cpuUsOfFamily : cpuUsOf;
    this.#clientUs = this.#client();
    this.#serverUs = this.#server();
  }

  /** What was used since the meter was made. */
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

/** User and system time of a process with all its threads. */
function cpuUsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_US;
}

/** Of a process, its children, and those of its children that have ended. */
function cpuUsOfFamily(pid: number): number {
  const fields = statOf(pid);
  const endedUs = (Number(fields[CHILDREN_UTIME]) + Number(fields[CHILDREN_STIME])) * TICK_US;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return cpuUsOf(pid) + endedUs + sum(children.map(Number), cpuUsOf);
}

function statOf(pid: number): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name stands in brackets and may hold anything; the fields are counted from behind it.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

const UTIME = 11;
const STIME = 12;
const CHILDREN_UTIME = 13;
const CHILDREN_STIME = 14;
/** Linux counts in hundredths of a second for user space on every platform that Node runs on. */
const TICK_US = 10_000;
