import { expect, test } from "vitest";
import { LiveConfig, type Sources } from "../../src/config/config.ts";
import { good, problemsOf } from "./configured.ts";

const file = (text: string): Sources => ({ file: { name: "cordum.yaml", text } });
const CLUSTER = "nats: {url: nats://n}\nredis: {url: redis://r}\n";

test("senders have a key and tenants, and ids with a host and port", () => {
  const { settings, process } = good(
    file(`
cap:
  signatures: warn
  key: cap-key.pem
  senders:
    worker-1: {key: keys/worker-1.pem}
    "go.client@host:9": {key: go.pem, tenants: [acme, birch]}
`),
  );
  expect(process.signatures).toEqual({ mode: "warn", keyFile: "cap-key.pem" });
  expect(settings.senders).toEqual({
    "worker-1": { keyFile: "keys/worker-1.pem", tenants: [] },
    "go.client@host:9": { keyFile: "go.pem", tenants: ["acme", "birch"] },
  });
  const env = { CORDUM_CAP_SENDERS_W_1_KEY: "w.pem", CORDUM_CAP_SENDERS_W_1_TENANTS: "acme" };
  expect(good({ env }).settings.senders).toEqual({ w_1: { keyFile: "w.pem", tenants: ["acme"] } });
});

test("signatures are off and no sender is configured by default", () => {
  expect(good({}).process.signatures).toEqual({ mode: "off", keyFile: null });
  expect(good({}).settings.senders).toEqual({});
});

test.each([
  ["cap: {signatures: enforced}", "did you mean `enforce`?"],
  ["cap: {senders: {w1: {tenants: [acme]}}}", "sender `w1` has no key; write"],
  ["cap: {senders: {w1: {kye: a.pem}}}", "unknown setting `cap.senders.w1.kye`; did you mean `cap.senders.w1.key`?"],
  ["cap: {unsigned_tenant: a}", "did you mean `cap.unsigned_tenants`?"],
  ["cap: {senders: {'a b': {key: a.pem}}}", "unknown setting `cap.senders.a b.key`"],
])("%s is rejected with a hint", (text, why) => {
  expect(problemsOf(file(text)).join("\n")).toContain(why);
});

test("`cap.signatures: enforce` requires a key in a cluster", () => {
  const [problem = ""] = problemsOf(file(`${CLUSTER}cap: {signatures: enforce}`));
  expect(problem).toContain("openssl ecparam -name prime256v1");
  expect(problem).toContain("set `cap.key:");
  expect(problemsOf(file(`${CLUSTER}cap: {signatures: enforce, key: k.pem}`))).toEqual([]);
  expect(problemsOf(file(`${CLUSTER}cap: {signatures: warn}`))).toEqual([]);
  // An embedded bus has no external clients.
  expect(problemsOf(file("cap: {signatures: enforce}"))).toEqual([]);
});

test("a reload applies senders; the signature mode requires a restart", () => {
  const live = new LiveConfig(good(file("cap: {senders: {w1: {key: a.pem}}}")));
  const before = live.current.senders;
  const next = good(file("cap: {signatures: warn, senders: {w2: {key: b.pem}}}"));
  const { applied, needRestart } = live.reload(next);
  expect(applied).toEqual(["cap.senders.w1.key", "cap.senders.w2.key"]);
  expect(needRestart).toEqual(["cap.signatures"]);
  expect(live.current.senders).toEqual({ w2: { keyFile: "b.pem", tenants: [] } });
  expect(live.current.senders).not.toBe(before);
});
