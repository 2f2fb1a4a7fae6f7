import fc from "fast-check";
import { expect, it } from "vitest";
import type { Table } from "../../../src/core/model/table.ts";
import type { Change, Committed, Guard, Put } from "../../../src/ports/store.ts";
import { put } from "../../../src/ports/store.ts";
import { StoreModel } from "./store.model.ts";
import { at, changeOf, counter, DOCS, type Doc, message, NOTES, type StoreKit, T0 } from "./store.subject.ts";

/** Random histories have the same results and state as the reference model. */
export function propertyCases(open: () => Promise<StoreKit>, timeoutMs: number): void {
  const test = (title: string, history: (kit: StoreKit, steps: readonly Step[]) => Promise<void>) =>
    it(
      title,
      async () => {
        const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
          const kit = await open();
          try {
            await history(kit, steps);
          } finally {
            await kit.subject.close();
          }
        });
        await fc.assert(property, { numRuns: 60, endOnFailure: false });
      },
      timeoutMs,
    );
  test("random histories match the reference model", callByCall);
}

/** For adapters that decide the changes of one tick in call order. */
export function inOrderProperty(open: () => Promise<StoreKit>, timeoutMs: number): void {
  it(
    "random changes of one tick match the reference model in call order",
    async () => {
      const batches = fc.array(fc.array(commitStep, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 6 });
      const property = fc.asyncProperty(batches, async (ticks) => {
        const kit = await open();
        try {
          const model = new StoreModel();
          for (const [tick, steps] of ticks.entries()) {
            const expected: Committed[] = [];
            const changes = steps.map((one, index) => {
              const change = changeFor(model, one, `m${tick}-${index}`);
              expected.push(model.commit(change));
              return change;
            });
            expect(await kit.commitTogether(changes)).toEqual(expected);
          }
          await expectSameState(kit, model, 2);
        } finally {
          await kit.subject.close();
        }
      });
      await fc.assert(property, { numRuns: 100 });
    },
    timeoutMs,
  );
}

const TABLES: readonly Table<Doc>[] = [DOCS, NOTES];
const IDS = ["a", "b", "c"];
const LISTS = ["l1", "l2"];
const QUEUES = ["q1", "q2"];
const COUNTERS = [counter("x"), counter("y"), counter("x", "others")];

const record = fc.record({ table: fc.nat(1), id: fc.nat(2) });
type RecordRef = { readonly table: number; readonly id: number };

const docParts = fc.record({
  text: fc.string({ maxLength: 3 }),
  lists: fc.subarray([0, 1]),
  queue: fc.option(fc.record({ name: fc.nat(1), score: fc.nat(2) })),
  counters: fc.array(fc.nat(2), { maxLength: 3 }),
  due: fc.option(fc.nat(3)),
});
type DocParts = typeof docParts extends fc.Arbitrary<infer T> ? T : never;

const guardParts = fc.oneof(
  fc.record({ kind: fc.constant("counter" as const), counter: fc.nat(2), max: fc.integer({ min: -1, max: 4 }) }),
  fc.record({ kind: fc.constant("absent" as const), of: record }),
  fc.record({ kind: fc.constant("fence" as const), of: record, fence: fc.integer({ min: 1, max: 5 }) }),
);

const putParts = fc.record({
  of: record,
  expect: fc.constantFrom("right", "right", "right", "right", "any", "stale"),
  doc: fc.option(docParts, { freq: 5 }),
});

const commitStep = fc.record({
  kind: fc.constant("commit" as const),
  puts: fc.uniqueArray(putParts, { maxLength: 3, selector: ({ of }) => `${of.table} ${of.id}` }),
  // At most one guard: which of several failing guards is reported is specified for fences only.
  guards: fc.array(guardParts, { maxLength: 1 }),
  sends: fc.nat(2),
  watch: fc.subarray([0, 1, 2]),
  atMs: fc.nat(3),
});
type CommitStep = typeof commitStep extends fc.Arbitrary<infer T> ? T : never;

