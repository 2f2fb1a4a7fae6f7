import { expect, test } from "vitest";
import { forTerminal, pinoLog } from "../../src/adapters/node/pino-log.ts";

function capture() {
  const lines: string[] = [];
  return { lines, target: { write: (text: string) => void lines.push(text) } };
}

test("writes JSON lines with the event and its fields, at or above the level", () => {
  const { lines, target } = capture();
  const log = pinoLog({ level: "info", name: "p1", target });
  log.write("debug", "unseen");
  log.write("warn", "drain_left", { topic: "demo.echo", count: 2 });
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    level: "warn",
    name: "p1",
    event: "drain_left",
    topic: "demo.echo",
    count: 2,
  });
});

test("writes plain lines to a terminal, with optional color", () => {
  const lineWith = (color: boolean) => {
    const { lines, target } = capture();
    pinoLog({ level: "info", name: "p1", target: forTerminal(target, { color }) }).write("warn", "drain_left", {
      n: 2,
    });
    return lines.join("");
  };
  expect(lineWith(false)).toMatch(/^\d\d:\d\d:\d\d warn {2}drain_left n=2\n$/);
  expect(lineWith(true)).toContain(" \u001b[33mwarn \u001b[0m drain_left n=2\n");
});

test.each([
  ["as JSON", false],
  ["to a terminal", true],
])("escapes control characters in names, values and events, %s", (_, isTerminal) => {
  const { lines, target } = capture();
  const log = pinoLog({
    level: "info",
    name: "p1",
    target: isTerminal ? forTerminal(target, { color: false }) : target,
  });
  const attack = "\u001b[2J\u009b31m\u0007\r\nforged\u202e\u007f";
  log.write("warn", `event ${attack}`, { [`name ${attack}`]: attack, list: [attack] as never });
  expect(lines).toHaveLength(1);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be left.
  expect(lines[0]?.slice(0, -1)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
  expect(lines[0]).toContain("forged");
});
