// Certificates, kernels and clients for tests of the connection to the safety kernel.
import { fileURLToPath } from "node:url";
import { afterEach } from "vitest";
import { readCallerTrust, readKernelTrust } from "../../../src/adapters/grpc/pem.ts";
import { openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import { startSafetyServer } from "../../../src/adapters/grpc/safety-server.ts";
import type { SafetyTrustSettings } from "../../../src/config/build.ts";
import { builtInKernel, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import type { Log, LogFields, LogLevel } from "../../../src/ports/log.ts";
import type { Safety } from "../../../src/ports/safety.ts";

/** Created by `certificates/make.sh`. */
export const pem = (name: string): string => fileURLToPath(new URL(`certificates/${name}.pem`, import.meta.url));

export const TOKEN = "token-of-tests-0123456789abcdef";
export const OWN = { cert: pem("kernel"), key: pem("kernel-key") } as const;
export const CALLER = { cert: pem("caller"), key: pem("caller-key") } as const;
export const CA = { ca: pem("ca") } as const;

type TrustSettings = Partial<SafetyTrustSettings>;
const NO_SETTINGS: SafetyTrustSettings = { token: null, cert: null, key: null, ca: null };
export const kernelTrust = (settings: TrustSettings) => readKernelTrust({ ...NO_SETTINGS, ...settings });
export const callerTrust = (settings: TrustSettings) => readCallerTrust({ ...NO_SETTINGS, ...settings });

export class RecordingLog implements Log {
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

/** Opens kernels and clients, and closes them after each test. */
export class Connections {
  readonly #closing: (() => Promise<void> | void)[] = [];

  constructor() {
    afterEach(async () => {
      for (const close of this.#closing.splice(0).reverse()) await close();
    });
  }

  /** Starts a kernel and returns its address. */
  async kernel(settings: TrustSettings, log: Log = new RecordingLog(), port = 0): Promise<string> {
    const trust = kernelTrust(settings);
    const kernel = builtInKernel(DEMO_POLICY, "test");
    const server = await startSafetyServer({ kernel, log, host: "127.0.0.1", port, trust });
    this.#closing.push(() => server.stop());
    return server.address;
  }

  caller(address: string, settings: TrustSettings, log: Log = new RecordingLog()): Safety {
    const opened = openGrpcSafety({ address, timeoutMs: () => 10_000, trust: callerTrust(settings), log });
    this.#closing.push(() => opened.close());
    return opened.safety;
  }
}
