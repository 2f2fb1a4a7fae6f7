// The commands and flags that are API.

import { expect, test } from "vitest";
import { placesIn } from "../../src/cli/commands/completion.ts";
import { newContext } from "../../src/cli/context.ts";
import { EXIT, exitCodeForStatus } from "../../src/cli/exit.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { ERRORS } from "../../src/core/model/errors.ts";
import { ioFor } from "./run.ts";

const PROMISED = `
up --data --port --host --nats --redis --role --policy --workflows --config --demo
status; doctor; config explain; backup; repair; key create|list|revoke
job submit|get|list|cancel|explain; workflow apply|get|list|delete
run start|get|list|watch|cancel|pause|resume|rerun|timeline|explain
approval list|approve|reject; dlq list|show|retry|drop; lock list; worker list
policy check|explain|simulate|diff|publish|rollback|list
failopen open|list|close; kill engage|release|status
lab lock-busy|admission|safety-outage|occ --seed --seeds --live --json --out
lab rollout --trials --seed --seeds --json --out
lab replay --last --from --policy --json --out; trace export
sim --seed --seeds --runs --faults --mutant
audit list|verify|checkpoint; completion; init
`;

const places = placesIn(buildProgram(newContext(ioFor({}).io, "1.2.3", () => {})));
const leaves = places.filter(({ commands }) => commands.length === 0);

test.each(promised())("cordum %s exists with %j", (command, flags) => {
  const leaf = leaves.find((place) => place.path === command);
  expect(leaf?.options.map(({ long }) => long)).toEqual(expect.arrayContaining([...flags]));
});

test("every command accepts --json", () => {
  const without = leaves.filter(({ options }) => !options.some(({ long }) => long === "--json"));
  expect(without.map(({ path }) => path)).toEqual([]);
});

test("exit codes are stable, and every error code maps to one", () => {
  expect(EXIT).toEqual({ ok: 0, error: 1, usage: 2, notFound: 3, conflict: 4, denied: 5, unavailable: 6 });
  const ranges: Readonly<Record<number, number>> = {
    400: 2,
    408: 2,
    401: 5,
    402: 5,
    403: 5,
    404: 3,
    409: 4,
    413: 2,
    414: 2,
    415: 2,
    422: 4,
    429: 6,
    431: 2,
    500: 1,
    503: 6,
  };
  for (const [code, { status, retryable }] of Object.entries(ERRORS)) {
    expect(exitCodeForStatus(status), `${code} ${status}`).toBe(ranges[status]);
    expect(exitCodeForStatus(status) === EXIT.unavailable, code).toBe(retryable);
  }
});

function promised(): readonly (readonly [command: string, flags: readonly string[]])[] {
  return PROMISED.trim()
    .split(/[;\n]\s*/)
    .flatMap((line) => {
      const words = line.trim().split(" ");
      const [names, flags] = [
        words.filter((word) => !word.startsWith("--")),
        words.filter((word) => word.startsWith("--")),
      ];
      const [noun = "", verbs] = names;
      return verbs === undefined
        ? [[noun, flags] as const]
        : verbs.split("|").map((verb) => [`${noun} ${verb}`, flags] as const);
    });
}
