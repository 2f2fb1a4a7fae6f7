import { expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import type { Job, Payload } from "../../src/core/model/job.ts";
import type { Run } from "../../src/core/model/run.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { outputsOf, resultsOf } from "../../src/gateway/views/payloads.ts";

const read: string[] = [];
const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const blobs = {
  get: async (ptr: string) => {
    read.push(ptr);
    return ptr === "gone" ? null : bytesOf({ at: ptr, password: "hidden" });
  },
};
const engine = { world: { blobs }, settings: { current: defaultSettings() } } as unknown as Engine;
const pointer = (ptr: string, bytes: number): Payload => ({ kind: "pointer", ptr, bytes });
const runWith = (outputs: Readonly<Record<string, unknown>>) =>
  ({
    id: "r1",
    steps: Object.fromEntries(Object.entries(outputs).map(([id, output]) => [id, { state: "SUCCEEDED", output }])),
  }) as unknown as Run;

test("L54: reads outputs up to a limit in step order, and links to the rest", async () => {
  read.length = 0;
  const outputs = await outputsOf(
    engine,
    runWith({
      small: { kind: "inline", value: { n: 1, token: "hidden" } },
      large: pointer("res:r1:large@1", 900_000),
      larger: pointer("res:r1:larger@1", 900_000),
      fits: pointer("res:r1:fits@1", 100_000),
      many: { kind: "children" },
      gone: pointer("gone", 10),
    }),
  );
  expect(Object.fromEntries(outputs)).toEqual({
    small: { value: { n: 1, token: "[redacted]" }, at: null },
    large: { value: { at: "res:r1:large@1", password: "[redacted]" }, at: null },
    larger: { value: null, at: "/api/v1/memory?ptr=res%3Ar1%3Alarger%401" },
    fits: { value: { at: "res:r1:fits@1", password: "[redacted]" }, at: null },
    many: { value: null, at: "/api/v1/workflow-runs/r1/steps/many/children" },
    gone: { value: null, problem: "the output of step `gone` is missing in the blob store", at: null },
  });
  expect(read).not.toContain("res:r1:larger@1");
});

test("omitted results of children keep their position", async () => {
  const job = (output: Payload | null) => ({ output }) as Job;
  const results = await resultsOf(engine, [
    job(null),
    job(pointer("big", 2_000_000)),
    job({ kind: "inline", value: 7 }),
    job(pointer("p", 10)),
  ]);
  expect(results.map(({ value }) => value)).toEqual([null, null, 7, { at: "p", password: "[redacted]" }]);
});

test("stops reading payloads of unknown size once the limit is exceeded", async () => {
  const sizes: string[] = [];
  const get = async (ptr: string) => {
    sizes.push(ptr);
    return bytesOf("x".repeat(600_000));
  };
  const other = { ...engine, world: { blobs: { get } } } as unknown as Engine;
  const ids = ["a", "b", "c", "d"];
  const outputs = await outputsOf(other, runWith(Object.fromEntries(ids.map((id) => [id, pointer(id, 0)]))));
  expect(sizes).toEqual(["a", "b"]);
  expect(ids.map((id) => outputs.get(id)?.at)).toEqual([
    null,
    ...["b", "c", "d"].map((id) => `/api/v1/memory?ptr=res%3Ar1%3A${id}%401`),
  ]);
});
