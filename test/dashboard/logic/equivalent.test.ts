import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { asCli, asCurl, quoted } from "../../../dashboard/src/data/equivalent.ts";

const URL_ = "http://127.0.0.1:8081";

test("writes a request as curl", () => {
  const curl = asCurl(
    { name: "POST /jobs/{id}/cancel", path: { id: "a/b" }, body: { reason: "it's late" } },
    URL_,
    "acme",
  );
  expect(curl).toBe(
    "curl -X POST http://127.0.0.1:8081/api/v1/jobs/a%2Fb/cancel -H \"x-api-key: $CORDUM_API_KEY\" -H 'x-tenant-id: acme' " +
      "-H 'content-type: application/json' -d '{\"reason\":\"it'\\''s late\"}'",
  );
});

test("writes an operation as a command of the CLI, for the chosen tenant", () => {
  expect(asCli("job cancel", ["j 1"], "")).toBe("cordum job cancel 'j 1'");
  expect(asCli("job cancel", ["j1"], "acme")).toBe("CORDUM_TENANT=acme cordum job cancel j1");
  const apply = 'printf %s \'{"id":"a"}\' | CORDUM_TENANT=acme cordum schedule apply -';
  expect(asCli("schedule apply", ["-"], "acme", '{"id":"a"}')).toBe(apply);
});

/** Ids and labels come from clients. */
test.each(["$(id)", "`id`", "a'b\"c", "a;b", "a\nb", "--flag", "*", "~", "a\\b", ""])(
  "a shell reads %j as one word",
  (text) => {
    const read = execFileSync("sh", ["-c", `printf %s ${quoted(text)}`], { encoding: "utf8" });
    expect(read).toBe(text);
  },
);
