// What the tests of the way to the safety kernel share: certificates, a kernel, callers, and a log that is kept.
import { fileURLToPath } from "node:url";
import { afterEach } from "vitest";
import { readCallerTrust, readKernelTrust } from "../../../src/adapters/grpc/pem.ts";
import { openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import { startSafetyServer } from "../../../src/adapters/grpc/safety-server.ts";
import type { SafetyTrustSettings } from "../../../src/config/build.ts";
import { builtInKernel, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import type { Log, LogFields, LogLevel } from "../../../src/ports/log.ts";
import type { Safety } from "../../../src/ports/safety.ts";

/** Made by `certificates/make.sh`. */
export const pem = (name: string): string => fileURLToPath(new URL(`certificates/${name}.pem`, import.meta.url));

export const TOKEN = "token-of-tests-0123456789abcdef";
export const OWN = { cert: pem("kernel"), key: pem("kernel-key") } as const;
export const CALLER = { cert: pem("caller"), key: pem("caller-key") } as const;
export const CA = { ca: pem("ca") } as const;

type DecisionContext = Partial<SafetyTrustSettings>;
const NOTHING: SafetyTrustSettings = { token: null, cert: null, key: null, ca: null };
export const kernelTrust = (given: DecisionContext) => readKernelTrust({ ...NOTHING, ...given });
export const callerTrust = (given: DecisionContext) => readCallerTrust({ ...NOTHING, ...given });

export class KeptLog implements Log {
  readonly lines: { level: LogLevel; event: string; fields: LogFields }[] = [];

  write(level: LogLevel, event: string, fields: LogFields = {}): void {
    this.lines.push({ level, event, fields });
  }

  get events(): readonly string[] {
    return this.lines.map(({ level, event }) => `${level} ${event}`);
  }

  get text(): string {
    return JSON.stringify(this.lines);
  }
}

/** Kernels and callers that end with the test. */
export class Line {
  readonly #closing: (() => Promise<void> | void)[] = [];

  constructor() {
    afterEach(async () => {
      for (const close of this.#closing.splice(0).reverse()) await close();
    });
  }

  /** Resolves to its address. */
  async kernel(given: DecisionContext, log: Log = new KeptLog(), port = 0): Promise<string> {
    const trust = kernelTrust(given);
    const kernel = builtInKernel(DEMO_POLICY, "test");
    const server = await startSafetyServer({ kernel, log, host: "127.0.0.1", port, trust });
    this.#closing.push(() => server.stop());
    return server.address;
  }

  caller(address: string, given: DecisionContext, log: Log = new KeptLog()): Safety {
    const opened = openGrpcSafety({ address, timeoutMs: () => 10_000, trust: callerTrust(given), log });
    this.#closing.push(() => opened.close());
    return opened.safety;
  }
}
