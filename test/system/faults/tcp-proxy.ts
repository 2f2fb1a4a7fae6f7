import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { SeededRandom } from "../../../src/sim/random.ts";
import { freePort } from "../../servers/ports.ts";

/**
 * A TCP proxy on loopback whose connections can be cut: closed and refused, or silent as behind a dropped route. With a delay,
 * bytes arrive later by it in each direction, as over a longer route.
 */
export class TcpProxy {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #delayMs: number;
  readonly #sockets = new Set<Socket>();
  #state: "up" | "refusing" | "silent" = "up";
  readonly port: number;

  private constructor(port: number, targetPort: number, delayMs: number) {
    this.port = port;
    this.#targetPort = targetPort;
    this.#delayMs = delayMs;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  static async to(targetPort: number, { delayMs = 0 }: { readonly delayMs?: number } = {}): Promise<TcpProxy> {
    const proxy = new TcpProxy(await freePort(), targetPort, delayMs);
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once("error", reject).listen(proxy.port, "127.0.0.1", resolve);
    });
    return proxy;
  }

  cut(kind: "refusing" | "silent"): void {
    this.#state = kind;
    for (const socket of this.#sockets) {
      if (kind === "refusing") socket.destroy();
      else socket.pause();
    }
  }

  /** Connections that were silent are closed: their bytes may have been lost. */
  heal(): void {
    const wasSilent = this.#state === "silent";
    this.#state = "up";
    if (wasSilent) for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #accept(near: Socket): void {
    if (this.#state === "refusing") {
      near.destroy();
      return;
    }
    const far = connect(this.#targetPort, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      if (this.#delayMs === 0) from.pipe(to);
      // Timers of one duration fire in the order of their start, so bytes stay in order.
      else from.on("data", (bytes) => setTimeout(() => to.destroyed || to.write(bytes), this.#delayMs));
      if (this.#state === "silent") from.pause();
    }
  }
}

/** Cuts for a drawn time; returns a description. */
export async function cutNetwork(proxies: readonly TcpProxy[], random: SeededRandom): Promise<string> {
  const kind = random.pick(["refusing", "silent"] as const);
  const forMs = Math.round(random.between(100, 4_000));
  for (const proxy of proxies) proxy.cut(kind);
  await delay(forMs);
  for (const proxy of proxies) proxy.heal();
  return `${kind} ${forMs} ms`;
}
