import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { clientJobId, wireJobId } from "../../../src/core/model/job-id.ts";
import { payloadKey } from "../../../src/core/model/payload.ts";
import { stepJobId } from "../../../src/core/model/run.ts";

const NAME = fc.stringMatching(/^[A-Za-z0-9_.:@-]{1,12}$/);
const chosen = fc.record({ org: fc.oneof(fc.constant("default"), NAME), id: NAME }).filter(({ org, id }) => {
  const checked = checkSubmission({ topic: "t", org, jobId: id });
  return checked.kind === "ok";
});

describe("wire ids", () => {
  test("differ for different tenants or ids, and give the client's id back", () => {
    fc.assert(
      fc.property(chosen, chosen, (a, b) => {
        const isSame = a.org === b.org && a.id === b.id;
        expect(wireJobId(a.org, a.id) === wireJobId(b.org, b.id)).toBe(isSame);
        expect(clientJobId(a.org, wireJobId(a.org, a.id))).toBe(a.id);
        expect(wireJobId(a.org, wireJobId(a.org, a.id))).toBe(wireJobId(a.org, a.id));
      }),
    );
  });

  test("of steps are the same in every tenant, and cannot be chosen", () => {
    for (const index of [null, 3]) {
      const id = stepJobId("run-1", "pay", index);
      expect(wireJobId("acme", id)).toBe(id);
      expect(checkSubmission({ topic: "t", jobId: id }).kind).toBe("bad");
    }
    expect(checkSubmission({ topic: "t", jobId: "acme~x" }).kind).toBe("bad");
  });
});

test("L59: payload keys differ for different owners or digests", () => {
  const kind = fc.constantFrom("job", "run");
  const owner = fc.record({
    org: NAME,
    kind,
    id: fc.oneof(
      NAME,
      chosen.map(({ org, id }) => wireJobId(org, id)),
    ),
  });
  const digest = fc.stringMatching(/^[0-9a-f]{64}$/);
  fc.assert(
    fc.property(owner, digest, owner, digest, (a, first, b, second) => {
      const isSame = JSON.stringify([a, first]) === JSON.stringify([b, second]);
      expect(payloadKey(a as never, first) === payloadKey(b as never, second)).toBe(isSame);
    }),
  );
});
