// The payments and the CRM of the ticket triage, over HTTP or, with NATS_URL and REDIS_URL, on the bus of a cluster:
//   CORDUM_URL=http://127.0.0.1:8081 npx tsx examples/ticket-triage/services.ts
import { setTimeout as delay } from "node:timers/promises";
import { http, nats, permanent, type WorkItem, worker } from "cordum/worker";

type Handler = (item: WorkItem) => unknown;

/** A job may be dispatched again after a crash: a payment has the id of its job, so that it is made once. */
const HANDLERS: Readonly<Record<string, Handler>> = {
  "refund.pay": ({ jobId }) => ({ payment: `payment-of-${jobId}` }),
  "refund.reverse": ({ input }) => ({ reversed: (input as { payment: string }).payment }),
  "crm.update": ({ input }) => {
    const { ticket } = input as { ticket: string };
    // No retry helps, so the run fails and its refund is reversed.
    if (ticket.startsWith("X-")) throw permanent(new Error(`the CRM has no ticket ${ticket}`));
    return { updated: ticket };
  },
  "crm.open_tickets": () => [
    { ticket: "N-1", text: "where is my invoice?" },
    { ticket: "N-2", text: "please refund order A-18", amount: 20 },
  ],
};

async function handle(item: WorkItem): Promise<unknown> {
  const handler = HANDLERS[item.topic];
  if (handler === undefined) throw permanent(new Error(`no handler for topic ${item.topic}`));
  const { ticket = "" } = (item.input ?? {}) as { ticket?: string };
  console.log(item.topic, ticket);
  // Stands for the call of a service.
  await delay(100);
  return handler(item);
}

const { CORDUM_URL = "http://127.0.0.1:8081", CORDUM_API_KEY, NATS_URL, REDIS_URL } = process.env;
const overHttp = { url: CORDUM_URL, ...(CORDUM_API_KEY === undefined ? {} : { apiKey: CORDUM_API_KEY }) };
const transport =
  NATS_URL === undefined || REDIS_URL === undefined ? http(overHttp) : nats({ nats: NATS_URL, redis: REDIS_URL });
const stop = await worker({ topics: Object.keys(HANDLERS), handle, transport });

// Running jobs are awaited.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stop());
