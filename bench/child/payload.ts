/** The same job on every side: about 200 bytes of JSON, different each time, and a small answer. */
export interface Input {
  readonly n: number;
  readonly tool: string;
  readonly text: string;
}

export function inputOf(n: number): Input {
  return { n, tool: "search", text: `${TEXT}${n}` };
}

export const TOPIC = "bench.echo";

const TEXT = `${"find the three most recent invoices of this customer, add them up, ".repeat(2)}and answer job `;
