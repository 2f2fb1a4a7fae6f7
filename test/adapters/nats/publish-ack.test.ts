import { headers, type Msg } from "@nats-io/nats-core";
import { describe, expect, it } from "vitest";
import { readPublishAck } from "../../../src/adapters/nats/publish-ack.ts";

const reply = (text: string, code = 0): Msg =>
  ({
    data: Buffer.from(text),
    string: () => text,
    headers: code === 0 ? undefined : headers(code, "No Responders"),
  }) as unknown as Msg;

describe("publish ack", () => {
  it("accepts a sequence number, and a duplicate", () => {
    expect(readPublishAck(reply('{"stream":"S","seq":7}'))).toBeNull();
    expect(readPublishAck(reply('{"stream":"S","seq":7,"duplicate":true}'))).toBeNull();
    // The duplicate of a message that the stream has removed has sequence 0.
    expect(readPublishAck(reply('{"stream":"S","seq":0,"duplicate":true}'))).toBeNull();
  });

  it.each([
    [
      "an error with a sequence number (L8)",
      '{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"seq":0}',
      /full/,
    ],
    ["a store error", '{"error":{"code":500,"description":"disk gone"},"seq":0}', /could not store/],
    ["a closed stream", '{"error":{"code":400,"err_code":10054,"description":"too large"},"seq":0}', /not open/],
    ["sequence 0", '{"stream":"S","seq":0}', /no sequence number/],
    ["no sequence number", '{"stream":"S"}', /no sequence number/],
    ["invalid JSON", "{", /invalid publish ack/],
  ])("maps %s to BUS_UNAVAILABLE", (_, text, reason) => {
    const failure = readPublishAck(reply(text));
    expect(failure).toMatchObject({ code: "BUS_UNAVAILABLE" });
    expect(failure?.message).toMatch(reason);
  });

  it("maps no responders to BUS_UNAVAILABLE", () => {
    expect(readPublishAck(reply("", 503))).toMatchObject({ code: "BUS_UNAVAILABLE" });
  });

  it("maps a client error to BUS_REFUSED", () => {
    const text = '{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"seq":0}';
    expect(readPublishAck(reply(text))).toMatchObject({ code: "BUS_REFUSED" });
  });
});
