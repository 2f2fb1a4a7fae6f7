import { headers, type Msg } from "@nats-io/nats-core";
import { describe, expect, it } from "vitest";
import { readPublishAck } from "../../../src/adapters/nats/ack.ts";
import { RecentIds } from "../../../src/adapters/recent-ids.ts";

const answer = (text: string, code = 0): Msg =>
  ({
    data: Buffer.from(text),
    string: () => text,
    headers: code === 0 ? undefined : headers(code, "No Responders"),
  }) as unknown as Msg;

describe("the stream's answer to a publish", () => {
  it("is fine with a number, or as a duplicate", () => {
    expect(readPublishAck(answer('{"stream":"S","seq":7}'))).toBeNull();
    expect(readPublishAck(answer('{"stream":"S","seq":7,"duplicate":true}'))).toBeNull();
    // What nobody had to read has no number when it comes again.
    expect(readPublishAck(answer('{"stream":"S","seq":0,"duplicate":true}'))).toBeNull();
  });

  it.each([
    [
      "L8: an error with a number",
      '{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"seq":0}',
      /full/,
    ],
    ["an error of the store", '{"error":{"code":500,"description":"disk gone"},"seq":0}', /could not store/],
    [
      "a stream that is not open yet",
      '{"error":{"code":400,"err_code":10054,"description":"too large"},"seq":0}',
      /not open/,
    ],
    ["the number 0", '{"stream":"S","seq":0}', /no number/],
    ["no number", '{"stream":"S"}', /no number/],
    ["nonsense", "{", /cannot be read/],
  ])("with %s means: try again", (_, text, reason) => {
    const failure = readPublishAck(answer(text));
    expect(failure).toMatchObject({ code: "BUS_UNAVAILABLE" });
    expect(failure?.message).toMatch(reason);
  });

  it("from nobody means: try again", () => {
    expect(readPublishAck(answer("", 503))).toMatchObject({ code: "BUS_UNAVAILABLE" });
  });

  it("that says no is refused", () => {
    const text = '{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"seq":0}';
    expect(readPublishAck(answer(text))).toMatchObject({ code: "BUS_REFUSED" });
  });
});

describe("recent ids", () => {
  it("are known for at least half of the time, and never for longer than it", () => {
    const recent = new RecentIds(1_000, 100);
    recent.add("a", 400);
    expect(recent.has("a", 899)).toBe(true);
    recent.add("b", 950);
    expect(recent.has("a", 1_000)).toBe(true);
    expect(recent.has("b", 1_449)).toBe(true);
    expect(recent.has("a", 1_600)).toBe(false);
    expect(recent.has("b", 2_700)).toBe(false);
  });

  it("are bounded in number: the oldest are forgotten first", () => {
    const recent = new RecentIds(1_000_000, 100);
    for (let index = 0; index < 1_000; index++) recent.add(`id-${index}`, 1);
    expect(recent.has("id-999", 1)).toBe(true);
    expect(recent.has("id-955", 1)).toBe(true);
    expect(recent.has("id-0", 1)).toBe(false);
  });
});
