// The safety role over TLS and with a token.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CA, OWN, pem, TOKEN } from "../../adapters/grpc/client.fixtures.ts";
import { cordum } from "../run.ts";
import { Ups } from "./ups.ts";

const ups = new Ups("trust");

const KERNEL = { CORDUM_SAFETY_TLS_CERT: OWN.cert, CORDUM_SAFETY_TLS_KEY: OWN.key, CORDUM_SAFETY_TOKEN: TOKEN };
const CALLER = { CORDUM_SAFETY_TLS_CA: CA.ca, CORDUM_SAFETY_TOKEN: TOKEN };
const OTHER = "another-token-of-tests-0123456789";

const kernel = (env: Readonly<Record<string, string>>, port = "0") =>
  ups.start(["--role", "safety", "--port", port], env);

const plane = (address: string, env: Readonly<Record<string, string>>) =>
  ups.start(["--port", "0", "--data", join(ups.dir, "data"), "--demo", "--safety", address], {
    CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "fixed:50ms",
    CORDUM_SAFETY_BREAKER_FAILURES: "1",
    CORDUM_SAFETY_BREAKER_OPEN_MS: "100",
    ...env,
  });

async function until<T>(read: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (isSo(value)) return value;
  }
}

test("jobs are checked over TLS with the shared token", async () => {
  const address = await kernel(KERNEL).url;
  const env = { CORDUM_URL: await plane(address, CALLER).url };
  const ran = await cordum(["job", "submit", "demo.echo", "1", "--wait", "--json"], env);
  expect(JSON.parse(ran.out)).toMatchObject({ state: "SUCCEEDED", safety: { decision: "ALLOW", bypassed: false } });
  expect(JSON.parse((await cordum(["status", "--json"], env)).out)).toMatchObject({ safety_line: "tls" });
});

test("a wrong token blocks dispatch with a reason, and the job runs once it is fixed", async () => {
  const first = kernel({ ...KERNEL, CORDUM_SAFETY_TOKEN: OTHER });
  const address = await first.url;
  const caller = plane(address, CALLER);
  const env = { CORDUM_URL: await caller.url };
  const id = (await cordum(["job", "submit", "demo.echo", "2"], env)).out.trim();
  await Promise.all([caller.printed("safety_token_refused"), first.printed("safety_caller_refused")]);
  const job = async () => JSON.parse((await cordum(["job", "get", id, "--json"], env)).out);
  const waiting = await until(job, ({ wait }) => wait?.retry_class === "safety_unavailable");
  expect(waiting).toMatchObject({
    state: "PENDING",
    safety: null,
    wait: { reason: expect.stringContaining("`safety.token`") },
  });
  const doctor = await until(
    () => cordum(["doctor"], env),
    ({ out }) => out.includes("safety kernel is unavailable"),
  );
  expect(doctor.exitCode).toBe(1);
  expect(doctor.out).toContain("set the same `safety.token` at the kernel and the control plane");
  expect((await cordum(["job", "explain", id], env)).out).toContain("`safety.token` is missing or wrong");
  const seen = await Promise.all(
    [["status"], ["audit", "list", "--system"]].map((argv) => cordum([...argv, "--json"], env)),
  );

  first.child.kill("SIGTERM");
  const { out, err } = await first.ended;
  kernel(KERNEL, address.split(":")[1] ?? "");
  const done = await until(job, ({ state }) => state === "SUCCEEDED");
  expect(done).toMatchObject({ result: 2, safety: { bypassed: false } });
  caller.child.kill("SIGTERM");
  const ended = await caller.ended;
  const everything = JSON.stringify([waiting, doctor, seen, out, err, done, ended]);
  for (const token of [TOKEN, OTHER]) expect(everything).not.toContain(token);
});

describe("unsafe configurations exit with 2 and name the setting", () => {
  test.each<[string, string[], Record<string, string>, string]>([
    ["a kernel without authentication on all addresses", ["--role", "safety", "--host", "0.0.0.0"], {}, "safety.token"],
    [
      "a certificate and key that do not match",
      ["--role", "safety"],
      { ...KERNEL, CORDUM_SAFETY_TLS_KEY: pem("caller-key") },
      "safety.tls.key",
    ],
    ["a token without TLS", ["--safety", "kernel.test:50051"], { CORDUM_SAFETY_TOKEN: TOKEN }, "safety.tls.ca"],
    [
      "a missing CA file",
      ["--safety", "kernel.test:50051"],
      { ...CALLER, CORDUM_SAFETY_TLS_CA: "no.pem" },
      "safety.tls.ca",
    ],
  ])("%s", async (_, argv, env, setting) => {
    const ran = await ups.start([...argv, "--port", "0", "--data", join(ups.dir, "data")], env).ended;
    expect(ran).toMatchObject({ exitCode: 2 });
    expect(ran.err).toContain(`cordum config explain ${setting}`);
    expect(ran.err + ran.out).not.toContain(TOKEN);
  });
});
