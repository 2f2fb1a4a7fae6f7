import { afterEach, describe, it, type TestContext } from "vitest";
import { claimCases } from "./store.claims.ts";
import { commitCases } from "./store.commits.ts";
import { guardCases } from "./store.guards.ts";
import { listCases } from "./store.lists.ts";
import { propertyCases } from "./store.property.ts";
import { recountCases } from "./store.recount.ts";
import { reopenCases } from "./store.reopen.ts";
import { type StoreCase, StoreKit, type StoreSubject } from "./store.subject.ts";
import { totalCases } from "./store.totals.ts";

export type { StoreSubject } from "./store.subject.ts";

/**
 * The contract suite of the Store port (`src/ports/store.ts`) for all adapters. `open` returns an empty store. Time is an
 * argument of the calls, so the suite never waits.
 */
export function storeContract(name: string, open: () => Promise<StoreSubject>): void {
  describe(`store contract: ${name}`, () => {
    const opened: StoreSubject[] = [];
    afterEach(async () => {
      for (const subject of opened.splice(0)) await subject.close();
    });
    const test: StoreCase = (title, body) =>
      it(
        title,
        async (context) => {
          const subject = await open();
          opened.push(subject);
          await body(new StoreKit(subject, (reason) => skip(context, `${name}: ${title}: ${reason}`)));
        },
        CASE_MS_MAX,
      );
    commitCases(test);
    guardCases(test);
    recountCases(test);
    totalCases(test);
    listCases(test);
    claimCases(test);
    reopenCases(test);
    propertyCases(async () => new StoreKit(await open()), CASE_MS_MAX);
  });
}

function skip(context: TestContext, what: string): never {
  process.stderr.write(`skipped: ${what}\n`);
  return context.skip(what);
}

const CASE_MS_MAX = 120_000;
