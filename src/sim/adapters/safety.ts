import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import type { Checked, Safety } from "../../ports/safety.ts";
import type { Process } from "../process.ts";
import type { Network } from "./net.ts";

/** The safety kernel of the simulated system: one policy, wherever it is asked. */
export interface Kernel {
  decide: (request: PolicyRequest) => Decision;
  /** `refuses`: the connection is refused at once. `hangs`: nothing ever comes back. */
  health: "up" | "refuses" | "hangs";
  readonly timeoutMs: number;
  /** Told when a request arrives at a kernel elsewhere, and when its answer is heard. */
  onRequest?: (request: PolicyRequest) => void;
  onAnswer?: (request: PolicyRequest, checked: Checked, to: Process) => void;
}

/** The kernel in the process itself: always there. */
export function localSafety(kernel: Kernel): Safety {
  return {
    local: (request) => kernel.decide(request),
    check: async (request) => ({ kind: "decided", decision: kernel.decide(request) }),
  };
}

/** The kernel somewhere else: it takes time, it can be down, and then the answer is "unavailable", never a verdict. */
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
