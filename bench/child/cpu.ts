// CPU time: of this process exactly, of others from the kernel's books (in ticks of 10 ms).

import { readFileSync } from "node:fs";

export class CpuMeter {
  readonly #clientPids: readonly number[];
  readonly #serverPids: readonly number[];
  #clientUs: number;
  #serverUs: number;

  constructor(clientPids: readonly number[], serverPids: readonly number[]) {
    this.#clientPids = clientPids;
    this.#serverPids = serverPids;
    this.#clientUs = this.#client();
    this.#serverUs = this.#server();
  }

  /** What was used since the meter was made. */
  used(): { clientUs: number; serverUs: number } {
    return { clientUs: this.#client() - this.#clientUs, serverUs: this.#server() - this.#serverUs };
  }

  #client(): number {
    const { user, system } = process.cpuUsage();
    return user + system + sum(this.#clientPids);
  }

  #server(): number {
    return sum(this.#serverPids);
  }
}

function sum(pids: readonly number[]): number {
  return pids.reduce((total, pid) => total + cpuUsOf(pid), 0);
}

/** User and system time of a process with all its threads. */
function cpuUsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name stands in brackets and may hold anything; the fields are counted from behind it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_US;
}

const UTIME = 11;
const STIME = 12;
/** Linux counts in hundredths of a second for user space on every platform that Node runs on. */
const TICK_US = 10_000;
