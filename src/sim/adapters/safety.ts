import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import type { Checked, Safety } from "../../ports/safety.ts";
import type { Process } from "../process.ts";
import type { Network } from "./net.ts";

/** The safety kernel, shared by all processes. */
export interface Kernel {
  decide: (request: PolicyRequest) => Decision;
  /** `refuses`: connections are refused at once. `hangs`: requests get no reply. */
  health: "up" | "refuses" | "hangs";
  readonly timeoutMs: number;
  /** Called when a request arrives at the remote kernel, and when a process receives the reply. */
  onRequest?: (request: PolicyRequest) => void;
  onAnswer?: (request: PolicyRequest, checked: Checked, to: Process) => void;
}

/** The kernel inside the process, always available. */
export function localSafety(kernel: Kernel): Safety {
  return {
    local: (request) => kernel.decide(request),
    check: async (request) => ({ kind: "decided", decision: kernel.decide(request) }),
  };
}

/** The kernel as a remote service. When it is down the result is "unavailable", never a verdict. */
export function remoteSafety(net: Network, kernel: Kernel, process: Process): Safety {
  return { local: null, check: (request) => check(net, kernel, process, request) };
}

function check(net: Network, kernel: Kernel, process: Process, request: PolicyRequest): Promise<Checked> {
  return new Promise((resolve) => {
    const { random, timeline, faults } = net;
    const answer = (delayMs: number, checked: Checked): void => {
      timeline.post(delayMs, () =>
        process.enter(() => {
          kernel.onAnswer?.(request, checked, process);
          resolve(checked);
        }),
      );
    };
    const hangs = random.chance(faults.safety.hangRate);
    const outMs = random.exponential(faults.safety.latencyMs);
    const backMs = random.exponential(faults.safety.latencyMs);
    timeline.postQuiet(outMs, () => {
      kernel.onRequest?.(request);
      if (hangs || kernel.health === "hangs") {
        answer(kernel.timeoutMs, { kind: "unavailable", reason: `no answer within ${kernel.timeoutMs} ms` });
      } else if (kernel.health === "refuses") {
        answer(backMs, { kind: "unavailable", reason: "connection refused" });
      } else {
        answer(backMs, { kind: "decided", decision: kernel.decide(request) });
      }
    });
  });
}
