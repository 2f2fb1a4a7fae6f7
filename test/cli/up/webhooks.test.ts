// Approval notifications of a real process.
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cordum } from "../run.ts";
import { Ups } from "./ups.ts";

const ups = new Ups("webhooks");
const SECRET = "a-secret-of-tests-0123456789";
const POLICY = `version: "1"
rules:
  - id: look-twice
    match: { topics: ["demo.*"] }
    decision: require_approval
    reason: a human must look
`;

test("a receiver that fails twice gets the signed event, also after a restart", async () => {
  const received: { headers: IncomingHttpHeaders; body: string }[] = [];
  let onRequest = () => {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    received.push({ headers: request.headers, body });
    response.writeHead(received.length <= 2 ? 500 : 200).end();
    onRequest();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const arrived = async (count: number) => {
    while (received.length < count) await new Promise<void>((resolve) => (onRequest = resolve));
  };
  try {
    const policy = join(ups.dir, "policy.yaml");
    writeFileSync(policy, POLICY);
    const argv = ["--port", "0", "--data", join(ups.dir, "data"), "--policy", policy];
    const urls = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/path-token`;
    const env = { CORDUM_NOTIFICATIONS_APPROVALS_URLS: urls, CORDUM_NOTIFICATIONS_APPROVALS_SECRET: SECRET };
    const first = ups.start(argv, env);
    const submitted = await cordum(["job", "submit", "demo.echo", '"the input"', "--json"], {
      CORDUM_URL: await first.url,
    });
    expect(submitted.err).toContain("awaits approval");
    await arrived(1);
    first.child.kill("SIGKILL");
    const { out, err } = await first.ended;
    await ups.start(argv, env).url;
    await arrived(3);
    const ids = new Set(received.map(({ headers }) => headers["webhook-id"]));
    expect(ids.size).toBe(1);
    for (const { headers, body } of received) {
      const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
      expect(headers["webhook-signature"]).toBe(`v1,${createHmac("sha256", SECRET).update(signed).digest("base64")}`);
    }
    const body = received[2]?.body ?? "";
    expect(JSON.parse(body)).toMatchObject({ type: "dev.cordum.approval.requested", data: { rule: "look-twice" } });
    expect(body).not.toContain("the input");
    const shown = await cordum(["config", "explain", "--json"], env);
    expect(shown.out).toContain("127.0.0.1");
    expect(out + err + shown.out).not.toMatch(new RegExp(`${SECRET}|path-token`));
  } finally {
    server.closeAllConnections();
    server.close();
  }
}, 120_000);
