// One request and one response over a TCP connection.

import { connect } from "node:net";

/** Sends `request` and resolves to the first group of `response`; rejects if the connection closes before that. */
export function exchange(port: number, request: string, response: RegExp, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = "";
    const socket = connect({ port, host: "127.0.0.1" }, () => socket.write(request));
    // The option `signal` of `connect` leaves its listener on the signal after the connection has ended.
    const abort = (): void => void socket.destroy(new Error("aborted"));
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      received += chunk;
      const match = response.exec(received);
      if (match === null) return;
      resolve(match[1] ?? "");
      socket.destroy();
    });
    socket.on("error", reject);
    socket.on("close", () => {
      signal?.removeEventListener("abort", abort);
      reject(new Error(`port ${port} closed before the response ${response}: got \`${received}\``));
    });
  });
}
