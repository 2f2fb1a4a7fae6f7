import type { LiveKernel } from "../../core/policy/kernel.ts";
import type { Safety } from "../../ports/safety.ts";
import { localSafety } from "./local-safety.ts";

export interface StoppableSafety extends Safety {
  isStopped: boolean;
}

/**
 * The safety kernel in this process, with a switch for demos. From its first stop on it is asked like a remote one: a check
 * can remain unanswered, and the circuit breaker counts the failures and probes the kernel.
 */
export function stoppableSafety(kernel: LiveKernel): StoppableSafety {
  const { local, check } = localSafety(kernel);
  let [isStopped, wasStopped] = [false, false];
  return {
    get local() {
      return wasStopped ? null : local;
    },
    async check(request) {
      return isStopped ? { kind: "unavailable", reason: STOPPED } : check(request);
    },
    async probe() {
      return isStopped ? STOPPED : null;
    },
    get isStopped() {
      return isStopped;
    },
    set isStopped(isNow: boolean) {
      isStopped = isNow;
      wasStopped ||= isNow;
    },
  };
}

const STOPPED = "the safety kernel was stopped by the demo";
