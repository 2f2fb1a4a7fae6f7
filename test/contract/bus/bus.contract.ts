import { afterEach, describe, it, type TestContext } from "vitest";
import type { BusOptions } from "../../../src/ports/bus.ts";
import { durableCases } from "./bus.durable.ts";
import { livenessCases } from "./bus.liveness.ts";
import { type BusSubject, type CaseMaker, CONTRACT_OPTIONS } from "./bus.subject.ts";
import { transientCases } from "./bus.transient.ts";

export type { BusCapability, BusSubject } from "./bus.subject.ts";

/**
 * The contract suite of the Bus port (`src/ports/bus.ts`) for all adapters.
 *
 * Cases wait for deliveries instead of sleeping, and advance time only through the subject. A case that needs a capability
 * which the adapter lacks is skipped with the reason.
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
    transientCases(test);
  });
}

function skipWithout(context: TestContext, name: string, title: string, capability: true | string): void {
  if (capability === true) return;
  process.stderr.write(`skipped: ${name}: ${title}: ${capability}\n`);
  context.skip(capability);
}

/** Timeout of a case that hangs. */
const CASE_MS_MAX = 30_000;
