import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isSecretName, REDACTED, redact, redactText } from "../../../src/core/model/redact.ts";

// Assembled here, so that secret scanners ignore this file.
const SECRETS: Readonly<Record<string, string>> = {
  "a private key": `-----BEGIN ${"RSA PRIVATE"} KEY-----\nMIIEow\nCanary\n-----END ${"RSA PRIVATE"} KEY-----`,
  "a private key that was cut off": `-----BEGIN ${"PRIVATE"} KEY-----\nMIICanary`,
  "a JSON web token": `eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOjF9.${"Canary"}sig`,
  "an AWS key": `${"AKIA"}CANARYCANARY1234`,
  "a GitHub token": `${"ghp"}_Canary0123456789Canary0123456789abcd`,
  "a fine-grained GitHub token": `${"github"}_pat_11Canary_0123456789abcdefghij`,
  "a GitLab token": `${"glpat"}-Canary0123456789abcd`,
  "a Slack token": `${"xoxb"}-1234567890-Canary`,
  "a key of a model provider": `${"sk"}-proj-Canary0123456789abcdef`,
  "a Stripe key": `${"sk"}_live_Canary0123456789abcdef`,
  "a Google key": `${"AIza"}SyCanary0123456789012345678901234567`,
  "a key of ours": `cordum_k7_${"Canary"}0123456789abcdefghij`,
  "a password in an address": "redis://user:Canary@10.0.0.1:6379/0",
  "a bearer token": "Authorization: Bearer Canary.token.text",
  "a password in a query": "GET /x?user=a&password=Canary&b=1",
  "a password in JSON text": '{"client_secret":"Canary"}',
  "a Hugging Face token": `${"hf"}_Canary0123456789abcdefgh`,
  "an npm token": `${"npm"}_Canary0123456789abcdefgh`,
  "a storage account key": `AccountName=a;AccountKey=${"Canary"}0123456789+/abc==;Suffix=x`,
  "a password in YAML": "user: a\npassword: Canary\nhost: b",
  "a password after a flag": "mysql --host db --password Canary --port 1",
  "a token after a flag": "deploy --api-key Canary",
  "a quoted password": `user: a, password: "Canary and more", host: b`,
  "a password in single quotes": "mysql --password='Canary and more' --port 1",
  "a password without a space": "login password:Canary",
  "a prefixed password": "db_password: Canary",
  "a password with spaces in JSON text": '{"password": "Canary and more"}',
  "short names in JSON text": '{"pass":"Canary"} {"db_auth": "Canary"} {"ssn":"Canary"}',
  "escaped JSON text": '{\\"password\\":\\"Canary\\"}',
  "a social security number by name": "ssn: Canary-45-6789",
  "a header in capitals": "AUTHORIZATION: BASIC Canary0123456789",
};

describe("by pattern", () => {
  test.each(Object.entries(SECRETS))("%s, anywhere in a string", (_, secret) => {
    for (const text of [secret, `before ${secret} after`, `x=${secret}`, `[${secret}]`]) {
      expect(redactText(text)).not.toMatch(/canary/i);
      expect(redactText(text)).toContain(REDACTED);
    }
    expect(JSON.stringify(redact({ a: [{ b: `see ${secret}` }] }))).not.toMatch(/canary/i);
    expect(JSON.stringify(redact({ [`k ${secret}`]: 1 }))).not.toMatch(/canary/i);
  });

  test.each(["4111111111111111", "4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005"])(
    "the card number %s",
    (number) => {
      expect(redactText(`card ${number}, please`)).toBe("card [redacted], please");
      const digits = Number(number.replace(/\D/g, ""));
      expect(redact({ a: digits, b: digits + 1 })).toEqual({ a: REDACTED, b: digits + 1 });
    },
  );

  test.each(["1700000000000", "4111111111111112", "41111111111111110000", "1.4111111111111111", "2026-11-17 22:00:00"])(
    "the number %s is no card number",
    (number) => {
      expect(redactText(`at ${number} now`)).toBe(`at ${number} now`);
    },
  );

  test("the item after a flag, in a command line that is a list", () => {
    const args = ["mysql", "--password", "Canary", "-db-pass", "Canary", "--host", "db", "--password"];
    expect(redact({ args })).toEqual({
      args: ["mysql", "--password", REDACTED, "-db-pass", REDACTED, "--host", "db", "--password"],
    });
  });

  test("keeps the surrounding text", () => {
    expect(redactText("cannot reach redis://u:p@db:6379/0 now")).toBe("cannot reach redis://[redacted]@db:6379/0 now");
    expect(redactText(`key ${SECRETS["a key of ours"]} is revoked`)).toBe("key cordum_k7_[redacted] is revoked");
  });

  test.each([
    "job `0f8fad5b-d9cb-469f-a165-70867728950e` cannot go from DENIED to PENDING",
    "cordum_scheduler_safety_unavailable_total",
    "http://127.0.0.1:8081/api/v1/jobs?state=FAILED&limit=10",
    "the idempotency key must be 1 to 256 characters",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "mail to someone@example.org about task-force",
    "lock `cordum:scheduler:job:a` is held by host/12/3",
  ])("an ordinary text stays as it is: %s", (text) => {
    expect(redactText(text)).toBe(text);
  });

  test("is idempotent", () => {
    for (const secret of Object.values(SECRETS)) expect(redactText(redactText(secret))).toBe(redactText(secret));
  });

  test("takes linear time on any text", () => {
    for (const part of ["a", "://", "eyJ", "x=", "-----BEGIN A", "sk-", "bearer ", "password", 'token":"']) {
      const text = part.repeat(200_000 / part.length);
      expect(redactText(text).length).toBeGreaterThan(0);
    }
  }, 20_000);
});

