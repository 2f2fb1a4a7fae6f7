import { expect, test } from "vitest";
import { escapeControls, escapeJson, terminalJson } from "../../../src/core/model/json.ts";

test.each([
  ["a\nb\rc\td", "a\\nb\\rc\\td"],
  ["\u001b[2J\u0000", "\\u001b[2J\\u0000"],
  ["\u007f\u009b1m", "\\u007f\\u009b1m"],
  ["\u2028\u202eabc\u2066", "\\u2028\\u202eabc\\u2066"],
  ["plain äöü 漢字 \u00a0", "plain äöü 漢字 \u00a0"],
])("control characters of %j are escaped", (text, escaped) => {
  expect(escapeControls(text)).toBe(escaped);
});

test("JSON for a terminal has no control characters and keeps its value", () => {
  const value = { text: "\u001b]0;x\u0007 \u007f \u009b \u202e", list: [1, null] };
  for (const indent of [undefined, 2]) {
    const json = terminalJson(value, indent);
    expect(JSON.parse(json)).toEqual(value);
    expect(json.replaceAll("\n", "")).toMatch(/^[\x20-\x7e]*$/);
  }
  expect(terminalJson(value, 2)).toContain('\n  "list"');
  expect(terminalJson(undefined)).toBe("null");
  expect(escapeJson('"\u009b\n"')).toBe('"\\u009b\n"');
});
