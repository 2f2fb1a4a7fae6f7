import { afterEach, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const ROLLOUTS = "/api/v1/rollouts";
const REQUEST = { class: "lock_busy", policy: "fixed:2s", share: 0.1 };
const post = (url: string, body: object, key?: string) => gateway.call("POST", url, { key, body });
const get = (url: string, key?: string) => gateway.call("GET", url, { key });

describe("rollouts", () => {
  test("starts, lists and shows a rollout with both arms and every gate", async () => {
    gateway = await openTestGateway();
    const started = await post(ROLLOUTS, { ...REQUEST, share: [0.1, 0.3, 1], reason: "CHG-1" });
    expect(started.json()).toMatchObject({
      id: "R1",
      class: "lock_busy",
      setting: "retry.lock_busy.policy",
      policy: "fixed:2s",
      control: "bounded:500ms:0.3",
      state: "running",
      share: 0.1,
      shares: [0.1, 0.3],
      started_by: "local",
      reason: "CHG-1",
      gates: ["lock_busy_retries<=1.0x", "run_lock_wait_p95<=1.2x", "job_result_latency_p95<=1.1x"],
      e_value: 1,
      e_value_limit: 100,
      prediction: null,
      detectable: null,
    });
    const shown = (await get(`${ROLLOUTS}/R1`)).json();
    expect(shown.arms.control).toMatchObject({ units: 0, busy_retries: 0, run_lock_wait_ms: null });
    expect(shown.judged_gates.map(({ gate }: { gate: string }) => gate)).toEqual([...shown.gates, "results>=0.9x"]);
    expect((await get(ROLLOUTS)).json().items).toMatchObject([{ id: "R1", state: "running" }]);
  });

  test("applies the transitions and audits each of them", async () => {
    gateway = await openTestGateway();
    await post(ROLLOUTS, REQUEST);
    expect((await post(`${ROLLOUTS}/R1/pause`, {})).json()).toMatchObject({ state: "paused" });
    expect((await post(`${ROLLOUTS}/R1/resume`, {})).json()).toMatchObject({ state: "running" });
    expect((await post(`${ROLLOUTS}/R1/promote`, {})).json()).toMatchObject({
      status: 409,
      code: "rollout_not_proved",
    });
    expect((await post(`${ROLLOUTS}/R1/promote`, { force: true })).json()).toMatchObject({ code: "invalid_request" });
    const promoted = await post(`${ROLLOUTS}/R1/promote`, { force: true, reason: "measured elsewhere" });
    expect(promoted.json()).toMatchObject({ state: "promoted", updated_by: "local" });
    expect(gateway.engine.settings.current.retry.lock_busy.policy).toEqual({ kind: "fixed", delayMs: 2_000 });
    expect((await post(`${ROLLOUTS}/R1/rollback`, { reason: "slow" })).json()).toMatchObject({ state: "rolled_back" });
    expect(gateway.engine.settings.current.retry.lock_busy.policy).toMatchObject({ kind: "bounded" });
    expect((await post(`${ROLLOUTS}/R1/end`, {})).json()).toMatchObject({ status: 409, code: "rollout_state" });
    const log = (await get("/api/v1/audit?system=true")).json().items;
    const lines = log.filter(({ kind }: { kind: string }) => kind === "rollout");
    expect(lines.map(({ what }: { what: string }) => what)).toEqual([
      "rolled_back",
      "promoted",
      "running",
      "paused",
      "started",
    ]);
  });

  test("names the keys that started and promoted it", async () => {
    gateway = await openTestGateway();
    const { id, key } = (await post("/api/v1/keys", { tenant: "*", role: "admin", name: "ops" })).json();
    await post(ROLLOUTS, REQUEST, key);
    const promoted = await post(`${ROLLOUTS}/R1/promote`, { force: true, reason: "measured" }, key);
    const who = { started_by: id, started_by_name: "ops", updated_by: id, updated_by_name: "ops" };
    expect(promoted.json()).toMatchObject(who);
    expect((await get(`${ROLLOUTS}/R1`, key)).json()).toMatchObject(who);
    expect((await get(ROLLOUTS, key)).json().items).toMatchObject([who]);
    const { items } = (await get("/api/v1/settings", key)).json();
    const places = items.map(({ origin }: { origin: { place: string } }) => origin.place);
    expect(places).toContain("rollout R1, promoted by ops");
  });

  test.each([
    [{ class: "lock_bussy" }, "`class`: unknown retry class or setting `lock_bussy`; did you mean `lock_busy`?"],
    [{ policy: "bounded:500ms:0.3" }, "already"],
    [{ policy: "sometimes" }, "`policy`: unknown retry policy `sometimes`"],
    [{ share: 1 }, "leaves no control arm"],
    [{ share: 0 }, "leaves no treatment arm"],
    [{ gates: ["run_lock_wait_p95<1.2x"] }, "column 18"],
    [{ horizon_ms: 1 }, "`horizon_ms`: 1 is not a whole number of milliseconds from 1000"],
  ])("rejects %j and starts nothing", async (wrong, detail) => {
    gateway = await openTestGateway();
    for (const url of [ROLLOUTS, `${ROLLOUTS}/preview`]) {
      const answer = (await post(url, { ...REQUEST, ...wrong })).json();
      expect(answer).toMatchObject({ status: 400, code: "invalid_request", field: Object.keys(wrong)[0] });
      expect(answer.detail).toContain(detail);
    }
    expect((await get(ROLLOUTS)).json().items).toEqual([]);
  });

  test("previews a rollout with the smallest detectable effects and the active one of its class", async () => {
    gateway = await openTestGateway();
    await post("/api/v1/workflows", { source: "id: w\nsteps: {a: {topic: demo.echo}}", file: "w.yaml" });
    for (let n = 0; n < 3; n++) await post("/api/v1/workflows/w/runs", {});
    const asked = { ...REQUEST, share: [0.1, 0.3], for_ms: 3_600_000 };
    const plan = (await post(`${ROLLOUTS}/preview`, asked)).json();
    expect(plan).toMatchObject({ control: "bounded:500ms:0.3", policy: "fixed:2s", shares: [0.1, 0.3], active: null });
    expect(plan.detectable).toMatchObject({ units_per_hour: 180, units: 180 });
    expect(plan.detectable.effects.map(({ gate }: { gate: string }) => gate)).toEqual(plan.gates);
    expect((await get(ROLLOUTS)).json().items).toEqual([]);
    const { id, detectable } = (await post(ROLLOUTS, asked)).json();
    expect(detectable).toEqual(plan.detectable);
    expect((await post(`${ROLLOUTS}/preview`, asked)).json()).toMatchObject({ active: id });
  });

  test("rejects a second active rollout of a class and names the first", async () => {
    gateway = await openTestGateway();
    await post(ROLLOUTS, REQUEST);
    const second = (await post(ROLLOUTS, { ...REQUEST, policy: "fixed:1s" })).json();
    expect(second).toMatchObject({ status: 409, code: "rollout_active", rollout_id: "R1" });
    expect((await post(ROLLOUTS, { ...REQUEST, class: "safety_unavailable" })).json()).toMatchObject({ id: "R2" });
  });

  test("requires an administrator of all tenants to change it, and any key of all tenants to read it", async () => {
    gateway = await openTestGateway();
    const { key: admin } = await gateway.keyOf("*", "admin");
    await post(ROLLOUTS, REQUEST, admin);
    for (const [tenant, role] of [
      ["*", "viewer"],
      ["*", "operator"],
      ["acme", "admin"],
    ] as const) {
      const { key } = await gateway.keyOf(tenant, role);
      expect((await post(ROLLOUTS, REQUEST, key)).statusCode, `${tenant} ${role}`).toBe(403);
      expect((await post(`${ROLLOUTS}/preview`, REQUEST, key)).statusCode, `${tenant} ${role}`).toBe(403);
      expect((await post(`${ROLLOUTS}/R1/rollback`, {}, key)).statusCode, `${tenant} ${role}`).toBe(403);
      expect((await get(`${ROLLOUTS}/R1`, key)).statusCode, `${tenant} ${role}`).toBe(tenant === "*" ? 200 : 403);
    }
  });

  test("answers 404 for an unknown rollout", async () => {
    gateway = await openTestGateway();
    expect((await get(`${ROLLOUTS}/R9`)).json()).toMatchObject({ status: 404, code: "rollout_not_found" });
    expect((await post(`${ROLLOUTS}/R9/pause`, {})).json()).toMatchObject({ code: "rollout_not_found" });
  });
});
