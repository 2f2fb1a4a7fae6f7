import { permanent, type WorkItem } from "cordum/worker";

export const TOPICS = ["greeting.write"];

/** Its return value is the result. An error is retried, unless it is `permanent`. */
export async function handle({ input }: Pick<WorkItem, "input">): Promise<{ text: string }> {
  const { name } = (input ?? {}) as { name?: unknown };
  if (typeof name !== "string" || name === "") throw permanent(new Error("`name` must be a text"));
  return { text: `Hello, ${name}!` };
}
