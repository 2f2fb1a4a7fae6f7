// A free loopback port for a server.

import { once } from "node:events";
import { createServer } from "node:net";

// Below the range from which systems take the ports of outgoing connections. Within it, a client that keeps trying to
// reach a server that is down can be given that very port as its own, connect to itself, and keep the server out.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;

const given = new Set<number>();

/**
 * A port that nobody listened on when asked, and that this process has not given away before. Whoever uses it must be ready
 * to lose it and ask again.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  try {
    probe.listen(port, "127.0.0.1");
    await once(probe, "listening");
    probe.close();
    await once(probe, "close");
    return true;
  } catch {
    return false;
  }
}
