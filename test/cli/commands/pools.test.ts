import { afterAll, beforeAll, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { Transcript } from "../transcript.ts";

let gateway: TestGateway;
let transcript: Transcript;

beforeAll(async () => {
  const settings = { ...defaultSettings(), pools: { gpu: { topics: ["render.*"], requires: ["cuda"] } } };
  gateway = await openTestGateway({ settings });
  transcript = new Transcript({ CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) });
});

afterAll(() => gateway.close());

test("drains and resumes a pool", async () => {
  await transcript.both(["pool", "list"]);
  await transcript.run(["pool", "drain", "gpu"]);
  await transcript.run(["pool", "drain", "gpu", "--json"]);
  await transcript.run(["pool", "list"]);
  await transcript.run(["pool", "resume", "gpu"]);
  await transcript.run(["pool", "resume", "gpu", "--json"]);
  await expect(transcript.text).toMatchFileSnapshot("../golden/pools.txt");
});