describe("by name", () => {
  test.each(
    "password,Password,db_password,userPassword,secret,client_secret,clientSecret,token,access_token,accessToken,idToken,api_key,apiKey,APIKEY,X-API-Key,authorization,Authorization,cookie,Set-Cookie,private_key,privateKeyPem,aws_secret_access_key,credentials,passphrase,otp,cvv,jwt".split(
      ",",
    ),
  )("%s is a secret", (name) => {
    expect(isSecretName(name)).toBe(true);
    expect(redact({ a: { [name]: { deep: "Canary" } } })).toEqual({ a: { [name]: REDACTED } });
  });

  test.each(
    "max_tokens,token_count,tokenizer,secretary,idempotency_key,key,keyboard,author,compass,pool,job_id,cookbook,total_tokens".split(
      ",",
    ),
  )("%s is none", (name) => {
    expect(isSecretName(name)).toBe(false);
    expect(redact({ [name]: "v" })).toEqual({ [name]: "v" });
  });

  test("keeps booleans and null", () => {
    expect(redact({ password: true, token: null })).toEqual({ password: true, token: null });
  });
});

describe("by path", () => {
  const input = { card: { number: 4111, name: "A" }, items: [{ note: "n", id: 1 }] };

  test("redacts a configured path and nothing else", () => {
    const options = { paths: ["input.card.number", "input.items.*.note"], at: "input" };
    expect(redact(input, options)).toEqual({
      card: { number: REDACTED, name: "A" },
      items: [{ note: REDACTED, id: 1 }],
    });
    expect(redact(input, { ...options, at: "output" })).toEqual(input);
    expect(redact({ input }, { paths: ["input.card"] })).toEqual({ input: { card: REDACTED, items: input.items } });
    expect(redact(input, { paths: ["input"], at: "input" })).toBe(REDACTED);
  });
});

describe("bounds", () => {
  test("never throws, does not modify its input, and keeps other values", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const before = JSON.stringify(value);
        const clean = redact(value);
        expect(JSON.stringify(value)).toBe(before);
        expect(redact(clean)).toEqual(clean);
      }),
    );
  });

  test("cuts what is too deep, too wide or too long", () => {
    let deep: unknown = "Canary";
    for (let level = 0; level < 50; level++) deep = { deep };
    expect(JSON.stringify(redact(deep))).toContain("[cut]");
    expect(JSON.stringify(redact(deep))).not.toContain("Canary");
    const wide = redact(Array.from({ length: 100_000 }, (_, at) => at)) as unknown[];
    expect(wide.length).toBeLessThan(20_000);
    expect(wide.at(-1)).toBe("[cut]");
    const long = `${"x ".repeat(256 * 1024 - 10)}${SECRETS["a GitHub token"]}`;
    const text = redact(long) as string;
    expect(text).not.toContain("Canary");
    expect(text.endsWith("[cut]")).toBe(true);
  });

  test("shows 16 levels and 10,000 values in full, and no more", () => {
    const nested = (levels: number) => Array.from({ length: levels }).reduce<unknown>((inner) => ({ a: inner }), "end");
    expect(redact(nested(16))).toEqual(nested(16));
    expect(JSON.stringify(redact(nested(17)))).toContain('{"a":"[cut]"}');
    const list = (count: number) => Array.from({ length: count }, (_, at) => at);
    expect(redact(list(10_000))).toEqual(list(10_000));
    expect(redact(list(10_001))).toEqual([...list(10_000), "[cut]"]);
  });

  test("terminates on cyclic values", () => {
    const loop: Record<string, unknown> = {};
    loop.self = loop;
    expect(JSON.stringify(redact(loop))).toContain("[cut]");
  });
});
