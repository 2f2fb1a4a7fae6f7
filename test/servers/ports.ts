// A free loopback port for a server.

import { once } from "node:events";
import { createServer } from "node:net";

// Below the ephemeral port range. Within it, a client that retries a port on which no server listens can get that port as
// its own local port, connect to itself, and block the server.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;

const returned = new Set<number>();

/**
 * A port that was free when probed and was not returned before by this process. The caller must retry with another port if
 * it has been taken meanwhile.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
    if (returned.has(port)) continue;
    returned.add(port);
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
