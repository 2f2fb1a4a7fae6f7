/** The job of every backend: about 200 bytes of JSON, different each time, and a small result. */
export interface Input {
  readonly n: number;
  readonly tool: string;
  readonly text: string;
}

export function inputOf(n: number): Input {
  return { n, tool: "search", text: `${TEXT}${n}` };
}

export const TOPIC = "bench.echo";
/** The steps of a run, in this order. */
export const STEP_TOPICS = ["bench.one", "bench.two", "bench.three"] as const;
export const STEPS = STEP_TOPICS.length;
export const stepOf = (topic: string): number => (STEP_TOPICS as readonly string[]).indexOf(topic);

const TEXT = `${"find the three most recent invoices of this customer, add them up, ".repeat(2)}and answer job `;
