import { randomUUID } from "node:crypto";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { type NatsBus, type NatsBusOptions, openNatsBus } from "../../../src/adapters/nats/bus.ts";
import type { Log, LogFields } from "../../../src/ports/log.ts";
import type { RunningServer } from "../../servers/server.ts";
import { Recorder } from "./bus.subject.ts";

/** A real server with a stream per space, and a raw client. */
export class NatsBench {
  readonly server: RunningServer;
  readonly raw: NatsConnection;
  readonly manager: JetStreamManager;

  private constructor(server: RunningServer, raw: NatsConnection, manager: JetStreamManager) {
    this.server = server;
    this.raw = raw;
    this.manager = manager;
  }

  static async open(server: RunningServer): Promise<NatsBench> {
    const raw = await connect({ servers: `127.0.0.1:${server.port}`, maxReconnectAttempts: -1, reconnectTimeWait: 50 });
    return new NatsBench(server, raw, await jetstreamManager(raw));
  }

  space(): NatsSpace {
    return new NatsSpace(this, `t${randomUUID().slice(0, 8)}`);
  }

  async close(): Promise<void> {
    await this.raw.close();
    await this.server.stop();
  }
}

export class NatsSpace {
  readonly name: string;
  readonly stream: string;
  readonly log = new RecordedLog();
  readonly #bench: NatsBench;
  readonly #open = new Set<NatsBus>();

  constructor(bench: NatsBench, name: string) {
    this.#bench = bench;
    this.name = name;
    this.stream = `CORDUM_${name}`;
  }

  subject(name: string): string {
    return `${this.name}.${name}`;
  }

  async enter(options: Partial<NatsBusOptions> = {}): Promise<NatsBus> {
    const bus = await openNatsBus(this.#bench.server.url, {
      ackWaitMs: 30_000,
      deliverMax: 100,
      inFlightMax: 100,
      log: this.log,
      prefix: `${this.name}.`,
      stream: this.stream,
      groups: [],
      ...options,
    });
    this.#open.add(bus);
    return bus;
  }

  /** Closes the connection like a crash of the process. */
  async crash(bus: NatsBus): Promise<void> {
    this.#open.delete(bus);
    await bus.abandon();
  }

  async inject(subject: string, bytes: Uint8Array): Promise<void> {
    this.#bench.raw.publish(this.subject(subject), bytes);
    await this.#bench.raw.flush();
  }

  async state(): Promise<{ readonly messages: number; readonly lastSeq: number }> {
    const { state } = await this.#bench.manager.streams.info(this.stream);
    return { messages: state.messages, lastSeq: state.last_seq };
  }

  /** Polls the stream, because acknowledgements have no reply. Never resolves if messages leak. */
  async untilLeft(count: number): Promise<void> {
    while ((await this.state()).messages > count) await this.#bench.raw.flush();
  }

  untilEmpty(): Promise<void> {
    return this.untilLeft(0);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((bus) => bus.close()));
  }
}

/** Records log lines; tests wait for them instead of sleeping. */
export class RecordedLog extends Recorder<{ readonly event: string; readonly fields: LogFields }> implements Log {
  readonly write: Log["write"] = (_level, event, fields = {}) => this.add({ event, fields });

  /** Resolves at the next event of that name. */
  next(event: string): Promise<void> {
    const from = this.seen.length;
    return this.until((seen) => seen.slice(from).some((line) => line.event === event));
  }

  events(): string[] {
    return this.seen.map(({ event }) => event);
  }
}
