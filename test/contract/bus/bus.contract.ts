import { afterEach, describe, it, type TestContext } from "vitest";
import type { BusOptions } from "../../../src/ports/bus.ts";
import { durableCases } from "./bus.durable.ts";
import { livenessCases } from "./bus.liveness.ts";
import { type BusSubject, type CaseMaker, CONTRACT_OPTIONS } from "./bus.subject.ts";
import { workCases } from "./bus.work.ts";

export type { BusCapability, BusSubject } from "./bus.subject.ts";

/**
 * What every bus promises (`src/ports/bus.ts`), as one suite for all adapters.
 *
 * The suite never sleeps: it waits for deliveries, and it lets time pass only by asking its subject to. What an adapter
 * cannot do is capability data with a reason; the case is then skipped and the reason is printed.
 */
export function busContract(name: string, open: (options: BusOptions) => Promise<BusSubject>): void {
  describe(`bus contract: ${name}`, () => {
    let opened: BusSubject | null = null;
    afterEach(async () => {
      const subject = opened;
      opened = null;
      await subject?.close();
    });
    const test: CaseMaker = (title, body, needs = []) =>
      it(
        title,
        async (context) => {
          const subject = await open(CONTRACT_OPTIONS);
          opened = subject;
          for (const need of needs) skipWithout(context, name, title, subject.capabilities[need]);
          await body(subject);
        },
        CASE_MS_MAX,
      );
    durableCases(test);
    livenessCases(test);
    workCases(test);
  });
}

function skipWithout(context: TestContext, name: string, title: string, capability: true | string): void {
  if (capability === true) return;
  process.stderr.write(`skipped: ${name}: ${title}: ${capability}\n`);
  context.skip(capability);
}

/** A case that hangs is a failure; far beyond what any case needs. */
const CASE_MS_MAX = 30_000;
