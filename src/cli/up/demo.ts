import { permanent, retryAfter } from "../../core/retry/intent.ts";
import type { Stop } from "../../ports/bus.ts";
import type { World } from "../../ports/world.ts";
import { startWorker, type WorkItem } from "../../worker/worker.ts";

export const DEMO_TOPICS = [
  "demo.echo",
  "demo.flaky",
  "demo.slow",
  "demo.broken",
  "demo.approve",
  "demo.limited",
  // Of `examples/workflows/ticket-triage.yaml` and `nightly-triage.yaml`.
  "ticket.classify",
  "ticket.answer",
  "refund.pay",
  "refund.reverse",
  "crm.update",
  "crm.open_tickets",
] as const;

export function startDemoWorker(world: World): Promise<Stop> {
  return startWorker(world, {
    id: "demo-worker",
    topics: DEMO_TOPICS,
    concurrency: 64,
    handle: (item) => work(world, item),
  });
}

async function work(world: World, item: WorkItem): Promise<unknown> {
  switch (item.topic.replace(/^job\./, "")) {
    case "demo.flaky":
      // Fails twice with a retry delay; the third attempt succeeds.
      if (item.attempt < 3) throw retryAfter(new Error(`demo failure of attempt ${item.attempt}`), 300);
      return { attempts: item.attempt, input: item.input };
    case "demo.slow":
      world.log.write("debug", "demo_slow_started", { job: item.jobId });
      await pause(world, SLOW_MS, item.signal);
      return { slept_ms: SLOW_MS, input: item.input };
    case "demo.broken":
      throw permanent(new Error("permanent demo failure"));
    case "ticket.classify":
      return { category: JSON.stringify(item.input).includes("refund") ? "refund" : "question" };
    case "refund.pay":
      return { payment: `payment-of-${item.jobId}` };
    case "crm.open_tickets":
      return [{ ticket: "N-1", text: "please refund order A-18", amount: 20 }];
    default:
      return item.input;
  }
}

const SLOW_MS = 3_000;

function pause(world: World, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = world.clock.after(delayMs, resolve);
    signal.addEventListener("abort", () => {
      cancel();
      reject(signal.reason);
    });
  });
}
