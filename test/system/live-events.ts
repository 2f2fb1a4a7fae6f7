/** The live events of a control plane, as they come: what came together was committed together, or nearly so. */
import type { Answer, Api } from "./api.ts";

export interface LiveEvent {
  readonly kind: "job" | "run";
  readonly data: Answer["body"];
}

export class LiveEvents {
  readonly #stop = new AbortController();
  /** Resolves when nothing comes any more: stopped, dropped, or the process at the other end has died. */
  closed: Promise<void> = Promise.resolve();

  /** Resolves when the server listens to us; `onBurst` is called until it dies, or `stop` is. */
  static async open(door: Api, onBurst: (events: readonly LiveEvent[]) => void): Promise<LiveEvents> {
    const events = new LiveEvents();
    const response = await fetch(`${door.url}/api/v1/stream`, { signal: events.#stop.signal });
    if (!response.ok || response.body === null) throw new Error(`the stream was answered ${response.status}`);
    // A process that dies ends it in the middle of whatever it was saying.
    events.closed = events.#read(response.body, onBurst).catch(() => undefined);
    return events;
  }

  stop(): void {
    this.#stop.abort();
  }

  async #read(body: ReadableStream<Uint8Array>, onBurst: (events: readonly LiveEvent[]) => void): Promise<void> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      const whole = text.split("\n\n");
      text = whole.pop() ?? "";
      const events = whole.flatMap(eventOf);
      if (events.length > 0 && !this.#stop.signal.aborted) onBurst(events);
    }
  }
}

function eventOf(text: string): readonly LiveEvent[] {
  const [, kind, data = ""] = /^event: (job|run)\ndata: (.*)$/.exec(text) ?? [];
  return kind === "job" || kind === "run" ? [{ kind, data: JSON.parse(data) }] : [];
}