const claimParts = {
  passMs: fc.nat(6),
  leaseMs: fc.integer({ min: 1, max: 12 }),
  limit: fc.integer({ min: 1, max: 4 }),
};
const step = fc.oneof(
  { weight: 6, arbitrary: commitStep },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("take" as const), table: fc.nat(1), queue: fc.nat(1), ...claimParts }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("due" as const),
      ahead: fc.nat(30),
      behind: fc.option(fc.integer({ min: -20, max: 10 })),
      ...claimParts,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("untake" as const),
      table: fc.nat(1),
      queue: fc.nat(1),
      ids: fc.subarray([0, 1, 2]),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("sent" as const), from: fc.nat(40), sends: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("look" as const), limit: fc.integer({ min: 1, max: 3 }) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function callByCall(kit: StoreKit, steps: readonly Step[]): Promise<void> {
  const model = new StoreModel();
  let nowMs = T0;
  for (const [index, one] of steps.entries()) {
    switch (one.kind) {
      case "commit": {
        const change = changeFor(model, one, `m${index}`);
        expect(await kit.run(kit.store.commit(change))).toEqual(model.commit(change));
        break;
      }
      case "take": {
        nowMs += one.passMs;
        const query = { queue: QUEUES[one.queue]!, nowMs, leaseMs: one.leaseMs, limit: one.limit };
        const table = TABLES[one.table]!;
        expect(await kit.run(kit.store.take(table, query))).toEqual(model.take(table, query));
        break;
      }
      case "due": {
        nowMs += one.passMs;
        const from = one.behind === null ? {} : { fromMs: nowMs - one.behind };
        const query = { nowMs, ...from, untilMs: nowMs + one.ahead, leaseMs: one.leaseMs, limit: one.limit };
        expect(await kit.run(kit.store.due(query))).toEqual(model.due(query));
        break;
      }
      case "untake": {
        const args = [TABLES[one.table]!, QUEUES[one.queue]!, one.ids.map((id) => IDS[id]!)] as const;
        await kit.run(kit.store.untake(...args));
        model.untake(...args);
        break;
      }
      case "sent": {
        const ids = [`m${one.from}.0`, `m${one.from}.${one.sends}`];
        await kit.run(kit.store.sent(ids));
        model.sent(ids);
        break;
      }
      case "look":
        await expectSameState(kit, model, one.limit);
        break;
      default:
        one satisfies never;
    }
  }
  await expectSameState(kit, model, 2);
}

async function expectSameState(kit: StoreKit, model: StoreModel, limit: number): Promise<void> {
  for (const table of TABLES) {
    for (const id of IDS) expect(await kit.load(id, table)).toEqual(model.load(table, id));
  }
  for (const index of LISTS) {
    for (const order of ["newest", "oldest"] as const) {
      const pages = await kit.pages({ index, limit, order });
      expect(pages.flat()).toEqual(model.list(DOCS, index, order));
    }
  }
  for (const group of ["slots", "others"]) expect(await kit.counts(group)).toEqual(model.counts(group));
  expect(await kit.unsent(T0 + 1)).toEqual(model.unsent(T0 + 1));
  expect(await kit.unsent(T0 + 10)).toEqual(model.unsent(T0 + 10));
}

/** A change whose placements are derived from the current record, like those of the engine. */
function changeFor(model: StoreModel, one: CommitStep, name: string): Change {
  const puts = one.puts.map(({ of, expect: how, doc }): Put => {
    const [table, id] = [TABLES[of.table]!, IDS[of.id]!];
    const before = model.load(table, id);
    const after = doc ? docOf(of, doc) : null;
    const right = put(table, id, before, after);
    if (how === "right") return right;
    return { ...right, expect: how === "any" ? null : (before?.version ?? 0) + 1 };
  });
  const sends = Array.from({ length: one.sends }, (_, index) => message(`${name}.${index}`));
  const watch = one.watch.map((index) => COUNTERS[index]!);
  return changeOf(puts, { guards: one.guards.map(guardOf), sends, watch, atMs: T0 + one.atMs });
}

function guardOf(parts: typeof guardParts extends fc.Arbitrary<infer T> ? T : never): Guard {
  if (parts.kind === "counter") return { kind: "counter", counter: COUNTERS[parts.counter]!, max: parts.max };
  const [table, id] = [TABLES[parts.of.table]!.name, IDS[parts.of.id]!];
  return parts.kind === "absent" ? { kind: "absent", table, id } : { kind: "fence", table, id, fence: parts.fence };
}

/** List scores are fixed per record, and no two records have the same due time. */
function docOf(of: RecordRef, parts: DocParts): Doc {
  return {
    text: parts.text,
    lists: parts.lists.map((index) => at(LISTS[index]!, (of.table + of.id) % 2)),
    queue: parts.queue && at(QUEUES[parts.queue.name]!, parts.queue.score),
    // Some records count more than once, as payload bytes do.
    counters: parts.counters.map((index) => (of.id === 0 ? { ...COUNTERS[index]!, by: 2 } : COUNTERS[index]!)),
    dueMs: parts.due === null ? null : T0 + parts.due * 8 + of.table * IDS.length + of.id,
  };
}
