import { describe, expect, test } from "vitest";
import {
  EMPTY_FORM,
  fieldError,
  readForm,
  type StartForm,
  SUBJECTS,
  startArguments,
} from "../../../dashboard/src/pages/rollouts/start-form.ts";
import { evidenceShare, gateText, movesOf } from "../../../dashboard/src/pages/rollouts/verdict.ts";
import { ROLLOUT_MOVES } from "../../../src/core/rollout/rollout.ts";
import { ROLLOUT_SUBJECTS } from "../../../src/core/rollout/subject.ts";

const form = (given: Partial<StartForm>): StartForm => ({ ...EMPTY_FORM, policy: "fixed:2s", ...given });

describe("the form that starts a rollout", () => {
  test("offers every subject but the one that no unit has", () => {
    expect([...SUBJECTS, "poison"].sort()).toEqual([...ROLLOUT_SUBJECTS].sort());
  });

  test("reads shares, durations and lists", () => {
    const given = {
      share: "10%, 12.5%",
      orgs: "acme, beta",
      for_ms: "2d",
      horizon_ms: "1.5s",
      gates: "a<=1x\nb>=1x\n",
    };
    expect(readForm(form(given))).toEqual({
      kind: "ok",
      request: {
        ...{ class: "lock_busy", policy: "fixed:2s", share: [0.1, 0.125], orgs: ["acme", "beta"] },
        ...{ for_ms: 172_800_000, horizon_ms: 1_500, gates: ["a<=1x", "b>=1x"] },
        ...{ switch_ms: undefined, reason: undefined },
      },
    });
    expect(readForm(form({ share: "10%" }))).toMatchObject({ request: { share: 0.1 } });
  });

  test.each([
    [{ policy: " " }, "policy"],
    [{ share: "" }, "share"],
    [{ share: "0.1" }, "share"],
    [{ horizon_ms: "10" }, "horizon_ms"],
    [{ switch_ms: "soon" }, "switch_ms"],
  ] as const)("names the field of %j", (given, field) => {
    const read = readForm(form(given));
    expect(read.kind === "bad" && Object.keys(read.errors)).toEqual([field]);
  });

  test("shows what the control plane says at the field that it names", () => {
    expect(fieldError({ field: "gates" }, "`gates`: unknown metric")).toEqual({ gates: "unknown metric" });
    expect(fieldError({ field: "by" }, "x")).toEqual({});
    expect(fieldError({}, "x")).toEqual({});
  });

  test("gives the command of the same request", () => {
    const read = readForm(form({ share: "10%,30%", horizon_ms: "2s", gates: "a<=1x,b>=1x", orgs: "acme" }));
    expect(read.kind === "ok" && startArguments(read.request).join(" ")).toBe(
      "rollout start lock_busy --policy fixed:2s --share 10%,30% --orgs acme --horizon 2000ms --gate a<=1x --gate b>=1x",
    );
  });
});

test("offers the moves that the control plane allows", () => {
  const names = {
    paused: "pause",
    running: "resume",
    promoted: "promote",
    rolled_back: "rollback",
    ended: "end",
  } as const;
  for (const [state, allowed] of Object.entries(ROLLOUT_MOVES)) {
    const expected = allowed.flatMap((to) => (to === "proved" ? [] : [names[to]]));
    expect([...movesOf(state)].sort(), state).toEqual(expected.sort());
  }
});

test("shows evidence on its way to the limit", () => {
  expect([0.2, 1, 10, 100, 1e6].map((value) => evidenceShare(value, 100))).toEqual([0, 0, 0.5, 1, 1]);
  expect(gateText("first_retry_success>=1.0x")).toBe("first retry success ≥ 1.0×");
});
