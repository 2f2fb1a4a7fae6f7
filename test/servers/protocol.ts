// One question and one answer over a TCP connection of its own.

import { connect } from "node:net";

/** Sends `question` and resolves with the first group of `answer`; rejects when the connection ends before it came. */
export function talk(port: number, question: string, answer: RegExp, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = "";
    const socket = connect({ port, host: "127.0.0.1", ...(signal && { signal }) }, () => socket.write(question));
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      received += chunk;
      const match = answer.exec(received);
      if (match === null) return;
      resolve(match[1] ?? "");
      socket.destroy();
    });
    socket.on("error", reject);
    socket.on("close", () =>
      reject(new Error(`port ${port} closed without the answer ${answer}: got \`${received}\``)),
    );
  });
}
