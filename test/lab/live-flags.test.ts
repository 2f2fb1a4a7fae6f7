import { createServer } from "node:net";
import { expect, test } from "vitest";
import { readLiveOptions } from "../../src/cli/lab/live-options.ts";
import { cordum } from "../cli/run.ts";

const LOCAL = { nats: "nats://127.0.0.1:4222", redis: "redis://localhost:6379" };

test("reads the target: none without --live, embedded, or both servers", () => {
  expect(readLiveOptions({}, "")).toBeNull();
  expect(readLiveOptions({ live: true }, "")).toEqual({
    target: { kind: "embedded" },
    processes: null,
    secondsMax: 60,
    times: null,
  });
  expect(readLiveOptions({ live: true, ...LOCAL, processes: "4", liveSeconds: "5", liveTimes: "7" }, "")).toEqual({
    ...{ target: { kind: "cluster", ...LOCAL }, processes: 4, secondsMax: 5, times: 7 },
  });
  const sixes = { nats: "nats://[::1]:4222,nats://127.0.0.2", redis: "redis://[::1]" };
  expect(readLiveOptions({ live: true, ...sixes }, "")?.target).toEqual({ kind: "cluster", ...sixes });
});

test.each([
  [["--nats", "nats://127.0.0.1:1"], "--nats requires --live"],
  [["--live", "--nats", "nats://127.0.0.1:1"], "--redis is missing"],
  [["--live", "--redis", "redis://127.0.0.1:1"], "--nats is missing"],
  [
    ["--live", "--nats", "nonsense", "--redis", "redis://127.0.0.1:1"],
    "--nats `nonsense` is not a URL; use a value like nats://",
  ],
  [["--live", "--processes", "3"], "the embedded world has one process"],
  [["--live", "--processes", "17"], "--processes `17` is not a whole number from 1 to 16"],
  [["--live", "--live-seconds", "0"], "--live-seconds `0` is not a whole number from 1 to 600"],
  [["--live", "--live-times", "26"], "--live-times `26` is not a whole number from 1 to 25"],
  [["--live", "--latency-ms", "1"], "--latency-ms is measured on the target of a live run; remove it"],
  [["--live", "--step-ms", "0"], "--step-ms is measured on the target of a live run; remove it"],
  [["--live", "--nak-look-ms", "10"], "--nak-look-ms is measured on the target of a live run; remove it"],
])("rejects %j", async (flags, message) => {
  const ran = await cordum(["lab", "lock-busy", ...flags]);
  expect(ran).toMatchObject({ exitCode: 2, out: "" });
  expect(ran.err).toContain(message);
  expect(ran.err).toContain("next: cordum lab lock-busy --help");
});

test.each([
  ["nats://127.0.0.1:PORT", "redis://192.0.2.1:6379", "192.0.2.1"],
  ["nats://nats.example.com:4222", "redis://127.0.0.1:PORT", "nats.example.com"],
  ["nats://127.0.0.1:PORT,nats://10.0.0.7:4222", "redis://127.0.0.1:PORT", "10.0.0.7"],
  ["nats://127.0.0.1:PORT", "redis://user:secret@127.0.0.1.example.com:6379", "127.0.0.1.example.com"],
])("rejects remote servers before it connects: %s %s", async (nats, redis, far) => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const urls = [nats, redis].map((url) => url.replaceAll("PORT", String(port)));
  try {
    const ran = await cordum(["lab", "lock-busy", "--live", "--nats", urls[0]!, "--redis", urls[1]!]);
    expect(ran).toMatchObject({ exitCode: 2, out: "" });
    expect(ran.err).toContain(`\`${far}\` is a remote server`);
    expect(ran.err).toContain("--yes-i-own-this");
    expect(ran.err).not.toContain("secret");
    expect(connections).toBe(0);
  } finally {
    server.close();
  }
});

test("--yes-i-own-this allows remote servers", () => {
  const far = { nats: "nats://nats.example.com:4222", redis: "redis://192.0.2.1" };
  expect(readLiveOptions({ live: true, ...far, yesIOwnThis: true }, "")).toMatchObject({
    ...{ target: { kind: "cluster", ...far } },
  });
});
