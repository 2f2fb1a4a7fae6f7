/** A run with a loop that waits for events, and a step that fails: what was done before is undone. */
import type { Client } from "../../../src/client/client.ts";

const WORKFLOW = {
  id: "deliver-parcel",
  name: "Deliver a parcel",
  steps: {
    reserve: {
      topic: "demo.echo",
      for_each: "${input.items}",
      input: { sku: "${item}" },
      compensate: { topic: "demo.echo", input: { release: "${step.output.sku}" } },
    },
    book_courier: {
      topic: "demo.echo",
      depends_on: ["reserve"],
      input: { city: "${input.city}" },
      compensate: { topic: "demo.echo", input: { cancel: "${step.output.city}" } },
    },
    track: {
      type: "loop",
      depends_on: ["book_courier"],
      until: 'steps.scan.output.place == "door"',
      max_iterations: 10,
      timeout_sec: 600,
      steps: {
        scan: { type: "wait", event: "parcel.scanned", timeout_sec: 60 },
        notify_customer: { topic: "demo.echo", depends_on: ["scan"], input: { place: "${steps.scan.output.place}" } },
      },
    },
    collect_payment: { topic: "demo.broken", depends_on: ["track"], input: { amount: 120 } },
  },
};

export async function undoneRun(api: Client): Promise<void> {
  await api.workflows.apply(WORKFLOW as never);
  const input = { city: "Ulm", items: ["a-1", "a-2", "a-3"] };
  const { run_id } = await api.runs.start(WORKFLOW.id, { input });
  for (const place of ["hub", "van", "door"]) {
    await api.runs.sendEvent(run_id, { name: "parcel.scanned", data: { place } });
  }
  await api.runs.wait(run_id);
}
