import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { Transcript } from "../transcript.ts";

let gateway: TestGateway;
let transcript: Transcript;

beforeAll(async () => {
  gateway = await openTestGateway();
  transcript = new Transcript({ CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) });
});

afterAll(() => gateway.close());

test("engages, lists and releases the kill switch", async () => {
  await transcript.both(["kill", "status"]);
  await transcript.run(["kill", "engage"]);
  await transcript.run(["kill", "engage", "--reason", "it sends money to strangers"]);
  await transcript.run(["kill", "engage", "--reason", "once more", "--json"]);
  await transcript.run(["kill", "engage", "--scope", "*", "--reason", "everything"]);
  await transcript.both(["kill", "status"]);
  const status = await transcript.run(["status"]);
  expect(status.out).toContain("dispatch of all tenants stopped");
  await transcript.run(["kill", "release", "--scope", "*"]);
  await transcript.run(["kill", "release"]);
  await transcript.run(["kill", "release", "--json"]);
  await expect(transcript.text).toMatchFileSnapshot("../golden/kill.txt");
});
